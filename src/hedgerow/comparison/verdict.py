"""Better, no worse, worse, or undecided: one word for a difference and its interval."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from hedgerow.comparison.bootstrap import Interval

__all__ = ["LEAST_ROWS", "PROMOTE_IF", "VERDICTS", "Verdict", "verdict_of"]

VERDICTS = ("better", "no worse", "worse", "undecided")
PROMOTE_IF = ("better", "no-worse")
LEAST_ROWS = 100  # with fewer, too many models that are worse are called no worse

_MOST_NEEDED = 1e9


@dataclass(frozen=True)
class Verdict:
    """What a comparison says in the end, by one measure.

    Attributes
    ----------
    word : {"better", "no worse", "worse", "undecided"}
        "better": the interval of the difference is above 0. "no worse": its lower end is not below the
        margin. "worse": it is below 0, and its lower end below the margin. "undecided": anything else, and
        fewer than 100 rows.
    words : str
        The same in a sentence, with the numbers behind it.
    measure : str
        What decides, such as "ndcg@5".
    margin : float
        How much worse still counts as no worse, in points (1 point is 0.01 of a share).
    needed : int or None
        About how many rows would decide; None where it is decided, or where no number can be named.
    """

    word: str
    words: str
    measure: str
    margin: float
    needed: int | None = None

    def meets(self, target: str) -> bool:
        """Whether this is enough for a target: "better", or "no-worse", which "better" meets, too."""
        if target not in PROMOTE_IF:
            raise ValueError(f"the target is {target!r}; it must be one of {', '.join(PROMOTE_IF)}")
        return self.word == "better" or (target == "no-worse" and self.word == "no worse")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings."""
        return asdict(self)


def verdict_of(measure: str, interval: Interval, margin: float, rows: int) -> Verdict:
    """The verdict on the difference of a measure, of which more is better, from this many rows.

    Examples
    --------
    >>> verdict_of("ndcg@5", Interval(0.5, 0.51, 0.01, -0.004, 0.024), 0.5, 1000).word
    'no worse'
    """
    most_lost = margin / 100
    if rows < LEAST_ROWS:
        words = f"undecided: {rows:,} rows are too few, at least {LEAST_ROWS} are needed"
        return Verdict("undecided", words, measure, margin, LEAST_ROWS)
    figures = (
        f"{measure} {'rises' if interval.difference >= 0 else 'falls'} by"
        f" {100 * abs(interval.difference):.2f} points ({100 * interval.low:+.2f} to"
        f" {100 * interval.high:+.2f} with 95 % confidence)"
    )
    if interval.low > 0:
        return Verdict("better", f"better: {figures}", measure, margin)
    if interval.low >= -most_lost:
        words = f"no worse: {figures}, and {margin:g} points may be lost"
        return Verdict("no worse", words, measure, margin)
    if interval.high < 0:
        return Verdict("worse", f"worse: {figures}", measure, margin)
    needed = _needed(interval, most_lost, rows)
    more = (
        "the difference is so close to the limit that no number of rows can be named"
        if needed is None
        else f"about {needed:,} would be needed"
    )
    words = f"undecided: too few rows, {more}; {figures}, and {margin:g} points may be lost"
    return Verdict("undecided", words, measure, margin, needed)


def _needed(interval: Interval, most_lost: float, rows: int) -> int | None:
    """How many rows would decide if the difference stayed: intervals shrink with the root of their number."""
    difference = interval.difference
    # The lower end must come up to the margin, or the upper end down to 0, whichever is sooner.
    ways = ((difference - interval.low, difference + most_lost), (interval.high - difference, -difference))
    times = [(wide / narrow) ** 2 for wide, narrow in ways if narrow > 0 and math.isfinite(wide)]
    needed = max(rows + 1, rows * min(times, default=math.inf))
    if needed > _MOST_NEEDED:
        return None
    unit = int(10 ** max(0, math.floor(math.log10(needed)) - 1))
    return math.ceil(needed / unit) * unit
