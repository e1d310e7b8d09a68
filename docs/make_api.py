"""Write docs/api.md from the docstrings: `python docs/make_api.py`."""

from __future__ import annotations

import inspect
from pathlib import Path

import hedgerow
import hedgerow.data
import hedgerow.evaluation
import hedgerow.evaluation.tasks
import hedgerow.paper.efficiency
import hedgerow.report

PAGE = Path(__file__).with_name("api.md")
SECTIONS = {
    "Classifiers": (
        hedgerow,
        [
            "HedgerowClassifier",
            "HedgerowTextClassifier",
            "HedgerowTransformerClassifier",
            "TopLabels",
            "load",
        ],
    ),
    "Predictions with doubt": (hedgerow, ["UncertainLabels", "InputUncertainty"]),
    "Calibration and decisions": (
        hedgerow,
        [
            "learn_from_held_out",
            "Learned",
            "Calibration",
            "Policy",
            "Decisions",
            "InputDecision",
            "Costs",
            "Outcome",
            "compare_costs",
            "CostComparison",
        ],
    ),
    "Out-of-distribution inputs": (hedgerow, ["OODScores", "Signals", "OODDetector"]),
    "Votes and what can be read from them": (
        hedgerow,
        ["Votes", "label_uncertainty", "instance_uncertainty", "Measures", "energy", "joint_energy"],
    ),
    "Explanations, questions and imports": (
        hedgerow,
        ["explain", "Explanation", "query", "Queries", "import_pecos"],
    ),
    "Evaluation": (
        hedgerow.evaluation.tasks,
        ["evaluate", "Evaluation", "Ranking", "Misclassification", "OODScore"],
    ),
    "Assessment": (hedgerow, ["judge", "Assessment"]),
    "Efficiency": (
        hedgerow.paper.efficiency,
        ["beam_costs", "BeamCost", "check_theorems", "TheoremChecks"],
    ),
    "Metrics": (
        hedgerow.evaluation,
        [
            "precision_at",
            "recall_at",
            "ndcg_at",
            "psp_at",
            "propensities",
            "macro_f1_at",
            "coverage_by_decile",
            "FrequencyCoverage",
            "detection",
            "Detection",
            "roc_curve_points",
            "RocCurve",
            "risk_coverage",
            "RiskCoverage",
            "reliability",
            "Reliability",
            "brier_score",
        ],
    ),
    "The report page": (
        hedgerow.report,
        [
            "render",
            "Content",
            "Headline",
            "Figure",
            "Series",
            "Example",
            "Prediction",
            "KnownLabel",
            "Setting",
        ],
    ),
    "The label tree": (hedgerow, ["LabelTree"]),
    "Texts": (hedgerow, ["TfidfVectorizer"]),
    "Data": (
        hedgerow.data,
        [
            "read_part",
            "Part",
            "DataError",
            "read_xmc_text",
            "read_jsonl",
            "map_data",
            "write_xmc_text",
            "write_jsonl",
            "write_pecos",
        ],
    ),
}


def entry(name: str, thing: object, level: str) -> list[str]:
    """A heading with the signature, and the docstring as it stands."""
    try:
        signature = str(inspect.signature(thing))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        signature = ""
    lines = [f"{level} `{name}`", ""]
    if signature and not inspect.isclass(thing):
        lines += ["```python", f"{name}{signature}", "```", ""]
    return [*lines, "```text", inspect.getdoc(thing) or "", "```", ""]


def page() -> str:
    """The whole page."""
    lines = ["# API reference", "", "Made from the docstrings by `python docs/make_api.py`.", ""]
    for title, (module, names) in SECTIONS.items():
        lines += [f"## {title}", ""]
        for name in names:
            thing = getattr(module, name)
            lines += entry(name, thing, "###")
            if inspect.isclass(thing):
                own = [
                    (key, value)
                    for key, value in inspect.getmembers(thing, callable)
                    if not key.startswith("_") and key in vars(thing) and not key.endswith("_request")
                ]
                for key, value in own:
                    lines += entry(f"{name}.{key}", value, "####")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
