"""The process beside the server that learns from reviews: ``python -m hedgerow.serve.learning_worker``.

It reads its task from stdin, one line of JSON, and ends when stdin does: it never outlives the server.
On stdout it says how far it is, and at the end what came of it, as lines of JSON.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from hedgerow.comparison.held_rows import RowsWanted
from hedgerow.comparison.learning import learn_reviewed
from hedgerow.comparison.promotion import Judge
from hedgerow.comparison.results import ComparisonSettings

from .reviews import read_reviewed

__all__ = ["Task"]

_NICENESS = 10  # what the server answers comes first
_STEP = 0.01  # of the share that is said


@dataclass(frozen=True)
class Task:
    """The model that is to learn, the queue with the reviews, and what decides on the result."""

    model: Path
    queue: Path
    judge: Judge
    threads: int

    def to_line(self) -> bytes:
        """One line of JSON."""
        return orjson.dumps(asdict(self), default=str, option=orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def from_line(cls, line: bytes) -> Task:
        """Take back what `to_line` gave."""
        told = orjson.loads(line)
        judge = told["judge"]
        rows = judge["rows"] | {"paths": tuple(map(Path, judge["rows"]["paths"]))}
        return cls(
            Path(told["model"]),
            Path(told["queue"]),
            Judge(RowsWanted(**rows), judge["target"], ComparisonSettings(**judge["settings"])),
            told["threads"],
        )


class _Reporter:
    """Writes lines: when a stage begins, and when more of its work is done."""

    def __init__(self) -> None:
        self._stage, self._what, self._share = "", "", 0.0

    def enter(self, stage: str) -> None:
        self._stage, self._what, self._share = stage, "", 0.0
        say({"stage": stage, "share": 0.0})

    def advance(self, share: float, what: str) -> None:
        if what != self._what or share >= self._share + _STEP:
            self._what, self._share = what, share
            say({"stage": self._stage, "share": share})


def say(line: dict[str, Any]) -> None:
    """Write a line of JSON at once."""
    sys.stdout.buffer.write(orjson.dumps(line, default=str, option=orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


def main() -> int:
    """Learn, and say what came of it."""
    os.nice(_NICENESS)
    task = Task.from_line(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_server, daemon=True).start()
    reporter = _Reporter()
    try:
        lesson = learn_reviewed(
            task.model,
            read_reviewed(task.queue),
            task.judge,
            threads=task.threads,
            progress=reporter.advance,
            entered=reporter.enter,
        )
    except Exception as error:  # whatever is wrong, the model is as it was, and the server says why
        say({"failed": str(error) or type(error).__name__})
        return 1
    say({"lesson": lesson.to_dict()})
    return 0


def _end_with_server() -> None:
    """The server keeps stdin open as long as it wants the result; a kill does no harm."""
    sys.stdin.buffer.read()
    signal.raise_signal(signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
