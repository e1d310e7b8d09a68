"""The results of the paper's tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hedgerow.decisions.kept import KeptGuarantee
from hedgerow.evaluation.confidence import Reliability, RiskCoverage
from hedgerow.evaluation.hierarchical import HierarchicalScores
from hedgerow.evaluation.ood import Detection, RocCurve
from hedgerow.evaluation.ranking import FrequencyCoverage
from hedgerow.shift.report import ShiftReport
from hedgerow.votes.truth import Assessment

__all__ = ["CUTS", "Evaluation", "Misclassification", "OODScore", "Ranking"]

Floats = npt.NDArray[np.floating[Any]]

CUTS = (1, 3, 5)


@dataclass(frozen=True)
class Ranking:
    """Predictive performance by k, as shares between 0 and 1.

    `coverage` is the share of the true labels among the best five, by their frequency in training; it and
    `psp` (propensity-scored precision) are None where the model does not know that frequency. `hierarchical`
    is what `hierarchical_scores` says of the best labels; None where no label has a broader term.
    """

    precision: dict[int, float]
    recall: dict[int, float]
    ndcg: dict[int, float]
    macro_f1: dict[int, float]
    psp: dict[int, float] | None
    coverage: FrequencyCoverage | None
    hierarchical: dict[int, HierarchicalScores] | None = None


@dataclass(frozen=True)
class Misclassification:
    """How well one measure of uncertainty finds wrong labels: means over inputs, each over all labels.

    The curve is over the five best labels of each input, keeping only the less uncertain ones.
    """

    auroc: float
    aupr: float
    risk_coverage: RiskCoverage


@dataclass(frozen=True)
class OODScore:
    """How well one score, whose low or high values mean OOD, detects out-of-distribution inputs.

    `by_frequency` is the AUROC against each tenth of the in-distribution inputs, from those with only rare
    labels on; empty where the model does not know the frequency of its labels.
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
        "expected", "ood".
    reliability : dict of int to Reliability
        How well the probabilities of the best k labels are calibrated.
    reliability_rare : dict of int to Reliability, or None
        The same for the rarer half of the best five labels of all inputs. None where the model does not know
        the frequency of its labels.
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
        The OOD p-value of each input, where OOD inputs were given.
    seconds : dict of str to float
        "predict" is the model's part, "judge" is what the tasks took.
    settings : dict
        What the model is, and how large the data are.
    decisions : list of KeptGuarantee
        What the model's policy guarantees: at most 5, 10 and 20 % of each kind of wrong labels, as many
        missed labels, and what the best 5, 10, 20 and 50 labels contain; and what was achieved. Empty without
        a policy, or if it was learned with another search.
    flagged : float or None
        The share of inputs that are flagged as OOD, of which 5 % are expected; None without a policy or OOD
        detector.
    shift : ShiftReport or None
        Whether the inputs are like the held-out ones of the policy, and whether its guarantees were kept;
        None without a policy.
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
    flagged: float | None = None
    shift: ShiftReport | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and dictionaries, as ``hedgerow evaluate --json`` writes them.

        Shares are between 0 and 1; what does not exist for a model is None. Its keys, a dot for each level:

        - ``precision.K``, ``recall.K``, ``ndcg.K``, ``macro_f1.K``, ``psp.K`` for K in 1, 3, 5;
          ``hierarchical.K`` with ``precision``, ``recall`` and ``f1``, where labels have broader terms;
          ``coverage``: for ten groups of labels, rarest first, lists ``lowest``, ``highest`` (frequency in
          training), ``labels``, ``occurrences`` and ``share`` (found among the best five);
        - ``misclassification.MEASURE`` (AUROC), ``misclassification_aupr.MEASURE``, ``aurc.MEASURE``,
          ``risk_coverage.MEASURE.coverage`` and ``.risk``, for MEASURE in variance, total, knowledge, data,
          energy;
        - ``ood.NAME.SCORE`` (AUROC) and ``ood_details.NAME.SCORE`` with ``direction``, ``auroc``, ``aupr``,
          ``fpr95``, ``by_frequency`` and ``roc`` (lists ``false_positive`` and ``true_positive``), for SCORE
          in variance, total, knowledge, joint_energy, expected, ood;
        - ``ece.K``, ``brier.K`` and ``reliability.K`` with ``edges``, ``mean_probability``, ``share_right``
          and ``count`` of each bin; ``ece_rare.K`` and ``reliability_rare.K`` of the rare labels among them;
        - ``long_tail`` with ``mean`` and ``deviation`` of the probability by rank;
          ``by_frequency``: groups with the means of their true labels;
        - ``decisions``: a list of guarantees, where the model has a policy, each with what `Guarantee` has
          (``kind``, ``of``, ``asked``, ``promised``, ``confidence``, ``reached`` on the calibration rows,
          ``words``, ``refused``), with ``achieved`` (the same share here), ``kept`` (whether that is as
          guaranteed) and ``labels`` (accepted or listed per input);
          ``flagged``: the share of inputs flagged as OOD at a false alarm rate of 5 %;
        - ``shift``, where the model has a policy: ``broken`` (a guarantee is broken, or not supported),
          ``shifted``, ``words``, ``log10`` (of the highest test martingale), ``evidence`` by signal, ``kept``
          (a test of each guarantee), ``untested`` (why shift could not be tested, or None);
        - ``seconds`` (in total), ``seconds_by_step.predict`` and ``.judge``, ``settings``.
        """
        ranking, rare = self.ranking, self.reliability_rare
        found_by = self.misclassification
        measures = [*found_by, *(name for name in ("variance", "knowledge") if name not in found_by)]

        def each(value: Callable[[Misclassification], Any]) -> dict[str, Any]:
            return {name: value(found_by[name]) if name in found_by else None for name in measures}

        found = {
            "precision": _by_cut(ranking.precision),
            "recall": _by_cut(ranking.recall),
            "ndcg": _by_cut(ranking.ndcg),
            "macro_f1": _by_cut(ranking.macro_f1),
            "psp": ranking.psp and _by_cut(ranking.psp),
            "hierarchical": _hierarchical(ranking.hierarchical),
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
            "decisions": [of.to_dict() for of in self.decisions],
            "flagged": self.flagged,
            "shift": None if self.shift is None else self.shift.to_dict(),
            "seconds": sum(self.seconds.values()),
            "seconds_by_step": dict(self.seconds),
            "settings": dict(self.settings),
        }
        return cast("dict[str, Any]", _without_nan(found))


def _hierarchical(scores: dict[int, HierarchicalScores] | None) -> dict[str, Any] | None:
    return None if scores is None else {str(k): asdict(of) for k, of in scores.items()}


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
