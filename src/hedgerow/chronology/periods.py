"""Cuts a stream of records into periods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.data.times import Times

from .stream import Rows

__all__ = ["Period", "TooFewPeriodsError", "by_calendar", "by_number", "joined_before"]

_DRAW = 0x74696D65


class TooFewPeriodsError(ValueError):
    """There are fewer than two periods, so there is no past to learn from or nothing to judge on."""


@dataclass(frozen=True, eq=False)
class Period:
    """Records that follow each other in time, and what to call them.

    Attributes
    ----------
    name : str
        The year or month, or the first and the last time.
    rows : int64 array
        In order of time; records of the same time are in an order drawn at random.
    """

    name: str
    rows: Rows


def by_number(times: Times, periods: int, seed: int) -> list[Period]:
    """Periods of about as many records each; records of the same time are never apart.

    Examples
    --------
    >>> [period.rows.tolist() for period in by_number(Times.of([2001, 2001, 2000, 2003]), 3, seed=0)]
    [[2], [1, 0], [3]]
    """
    order = _ordered(times, seed)
    values = times.values[order]
    _, starts = np.unique(values, return_index=True)
    wanted = np.arange(1, periods) * (len(order) / periods)
    # The change of time that is nearest to where equal parts would begin.
    cuts = sorted({int(starts[np.abs(starts - cut).argmin()]) for cut in wanted} - {0}) if len(starts) else []
    parts = [part for part in np.split(order, cuts) if len(part)]
    return _checked([Period(_span(times, part), part) for part in parts])


def by_calendar(times: Times, unit: str, seed: int) -> list[Period]:
    """A period for each year or month that has records."""
    order = _ordered(times, seed)
    place, names = times.by(unit)
    cuts = np.flatnonzero(np.diff(place[order])) + 1
    return _checked([Period(names[place[part[0]]], part) for part in np.split(order, cuts)])


def joined_before(periods: list[Period], times: Times, start: str) -> list[Period]:
    """The same, with all that ends before `start` as the first period."""
    try:
        first = times.first_of(start)
    except ValueError as error:
        raise TooFewPeriodsError(f"start is {start!r}: {error}") from error
    before = [period for period in periods if times.values[period.rows].max() < first]
    if not before or len(before) == len(periods):
        what = "no record is" if not before else "all records are"
        raise TooFewPeriodsError(f"{what} before {start}; give another start")
    rows = np.concatenate([period.rows for period in before])
    return [Period(_span(times, rows), rows), *periods[len(before) :]]


def _ordered(times: Times, seed: int) -> Rows:
    draw = np.random.default_rng([seed, _DRAW]).random(len(times))
    return np.lexsort((draw, times.values)).astype(np.int64)


def _span(times: Times, rows: Rows) -> str:
    first, last = (times.show(times.values[row]) for row in rows[[0, -1]])
    return first if first == last else f"{first} to {last}"


def _checked(periods: list[Period]) -> list[Period]:
    if len(periods) < 2:
        raise TooFewPeriodsError(
            "all records are of one period, so there is no past to learn from; give records of different"
            " times, or shorter periods"
        )
    return periods
