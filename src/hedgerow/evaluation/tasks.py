"""The paper's tasks for one model: ranking, finding errors, and detecting OOD inputs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from hedgerow import evaluation as metrics
from hedgerow.decisions.deciding import DecidingSource
from hedgerow.decisions.kept import FALSE_ALARM, GuaranteeTally
from hedgerow.decisions.learning import frequencies
from hedgerow.evaluation.confidence import Reliability
from hedgerow.evaluation.hierarchical import HierarchicalScores, hierarchical_scores
from hedgerow.evaluation.results import CUTS, Evaluation, Misclassification, OODScore, Ranking
from hedgerow.evaluation.shifting import OTHER_SEARCH, with_guarantees
from hedgerow.familiarity.detector import NEEDED, OODDetector
from hedgerow.inputs.rows import count
from hedgerow.progress import Progress
from hedgerow.shift.watch import ShiftWatch, UntestedShift
from hedgerow.vocabulary.ancestry import Ancestry, above_labels
from hedgerow.votes.batches import answer_batches
from hedgerow.votes.broader import check_ancestry
from hedgerow.votes.measures import Measures, energy_of
from hedgerow.votes.signals import Signals
from hedgerow.votes.source import Answer, VoteSource
from hedgerow.votes.truth import SCORES, Assessment, assess

__all__ = ["Evaluated", "evaluate"]

Floats = npt.NDArray[np.floating[Any]]

_TAIL = 100  # ranks of the long tail
_DECILES = 10


class WatchingSource(DecidingSource, Protocol):
    """A model that watches for shift."""

    def watch(
        self, *, some_labels: bool = False, in_order: bool = False
    ) -> ShiftWatch | UntestedShift | None:
        """What compares inputs with those that the policy was learned from."""


class Evaluated(Protocol):
    """A fitted classifier."""

    @property
    def source(self) -> WatchingSource:
        """Its model."""

    def describe(self) -> dict[str, Any]:
        """What it is."""


def evaluate(
    model: Evaluated,
    X: Any,
    Y: Any,
    *,
    ood: Mapping[str, Any] | None = None,
    ancestry: Ancestry | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Do the paper's tasks for a fitted model, batch by batch: memory grows with inputs, not with labels.

    Parameters
    ----------
    model : HedgerowClassifier or HedgerowTextClassifier
        A fitted model.
    X : inputs
        Features of shape (n, d), or texts, as the model takes them.
    Y : sparse indicator matrix, shape (n, n_labels or more), or list of lists of labels
        The truth. Columns after those of the model are labels that it does not know: they count as missed.
    ood : mapping of str to inputs, optional
        Out-of-distribution inputs, by name of the data.
    ancestry : Ancestry, optional
        What is broader than what, for hierarchical scores; its first entries are the labels of the model. By
        default that of the model's vocabulary, if it has broader terms.
    progress : callable(share, what), optional
        Called after each batch.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> texts = ["a thorny shrub", "a shrub with thorny twigs", "an evergreen tree", "the evergreen tree"] * 8
    >>> labels = [["hawthorn"], ["hawthorn"], ["holly"], ["holly"]] * 8
    >>> from hedgerow import HedgerowTextClassifier
    >>> model = HedgerowTextClassifier(method="bagging", random_state=0).fit(texts, labels)
    >>> evaluate(model, texts, labels).ranking.precision[1]
    1.0
    """
    if not isinstance(model, BaseEstimator):
        raise TypeError(f"model is a {type(model).__name__}; give a fitted Hedgerow classifier")
    source = model.source
    inputs, truth = source.inputs_and_truth(X, Y)
    if not truth.nnz:
        raise ValueError(
            "no input has any label, so there is nothing to compare with; give inputs with labels"
        )
    others = {name: source.inputs(other) for name, other in (ood or {}).items()}
    watch = _Watch(progress, count(inputs) + sum(count(other) for other in others.values()))
    tail = _LongTail()
    guarantees = GuaranteeTally(source.policy, source.search, source.label_counts)
    flags = source.policy is not None and source.ood is not None
    pass_over = _Pass(source, watch, signals=bool(others) or flags)
    shift = _shift_watch(source)
    own = pass_over.assess(inputs, truth, _Tallies(tail, guarantees, shift))
    ood_seen = {
        name: pass_over.assess(other, _no_labels(count(other), truth.shape[1]))
        for name, other in others.items()
    }
    assessed = own.assessed
    with watch.judging():
        counts = None if source.label_counts is None else frequencies(source.label_counts, truth.shape[1])
        right = assessed.right()
        shown = {k: (assessed.labels >= 0)[:, :k] for k in CUTS}  # an input may have fewer candidates than k
        best = {k: (assessed.best.probability[:, :k][shown[k]], right[:, :k][shown[k]]) for k in CUTS}
        tenths = _in_distribution_tenths(assessed, counts)
        inside = _sum_scores(own, source.members)
        detected = {
            name: _detect(inside, _sum_scores(other, source.members), tenths)
            for name, other in ood_seen.items()
        }
        p_values = _add_ood(detected, source.ood, own, ood_seen, tenths) if own.signals is not None else None
    decisions = guarantees.finish()
    report = None
    if shift is not None and source.policy is not None:
        report = with_guarantees(shift.report(), source.policy, decisions)
    return Evaluation(
        ranking=_rank(assessed, counts, source.n_samples, _above(source, ancestry)),
        misclassification=_misclassification(assessed, right, source.members),
        ood=detected,
        reliability={k: metrics.reliability(*best[k]) for k in CUTS},
        reliability_rare=_rare_reliability(assessed, right, counts),
        brier={k: metrics.brier_score(*best[k]) for k in CUTS},
        long_tail=tail.finish(),
        by_frequency=_by_frequency(assessed, counts),
        judgement=assessed,
        p_values=p_values if others else None,
        seconds=watch.seconds,
        settings={
            **model.describe(),
            "inputs": count(inputs),
            "true_labels": int(truth.nnz),
            "unknown_labels": _unknown(truth, source),
            "seen_in_training": int(source.seen(source.hashes(inputs)).sum()),
            "ood": {name: count(other) for name, other in others.items()},
            "threads": source.threads or os.cpu_count(),
            "version": metadata.version("hedgerow"),
        },
        decisions=decisions,
        flagged=None if p_values is None or not flags else float((p_values <= FALSE_ALARM).mean()),
        shift=report,
    )


