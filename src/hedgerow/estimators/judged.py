"""Learns the judge of a fit: from what members were not trained on, or from a part that is trained twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.inputs.matrices import as_rows
from hedgerow.inputs.search import SearchSettings
from hedgerow.inputs.training_record import Hashes
from hedgerow.judge.judge_fitting import JudgedCandidates, learn_judge
from hedgerow.judge.judging import Judge, surprise
from hedgerow.progress import Progress
from hedgerow.training.data import drawn_for
from hedgerow.training.places import Limits
from hedgerow.training.plan import TrainingPlan
from hedgerow.training.scorers import label_centroids, train_wide
from hedgerow.training.trainer import train
from hedgerow.trees.forest import Ensemble, Found

__all__ = ["Judging", "train_judge"]

# Some of the inputs are held out for the judge, but no more than it needs.
_SHARE, _MOST_ROWS = 0.15, 5000
# The candidates of an input that the judge learns from, and how many inputs are searched together.
_BEST, _TOGETHER = 100, 500
# A judge has some twenty coefficients: every label is not needed to learn them.
_LABELS_SHARE, _LEAST_LABELS = 0.5, 1000
_MEMBERS_TWICE = 3


@dataclass(frozen=True)
class Judging:
    """What a fit with a judge needs besides the plan: `wide` is the most labels of a wide leaf, if any."""

    wide: int | None
    search: SearchSettings
    limits: Limits


def train_judge(
    plan: TrainingPlan,
    forest: Ensemble,
    hashes: Hashes,
    judging: Judging,
    progress: Progress | None = None,
) -> tuple[Judge, Ensemble] | None:
    """A judge, and scorers trained on all inputs; None where the judge is no better than the members."""
    Y = plan.data.indicator
    held, costs = _held_out(plan, hashes)
    if costs is None:
        return None
    apart = replace(plan, data=replace(plan.data, costs=costs))
    bagged = plan.settings.ensemble.method.bootstraps and plan.views is None
    if bagged:
        finders, unseen = forest, _unseen(plan, hashes, held)
    else:
        ensemble = plan.settings.ensemble
        few = replace(ensemble, members=min(ensemble.members, _MEMBERS_TWICE), trees=None)
        again = replace(apart, settings=replace(plan.settings, ensemble=few))
        trained = train(again, judging.limits, progress=_named(progress, "judge: members"))
        finders, unseen = Ensemble(trained, forest.labels), None
    labels = _some_labels(apart, judging)
    scorers = _scorers(apart, finders, judging, labels, _named(progress, "judge: wide classifier"))
    counts, fewer = (np.bincount(of.indices, minlength=forest.labels) for of in (Y, Y[costs > 0]))
    asked = None if labels is None else np.isin(np.arange(forest.labels), labels)
    candidates = JudgedCandidates()
    for rows, found in _votes(plan, finders, held, judging):
        allowed = None if unseen is None else unseen[rows]
        _add(candidates, plan, scorers, (held[rows], found), fewer, allowed, asked)
    names = ("wide", "centroid") if judging.wide is not None else ("centroid",)
    judge = learn_judge(candidates, names, counts.astype(np.int64), "out-of-bag" if bagged else "held-out")
    if judge is None:
        return None
    whole = _scorers(plan, forest, judging, None, _named(progress, "wide classifier"))
    return judge, whole


def _named(progress: Progress | None, what: str) -> Progress | None:
    return None if progress is None else lambda share, _: progress(share, what)


def _held_out(
    plan: TrainingPlan, hashes: Hashes
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32] | None]:
    """Inputs that teach the judge, and costs that leave them, and others like them, out of training."""
    rows = plan.data.indicator.shape[0]
    costs = np.ones(rows, dtype=np.float32) if plan.data.costs is None else plan.data.costs.copy()
    draw = np.random.default_rng([plan.seed, 0x6A75646765])
    held = np.sort(draw.permutation(rows)[: min(_MOST_ROWS, int(rows * _SHARE))])
    costs[np.isin(hashes, hashes[held])] = 0
    if not len(held) or not costs.any() or not plan.data.indicator[costs > 0].nnz:
        return held, None
    return held, costs


def _unseen(plan: TrainingPlan, hashes: Hashes, held: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which members were not trained on each of these inputs, or on equal ones."""
    _, same = np.unique(hashes, return_inverse=True)
    members = plan.settings.ensemble.members
    unseen = np.empty((len(held), members), dtype=bool)
    for member in range(members):
        drawn = drawn_for(member, plan.seed, plan.data.indicator, plan.data.costs, True)[1]
        unseen[:, member] = np.bincount(same, weights=drawn)[same[held]] == 0
    return unseen


