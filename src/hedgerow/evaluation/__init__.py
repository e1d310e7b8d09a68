"""How well labels are ranked, how well a score detects, and how far confidence can be trusted."""

from hedgerow.evaluation.confidence import Reliability, RiskCoverage, brier_score, reliability, risk_coverage
from hedgerow.evaluation.hierarchical import HierarchicalScores, hierarchical_scores
from hedgerow.evaluation.ood import Detection, RocCurve, detection, roc_curve_points
from hedgerow.evaluation.ranking import (
    FrequencyCoverage,
    RankingMeasure,
    coverage_by_decile,
    macro_f1_at,
    ndcg_at,
    precision_at,
    propensities,
    psp_at,
    recall_at,
)

__all__ = [
    "Detection",
    "FrequencyCoverage",
    "HierarchicalScores",
    "RankingMeasure",
    "Reliability",
    "RiskCoverage",
    "RocCurve",
    "brier_score",
    "coverage_by_decile",
    "detection",
    "hierarchical_scores",
    "macro_f1_at",
    "ndcg_at",
    "precision_at",
    "propensities",
    "psp_at",
    "recall_at",
    "reliability",
    "risk_coverage",
    "roc_curve_points",
]
