"""Whether new inputs are like the held-out ones, and what to do where they are not."""

from hedgerow.shift.adaptive import AdaptiveThreshold
from hedgerow.shift.adaptive_ratio import AdaptiveRatio
from hedgerow.shift.comparison import Drift, drift
from hedgerow.shift.kept import KeptTest
from hedgerow.shift.martingale import ConformalMartingale
from hedgerow.shift.reference import Reference
from hedgerow.shift.report import Evidence, ShiftReport

__all__ = [
    "AdaptiveRatio",
    "AdaptiveThreshold",
    "ConformalMartingale",
    "Drift",
    "Evidence",
    "KeptTest",
    "Reference",
    "ShiftReport",
    "drift",
]