def _some_labels(plan: TrainingPlan, judging: Judging) -> npt.NDArray[np.int32] | None:
    """Labels that the held-out wide classifier is trained for; None is all, as a tree needs."""
    Y = plan.data.indicator
    costs = plan.data.costs
    used = np.unique((Y if costs is None else Y[costs > 0]).indices)
    if judging.wide is None or len(used) > judging.wide:
        return None
    draw = np.random.default_rng([plan.seed, 0x6C6162656C])
    wanted = max(_LEAST_LABELS, int(len(used) * _LABELS_SHARE))
    return np.sort(draw.permutation(used)[:wanted]).astype(np.int32)


def _scorers(
    plan: TrainingPlan,
    finders: Ensemble,
    judging: Judging,
    labels: npt.NDArray[np.int32] | None,
    progress: Progress | None,
) -> Ensemble:
    trees = []
    if judging.wide is not None:
        trees.append(train_wide(plan, judging.wide, judging.limits, labels=labels, progress=progress))
    data, normalize = plan.data, plan.settings.tree.normalize
    trees.append(label_centroids(data, data.costs, finders.tree, normalize, judging.limits.threads))
    return Ensemble(trees, finders.labels)


def _votes(
    plan: TrainingPlan, finders: Ensemble, held: npt.NDArray[np.int64], judging: Judging
) -> Iterator[tuple[npt.NDArray[np.int64], Found]]:
    """Votes on held-out inputs, some at a time, with their places in `held`."""
    for begin in range(0, len(held), _TOGETHER):
        places = np.arange(begin, min(len(held), begin + _TOGETHER))
        rows = as_rows(_rows(plan, held[places]), threads=judging.limits.threads)
        yield places, finders.votes(rows, 1, judging.search, judging.limits.threads)


def _rows(plan: TrainingPlan, wanted: npt.NDArray[np.int64]) -> sp.csr_array:
    indptr, indices, values, columns = plan.data.X.arrays()
    if values is None:
        values = np.ones(len(indices), dtype=np.float32)
    return sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1, columns))[wanted]


def _add(
    candidates: JudgedCandidates,
    plan: TrainingPlan,
    scorers: Ensemble,
    searched: tuple[npt.NDArray[np.int64], Found],
    counts: npt.NDArray[np.int64],
    allowed: npt.NDArray[np.bool_] | None,
    asked: npt.NDArray[np.bool_] | None,
) -> None:
    """Add the best candidates of some inputs, with what the scorers say of them."""
    rows, found = searched
    inputs = np.repeat(np.arange(len(rows)), np.diff(found.indptr))
    probs = found.probs.astype(np.float64)
    if allowed is None:
        means = probs.mean(axis=1)
    else:
        voices = allowed[inputs]
        means = (probs * voices).sum(axis=1) / np.maximum(voices.sum(axis=1), 1)
    order = np.lexsort((found.labels, -means, inputs))
    place = np.arange(len(order)) - np.repeat(found.indptr[:-1], np.diff(found.indptr))
    kept = np.zeros(len(order), dtype=bool)
    kept[order] = place < _BEST
    if asked is not None:
        kept &= asked[found.labels]
    if allowed is not None:
        kept &= np.asarray(allowed.sum(axis=1) > 0)[inputs]
    labels, inputs = found.labels[kept], inputs[kept]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(inputs, minlength=len(rows)))]).astype(np.int64)
    scores = scorers.score(as_rows(_rows(plan, rows)), indptr, labels, 0)
    truth = plan.data.indicator[rows]
    keys = inputs * np.int64(truth.shape[1]) + labels
    owners = np.repeat(np.arange(len(rows)), np.diff(truth.indptr))
    true = np.isin(keys, owners * np.int64(truth.shape[1]) + truth.indices)
    evidence = np.column_stack([surprise(means[kept]), surprise(scores), np.log1p(counts[labels])])
    candidates.add(evidence, true, rows[inputs])
