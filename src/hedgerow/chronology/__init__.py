"""Models over time: trained on the past, judged on what came later."""

from .periods import Period, TooFewPeriodsError
from .plan import Plan
from .results import JudgedPeriod, KeptInPeriod, OverTime, PeriodSummary
from .running import over_time
from .strategies import Strategy
from .training import TooFewRecordsError

__all__ = [
    "JudgedPeriod",
    "KeptInPeriod",
    "OverTime",
    "Period",
    "PeriodSummary",
    "Plan",
    "Strategy",
    "TooFewPeriodsError",
    "TooFewRecordsError",
    "over_time",
]
