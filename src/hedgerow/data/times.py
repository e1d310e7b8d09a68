"""The time of records: dates, years or numbers, all of one kind."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, Self

import numpy as np
import numpy.typing as npt

__all__ = ["UNITS", "TimeCollector", "TimeError", "TimeKind", "Times", "check_time"]

UNITS = {"year": "Y", "month": "M"}
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?")
_MONTH = re.compile(r"([0-9]{4})-([0-9]{2})")
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_KNOWN = "a date such as 2019-03-31, a month (2019-03), a year, a number or a time such as 2019-03-31T12:00"


class TimeKind(StrEnum):
    """What times are given as."""

    NUMBER = "a number or year"
    MONTH = "a month"
    DAY = "a date"
    MOMENT = "a date with a time"
    ZONED = "a date with a time and a time zone"


class TimeError(ValueError):
    """A value that is no time, or no time of the same kind as the others."""


@dataclass(frozen=True, eq=False)
class Times:
    """When each record is from.

    Attributes
    ----------
    kind : TimeKind
        What all times are given as.
    values : float64 or int64 array, shape (n,)
        The numbers themselves, or microseconds since 1970, of times with a zone in UTC.
    """

    kind: TimeKind
    values: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of(cls, values: Iterable[Any]) -> Self:
        """Times from values as records have them: numbers, strings, dates.

        Examples
        --------
        >>> times = Times.of(["2019-03-31", "2018-01-01"])
        >>> times.show(times.values.min())
        '2018-01-01'
        """
        collector = TimeCollector()
        for row, value in enumerate(values):
            try:
                collector.add(value)
            except TimeError as error:
                raise TimeError(f"times[{row}]: {error}") from error
        return cls(collector.kind or TimeKind.NUMBER, collector.values())

    @classmethod
    def concatenate(cls, parts: Iterable[Times]) -> Times:
        """The times of several files, one after the other."""
        found = [part for part in parts if len(part)]
        kinds = list(dict.fromkeys(part.kind for part in found))
        if len(kinds) > 1:
            raise TimeError(
                f"the time is {kinds[0]} in one file and {kinds[1]} in another; write all of them alike"
            )
        if not found:
            return Times(TimeKind.NUMBER, np.zeros(0))
        return Times(kinds[0], np.concatenate([part.values for part in found]))

    def show(self, value: float) -> str:
        """One of the values as people write it."""
        if self.kind is TimeKind.NUMBER:
            return str(int(value)) if float(value).is_integer() else repr(float(value))
        moment = _EPOCH + int(value) * _MICROSECOND
        if self.kind is TimeKind.MONTH:
            return moment.strftime("%Y-%m")
        if self.kind is TimeKind.DAY:
            return moment.date().isoformat()
        return moment.isoformat(timespec="auto") + ("Z" if self.kind is TimeKind.ZONED else "")

    def first_of(self, start: str) -> float:
        """The first value that is not before `start`, which may be a year or month where times are finer."""
        return _bounds(start, self.kind)[0]

    def by(self, unit: str) -> tuple[npt.NDArray[np.int64], list[str]]:
        """The number of each record's calendar year or month, from 0 on, and what these are called."""
        if self.kind is TimeKind.NUMBER:
            whole = self.values == np.floor(self.values)
            odd = ~(whole & (self.values >= 1) & (self.values <= 9999))
            if unit != "year" or odd.any():
                value = self.show(float(self.values[odd][0] if odd.any() else self.values[0]))
                raise TimeError(
                    f"{value} is not a date, so it has no {unit}; give a number of periods, or write dates"
                )
            codes, place = np.unique(self.values.astype(np.int64), return_inverse=True)
            return place.astype(np.int64), [str(code) for code in codes.tolist()]
        calendar = self.values.astype("datetime64[us]").astype(f"datetime64[{UNITS[unit]}]")
        codes, place = np.unique(calendar, return_inverse=True)
        return place.astype(np.int64), [str(code) for code in codes]


