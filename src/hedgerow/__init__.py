"""Extreme multi-label classification that knows when it does not know."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.calibration import Calibration
    from hedgerow.decisions import Costs, Decisions, InputDecision
    from hedgerow.deep.estimator import HedgerowTransformerClassifier
    from hedgerow.estimator import HedgerowClassifier, TopLabels
    from hedgerow.evaluation import Evaluation, evaluate
    from hedgerow.explanation import Explanation, explain
    from hedgerow.held_out import Learned, learn_from_held_out
    from hedgerow.judgement import Judgement, judge
    from hedgerow.label_tree import LabelTree
    from hedgerow.outcomes import CostComparison, Outcome, compare_costs
    from hedgerow.pecos_models import import_pecos
    from hedgerow.policy import Policy
    from hedgerow.queries import Queries, query
    from hedgerow.saved_model import load
    from hedgerow.text import TfidfVectorizer
    from hedgerow.text_estimator import HedgerowTextClassifier
    from hedgerow.uncertain_labels import InputUncertainty, UncertainLabels
    from hedgerow.uncertainty import (
        Measures,
        energy,
        instance_uncertainty,
        joint_energy,
        label_uncertainty,
    )
    from hedgerow.unfamiliarity import Familiar, Signals, Unfamiliarity
    from hedgerow.votes import Votes

__version__ = version("hedgerow")

# Loaded when first used: `hedgerow --help` must not wait for scikit-learn.
_HOMES = {
    "Calibration": "hedgerow.calibration",
    "CostComparison": "hedgerow.outcomes",
    "Costs": "hedgerow.decisions",
    "Decisions": "hedgerow.decisions",
    "Evaluation": "hedgerow.evaluation",
    "Explanation": "hedgerow.explanation",
    "Familiar": "hedgerow.unfamiliarity",
    "HedgerowClassifier": "hedgerow.estimator",
    "HedgerowTextClassifier": "hedgerow.text_estimator",
    "HedgerowTransformerClassifier": "hedgerow.deep.estimator",
    "InputDecision": "hedgerow.decisions",
    "InputUncertainty": "hedgerow.uncertain_labels",
    "Judgement": "hedgerow.judgement",
    "LabelTree": "hedgerow.label_tree",
    "Learned": "hedgerow.held_out",
    "Measures": "hedgerow.uncertainty",
    "Outcome": "hedgerow.outcomes",
    "Policy": "hedgerow.policy",
    "Queries": "hedgerow.queries",
    "Signals": "hedgerow.unfamiliarity",
    "TfidfVectorizer": "hedgerow.text",
    "TopLabels": "hedgerow.estimator",
    "UncertainLabels": "hedgerow.uncertain_labels",
    "Unfamiliarity": "hedgerow.unfamiliarity",
    "Votes": "hedgerow.votes",
    "compare_costs": "hedgerow.outcomes",
    "energy": "hedgerow.uncertainty",
    "evaluate": "hedgerow.evaluation",
    "explain": "hedgerow.explanation",
    "import_pecos": "hedgerow.pecos_models",
    "instance_uncertainty": "hedgerow.uncertainty",
    "joint_energy": "hedgerow.uncertainty",
    "judge": "hedgerow.judgement",
    "label_uncertainty": "hedgerow.uncertainty",
    "learn_from_held_out": "hedgerow.held_out",
    "load": "hedgerow.saved_model",
    "query": "hedgerow.queries",
}

__all__ = [
    "Calibration",
    "CostComparison",
    "Costs",
    "Decisions",
    "Evaluation",
    "Explanation",
    "Familiar",
    "HedgerowClassifier",
    "HedgerowTextClassifier",
    "HedgerowTransformerClassifier",
    "InputDecision",
    "InputUncertainty",
    "Judgement",
    "LabelTree",
    "Learned",
    "Measures",
    "Outcome",
    "Policy",
    "Queries",
    "Signals",
    "TfidfVectorizer",
    "TopLabels",
    "UncertainLabels",
    "Unfamiliarity",
    "Votes",
    "__version__",
    "compare_costs",
    "energy",
    "evaluate",
    "explain",
    "import_pecos",
    "instance_uncertainty",
    "joint_energy",
    "judge",
    "label_uncertainty",
    "learn_from_held_out",
    "load",
    "query",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
