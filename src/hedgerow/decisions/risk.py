"""Risk control: thresholds whose guarantees hold for further inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from scipy.stats import binom

__all__ = [
    "GRID",
    "RiskCurve",
    "TooFewRows",
    "Unreachable",
    "as_share",
    "fixed_sequence",
    "hoeffding_bentkus",
    "least_risk",
    "rows_needed",
]

Floats = npt.NDArray[np.float64]

# Thresholds on probabilities, even in log-odds. They do not depend on any data, which the tests of a fixed
# sequence need. At the first every candidate is in, at the last none is.
GRID: npt.NDArray[np.float32] = np.concatenate(
    [[0.0], expit(np.arange(-14, 12, 0.03)), [1.0, np.inf]]
).astype(np.float32)

_ROUNDING = 1e-9  # of sums and products that should be equal
_ONE_IN_TEN = 1.2816  # standard deviations
_LEAST = 1e-6  # of shares


class TooFewRows(ValueError):  # noqa: N818
    """There are too few inputs to guarantee anything at this risk."""


class Unreachable(ValueError):  # noqa: N818
    """No threshold keeps the guarantee."""


def as_share(name: str, value: Any) -> float:
    """Refuse what is not between 0 and 1.

    Examples
    --------
    >>> as_share("risk", 1.5)
    Traceback (most recent call last):
        ...
    ValueError: risk is 1.5; it must be above 0 and below 1
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise ValueError(f"{name} is {value!r}; it must be above 0 and below 1")
    if not _LEAST <= float(value) <= 1 - _LEAST:
        raise ValueError(f"{name} is {value!r}; it must differ from 0 and 1 by at least {_LEAST:g}")
    return float(value)


def hoeffding_bentkus(mean: npt.ArrayLike, rows: npt.ArrayLike, risk: float) -> Floats:
    """p-values for "the expected loss is above `risk`", from means of independent losses between 0 and 1.

    If the expected loss is above `risk`, the p-value is at most a with a probability of at most a. It is the
    better of the bounds of Hoeffding, in Chernoff's form, and of Bentkus.

    Examples
    --------
    >>> hoeffding_bentkus([0.0, 0.05, 0.2], 100, 0.1).round(3)
    array([0.   , 0.157, 1.   ])
    """
    found, counts = np.broadcast_arrays(np.asarray(mean, dtype=np.float64), np.asarray(rows, np.float64))
    low = np.minimum(found, risk)
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = np.where(low > 0, low * np.log(low / risk), 0.0)
        divergence += np.where(low < 1, (1 - low) * np.log((1 - low) / (1 - risk)), 0.0)
    hoeffding = np.exp(-counts * divergence)
    # Rounding may lift a sum of thirds above a whole number; that must not count one more.
    bentkus = math.e * binom.cdf(np.ceil(found * counts - 1e-9), counts, risk)
    return np.asarray(np.minimum(np.minimum(hoeffding, bentkus), 1.0))


def least_risk(mean: float, rows: int, level: float) -> float:
    """The lowest expected loss that is shown not to be exceeded, at a level, from a mean of losses.

    Examples
    --------
    >>> round(least_risk(0.2, 1000, 0.1), 3), least_risk(0.0, 0, 0.1)
    (0.224, 1.0)
    """
    low, high = float(mean), 1.0
    for _ in range(30):
        middle = (low + high) / 2
        if 0 < middle < 1 and hoeffding_bentkus(mean, rows, middle) <= level:
            high = middle
        else:
            low = middle
    return high


def rows_needed(risk: float, confidence: float) -> int:
    """How many inputs without any loss show, with this confidence, an expected loss of at most `risk`.

    Examples
    --------
    >>> rows_needed(0.1, 0.9)
    22
    """
    return math.ceil(math.log(1 - confidence) / math.log1p(-risk) - 1e-9)


def fixed_sequence(p_values: npt.ArrayLike, delta: float) -> int:
    """How many hypotheses are rejected if they are tested one after the other, until the first that stays.

    Each is tested at the whole level; any is rejected wrongly with a probability of at most `delta`.

    Examples
    --------
    >>> fixed_sequence([0.01, 0.04, 0.2, 0.01], 0.1)
    2
    """
    kept = np.flatnonzero(~(np.asarray(p_values) <= delta))
    return int(kept[0]) if kept.size else len(np.asarray(p_values))


@dataclass(frozen=True, eq=False)
class RiskCurve:
    """The loss at every ascending threshold, summed over inputs, each of which loses at most `highest`.

    Examples
    --------
    Nine inputs, of which one loses its label at the second threshold:

    >>> curve = RiskCurve(np.array([0.0, 0.5, np.inf], dtype=np.float32), np.array([0.0, 1.0, 9.0]), 9)
    >>> curve.largest(0.1), curve.largest(0.2), curve.largest(0.05)
    (0, 1, None)
    """

    thresholds: npt.NDArray[np.float32]
    totals: Floats
    rows: int
    highest: float = 1.0

    @property
    def losses(self) -> Floats:
        """Mean losses."""
        return self.totals / max(1, self.rows)

    @property
    def bounds(self) -> Floats:
        """What conformal risk control guarantees: the mean loss if one more input loses the most possible."""
        return (self.totals + self.highest) / (self.rows + 1)

    @property
    def ceiling(self) -> float:
        """The least risk that can be guaranteed for losses that rise with the threshold.

        No threshold loses less than the first. If its loss is close to the risk, chance decides whether a
        guarantee seems possible, and the guarantee is then often not kept. So the loss is raised by the
        error that such a share exceeds in one case of ten.
        """
        least = float(self.losses[0])
        high = least + _ONE_IN_TEN * math.sqrt(max(0.0, least * (1 - least)) / max(1, self.rows))
        return max(high, float(self.bounds[0]))

    def largest(self, risk: float) -> int | None:
        """The place of the largest threshold with which a further input loses at most `risk` on average.

        For losses that rise with the threshold. The average is over the inputs here as well as the further
        one. None where no threshold achieves it, or only by chance, see `ceiling`.
        """
        if self.ceiling > risk + 1e-12:
            return None
        within = np.flatnonzero(self.totals + self.highest <= risk * (self.rows + 1) + _ROUNDING)
        return int(within[-1]) if within.size else None

    def smallest(self, risk: float) -> int | None:
        """The same for losses that fall with the threshold: the place of the smallest."""
        within = np.flatnonzero(self.totals + self.highest <= risk * (self.rows + 1) + _ROUNDING)
        return int(within[0]) if within.size else None

    def tested(self, risk: float, confidence: float) -> int | None:
        """The place of the smallest threshold that is shown to lose at most `risk`, testing from above.

        For losses that need not be monotone: with a chance of at least `confidence` over the inputs here,
        the expected loss of a further one is at most `risk` at that threshold and at all above it. None
        where nothing can be shown.
        """
        p_values = hoeffding_bentkus(self.losses[::-1], self.rows, risk)
        passed = fixed_sequence(p_values, 1 - confidence)
        return len(self.totals) - passed if passed else None
