"""What a policy in a model file must be like."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.decisions.risk import RiskCurve

__all__ = [
    "BEST",
    "CAP",
    "RANKS",
    "WITHHELD",
    "check_thresholds",
    "checked_curve",
    "checked_ranks",
    "is_whole",
]

CAP = 100  # labels in a set whose size is guaranteed
BEST = 100  # labels at the top of which it is known how many right ones they contain
RANKS: npt.NDArray[np.float32] = np.arange(1, BEST + 1, dtype=np.float32)
WITHHELD = "withheld."  # the beginning of names of curves


def is_whole(value: Any) -> bool:
    """Whether something is a whole number, 0 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def check_thresholds(thresholds: npt.NDArray[Any]) -> None:
    """Refuse what are no ascending thresholds."""
    if thresholds.dtype != np.float32 or thresholds.ndim != 1 or not 2 < len(thresholds) <= 4096:
        raise ValueError("the thresholds of the policy are not a vector of floats")
    inner = thresholds[:-1]
    if thresholds[-1] != np.inf or inner[0] != 0 or not (inner <= 1).all() or not (np.diff(inner) > 0).all():
        raise ValueError("the thresholds of the policy do not ascend from 0")


def checked_ranks(totals: npt.NDArray[Any], rows: int) -> RiskCurve:
    """The losses of the best labels, after checking them."""
    slack = 1e-6 * max(1, rows)
    if totals.dtype != np.float64 or totals.shape != RANKS.shape or not np.isfinite(totals).all():
        raise ValueError("the losses of the best labels of the policy have the wrong type or number")
    if totals.min() < -slack or totals.max() > rows + slack or np.diff(totals).max() > slack:
        raise ValueError("the policy has impossible losses of the best labels")
    return RiskCurve(RANKS, totals, rows)


def checked_curve(
    name: Any, thresholds: npt.NDArray[np.float32], totals: npt.NDArray[Any], rows: Any, highest: Any
) -> RiskCurve:
    """A curve of a file, after checking it."""
    if not isinstance(name, str) or not is_whole(rows) or highest != (CAP if name == "size" else 1):
        raise ValueError("the policy has a curve with an impossible name, size or maximum")
    # Rounding: sums of shares may be slightly off.
    slack = 1e-6 * max(1, rows)
    if not np.isfinite(totals).all() or totals.min() < -slack or totals.max() > rows * highest + slack:
        raise ValueError(f"the curve {name!r} of the policy has impossible losses")
    rising = name in ("missed",) or name.startswith(("group.", WITHHELD))
    steps = np.diff(totals)
    if (rising and steps.min() < -slack) or (name == "size" and steps.max() > slack):
        raise ValueError(f"the curve {name!r} of the policy is not monotone")
    return RiskCurve(thresholds, totals, rows, float(highest))
