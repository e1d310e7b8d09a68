"""What is printed, in any encoding: data without mark-up or control characters, progress on stderr."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from hedgerow.deep.extra import is_first

Report = Callable[[float, str], None]
# Control characters, and those that turn the direction of text: they could make a terminal lie.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: object) -> str:
    r"""Make any text safe to print on one line of a terminal.

    Examples
    --------
    >>> plain("a\x1b[2Jb\nc")
    'a\\x1b[2Jb\\nc'
    """
    return _UNSAFE.sub(lambda found: found.group().encode("unicode_escape").decode(), str(text))


def plain_json(line: str) -> str:
    r"""Escape what JSON leaves as it is and a terminal would act on; the meaning of the JSON stays."""
    return _UNSAFE.sub(
        lambda found: found.group() if found.group() == "\n" else f"\\u{ord(found.group()):04x}", line
    )


def cell(text: object, style: str = "") -> Text:
    """Return text for rich that is never read as mark-up."""
    return Text(plain(text), style=style)


def say(text: object, style: str = "") -> None:
    """Print one line on stdout, however long it is."""
    Console(highlight=False).print(cell(text, style), soft_wrap=True)


def announce(text: str) -> None:
    """Print one line on stderr before long work, where somebody watches it."""
    console = Console(stderr=True, highlight=False)
    if is_first() and console.is_terminal:
        console.print(cell(text), soft_wrap=True)


def figures_table(title: str, columns: list[str]) -> Table:
    """A table of figures, whose rows have names."""
    table = Table(title=cell(title, "bold"), box=None, padding=(0, 1), title_justify="left")
    table.add_column("")
    for column in columns:
        table.add_column(cell(column, "dim"), justify="right")
    return table


def shortened(text: str, width: int) -> str:
    """Cut a text at a word to at most `width` columns."""
    text = " ".join(text.split())
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text[:width])
    width = max(1, width - wide)
    return text if len(text) <= width else text[: width - 1].rsplit(" ", 1)[0] + "…"


def print_json(value: Any) -> None:
    """Print one JSON object on stdout."""
    line = json.dumps(value, default=_to_json, ensure_ascii=False)
    print_json_lines(f"{line}\n".encode("utf-8", "backslashreplace"))


def print_json_lines(lines: bytes) -> None:
    """Print JSON on stdout: in UTF-8, whatever the locale says, but on a terminal as it can show it."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "standard output is closed")
    if sys.stdout.isatty():
        sys.stdout.write(plain_json(lines.decode()))
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.flush()
        sys.stdout.buffer.write(lines)
    else:  # text that is kept, such as in a notebook
        sys.stdout.write(lines.decode())


def _to_json(value: Any) -> Any:
    from numpy import generic, ndarray  # help comes without it

    return value.tolist() if isinstance(value, generic | ndarray) else str(value)


def escape_what_streams_lack() -> None:
    """Let stdout and stderr print characters that their encoding lacks as escapes, rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush_output() -> None:
    """Write out what waits for stdout; where that fails, drop it, for Python would try again at its end."""
    try:
        print(end="", flush=True)
    except OSError:
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())
        raise


def print_error(message: str) -> None:
    """Print a failure on one line."""
    print(f"hedgerow: error: {plain(' '.join(message.split()))}", file=sys.stderr)


@contextlib.contextmanager
def show_progress(verbose: bool = False, whole: bool = False) -> Iterator[Report]:
    """Report long work on stderr: as lines if `verbose`, else as a bar if stderr is a terminal, else not.

    What is yielded takes the share of the work that is done, from 0 to 1, and what is being done. With
    `whole`, shares are of all the work; otherwise of what is being done, and each has a bar of its own.
    """
    console = Console(stderr=True)
    if not is_first() or not (verbose or console.is_terminal):
        yield lambda share, what: None
    elif verbose:
        yield _ProgressLines(whole)
    else:
        with _bars(console) as progress:
            yield _ProgressBars(progress, whole)


def _bars(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True)


class _ProgressBars:
    """One visible bar: the time left is estimated from work of the same kind."""

    def __init__(self, progress: Progress, whole: bool) -> None:
        self._progress, self._whole = progress, whole
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, share: float, what: str) -> None:
        key = "" if self._whole else what
        if key not in self._tasks:
            for task in self._tasks.values():
                self._progress.update(task, completed=1.0, visible=False)
            self._tasks[key] = self._progress.add_task("", total=1.0)
        self._progress.update(self._tasks[key], completed=share, description=plain(what))


class _ProgressLines:
    """A line for each new kind of work (what is before a colon), each tenth of it, and each minute."""

    def __init__(self, whole: bool) -> None:
        self._whole = whole
        self._begin = self._told = time.monotonic()
        self._task, self._tenth = "", -1

    def __call__(self, share: float, what: str) -> None:
        task, tenth, now = what.partition(":")[0], math.floor(10 * share), time.monotonic()
        new = task != self._task
        if not (new or tenth > self._tenth or now - self._told >= 60):
            return
        if new and not self._whole:
            self._begin = now
        self._task, self._tenth, self._told = task, tenth, now
        passed = now - self._begin
        left = f", about {_duration(passed * (1 - share) / share)} left" if 0 < share < 1 else ""
        print(f"hedgerow: {plain(task)}: {100 * share:.0f} % done{left}", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
