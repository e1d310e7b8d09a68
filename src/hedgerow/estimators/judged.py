"""Trains a model with a judge, which learns from what the others say of inputs that they do not know."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow import _native
from hedgerow.inputs.matrices import as_rows
from hedgerow.inputs.search import SearchSettings
from hedgerow.inputs.training_record import Hashes
from hedgerow.judge.judge_fitting import Candidates, learn_judge
from hedgerow.judge.judging import HEADROOM, Judge, LeftOut, NoJudge, surprise
from hedgerow.judge.name_fitting import HeldOut
from hedgerow.judge.names import Said, plain_log_odds
from hedgerow.judge.scorers import Scorers, scorer_floor
from hedgerow.progress import Progress, stage
from hedgerow.training.asked import HeldOutVotes, train_asked
from hedgerow.training.centroids import label_centroids
from hedgerow.training.data import drawn_for
from hedgerow.training.places import Limits
from hedgerow.training.plan import TrainingPlan
from hedgerow.training.shape import wide_plan
from hedgerow.training.trainer import train
from hedgerow.trees.forest import Ensemble
from hedgerow.trees.tree_model import TreeClassifier

__all__ = ["Judged", "Judging", "held_out_rows", "train_judged"]

Floats = npt.NDArray[np.float64]

# Some of the inputs are held out for the judge, but no more than it needs.
_SHARE, _MOST_ROWS = 0.15, 5000
# The candidates of an input that the judge learns from, and how many inputs are searched together.
_BEST, _TOGETHER = 100, 500
_MEMBERS_TWICE = 3


@dataclass(frozen=True)
class Judging:
    """What a fit with a judge needs besides the plan; `wide` is as of `HedgerowClassifier`."""

    wide: int | None
    search: SearchSettings
    limits: Limits
    checkpoint: str | os.PathLike[str] | None = None


@dataclass(frozen=True, eq=False)
class Judged:
    """The members, and the judge with those it asks; without them, why there is none.

    `held_out` is what was said of the inputs that taught the judge; None where there are too few.
    """

    forest: Ensemble
    judge: Judge | None = None
    scorers: Scorers | None = None
    held_out: HeldOut | None = None
    no_judge: NoJudge | None = None


@dataclass(frozen=True, eq=False)
class _Found:
    """What members say of the best candidates of held-out inputs, in CSR form."""

    indptr: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    means: Floats


def train_judged(
    plan: TrainingPlan,
    hashes: Hashes,
    judging: Judging,
    assemble: Callable[[list[TreeClassifier]], Ensemble],
    progress: Progress | None = None,
) -> Judged:
    """Train members, and a judge of what they find where it ranks better than they do alone."""
    limits, threads = judging.limits, judging.limits.threads
    held_out, costs = held_out_rows(plan, hashes)
    method = plan.settings.ensemble.method
    if costs is None:
        forest = assemble(train(plan, limits, checkpoint=judging.checkpoint, progress=progress))
        return Judged(forest, no_judge=NoJudge(LeftOut.TOO_LITTLE))
    apart = replace(plan, data=replace(plan.data, costs=costs))
    asked: HeldOutVotes | None = None
    if not method.trains_members:
        member, asked = train_asked(plan, held_out, None, threads, stage(progress, "training"))
        forest = assemble([member])
        found = _Found(asked.indptr, asked.labels, asked.probs())
    else:
        forest = assemble(train(plan, limits, checkpoint=judging.checkpoint, progress=progress))
        found = _votes(plan, apart, forest, hashes, held_out, judging, progress)
    columns, floor = [], 0.0
    classifier, shared = (forest.trees[0], True) if asked is not None else (None, False)
    if judging.wide is not None:
        wide = wide_plan(plan, judging.wide)
        named = stage(progress, "wide classifier")
        classifier, asked = train_asked(wide, held_out, _as_rows(plan, held_out, found), threads, named)
        floor = scorer_floor(classifier.transform)
        asked = asked.above(floor)
        columns.append(asked.probs(HEADROOM))
        shared = False
    if asked is not None:
        columns.append(asked.own(HEADROOM))
    normalize = plan.settings.tree.normalize
    before, centroids = (label_centroids(of.data, forest.tree, normalize, threads) for of in (apart, plan))
    X = as_rows(_rows(plan, held_out), threads=threads)
    without = Scorers(None, before, forest.labels)
    columns.append(without.score(X, found.indptr, found.labels, threads)[:, 0].astype(np.float64))
    scorers = Scorers(classifier, centroids, forest.labels, shared, floor)
    counts, fewer = (
        np.bincount(of.indices, minlength=forest.labels).astype(np.int64)
        for of in (plan.data.indicator, plan.data.indicator[costs > 0])
    )
    evidence = np.column_stack(
        [surprise(found.means), *(surprise(column) for column in columns), np.log1p(fewer[found.labels])]
    )
    truth = plan.data.indicator[held_out]
    # Of labels that only held-out inputs have, nobody could know anything.
    kept = fewer[found.labels] > 0
    inputs = np.repeat(np.arange(len(held_out)), np.diff(found.indptr))
    candidates = Candidates(evidence[kept], _true(truth, inputs, found.labels)[kept], held_out[inputs[kept]])
    judge = learn_judge(candidates, scorers.names, counts, "out-of-bag" if method.bootstraps else "held-out")
    if isinstance(judge, NoJudge):
        said = _held_out(held_out, inputs, found.labels, plain_log_odds(found.means))
        return Judged(forest, held_out=said, no_judge=judge)
    said = _held_out(held_out, inputs[kept], found.labels[kept], judge.log_odds(evidence[kept]))
    return Judged(forest, judge, scorers, said)


def held_out_rows(
    plan: TrainingPlan, hashes: Hashes
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32] | None]:
    """Inputs that teach the judge, with all that equal them, and costs that leave them out of training.

    Both depend on the hashes, labels and costs of the inputs and on the seed alone, so that all who must not
    learn from these inputs leave out the same ones. The costs are None where there are too few inputs.
    """
    rows = plan.data.indicator.shape[0]
    costs = np.ones(rows, dtype=np.float32) if plan.data.costs is None else plan.data.costs.copy()
    draw = np.random.default_rng([plan.seed, 0x6A75646765])
    drawn = draw.permutation(rows)[: min(_MOST_ROWS, int(rows * _SHARE))]
    held_out = np.flatnonzero(np.isin(hashes, hashes[drawn]))
    costs[held_out] = 0
    if not len(held_out) or not costs.any() or not plan.data.indicator[costs > 0].nnz:
        return held_out, None
    return held_out, costs


def _held_out(
    held_out: npt.NDArray[np.int64],
    inputs: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int32],
    log_odds: Floats,
) -> HeldOut:
    """What was said of inputs that were held out, with labels in their order."""
    order = np.lexsort((labels, inputs))
    indptr = np.searchsorted(inputs, np.arange(len(held_out) + 1)).astype(np.int64)
    return HeldOut(held_out, Said(indptr, labels[order], log_odds[order]))


def _votes(
    plan: TrainingPlan,
    apart: TrainingPlan,
    forest: Ensemble,
    hashes: Hashes,
    held_out: npt.NDArray[np.int64],
    judging: Judging,
    progress: Progress | None,
) -> _Found:
    """What members say of inputs that they were not trained on: out of bag, or some members trained again."""
    ensemble, finders, unseen = plan.settings.ensemble, forest, None
    if ensemble.method.bootstraps:
        unseen = _unseen(plan, hashes, held_out)
    else:
        few = replace(ensemble, members=min(ensemble.members, _MEMBERS_TWICE), trees=None)
        again = replace(apart, settings=replace(plan.settings, ensemble=few))
        named = None if progress is None else lambda share, _: progress(share, "judge: members")
        finders = Ensemble(train(again, judging.limits, progress=named), forest.labels)
    search = judging.search
    if search.candidates == "scored":
        search = replace(search, candidates=_BEST)
    parts = []
    for begin in range(0, len(held_out), _TOGETHER):
        rows = held_out[begin : begin + _TOGETHER]
        X = as_rows(_rows(plan, rows), threads=judging.limits.threads)
        found = finders.votes(X, 1, search, judging.limits.threads)
        parts.append(_best(found.indptr, found.labels, found.probs, unseen, begin))
    sizes = np.concatenate([np.diff(part.indptr) for part in parts])
    return _Found(
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.means for part in parts]),
    )


def _best(
    indptr: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int32],
    probs: npt.NDArray[np.float32],
    unseen: npt.NDArray[np.bool_] | None,
    begin: int,
) -> _Found:
    """The best candidates of some inputs, by the mean of those members that were not trained on them."""
    kept, means, sizes = [], [], []
    for row, (first, last) in enumerate(zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True)):
        own = probs[first:last] if unseen is None else probs[first:last][:, unseen[begin + row]]
        mean = own.mean(axis=1, dtype=np.float64) if own.shape[1] else np.zeros(0)
        best = np.argsort(-mean, kind="stable")[:_BEST]
        kept.append(labels[first:last][best])
        means.append(mean[best])
        sizes.append(len(best))
    return _Found(np.concatenate([[0], np.cumsum(sizes)]), np.concatenate(kept), np.concatenate(means))


def _unseen(plan: TrainingPlan, hashes: Hashes, held_out: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which members were not trained on each of these inputs, or on equal ones."""
    _, same = np.unique(hashes, return_inverse=True)
    members = plan.settings.ensemble.members
    unseen = np.empty((len(held_out), members), dtype=bool)
    for member in range(members):
        drawn = drawn_for(member, plan.seed, plan.data.indicator, plan.data.costs, True)[1]
        unseen[:, member] = np.bincount(same, weights=drawn)[same[held_out]] == 0
    return unseen


def _as_rows(plan: TrainingPlan, held_out: npt.NDArray[np.int64], found: _Found) -> _native.Rows:
    """The candidates of held-out inputs, and none of the others."""
    rows, labels = plan.data.indicator.shape
    sizes = np.zeros(rows, dtype=np.int64)
    sizes[held_out] = np.diff(found.indptr)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return _native.Rows(indptr, found.labels, None, labels)


def _rows(plan: TrainingPlan, wanted: npt.NDArray[np.int64]) -> sp.csr_array:
    indptr, indices, values, columns = plan.data.X.arrays()
    if values is None:
        values = np.ones(len(indices), dtype=np.float32)
    return sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1, columns))[wanted]


def _true(
    truth: sp.csr_array, inputs: npt.NDArray[np.int64], labels: npt.NDArray[np.int32]
) -> npt.NDArray[np.bool_]:
    """Whether each candidate is a label of its input."""
    owners = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr))
    width = np.int64(truth.shape[1])
    return np.isin(inputs * width + labels, owners * width + truth.indices)
