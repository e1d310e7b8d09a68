"""What mistakes and reviews cost, and which decision on a label costs least."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Costs"]


@dataclass(frozen=True)
class Costs:
    """What mistakes and reviews cost, in any unit.

    Attributes
    ----------
    wrong : float
        A label that is accepted and wrong.
    missed : float
        A true label that is rejected.
    look : float
        A person who reviews one label of one input, and finds out whether it is right.

    Examples
    --------
    >>> Costs(wrong=1, missed=2, look=0.2).thresholds()
    (0.1, 0.8)
    """

    wrong: float = 1.0
    missed: float = 1.0
    look: float = 0.2

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
                raise ValueError(f"the cost {part.name} is {value!r}; it must be a finite number, 0 or more")

    def of_choices(self, probability: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Expected costs of rejecting, reviewing and accepting labels, shape (n, 3)."""
        p = np.asarray(probability, dtype=np.float64)
        return np.stack([p * self.missed, np.full(p.shape, float(self.look)), (1 - p) * self.wrong], axis=-1)

    def thresholds(self) -> tuple[float, float]:
        """Below the first probability labels are rejected, from the second on accepted."""
        even = self.wrong / (self.wrong + self.missed) if self.wrong + self.missed else 0.0
        reject = min(even, self.look / self.missed) if self.missed else even
        accept = max(even, 1 - self.look / self.wrong) if self.wrong else even
        return reject, accept
