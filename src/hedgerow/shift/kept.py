"""Whether a guarantee was kept where the truth is known: a one-sided test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from hedgerow.decisions.risk import hoeffding_bentkus

__all__ = ["FALSE_ALARM", "Achieved", "KeptTest", "kept_tests"]

FALSE_ALARM = 0.01  # of all guarantees together


@dataclass(frozen=True)
class Achieved:
    """A guarantee and what came of it: a mean over `rows` inputs of a loss between 0 and 1.

    Of the `labels`, at most the share that was `asked` was to have this `fate`. What is a ratio of two means
    brings its `p_value`: how likely so much or more is if it was kept.
    """

    labels: str
    fate: str
    asked: float
    reached: float
    rows: int
    p_value: float | None = None


@dataclass(frozen=True)
class KeptTest:
    """A guarantee, what came of it, and how likely that is if it was kept.

    `p_value` is that of the loss that was reached or a higher one, if new inputs are like the held-out ones:
    both samples are counted, those that set the threshold and the new ones. Of a ratio it is one over what
    bets against the guarantee made of the capital on the new ones. `broken` is decided for all
    guarantees together, with a chance of at most 1 % of saying so wrongly.
    """

    labels: str
    fate: str
    asked: float
    reached: float
    rows: int
    p_value: float
    broken: bool

    @property
    def sentence(self) -> str:
        """What was guaranteed and what came of it."""
        said = f"at most {100 * self.asked:.3g} % of {self.labels} were to be {self.fate}"
        return f"{said}, and {100 * self.reached:.1f} % are (one-sided test, p = {self.p_value:.1g})"


def kept_tests(achieved: Sequence[Achieved], held_out: int) -> tuple[KeptTest, ...]:
    """Test guarantees whose thresholds were set on `held_out` inputs, against what came of them.

    A threshold was chosen because the held-out inputs lost little enough with it. Where the expected loss is
    above what was asked by some slack, they would do so only with a chance that the bound of Hoeffding and
    Bentkus gives; and the new inputs lose more than the same expected loss by another such chance. The
    p-value is the least sum of the two at any slack where both are equal. Losses that are not shares, and
    thresholds that were chosen otherwise, need another test; ratios bring the p-value of theirs. That is
    about new inputs alone: such a guarantee holds with a confidence, and where the held-out inputs were of
    the unlucky kind, to say that it is broken is right.

    Examples
    --------
    >>> found = [Achieved("labels", "wrong", 0.1, reached, 500) for reached in (0.12, 0.3)]
    >>> [test.broken for test in kept_tests(found, 500)]
    [False, True]
    """
    tests = []
    level = FALSE_ALARM / max(1, len(achieved))
    for one in achieved:
        p_value = _p_value(one, held_out) if one.p_value is None else one.p_value
        tests.append(KeptTest(**vars(one) | {"p_value": p_value}, broken=bool(p_value <= level)))
    return tuple(tests)


def _p_value(of: Achieved, held_out: int) -> float:
    if not of.rows or not np.isfinite(of.reached) or of.reached <= of.asked:
        return 1.0

    def chances(between: float) -> tuple[float, float]:
        """That held-out inputs lose so little, and new ones so much, with an expected loss in between."""
        before = _tail(of.asked, held_out, between)
        after = _tail(1 - of.reached, of.rows, 1 - between)
        return before, after

    def difference(between: float) -> float:
        before, after = chances(between)
        return before - after

    low, high = of.asked + 1e-9, of.reached - 1e-9
    if low >= high:
        return 1.0
    if difference(high) > 0:  # the held-out inputs say nothing of losses so close
        return min(1.0, sum(chances(high)))
    if difference(low) < 0:
        return min(1.0, sum(chances(low)))
    return min(1.0, sum(chances(float(brentq(difference, low, high, xtol=1e-6)))))


def _tail(mean: float, rows: int, expected: float) -> float:
    """The bound on the chance that the mean loss of inputs is so low."""
    found: npt.NDArray[np.float64] = hoeffding_bentkus([mean], rows, expected)
    return float(found[0])
