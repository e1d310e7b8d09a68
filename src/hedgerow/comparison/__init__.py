"""Whether another model is better, on the same labelled rows, and how it takes the place of the old one."""

from hedgerow.comparison.comparing import compare
from hedgerow.comparison.held_rows import RowsWanted
from hedgerow.comparison.label_changes import LabelChange
from hedgerow.comparison.promotion import Judge, Promotion, promote, rollback
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
    "Judge",
    "LabelChange",
    "Promotion",
    "RowsWanted",
    "SeenRows",
    "Verdict",
    "compare",
    "promote",
    "rollback",
]
