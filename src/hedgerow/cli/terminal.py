"""What is printed, in any encoding: data without mark-up or control characters, progress on stderr."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

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


def shortened(text: str, width: int) -> str:
    """Cut a text at a word to at most `width` columns."""
    text = " ".join(text.split())
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text[:width])
    width = max(1, width - wide)
    return text if len(text) <= width else text[: width - 1].rsplit(" ", 1)[0] + "…"


def human_bytes(count: int) -> str:
    """Write a number of bytes for people.

    Examples
    --------
    >>> human_bytes(999), human_bytes(12_345_678)
    ('999 B', '12.3 MB')
    """
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


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
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return value.tolist()
    return str(value)


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
    """Print the one line that tells of a failure."""
    print(f"hedgerow: error: {plain(' '.join(message.split()))}", file=sys.stderr)


@contextlib.contextmanager
def progress_bar(whole: bool = False) -> Iterator[Report]:
    """Show a bar with the time left on stderr; nothing where stderr is no terminal.

    Parameters
    ----------
    whole : bool
        Shares are of the whole work, whatever is being done: there is one bar, and where stderr is no
        terminal a line for each new task, the part of what is being done before a colon.

    Yields
    ------
    callable
        Takes the share of the work that is done, 0 to 1, and what is being done.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _TaskLines() if whole else lambda share, what: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, Any] = {}

        def report(share: float, what: str) -> None:
            if whole:
                if not tasks:
                    tasks[""] = progress.add_task("", total=1.0)
                progress.update(tasks[""], completed=share, description=plain(what))
                return
            # Each kind of work has a bar of its own, so that the time left is guessed from like work.
            if what not in tasks:
                for task in tasks.values():
                    progress.update(task, completed=1.0, visible=False)
                tasks[what] = progress.add_task(plain(what), total=1.0)
            progress.update(tasks[what], completed=share)

        yield report


class _TaskLines:
    """Tells of a long work in lines."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._task = ""

    def __call__(self, share: float, what: str) -> None:
        task = what.partition(":")[0]
        if task == self._task:
            return
        self._task = task
        passed = time.monotonic() - self._begin
        left = f", about {passed * (1 - share) / share / 60:.0f} min left" if share > 0 else ""
        print(f"hedgerow: {100 * share:.0f} % done{left}: {plain(task)}", file=sys.stderr, flush=True)