class TimeCollector:
    """Collects times one by one; those after `until` are not wanted."""

    def __init__(self, until: str | None = None) -> None:
        self.kind: TimeKind | None = None
        self._first: Any = None
        self._values: list[float] = []
        self._until = until
        self._end = math.inf  # the first value that is not wanted
        self.later = 0

    def add(self, value: object) -> bool:
        """Add a time, and return whether it is wanted; raise TimeError where it is none."""
        kind, number = _parsed(value)
        if self.kind is None:
            self.kind, self._first = kind, value
            if self._until is not None:
                self._end = _bounds(self._until, kind)[1]
        elif kind is not self.kind:
            raise TimeError(
                f"{value!r:.60} is {kind.value}, but the first record has {self._first!r:.60}, which is"
                f" {self.kind.value}; write all of them alike"
            )
        if number >= self._end:
            self.later += 1
            return False
        self._values.append(number)
        return True

    def values(self) -> npt.NDArray[Any]:
        """All that are wanted."""
        exact = self.kind in (None, TimeKind.NUMBER)
        return np.array(self._values, dtype=np.float64 if exact else np.int64)


def check_time(text: str) -> None:
    """Raise TimeError where a text is no time at all."""
    _parsed(text)


def _parsed(value: object) -> tuple[TimeKind, float]:
    """What a value is, and a number that puts it in order."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()  # None where it is not a time
    if value is None or type(value).__name__ in ("NaTType", "NAType") or value == "":
        raise TimeError(f"it is missing; give {_KNOWN}, or leave the record out")
    if isinstance(value, str):
        return _parsed_text(value.strip())
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return TimeKind.MOMENT, _microseconds(value)
        return TimeKind.ZONED, _microseconds(value.astimezone(UTC).replace(tzinfo=None))
    if isinstance(value, date):
        return TimeKind.DAY, _microseconds(datetime(value.year, value.month, value.day))
    if isinstance(value, bool | list | dict) or not hasattr(value, "__float__"):
        raise TimeError(f"{value!r:.60} is not a time; give {_KNOWN}")
    number = float(value)
    if not math.isfinite(number):
        raise TimeError(f"{value!r:.60} is not a time; give {_KNOWN}, or leave the record out")
    return TimeKind.NUMBER, number


def _parsed_text(text: str) -> tuple[TimeKind, float]:
    if _NUMBER.fullmatch(text):
        number = float(text)
        if math.isfinite(number):
            return TimeKind.NUMBER, number
    try:
        if month := _MONTH.fullmatch(text):
            return TimeKind.MONTH, _microseconds(datetime(int(month[1]), int(month[2]), 1))
        if len(text) == len("2019-03-31"):
            return _parsed(date.fromisoformat(text))
        return _parsed(datetime.fromisoformat(text))
    except TimeError:
        raise
    except (ValueError, OverflowError):
        raise TimeError(f"{text!r:.60} is not a time; give {_KNOWN}") from None


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _bounds(text: str, kind: TimeKind) -> tuple[float, float]:
    """The first time of a year, month, day or moment, and the first one after it, as values of a kind."""
    given, number = _parsed(text)
    if kind is TimeKind.NUMBER and given is TimeKind.NUMBER:
        return number, math.nextafter(number, math.inf)
    years = given is TimeKind.NUMBER and number.is_integer() and 1 <= number < 9999
    if kind is TimeKind.NUMBER or (given is TimeKind.NUMBER and not years):
        raise TimeError(
            f"{text!r:.60} is {given.value}, but the first record has {kind.value}; write both alike"
        )
    if years:
        return _microseconds(datetime(int(number), 1, 1)), _microseconds(datetime(int(number) + 1, 1, 1))
    begin = _EPOCH + int(number) * _MICROSECOND
    if given is TimeKind.MONTH:
        end = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
    else:
        end = begin + (timedelta(days=1) if given is TimeKind.DAY else _MICROSECOND)
    return _microseconds(begin), _microseconds(end)
