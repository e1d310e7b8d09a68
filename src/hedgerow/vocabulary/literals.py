"""How long a literal may be, and where one of a Turtle file is longer: a parser can take hours for it."""

from __future__ import annotations

import re
from pathlib import Path

from hedgerow.data.errors import DataError

from .names import LONGEST

__all__ = ["refuse_long_literals", "too_long"]

_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_LONGEST_ESCAPE = 10
# What begins a literal does not do so in a URI, in a comment and after a backslash.
_PIECE = re.compile(
    r"""
      "{3} ((?: [^"\\]++ | \\. | "(?!"") )*+) (?:"{3})?
    | '{3} ((?: [^'\\]++ | \\. | '(?!'') )*+) (?:'{3})?
    | " ((?: [^"\\\n\r]++ | \\. )*+) "?
    | ' ((?: [^'\\\n\r]++ | \\. )*+) '?
    | < [^>\n]*+
    | \# [^\n\r]*+
    | \\.
    """,
    re.DOTALL | re.VERBOSE,
)


def refuse_long_literals(path: Path, turtle: str) -> None:
    """Refuse Turtle with a literal that is too long; all other mistakes are left to the parser."""
    for found in _PIECE.finditer(turtle):
        if found.lastindex is None or found.end() - found.start() <= LONGEST:
            continue
        begin, end = found.span(found.lastindex)
        length = end - begin
        if LONGEST < length <= LONGEST * _LONGEST_ESCAPE:
            length -= sum(len(escape) - 1 for escape in _ESCAPE.findall(turtle, begin, end))
        if length > LONGEST:
            raise DataError(path, too_long(), turtle.count("\n", 0, begin) + 1)


def too_long() -> str:
    """What is wrong with a literal that is too long."""
    return f"has a literal of more than {LONGEST:,} characters; shorten or remove it"
