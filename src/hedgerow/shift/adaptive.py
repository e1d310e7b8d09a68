"""A threshold that follows feedback, so that the long-run rate of mistakes is kept under any drift."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.decisions.risk import RiskCurve, as_share

__all__ = ["AdaptiveThreshold"]

_RATE = 0.02


@dataclass(frozen=True, eq=False)
class AdaptiveThreshold:
    """Adaptive conformal inference (Gibbs and Candès 2021), for a threshold on probabilities.

    The level is the risk that the threshold has on held-out inputs. After each input whose truth is learned,
    the level rises by ``rate * (target - loss)``: mistakes lower it, their absence raises it. At a level of 0
    or less nothing is risked. So, whatever the inputs are, after T of them

        mean loss <= target + (first level + rate) / (rate * T),

    where losses are between 0 and 1, and there is none at a level of 0 or less. A larger rate follows drift
    faster, and the threshold moves more. The level rises no further than to where nothing more can be risked,
    so that it need not come back from far above; this loosens no bound.

    Objects do not change: `updated` gives the next.

    Attributes
    ----------
    target : float
        The share of mistakes to keep.
    level : float
        The level now; at first the target.
    rate : float
        How far one mistake moves it.
    rounds : int
        Inputs whose truth was learned.
    lost : float
        The sum of their losses.
    thresholds, risks : array
        What is chosen from: thresholds, the most cautious first, and the highest mean loss on held-out inputs
        at each or at a more cautious one.

    Examples
    --------
    >>> curve = RiskCurve(np.array([0.0, 0.5, np.inf], dtype=np.float32), np.array([60.0, 10.0, 0.0]), 100)
    >>> adaptive = AdaptiveThreshold.of_wrong(curve, target=0.2, rate=0.5)
    >>> adaptive.threshold
    0.5
    >>> adaptive.updated(1.0).threshold  # a mistake: nothing is accepted
    inf
    """

    target: float
    level: float
    rate: float
    rounds: int
    lost: float
    thresholds: npt.NDArray[np.float32]
    risks: npt.NDArray[np.float64]

    @classmethod
    def of_wrong(cls, curve: RiskCurve, target: float, rate: float = _RATE) -> AdaptiveThreshold:
        """Follow wrong labels among those accepted: a higher threshold is more cautious.

        Parameters
        ----------
        curve : RiskCurve
            Of a policy, such as ``policy.wrong["probability"]``.
        target : float
            The mean share of an input's accepted labels that may be wrong; 0 if none is accepted.
        rate : float
            How far one mistake moves the level, such as 0.02.
        """
        return cls._first(curve.thresholds[::-1], curve.losses[::-1], target, rate)

    @classmethod
    def of_missed(cls, curve: RiskCurve, target: float, rate: float = _RATE) -> AdaptiveThreshold:
        """Follow right labels that are rejected: a lower threshold is more cautious.

        Labels that no threshold finds are always missed; count them as neither right nor wrong.

        Parameters
        ----------
        curve : RiskCurve
            Of a policy, such as ``policy.missed``.
        target : float
            The mean share of an input's right labels that may be rejected.
        rate : float
            As of `of_wrong`.
        """
        # What is lost at the lowest threshold is lost at all, so it is no reason to choose a lower one.
        return cls._first(curve.thresholds, curve.losses - curve.losses[0], target, rate)

    @classmethod
    def _first(
        cls, thresholds: npt.NDArray[np.float32], losses: npt.NDArray[np.float64], target: float, rate: float
    ) -> AdaptiveThreshold:
        target, rate = as_share("target", target), _number("rate", rate, "above 0 and at most 1")
        if rate == 0:
            raise ValueError(f"rate is {rate!r}; it must be above 0 and at most 1")
        risks = np.maximum.accumulate(np.asarray(losses, dtype=np.float64))
        return cls(target, target, rate, 0, 0.0, np.ascontiguousarray(thresholds), risks)

    @property
    def threshold(self) -> float:
        """The threshold now: the least cautious whose risk on held-out inputs is at most the level."""
        if self.level <= 0:
            return float(self.thresholds[0])
        within = int(np.searchsorted(self.risks, self.level, side="right"))
        return float(self.thresholds[max(0, within - 1)])

    def updated(self, loss: float) -> AdaptiveThreshold:
        """The threshold after one more input whose truth is known.

        Parameters
        ----------
        loss : float
            The share of mistakes on it with the threshold as it was, between 0 and 1.
        """
        loss = _number("loss", loss, "between 0 and 1")
        return replace(
            self,
            level=min(self._most, self.level + self.rate * (self.target - loss)),
            rounds=self.rounds + 1,
            lost=self.lost + loss,
        )

    @property
    def _most(self) -> float:
        return max(self.target, float(self.risks[-1]))

    @property
    def mean_loss(self) -> float:
        """The mean loss so far; NaN before the first."""
        return self.lost / self.rounds if self.rounds else math.nan

    @property
    def bound(self) -> float:
        """What the mean loss so far cannot exceed, whatever the inputs were."""
        if not self.rounds:
            return 1.0
        return min(1.0, self.target + (self.target + self.rate) / (self.rate * self.rounds))

    def to_dict(self) -> dict[str, float]:
        """What it has learned, without the curve, to be stored."""
        return {
            "target": self.target,
            "rate": self.rate,
            "level": self.level,
            "rounds": self.rounds,
            "lost": self.lost,
        }

    def restored(self, state: Any) -> AdaptiveThreshold:
        """The same curve with what `to_dict` stored, after checking it; another target or rate is refused."""
        if not isinstance(state, Mapping) or set(state) != set(self.to_dict()):
            raise ValueError("the state of the adaptive threshold is not whole")
        for name, value in state.items():
            if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
                raise ValueError(f"the state of the adaptive threshold has {value!r} as {name}")
        target, rate, level = (float(state[name]) for name in ("target", "rate", "level"))
        rounds, lost = state["rounds"], float(state["lost"])
        if (target, rate) != (self.target, self.rate):
            raise ValueError(
                f"the adaptive threshold was learned for a target of {target:g} at a rate of {rate:g}"
            )
        if not isinstance(rounds, int) or rounds < 0 or not 0 <= lost <= rounds:
            raise ValueError("the state of the adaptive threshold has impossible counts")
        # All that it was ever moved by.
        moved = self.target + self.rate * (self.target * rounds - lost)
        slack = 1e-6 * (1 + rounds)
        if not -self.rate - slack <= level <= min(moved, self._most) + slack:
            raise ValueError("the level of the adaptive threshold does not fit its losses")
        return replace(self, level=level, rounds=rounds, lost=lost)


def _number(name: str, value: Any, where: str) -> float:
    """Refuse what is not a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"{name} is {value!r}; it must be {where}")
    return float(value)
