"""A threshold that follows feedback, so that the long-run share of wrong labels among all is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.isotonic import isotonic_regression

from hedgerow.decisions.given import LADDER, Given
from hedgerow.decisions.risk import as_share
from hedgerow.inputs.parameters import check_integer, check_real

__all__ = ["AdaptiveRatio"]

_RATE = 0.02


@dataclass(frozen=True, eq=False)
class AdaptiveRatio:
    """Adaptive conformal inference for a ratio: of all labels that are accepted, a share is wrong.

    The level is the share that is wrong on held-out inputs with the threshold. An input whose truth is
    learned, with `given` accepted labels of which `wrong` are wrong, moves it by
    ``rate * (target * given - wrong)``. At a level so low that the threshold is infinite nothing is accepted,
    and so nothing would ever be learned again. There the T-th input raises it by
    ``rate * (sqrt(T) - sqrt(T - 1))``, and after some inputs a few labels are tried.

    No input is given more than `most` labels, so the level never falls below
    ``-rate * most * (1 - target)``. It is the sum of its moves. So, whatever the inputs are,

        wrong <= target * given + target / rate + most * (1 - target) + sqrt(T),

    where `wrong` and `given` are those of all T inputs together. Divided by `given`: the share that is wrong
    is at most the target in the long run if the accepted labels are more than some multiple of the square
    root of the inputs, whatever the multiple; if they are fewer, what is wrong beyond the target is a
    vanishing number for each input.

    Objects do not change: `updated` gives the next.

    Attributes
    ----------
    target : float
        The share of wrong labels to keep.
    level : float
        The level now; at first the target.
    rate : float
        How far one wrong label moves it.
    rounds : int
        Inputs whose truth was learned.
    given, wrong : int
        How many labels these were given, and how many of them were wrong.
    most : int
        No input is given more labels than this, its best.
    thresholds, risks : array
        What is chosen from: thresholds, the most cautious first, and the share that is wrong on held-out
        inputs at each, made to rise.

    Examples
    --------
    >>> counts = np.zeros((len(LADDER), 3), dtype=np.int64)
    >>> counts[:, 1], counts[:, 2] = 90, 10  # of 100 inputs with one label each, 10 are wrong
    >>> adaptive = AdaptiveRatio.of_given(Given(counts, 1), target=0.2)
    >>> adaptive.threshold < 0.001, adaptive.updated(given=1, wrong=1).level
    (True, 0.184)
    """

    target: float
    level: float
    rate: float
    rounds: int
    given: int
    wrong: int
    most: int
    thresholds: npt.NDArray[np.float32]
    risks: npt.NDArray[np.float64]

    @classmethod
    def of_given(cls, held_out: Given, target: float, rate: float = _RATE) -> AdaptiveRatio:
        """Begin with what held-out inputs are given at each threshold.

        Parameters
        ----------
        held_out : Given
            Of a policy: ``policy.given``.
        target : float
            The share of all accepted labels that may be wrong.
        rate : float
            How far one wrong label moves the level, such as 0.02.
        """
        check_real("rate", rate, above=0, at_most=1)
        target = as_share("target", target)
        given, wrong = (held_out.counts[::-1] @ of for of in (held_out.given, held_out.wrong))
        shares = wrong / np.maximum(given, 1)
        # Few labels reach the highest thresholds, and chance must not close the way down from there.
        rising = isotonic_regression(shares, sample_weight=np.maximum(given, 1e-9), y_min=0.0, y_max=1.0)
        thresholds = np.concatenate([[np.inf], LADDER[::-1]]).astype(np.float32)
        risks = np.concatenate([[0.0], np.asarray(rising, dtype=np.float64)])
        return cls(target, target, float(rate), 0, 0, 0, held_out.most, thresholds, risks)

    @property
    def threshold(self) -> float:
        """The threshold now: the least cautious whose share on held-out inputs is at most the level."""
        if self.level <= 0:
            return math.inf
        within = int(np.searchsorted(self.risks, self.level, side="right"))
        return float(self.thresholds[max(0, within - 1)])

    def updated(self, given: int, wrong: int) -> AdaptiveRatio:
        """The threshold after one more input whose truth is known.

        Parameters
        ----------
        given : int
            How many labels it was given with the threshold as it was, at most `most`.
        wrong : int
            How many of these are wrong.
        """
        check_integer("given", given, 0)
        check_integer("wrong", wrong, 0)
        if given > self.most or wrong > given:
            raise ValueError(
                f"an input was given {given} labels, {wrong} of them wrong; it can be given {self.most}, and"
                " no more can be wrong than are given"
            )
        if given and math.isinf(self.threshold):
            raise ValueError(f"an input was given {given} labels where the adaptive threshold allows none")
        rounds = self.rounds + 1
        stopped = math.isinf(self.threshold)
        move = math.sqrt(rounds) - math.sqrt(rounds - 1) if stopped else self.target * given - wrong
        return replace(
            self,
            level=min(self._highest, self.level + self.rate * move),
            rounds=rounds,
            given=self.given + int(given),
            wrong=self.wrong + int(wrong),
        )

    @property
    def _highest(self) -> float:
        return max(self.target, float(self.risks[-1]))

    @property
    def share(self) -> float:
        """The share of all labels given so far that were wrong; NaN before the first."""
        return self.wrong / self.given if self.given else math.nan

    @property
    def bound(self) -> float:
        """What that share cannot exceed, whatever the inputs were."""
        if not self.given:
            return 1.0
        slack = self.target / self.rate + self.most * (1 - self.target) + math.sqrt(self.rounds)
        return min(1.0, self.target + slack / self.given)

    def to_dict(self) -> dict[str, float]:
        """What it has learned, without the held-out inputs, to be stored."""
        names = ("target", "rate", "level", "rounds", "given", "wrong", "most")
        return {name: getattr(self, name) for name in names}

    def restored(self, state: Any) -> AdaptiveRatio:
        """The same with what `to_dict` stored, after checking it; another target or rate is refused."""
        if not isinstance(state, Mapping) or set(state) != set(self.to_dict()):
            raise ValueError("the state of the adaptive threshold is not whole")
        for name, value in state.items():
            if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
                raise ValueError(f"the state of the adaptive threshold has {value!r} as {name}")
        before = (self.target, self.rate, self.most)
        if (state["target"], state["rate"], state["most"]) != before:
            raise ValueError(
                "the adaptive threshold was learned for another target, rate or number of labels"
            )
        rounds, given, wrong = (state[name] for name in ("rounds", "given", "wrong"))
        whole = all(isinstance(number, int) for number in (rounds, given, wrong))
        if not whole or not 0 <= wrong <= given <= rounds * self.most:
            raise ValueError("the adaptive threshold was stored with impossible counts")
        level = float(state["level"])
        slack = 1e-6 * (1 + rounds)
        moved = self.target + self.rate * (self.target * given - wrong + math.sqrt(rounds))
        lowest = -self.rate * self.most * (1 - self.target)
        if not lowest - slack <= level <= min(moved, self._highest) + slack:
            raise ValueError("the level of the adaptive threshold does not fit its counts")
        return replace(self, level=level, rounds=rounds, given=given, wrong=wrong)
