"""What can go wrong on the command line, and the exit code for it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator
from enum import IntEnum


class ExitCode(IntEnum):
    """How the process ends; scripts rely on these numbers."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    DATA = 3
    MODEL = 4
    WRITE = 5
    CLUSTER = 6
    SHIFT = 7
    DROPPED = 8
    WORSE = 9
    UNDECIDED = 10
    INTERRUPTED = 130


class Failure(Exception):  # noqa: N818
    """A failure that the user reads as one line."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code

    # Raised on another machine, it travels back with its code.
    def __reduce__(self) -> tuple[type[Failure], tuple[ExitCode, str]]:
        return Failure, (self.code, str(self))


@contextlib.contextmanager
def failing_as(code: ExitCode, *kinds: type[Exception], options: Collection[str] = ()) -> Iterator[None]:
    """Turn exceptions of these kinds (OSError always) into a `Failure` with this exit code.

    `options` are the options of the command, by which messages call parameters of the library.
    """
    try:
        yield
    except Failure:
        raise
    except BrokenPipeError:  # the reader of our output has seen enough
        raise
    except Exception as error:
        if not isinstance(error, (OSError, *kinds)):
            raise
        raise Failure(code, option_words(reason(error), options)) from error


def reason(error: Exception) -> str:
    """Say what an exception means, without Python's decorations."""
    if isinstance(error, OSError) and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def option_words(message: str, options: Collection[str]) -> str:
    """Write parameters of the library as the options that the command has for them.

    Examples
    --------
    >>> option_words("use by='all', or wrong_at_most", {"by", "wrong_at_most"})
    'use --by all, or --wrong-at-most'
    """

    def as_option(found: re.Match[str]) -> str:
        name, equals, value = found.groups()
        if name not in options or not (equals or "_" in name):
            return found.group()
        return f"--{name.replace('_', '-')}" + (f" {value.strip(chr(39))}" if value else "")

    return re.sub(r"(?<![\w-])([a-z_]+)(?:(=)('[^']*'|[\d.]*\d)?)?", as_option, message)
