"""The paper's tasks for one model: how well it ranks, how well its doubt finds errors and
out-of-distribution inputs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import metadata
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from hedgerow import evaluation as metrics
from hedgerow.decisions.guarantees import GuaranteeTally, KeptGuarantee
from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.evaluation import Detection, FrequencyCoverage, Reliability, RiskCoverage, RocCurve
from hedgerow.familiarity.score import NEEDED, OODDetector
from hedgerow.inputs.labels import truth_for
from hedgerow.inputs.rows import count
from hedgerow.votes.batches import vote_batches
from hedgerow.votes.measures import Measures, energy_of
from hedgerow.votes.truth import SCORES, Assessment, assess
from hedgerow.votes.votes import Votes

__all__ = ["Evaluation", "Misclassification", "OODScore", "Ranking", "evaluate"]

Floats = npt.NDArray[np.floating[Any]]
Progress = Callable[[float, str], None]

CUTS = (1, 3, 5)
_TAIL = 100  # ranks of the long tail
_DECILES = 10


@dataclass(frozen=True)
class Ranking:
    """Predictive performance; dictionaries by k. Shares between 0 and 1.

    Attributes
    ----------
    precision, recall, ndcg, macro_f1 : dict of int to float
        P@k, R@k, nDCG@k and macro-F1@k.
    psp : dict of int to float, or None
        Propensity-scored P@k; None where the model does not know how frequent its labels are.
    coverage : FrequencyCoverage, or None
        Share of the true labels that are among the best five, by how frequent they are in training.
    """

    precision: dict[int, float]
    recall: dict[int, float]
    ndcg: dict[int, float]
    macro_f1: dict[int, float]
    psp: dict[int, float] | None
    coverage: FrequencyCoverage | None


@dataclass(frozen=True)
class Misclassification:
    """How well one measure of doubt finds wrong labels.

    Attributes
    ----------
    auroc, aupr : float
        Means over inputs, each over all labels there are.
    risk_coverage : RiskCoverage
        Share of wrong labels among the five best of each input, if only the less doubtful ones are kept.
    """

    auroc: float
    aupr: float
    risk_coverage: RiskCoverage


@dataclass(frozen=True)
class OODScore:
    """How well one score of an input tells out-of-distribution inputs.

    Attributes
    ----------
    direction : {"low", "high"}
        Which values mean "out-of-distribution input".
    detection : Detection
        AUROC, AUPR and the share of insiders flagged where 95 % of the out-of-distribution inputs are.
    roc : RocCurve
        Shares of insiders and out-of-distribution inputs that are flagged.
    by_frequency : list of float
        AUROC against the insiders of each tenth, from those that have only rare labels on; empty where the
        model does not know how frequent its labels are.
    """

    direction: str
    detection: Detection
    roc: RocCurve
    by_frequency: list[float]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What `evaluate` finds.

    Attributes
    ----------
    ranking : Ranking
        Task 1.
    misclassification : dict of str to Misclassification
        Task 2, by measure: "variance", "total", "knowledge", "data", "energy". A single model has no variance
        and no knowledge uncertainty.
    ood : dict of str to dict of str to OODScore
        Task 3, by the name of the other data and the score: "variance", "total", "knowledge", "joint_energy",
        "expected", "OOD score".
    reliability : dict of int to Reliability
        Whether probabilities of the best k labels are what they say.
    reliability_rare : dict of int to Reliability, or None
        The same of those that are rare: the rarer half of the best five labels of all inputs. None where the
        model does not know how frequent its labels are.
    brier : dict of int to float
        Mean squared distance of the best k labels' probabilities to the truth.
    long_tail : array, shape (ranks, 2)
        Mean and deviation of the probability at each rank.
    by_frequency : list of dict
        Means over true labels, by how frequent they are in training.
    judgement : Assessment
        Every input, with its five best labels and its true ones. Columns after those of the model are labels
        that it does not know.
    p_values : array, shape (n,), or None
        How familiar each input is, where there were out-of-distribution inputs to tell it from.
    seconds : dict of str to float
        "predict" is the model's part, "judge" is what the tasks took.
    settings : dict
        What the model is, and how large the data are.
    decisions : list of KeptGuarantee
        What the model's policy guarantees at a risk of 5, 10 and 20 %, beside what came of it; empty without
        a
        policy, or if it was learned with another search.
    """

    ranking: Ranking
    misclassification: dict[str, Misclassification]
    ood: dict[str, dict[str, OODScore]]
    reliability: dict[int, Reliability]
    reliability_rare: dict[int, Reliability] | None
    brier: dict[int, float]
    long_tail: Floats
    by_frequency: list[dict[str, float]]
    judgement: Assessment = field(repr=False)
    p_values: Floats | None = field(repr=False)
    seconds: dict[str, float]
    settings: dict[str, Any]
    decisions: list[KeptGuarantee] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and dictionaries, as ``hedgerow evaluate --json`` writes them.

        Shares are between 0 and 1; what does not exist for a model is None. Its keys, a dot for each level:

        - ``precision.K``, ``recall.K``, ``ndcg.K``, ``macro_f1.K``, ``psp.K`` for K in 1, 3, 5;
          ``coverage``: for ten groups of labels, rarest first, lists ``lowest``, ``highest`` (frequency in
          training), ``labels``, ``occurrences`` and ``share`` (found among the best five);
        - ``misclassification.MEASURE`` (AUROC), ``misclassification_aupr.MEASURE``, ``aurc.MEASURE``,
          ``risk_coverage.MEASURE.coverage`` and ``.risk``, for MEASURE in variance, total, knowledge, data,
          energy;
        - ``ood.NAME.SCORE`` (AUROC) and ``ood_details.NAME.SCORE`` with ``direction``, ``auroc``, ``aupr``,
          ``fpr95``, ``by_frequency`` and ``roc`` (lists ``false_positive`` and ``true_positive``), for SCORE
          in variance, total, knowledge, joint_energy, expected, OOD score;
        - ``ece.K``, ``brier.K`` and ``reliability.K`` with ``edges``, ``mean_probability``, ``share_right``
          and ``count`` of each bin; ``ece_rare.K`` and ``reliability_rare.K`` of the rare labels among them;
        - ``long_tail`` with ``mean`` and ``deviation`` of the probability by rank;
          ``by_frequency``: groups with the means of their true labels;
        - ``decisions.RISK`` for RISK in 0.05, 0.1, 0.2, where the model has a policy: ``guaranteed`` (the
        risk),
          ``refused`` (why it cannot be guaranteed, or None), ``reject_below`` and ``accept_from`` (None for
          accepting nothing), ``missed`` (achieved share of an input's true labels that are rejected),
          ``wrong`` (achieved share of wrong labels among those that an input is given), ``precision`` and
          ``recall`` of all accepted labels, mean numbers ``accepted``, ``reviewed`` and ``rejected`` of an
          input, and ``flagged`` (share of inputs flagged as out-of-distribution inputs at a false alarm of 5
          %);
        - ``seconds`` (all in all), ``seconds_by_step.predict`` and ``.judge``, ``settings``.
        """
        ranking, rare = self.ranking, self.reliability_rare
        doubts = self.misclassification
        measures = [*doubts, *(name for name in ("variance", "knowledge") if name not in doubts)]

        def each(value: Callable[[Misclassification], Any]) -> dict[str, Any]:
            return {name: value(doubts[name]) if name in doubts else None for name in measures}

        found = {
            "precision": _by_cut(ranking.precision),
            "recall": _by_cut(ranking.recall),
            "ndcg": _by_cut(ranking.ndcg),
            "macro_f1": _by_cut(ranking.macro_f1),
            "psp": ranking.psp and _by_cut(ranking.psp),
            "coverage": ranking.coverage and _columns(ranking.coverage),
            "misclassification": each(lambda of: of.auroc),
            "misclassification_aupr": each(lambda of: of.aupr),
            "aurc": each(lambda of: of.risk_coverage.area),
            "risk_coverage": each(lambda of: _columns(of.risk_coverage)),
            "ood": {
                name: {score: of.detection.auroc for score, of in scores.items()}
                for name, scores in self.ood.items()
            },
            "ood_details": {
                name: {
                    score: {
                        "direction": of.direction,
                        **asdict(of.detection),
                        "by_frequency": of.by_frequency,
                        "roc": _columns(of.roc),
                    }
                    for score, of in scores.items()
                }
                for name, scores in self.ood.items()
            },
            "ece": _by_cut({k: of.ece for k, of in self.reliability.items()}),
            "ece_rare": rare and _by_cut({k: of.ece for k, of in rare.items()}),
            "brier": _by_cut(self.brier),
            "reliability": {str(k): _columns(of) for k, of in self.reliability.items()},
            "reliability_rare": None if rare is None else {str(k): _columns(of) for k, of in rare.items()},
            "long_tail": {
                "mean": self.long_tail[:, 0].tolist(),
                "deviation": self.long_tail[:, 1].tolist(),
            },
            "by_frequency": self.by_frequency,
            "decisions": {f"{of.risk:g}": of.to_dict() for of in self.decisions},
            "seconds": sum(self.seconds.values()),
            "seconds_by_step": dict(self.seconds),
            "settings": dict(self.settings),
        }
        return cast("dict[str, Any]", _without_nan(found))


def evaluate(
    model: HedgerowClassifier,
    X: Any,
    Y: Any,
    *,
    ood: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Do the paper's tasks for a fitted model, a batch at a time: memory grows with inputs, not with labels.

    Parameters
    ----------
    model : HedgerowClassifier or HedgerowTextClassifier
        A fitted model.
    X : inputs
        Features of shape (n, d), or texts, as the model takes them.
    Y : sparse indicator matrix, shape (n, n_labels or more), or list of lists of labels
        The truth. Columns after those of the model are labels that it does not know: they count as missed.
    ood : mapping of str to inputs, optional
        Data of other kinds, by name.
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
    if not isinstance(model, HedgerowClassifier):
        raise TypeError(f"model is a {type(model).__name__}; give a HedgerowClassifier or one of texts")
    check_is_fitted(model, "tree_")
    truth = truth_for(Y, model.classes_)
    if count(X) != truth.shape[0]:
        raise ValueError(f"there are {count(X)} inputs, but labels for {truth.shape[0]}")
    if not truth.nnz:
        raise ValueError("no input has any label; there is nothing to compare with")
    ood = dict(ood or {})
    watch = _Watch(progress, count(X) + sum(count(inputs) for inputs in ood.values()))
    tail = _LongTail()
    guarantees = GuaranteeTally(model)
    own, energies = _judge_all(model, X, truth, watch, tail, guarantees)
    others = {
        name: _judge_all(model, inputs, _no_labels(count(inputs), truth.shape[1]), watch)
        for name, inputs in ood.items()
    }
    with watch.judging():
        counts = None if model.label_counts_ is None else _widened(model.label_counts_, truth.shape[1])
        right = _right(own)
        ranking = _rank(own, counts, model.n_samples_)
        misclassification = _misclassification(own, right, model)
        shown = {k: (own.labels >= 0)[:, :k] for k in CUTS}  # an input may have fewer candidates than k
        best = {k: (own.best.probability[:, :k][shown[k]], right[:, :k][shown[k]]) for k in CUTS}
        reliability = {k: metrics.reliability(*best[k]) for k in CUTS}
        brier = {k: metrics.brier_score(*best[k]) for k in CUTS}
        groups = _by_frequency(own, counts)
        inside, groups_inside = _sum_scores(own, energies, model), _insider_tenths(own, counts)
        detected = {
            name: _detect(inside, _sum_scores(*other, model), groups_inside) for name, other in others.items()
        }
    p_values = None
    if ood:
        p_values = _add_ood(detected, model, X, ood, groups_inside, watch)
    flags = p_values
    if flags is None and hasattr(model, "policy_") and hasattr(model, "ood_detector_"):
        with watch.predicting():
            flags = model.ood_scores(X).p_value
    return Evaluation(
        ranking=ranking,
        misclassification=misclassification,
        ood=detected,
        reliability=reliability,
        reliability_rare=_rare_reliability(own, right, counts),
        brier=brier,
        long_tail=tail.finish(),
        by_frequency=groups,
        judgement=own,
        p_values=p_values,
        seconds=watch.seconds,
        settings={
            **model.describe(),
            "inputs": count(X),
            "true_labels": int(truth.nnz),
            "unknown_labels": _unknown(truth, model),
            "seen_in_training": int(model.seen_in_training(X).sum()),
            "ood": {name: count(inputs) for name, inputs in ood.items()},
            "threads": model._threads() or os.cpu_count(),
            "version": metadata.version("hedgerow"),
        },
        decisions=guarantees.finish(flags if hasattr(model, "ood_detector_") else None),
    )


def _by_cut(values: dict[int, float]) -> dict[str, float]:
    return {str(k): value for k, value in values.items()}


def _without_nan(value: Any) -> Any:
    """JSON knows no NaN: what is undefined becomes None."""
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def _columns(of: Any) -> dict[str, Any]:
    """The fields of a dataclass of arrays."""
    return {
        part.name: value.tolist() if isinstance(value, np.ndarray) else value
        for part in fields(of)
        for value in [getattr(of, part.name)]
    }


class _Watch:
    """Counts inputs, and tells the time of the model from the time of the tasks."""

    def __init__(self, progress: Progress | None, inputs: int) -> None:
        self._progress, self._inputs, self._done = progress, inputs, 0
        self.seconds = {"predict": 0.0, "judge": 0.0}

    @contextmanager
    def predicting(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds["predict"] += time.perf_counter() - start

    def predicted(self, batches: Iterator[tuple[slice, Votes]]) -> Iterator[tuple[slice, Votes]]:
        """The same batches, with what making them took."""
        while True:
            with self.predicting():
                batch = next(batches, None)
            if batch is None:
                return
            self._done += len(batch[1])
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


def _judge_all(
    model: HedgerowClassifier,
    X: Any,
    truth: sp.csr_array,
    watch: _Watch,
    tail: _LongTail | None = None,
    guarantees: GuaranteeTally | None = None,
) -> tuple[Assessment, Floats]:
    """Predict and judge, in batches whose votes are about as large as they may be; JointEnergy comes beside.

    It is that of the best labels only, as in the paper: over all candidates, their number would decide.
    """
    parts, energies = [], []
    transform = model._ensemble.transform
    for rows, votes in watch.predicted(vote_batches(model, X, "evaluating")):
        with watch.judging():
            judged = assess(votes, truth[rows], k=_TAIL, n_jobs=model.n_jobs)
            if tail:
                tail.add(judged.best.probability)
            if guarantees:
                guarantees.add(votes, judged.truth)
            energies.append(
                (energy_of(judged.best.probability, transform) * (judged.labels >= 0)).sum(axis=1)
            )
            parts.append(_trimmed(judged))
    return Assessment.concatenate(parts), np.concatenate(energies)


def _trimmed(judged: Assessment) -> Assessment:
    """Without the labels that no task looks at."""
    k = max(CUTS)
    best = Measures(*(getattr(judged.best, score)[:, :k].copy() for score in SCORES))
    return replace(judged, labels=judged.labels[:, :k].copy(), best=best)


def _unknown(truth: sp.csr_array, model: HedgerowClassifier) -> int:
    """How many true labels the model can never predict, for it has not seen them."""
    counts = model.label_counts_
    if counts is None:
        return int((truth.indices >= len(model.classes_)).sum())
    return int((_widened(counts, truth.shape[1])[truth.indices] == 0).sum())


def _no_labels(rows: int, columns: int) -> sp.csr_array:
    return cast("sp.csr_array", sp.csr_array((rows, columns), dtype=np.int8))


def _widened(counts: npt.NDArray[np.int64], columns: int) -> npt.NDArray[np.int64]:
    """Labels that the model does not know did not occur in training."""
    return np.concatenate([counts, np.zeros(columns - len(counts), dtype=np.int64)])


def _right(own: Assessment) -> npt.NDArray[np.bool_]:
    """Which of the best labels are true."""
    right = np.zeros(own.labels.shape, dtype=bool)
    rows = np.repeat(np.arange(len(own)), np.diff(own.truth.indptr))
    high = (own.rank > 0) & (own.rank <= own.labels.shape[1])
    right[rows[high], own.rank[high] - 1] = True
    return right


def _rare_reliability(
    own: Assessment, right: npt.NDArray[np.bool_], counts: npt.NDArray[np.int64] | None
) -> dict[int, Reliability] | None:
    """Of the predicted labels that are no more frequent than the median of all predicted ones."""
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


def _rank(own: Assessment, counts: npt.NDArray[np.int64] | None, rows: int | None) -> Ranking:
    labels, truth = own.labels, own.truth
    scarcity = None if counts is None or rows is None else metrics.propensities(counts, rows)
    return Ranking(
        precision={k: metrics.precision_at(labels, truth, k) for k in CUTS},
        recall={k: metrics.recall_at(labels, truth, k) for k in CUTS},
        ndcg={k: metrics.ndcg_at(labels, truth, k) for k in CUTS},
        macro_f1={k: metrics.macro_f1_at(labels, truth, k) for k in CUTS},
        psp=None if scarcity is None else {k: metrics.psp_at(labels, truth, scarcity, k) for k in CUTS},
        coverage=None if counts is None else metrics.coverage_by_decile(labels, truth, counts, max(CUTS)),
    )


def _misclassification(
    own: Assessment, right: npt.NDArray[np.bool_], model: HedgerowClassifier
) -> dict[str, Misclassification]:
    names = {"variance": "variance", "total": "total", "knowledge": "knowledge", "data": "data"}
    if model._ensemble.members == 1:
        names = {"total": "total", "data": "data"}
    shown = own.labels >= 0
    wrong = ~right[shown]
    aurocs, auprs = own.mean_auroc(), own.mean_aupr()
    found = {}
    for name, score in {**names, "energy": "probability"}.items():
        doubt = getattr(own.best, score)[shown]
        found[name] = Misclassification(
            auroc=aurocs[score],
            aupr=auprs[score],
            # Energy is high where the model is sure.
            risk_coverage=metrics.risk_coverage(-doubt if name == "energy" else doubt, wrong),
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


def _sum_scores(judged: Assessment, energies: Floats, model: HedgerowClassifier) -> dict[str, Floats]:
    scores = {
        "variance": judged.inputs.variance,
        "total": judged.inputs.total,
        "knowledge": judged.inputs.knowledge,
        "joint_energy": energies,
        "expected": judged.inputs.probability,
    }
    if model._ensemble.members == 1:
        del scores["variance"], scores["knowledge"]
    return scores


def _detect(
    inside: Mapping[str, Floats], outside: Mapping[str, Floats], groups: list[npt.NDArray[np.intp]]
) -> dict[str, OODScore]:
    """The paper's scores. An out-of-distribution input gets low probabilities everywhere, and so low sums."""
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


def _insider_tenths(own: Assessment, counts: npt.NDArray[np.int64] | None) -> list[npt.NDArray[np.intp]]:
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
    model: HedgerowClassifier,
    X: Any,
    ood: Mapping[str, Any],
    groups: list[npt.NDArray[np.intp]],
    watch: _Watch,
) -> Floats | None:
    """Judge by OOD score, too, and return the p-values of the inputs.

    A model that has not learned what is familiar learns it from one half of the inputs to judge the other
    half, and the other way round; of out-of-distribution inputs, the mean of both counts.
    """
    with watch.predicting():
        signals = model._signals(X)
        strange = {name: model._signals(inputs) for name, inputs in ood.items()}
    with watch.judging():
        halves = _halves(len(signals))
        if (learned := getattr(model, "ood_detector_", None)) is not None:
            halves = [np.arange(len(signals))]
        elif len(signals) < 2 * NEEDED:
            return None
        scores, p_values = np.zeros(len(signals)), np.zeros(len(signals))
        outside = {name: np.zeros(len(of)) for name, of in strange.items()}
        for number, half in enumerate(halves):
            familiar = learned or OODDetector.learn(signals[halves[1 - number]])
            found = familiar.judge(signals[half])
            scores[half], p_values[half] = found.score, found.p_value
            for name, of in strange.items():
                outside[name] += familiar.judge(of).score / len(halves)
        for name in strange:
            detected[name]["ood"] = _ood_score("high", outside[name], scores, groups)
    return p_values


def _halves(count: int) -> list[npt.NDArray[np.intp]]:
    """Two halves with neighbours in both; pairs stay together, for the learner takes every other input."""
    turn = np.arange(count) // 2 % 2
    return [np.flatnonzero(turn == number) for number in (0, 1)]
