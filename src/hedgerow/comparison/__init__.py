"""Whether another model is better, on the same labelled rows, and how it takes the place of the old one."""

from hedgerow.comparison.comparing import compare
from hedgerow.comparison.label_changes import LabelChange
from hedgerow.comparison.promotion import Promotion, promote, rollback
from hedgerow.comparison.results import (
    Comparison,
    ComparisonSettings,
    Difference,
    GroupDifference,
    GuaranteeDifference,
    SeenRows,
)
from hedgerow.comparison.verdict import Verdict

__all__ = [
    "Comparison",
    "ComparisonSettings",
    "Difference",
    "GroupDifference",
    "GuaranteeDifference",
    "LabelChange",
    "Promotion",
    "SeenRows",
    "Verdict",
    "compare",
    "promote",
    "rollback",
]
