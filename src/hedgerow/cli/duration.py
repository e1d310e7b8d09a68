"""Times as people write them on the command line."""

from __future__ import annotations

import re

import typer

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds of a time such as 90s, 10m or 1.5h.

    Examples
    --------
    >>> parse_duration("90s"), parse_duration("1.5h")
    (90.0, 5400.0)
    """
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smh])", text.strip())
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not seconds > 0:
        raise typer.BadParameter(
            f"{text!r:.40} is not a time above 0 in seconds, minutes or hours, such as 90s, 10m or 1.5h"
        )
    return seconds


def say_duration(seconds: float) -> str:
    """A time as people say it.

    Examples
    --------
    >>> say_duration(0.84), say_duration(31), say_duration(605)
    ('0.8 s', '31 s', '10.1 min')
    """
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
