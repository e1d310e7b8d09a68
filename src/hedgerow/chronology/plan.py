"""What to compare over time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hedgerow.data.times import UNITS, Times
from hedgerow.decisions.goals import Goal
from hedgerow.decisions.risk import as_share

from .periods import Period, by_calendar, by_number, joined_before
from .strategies import Strategy

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """How a stream is cut, which strategies are compared on it, and what is to be guaranteed.

    Parameters
    ----------
    periods : int, default=6
        Cut into so many periods of about equal size. The first one is only learned from.
    unit : {"year", "month"}, optional
        Cut by the calendar instead.
    start : str, optional
        Judge from this time on: all periods that end before it are the first past.
    strategies : tuple of Strategy
        By default all.
    wrong_at_most : float or None, default=0.1
        Guarantee that at most this share of the accepted labels is wrong.
    wrong_of : {"labels", "answered", "inputs"}, default="labels"
        What that is a share of, as of `HedgerowClassifier.decide`.
    missed_at_most : float or None, default=0.2
        Guarantee that at most this share of an input's right labels that the model knows is missed.
    held_out : float, default=0.2
        The share of each past, its end, that calibrates the model and is not trained on.
    seed : int, default=0
        Of the order of records of the same time, and of the halves that calibrate.
    """

    periods: int = 6
    unit: str | None = None
    start: str | None = None
    strategies: tuple[Strategy, ...] = tuple(Strategy)
    wrong_at_most: float | None = 0.1
    wrong_of: str = "labels"
    missed_at_most: float | None = 0.2
    held_out: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.periods, bool) or not isinstance(self.periods, int) or self.periods < 2:
            raise ValueError(f"periods is {self.periods!r}; give 2 or more: the first is only learned from")
        if self.unit is not None and self.unit not in UNITS:
            raise ValueError(f"unit is {self.unit!r}; it must be one of {', '.join(UNITS)}")
        object.__setattr__(self, "strategies", tuple(dict.fromkeys(map(Strategy, self.strategies))))
        if not self.strategies:
            raise ValueError("strategies is empty; give at least one")
        if self.wrong_at_most is not None:
            Goal(wrong_at_most=self.wrong_at_most, wrong_of=self.wrong_of)
        if self.missed_at_most is not None:
            Goal(missed_at_most=self.missed_at_most)
        as_share("held_out", self.held_out)

    def cut(self, times: Times) -> list[Period]:
        """The periods of a stream, in order of time."""
        if self.unit is None:
            found = by_number(times, self.periods, self.seed)
        else:
            found = by_calendar(times, self.unit, self.seed)
        return found if self.start is None else joined_before(found, times, self.start)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings."""
        return asdict(self) | {"strategies": [strategy.value for strategy in self.strategies]}
