"""Paired bootstrap: both models are judged on the same rows, drawn again and again with replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Interval", "Pair", "Statistic", "drawn_counts", "paired_intervals", "ratio"]

Floats = npt.NDArray[np.float64]

_BLOCK = 1 << 22  # counts that are in memory at once
_TAILS = (0.025, 0.975)


@dataclass(frozen=True, eq=False)
class Statistic:
    """A figure that is computed from sums over rows: `of_sums` takes a row of sums for each draw."""

    columns: Floats  # (rows, sums)
    of_sums: Callable[[Floats], Floats]

    def value(self) -> float:
        """The figure of all rows, each taken once; NaN where it is not defined."""
        return float(self.of_sums(self.columns.sum(axis=0, keepdims=True))[0])


@dataclass(frozen=True, eq=False)
class Pair:
    """The same figure of two models, on the same rows."""

    old: Statistic
    new: Statistic


@dataclass(frozen=True)
class Interval:
    """The figures of two models, their difference (new - old), and where 95 % of its draws lie."""

    old: float
    new: float
    difference: float
    low: float
    high: float


def ratio(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Statistic:
    """A sum divided by another; rows whose denominator is 0 count for nothing.

    Examples
    --------
    >>> ratio([1.0, 0.0, 1.0], [1, 1, 2]).value()
    0.5
    """
    below = np.asarray(denominator, dtype=np.float64)
    above = np.where(below != 0, np.asarray(numerator, dtype=np.float64), 0.0)
    return Statistic(np.column_stack([above, below]), _divided)


def _divided(sums: Floats) -> Floats:
    above, below = sums.T
    return np.asarray(np.divide(above, below, out=np.full(len(sums), np.nan), where=below != 0))


def drawn_counts(rows: int, draws: int, seed: int) -> Iterator[Floats]:
    """How often each row is drawn, a line for each draw, in blocks."""
    random = np.random.default_rng(seed)
    size = max(1, _BLOCK // max(1, rows))
    for begin in range(0, draws, size):
        number = min(size, draws - begin)
        drawn = random.integers(0, rows, size=(number, rows))
        drawn += np.arange(number)[:, None] * rows
        counts = np.bincount(drawn.ravel(), minlength=number * rows)
        yield counts.reshape(number, rows).astype(np.float64)


def paired_intervals(pairs: Sequence[Pair], draws: int = 2000, seed: int = 0) -> list[Interval]:
    """The interval of each pair's difference, by percentiles; all pairs share the draws.

    A draw in which a figure is not defined is left out of its interval.

    Examples
    --------
    >>> pair = Pair(ratio([0, 1, 1, 0], [1, 1, 1, 1]), ratio([1, 1, 1, 1], [1, 1, 1, 1]))
    >>> paired_intervals([pair])[0]
    Interval(old=0.5, new=1.0, difference=0.5, low=0.0, high=1.0)
    """
    statistics = [one for pair in pairs for one in (pair.old, pair.new)]
    if not statistics:
        return []
    ends = np.cumsum([0, *(one.columns.shape[1] for one in statistics)])
    columns = np.concatenate([one.columns for one in statistics], axis=1)
    sums = np.concatenate([counts @ columns for counts in drawn_counts(len(columns), draws, seed)])
    values = [
        one.of_sums(sums[:, begin:end])
        for one, begin, end in zip(statistics, ends[:-1], ends[1:], strict=True)
    ]
    found = []
    for number, pair in enumerate(pairs):
        differences = values[2 * number + 1] - values[2 * number]
        defined = differences[~np.isnan(differences)]
        low, high = np.quantile(defined, _TAILS).tolist() if defined.size else (np.nan, np.nan)
        old, new = pair.old.value(), pair.new.value()
        found.append(Interval(old, new, new - old, low, high))
    return found