def _shift_watch(source: WatchingSource) -> ShiftWatch | UntestedShift | None:
    """What watches for shift; votes of another search cannot be compared."""
    policy = source.policy
    if policy is not None and policy.search.to_dict() != source.search.to_dict():
        return UntestedShift(OTHER_SEARCH)
    return source.watch()


class _Watch:
    """Counts inputs, and takes the time of the model and that of the tasks separately."""

    def __init__(self, progress: Progress | None, inputs: int) -> None:
        self._progress, self._inputs, self._done = progress, inputs, 0
        self.seconds = {"predict": 0.0, "judge": 0.0}

    @contextmanager
    def predicting(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds["predict"] += time.perf_counter() - start

    def predicted(self, batches: Iterator[tuple[slice, Answer]]) -> Iterator[tuple[slice, Answer]]:
        """The same batches; the time to make them counts as prediction."""
        while True:
            with self.predicting():
                batch = next(batches, None)
            if batch is None:
                return
            self._done += len(batch[1].votes)
            if self._progress:
                self._progress(self._done / self._inputs, "evaluating")
            yield batch

    @contextmanager
    def judging(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds["judge"] += time.perf_counter() - start


class _LongTail:
    """Mean and deviation of the probability at each rank."""

    def __init__(self) -> None:
        self._count = 0
        self._sums = np.zeros((_TAIL, 2))

    def add(self, probability: Floats) -> None:
        self._count += len(probability)
        values = probability.astype(np.float64)
        self._sums[: values.shape[1], 0] += values.sum(axis=0)
        self._sums[: values.shape[1], 1] += (values**2).sum(axis=0)

    def finish(self) -> Floats:
        mean, square = (self._sums / max(1, self._count)).T
        return np.column_stack([mean, np.sqrt(np.maximum(square - mean**2, 0))])


@dataclass(frozen=True, eq=False)
class _Tallies:
    """What adds up votes on the evaluated inputs."""

    tail: _LongTail
    guarantees: GuaranteeTally
    shift: ShiftWatch | UntestedShift | None


@dataclass(frozen=True, eq=False)
class _Seen:
    """What a pass over inputs gave: votes next to the truth, JointEnergy, and signals if wanted."""

    assessed: Assessment
    energies: Floats
    signals: Signals | None


@dataclass(frozen=True, eq=False)
class _Pass:
    """Predicts and compares with the truth, in batches."""

    source: VoteSource
    watch: _Watch
    signals: bool

    def assess(
        self,
        inputs: Any,
        truth: sp.csr_array,
        tallies: _Tallies | None = None,
    ) -> _Seen:
        """JointEnergy is that of the best labels only, as in the paper, or their number would decide."""
        parts, energies, signals = [], [], []
        source = self.source
        for rows, answer in self.watch.predicted(answer_batches(source, inputs, signals=self.signals)):
            with self.watch.judging():
                assessed = assess(answer.votes, truth[rows], k=_TAIL, n_jobs=source.threads or None)
                if tallies:
                    tallies.tail.add(assessed.best.probability)
                    tallies.guarantees.add(answer, assessed.truth)
                    if tallies.shift is not None:
                        tallies.shift.add(answer)
                energy = energy_of(assessed.best.probability, source.transform) * (assessed.labels >= 0)
                energies.append(energy.sum(axis=1))
                parts.append(_trimmed(assessed))
                if answer.signals is not None:
                    signals.append(answer.signals)
        joined = Signals.concatenate(signals) if signals else None
        return _Seen(Assessment.concatenate(parts), np.concatenate(energies), joined)


def _trimmed(assessed: Assessment) -> Assessment:
    """Without the labels that no task needs."""
    k = max(CUTS)
    best = Measures(*(getattr(assessed.best, score)[:, :k].copy() for score in SCORES))
    return replace(assessed, labels=assessed.labels[:, :k].copy(), best=best)


def _unknown(truth: sp.csr_array, source: VoteSource) -> int:
    """Number of true labels that the model can never predict, as they do not occur in training."""
    counts = source.label_counts
    if counts is None:
        return int((truth.indices >= len(source.classes)).sum())
    return int((frequencies(counts, truth.shape[1])[truth.indices] == 0).sum())


def _no_labels(rows: int, columns: int) -> sp.csr_array:
    return cast("sp.csr_array", sp.csr_array((rows, columns), dtype=np.int8))


def _rare_reliability(
    own: Assessment, right: npt.NDArray[np.bool_], counts: npt.NDArray[np.int64] | None
) -> dict[int, Reliability] | None:
    """Of the predicted labels that are at most as frequent as the median of all predicted ones."""
    if counts is None:
        return None
    shown = own.labels >= 0
    frequency = np.where(shown, counts[own.labels], np.iinfo(np.int64).max)
    rare = shown & (frequency <= np.median(frequency[shown]))
    return {
        k: metrics.reliability(own.best.probability[:, :k][rare[:, :k]], right[:, :k][rare[:, :k]])
        for k in CUTS
        if rare[:, :k].any()
    }


def _above(source: VoteSource, given: Ancestry | None) -> tuple[Ancestry, int] | None:
    """What is broader than the labels, and how many these are; None where nothing is."""
    if given is None and source.vocabulary is not None:
        given, _ = above_labels(source.vocabulary, source.classes)
    if given is not None:
        check_ancestry(given, len(source.classes))
    return None if given is None or not given.child.size else (given, len(source.classes))


def _hierarchical(own: Assessment, ancestry: Ancestry, n_labels: int) -> dict[int, HierarchicalScores]:
    """Scores of the best k labels; labels that the model does not know have no place, and so stand alone."""
    unknown = own.truth.shape[1] - n_labels
    wide = ancestry.with_more(unknown)
    columns = own.truth.indices.astype(np.int64)
    columns[columns >= n_labels] += ancestry.entries - n_labels
    shape = (len(own), wide.entries)
    truth = sp.csr_array((np.ones(len(columns), np.int8), columns, own.truth.indptr), shape=shape)
    found = {}
    for k in CUTS:
        row, place = np.nonzero(own.labels[:, :k] >= 0)
        best = (np.ones(len(row), np.int8), (row, own.labels[row, place]))
        found[k] = hierarchical_scores(sp.csr_array(best, shape=shape), truth, wide)
    return found


def _rank(
    own: Assessment,
    counts: npt.NDArray[np.int64] | None,
    rows: int | None,
    above: tuple[Ancestry, int] | None,
) -> Ranking:
    labels, truth = own.labels, own.truth
    scarcity = None if counts is None or rows is None else metrics.propensities(counts, rows)
    return Ranking(
        precision={k: metrics.precision_at(labels, truth, k) for k in CUTS},
        recall={k: metrics.recall_at(labels, truth, k) for k in CUTS},
        ndcg={k: metrics.ndcg_at(labels, truth, k) for k in CUTS},
        macro_f1={k: metrics.macro_f1_at(labels, truth, k) for k in CUTS},
        psp=None if scarcity is None else {k: metrics.psp_at(labels, truth, scarcity, k) for k in CUTS},
        coverage=None if counts is None else metrics.coverage_by_decile(labels, truth, counts, max(CUTS)),
        hierarchical=None if above is None else _hierarchical(own, *above),
    )


def _misclassification(
    own: Assessment, right: npt.NDArray[np.bool_], members: int
) -> dict[str, Misclassification]:
    names = {"variance": "variance", "total": "total", "knowledge": "knowledge", "data": "data"}
    if members == 1:
        names = {"total": "total", "data": "data"}
    shown = own.labels >= 0
    wrong = ~right[shown]
    aurocs, auprs = own.mean_auroc(), own.mean_aupr()
    found = {}
    for name, score in {**names, "energy": "probability"}.items():
        values = getattr(own.best, score)[shown]
        found[name] = Misclassification(
            auroc=aurocs[score],
            aupr=auprs[score],
            # Energy is high where the model is certain.
            risk_coverage=metrics.risk_coverage(-values if name == "energy" else values, wrong),
        )
    return found


def _by_frequency(own: Assessment, counts: npt.NDArray[np.int64] | None) -> list[dict[str, float]]:
    """Means over the true labels of each tenth, rarest first, each with about as many of them."""
    if counts is None:
        return []
    frequency = counts[own.truth.indices]
    groups = []
    for members in _tenths(frequency):
        if not members.size:
            continue
        row = {
            "lowest": int(frequency[members].min()),
            "highest": int(frequency[members].max()),
            "occurrences": len(members),
            "found": float(((own.rank[members] > 0) & (own.rank[members] <= max(CUTS))).mean()),
        }
        groups.append(row | {score: float(getattr(own.true, score)[members].mean()) for score in SCORES})
    return groups


def _tenths(values: npt.NDArray[Any]) -> list[npt.NDArray[np.intp]]:
    """Cut into tenths, lowest first; equal values go by their order."""
    return np.array_split(np.argsort(values, kind="stable"), _DECILES)


def _sum_scores(seen: _Seen, members: int) -> dict[str, Floats]:
    assessed = seen.assessed
    scores = {
        "variance": assessed.inputs.variance,
        "total": assessed.inputs.total,
        "knowledge": assessed.inputs.knowledge,
        "joint_energy": seen.energies,
        "expected": assessed.inputs.probability,
    }
    if members == 1:
        del scores["variance"], scores["knowledge"]
    return scores


def _detect(
    inside: Mapping[str, Floats], outside: Mapping[str, Floats], groups: list[npt.NDArray[np.intp]]
) -> dict[str, OODScore]:
    """The paper's scores. An OOD input gets low probabilities for all labels, and so low sums."""
    return {name: _ood_score("low", -outside[name], -inside[name], groups) for name in inside}


def _ood_score(
    direction: str, outside: Floats, inside: Floats, groups: list[npt.NDArray[np.intp]]
) -> OODScore:
    return OODScore(
        direction,
        metrics.detection(outside, inside),
        metrics.roc_curve_points(outside, inside),
        [metrics.detection(outside, inside[group]).auroc for group in groups],
    )


def _in_distribution_tenths(
    own: Assessment, counts: npt.NDArray[np.int64] | None
) -> list[npt.NDArray[np.intp]]:
    """Inputs by the frequency of their most frequent label in training; those without labels are in none."""
    if counts is None:
        return []
    filled = np.flatnonzero(np.diff(own.truth.indptr))
    if len(filled) < _DECILES:
        return []
    highest = np.maximum.reduceat(counts[own.truth.indices], own.truth.indptr[filled])
    return [filled[group] for group in _tenths(highest)]


def _add_ood(
    detected: dict[str, dict[str, OODScore]],
    learned: Any,
    own: _Seen,
    ood_seen: Mapping[str, _Seen],
    groups: list[npt.NDArray[np.intp]],
) -> Floats | None:
    """Detect by the OOD score, too, and return the p-values of the inputs.

    Without a detector, one is learned from one half of the inputs to score the other half, and the other way
    round; of OOD inputs, the mean of both counts.
    """
    signals = own.signals
    if signals is None or (learned is None and len(signals) < 2 * NEEDED):
        return None
    halves = _halves(len(signals)) if learned is None else [np.arange(len(signals))]
    scores, p_values = np.zeros(len(signals)), np.zeros(len(signals))
    others = {name: seen.signals for name, seen in ood_seen.items() if seen.signals is not None}
    outside = {name: np.zeros(len(of)) for name, of in others.items()}
    for number, half in enumerate(halves):
        detector = learned or OODDetector.learn(signals[halves[1 - number]])
        found = detector.judge(signals[half])
        scores[half], p_values[half] = found.score, found.p_value
        for name, of in others.items():
            outside[name] += detector.judge(of).score / len(halves)
    for name in others:
        detected[name]["ood"] = _ood_score("high", outside[name], scores, groups)
    return p_values


def _halves(count: int) -> list[npt.NDArray[np.intp]]:
    """Two halves with neighbours in both; pairs stay together, for the learner takes every other input."""
    turn = np.arange(count) // 2 % 2
    return [np.flatnonzero(turn == number) for number in (0, 1)]
