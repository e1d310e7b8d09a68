"""Extreme multi-label classification that knows when it does not know."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.active_learning import Queries, query
    from hedgerow.comparison.comparing import compare
    from hedgerow.comparison.results import Comparison
    from hedgerow.decisions.costs import Costs
    from hedgerow.decisions.outcomes import CostComparison, Outcome, compare_costs
    from hedgerow.decisions.policy import Policy
    from hedgerow.decisions.results import Decisions, InputDecision
    from hedgerow.estimators.features import HedgerowClassifier
    from hedgerow.estimators.fitted import TopLabels
    from hedgerow.estimators.held_out import Learned, learn_from_held_out
    from hedgerow.estimators.loading import load
    from hedgerow.estimators.presets import preset_parameters
    from hedgerow.estimators.text import HedgerowTextClassifier
    from hedgerow.estimators.transformer import HedgerowTransformerClassifier
    from hedgerow.estimators.trials import Trial
    from hedgerow.estimators.tuning import Tuning, tune
    from hedgerow.estimators.updating import UpdateReport
    from hedgerow.evaluation.results import Evaluation
    from hedgerow.evaluation.tasks import evaluate
    from hedgerow.explanation import Explanation, explain
    from hedgerow.familiarity.detector import OODDetector
    from hedgerow.features.tfidf import TfidfVectorizer
    from hedgerow.judge.calibration import Calibration
    from hedgerow.pecos import import_pecos
    from hedgerow.quality.expectation import ExpectedQuality
    from hedgerow.records.file import NoRecordsError
    from hedgerow.records.lineage import Event, Lineage
    from hedgerow.trees.label_tree import LabelTree
    from hedgerow.vocabulary import Name, Vocabulary, VocabularyWarning, read_vocabulary
    from hedgerow.votes.measures import (
        Measures,
        energy,
        instance_uncertainty,
        joint_energy,
        label_uncertainty,
    )
    from hedgerow.votes.predictions import InputUncertainty, UncertainLabels
    from hedgerow.votes.signals import OODScores, Signals
    from hedgerow.votes.truth import Assessment, assess
    from hedgerow.votes.votes import Votes

__version__ = version("hedgerow")

# Loaded when first used: `hedgerow --help` must not wait for scikit-learn.
_HOMES = {
    "Calibration": "hedgerow.judge.calibration",
    "Comparison": "hedgerow.comparison.results",
    "CostComparison": "hedgerow.decisions.outcomes",
    "Costs": "hedgerow.decisions.costs",
    "Decisions": "hedgerow.decisions.results",
    "Evaluation": "hedgerow.evaluation.results",
    "Explanation": "hedgerow.explanation",
    "OODDetector": "hedgerow.familiarity.detector",
    "HedgerowClassifier": "hedgerow.estimators.features",
    "HedgerowTextClassifier": "hedgerow.estimators.text",
    "HedgerowTransformerClassifier": "hedgerow.estimators.transformer",
    "InputDecision": "hedgerow.decisions.results",
    "ExpectedQuality": "hedgerow.quality.expectation",
    "InputUncertainty": "hedgerow.votes.predictions",
    "Assessment": "hedgerow.votes.truth",
    "LabelTree": "hedgerow.trees.label_tree",
    "Learned": "hedgerow.estimators.held_out",
    "Measures": "hedgerow.votes.measures",
    "Outcome": "hedgerow.decisions.outcomes",
    "Policy": "hedgerow.decisions.policy",
    "Queries": "hedgerow.active_learning",
    "Signals": "hedgerow.votes.signals",
    "TfidfVectorizer": "hedgerow.features.tfidf",
    "TopLabels": "hedgerow.estimators.fitted",
    "Trial": "hedgerow.estimators.trials",
    "Tuning": "hedgerow.estimators.tuning",
    "Event": "hedgerow.records.lineage",
    "Lineage": "hedgerow.records.lineage",
    "NoRecordsError": "hedgerow.records.file",
    "UpdateReport": "hedgerow.estimators.updating",
    "UncertainLabels": "hedgerow.votes.predictions",
    "OODScores": "hedgerow.votes.signals",
    "Name": "hedgerow.vocabulary",
    "Vocabulary": "hedgerow.vocabulary",
    "VocabularyWarning": "hedgerow.vocabulary",
    "Votes": "hedgerow.votes.votes",
    "compare": "hedgerow.comparison.comparing",
    "compare_costs": "hedgerow.decisions.outcomes",
    "energy": "hedgerow.votes.measures",
    "evaluate": "hedgerow.evaluation.tasks",
    "explain": "hedgerow.explanation",
    "import_pecos": "hedgerow.pecos",
    "instance_uncertainty": "hedgerow.votes.measures",
    "joint_energy": "hedgerow.votes.measures",
    "assess": "hedgerow.votes.truth",
    "label_uncertainty": "hedgerow.votes.measures",
    "learn_from_held_out": "hedgerow.estimators.held_out",
    "load": "hedgerow.estimators.loading",
    "preset_parameters": "hedgerow.estimators.presets",
    "query": "hedgerow.active_learning",
    "read_vocabulary": "hedgerow.vocabulary",
    "tune": "hedgerow.estimators.tuning",
}

__all__ = [
    "Assessment",
    "Calibration",
    "Comparison",
    "CostComparison",
    "Costs",
    "Decisions",
    "Evaluation",
    "Event",
    "ExpectedQuality",
    "Explanation",
    "HedgerowClassifier",
    "HedgerowTextClassifier",
    "HedgerowTransformerClassifier",
    "InputDecision",
    "InputUncertainty",
    "LabelTree",
    "Learned",
    "Lineage",
    "Measures",
    "Name",
    "NoRecordsError",
    "OODDetector",
    "OODScores",
    "Outcome",
    "Policy",
    "Queries",
    "Signals",
    "TfidfVectorizer",
    "TopLabels",
    "Trial",
    "Tuning",
    "UncertainLabels",
    "UpdateReport",
    "Vocabulary",
    "VocabularyWarning",
    "Votes",
    "__version__",
    "assess",
    "compare",
    "compare_costs",
    "energy",
    "evaluate",
    "explain",
    "import_pecos",
    "instance_uncertainty",
    "joint_energy",
    "label_uncertainty",
    "learn_from_held_out",
    "load",
    "preset_parameters",
    "query",
    "read_vocabulary",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
