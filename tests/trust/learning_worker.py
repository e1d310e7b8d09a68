"""Learns from reviews in children of its own that are killed; prints what they left.

Arguments: "changes" or "moments", a model with its records, a queue, held-out rows, and how often to kill.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hedgerow.comparison.held_rows import RowsWanted
from hedgerow.comparison.learning import learn_reviewed
from hedgerow.comparison.promotion import Judge
from hedgerow.comparison.results import ComparisonSettings
from hedgerow.estimators.loading import load
from hedgerow.records.file import beside
from hedgerow.serve.reviews import read_reviewed

# What Python reports before it changes a name or opens a file.
CHANGES = {"os.rename", "os.link", "os.remove", "os.chmod"}


def in_child(work: Callable[[], object]) -> str:
    """Do it in a forked process; gives what it wrote, or the signal that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(writing, str(work()).encode())
            status = 0
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else said


class Desk:
    """A model in a folder of its own, that can be put there again and again, and what it learns from."""

    def __init__(self, base: Path, queue: Path, held: Path) -> None:
        self._base, self._queue = base, queue
        self._judge = Judge(
            RowsWanted((held,), threads=1), "no-worse", ComparisonSettings(margin=90, draws=100)
        )
        self.path = base.with_name("room") / base.name
        self.path.parent.mkdir()

    def begin(self) -> None:
        for file in self.path.parent.iterdir():
            file.unlink()
        for source, target in ((self._base, self.path), (beside(self._base), beside(self.path))):
            target.write_bytes(source.read_bytes())

    def learn(self) -> str:
        lesson = learn_reviewed(self.path, read_reviewed(self._queue), self._judge, threads=1)
        return "nothing new" if lesson.promotion is None else f"promoted: {lesson.promotion.promoted}"

    def look(self) -> int:
        """How many records the model has; fails if model or records are not whole, or not each other's."""
        return len(load(self.path).records().places())

    def killed(self, how: Callable[[], object]) -> None:
        """Learn in a process that `how` prepares to be killed; print how that ended and what comes next."""
        self.begin()
        ended = in_child(lambda: (how(), self.learn())[1])
        left = in_child(self.look)
        goes_on = in_child(self.learn)
        names = sorted(file.name.removeprefix(self.path.name) for file in self.path.parent.iterdir())
        print(json.dumps([ended, left, goes_on, in_child(self.look), names]), flush=True)

    def changes(self, before: Callable[[int], object]) -> None:
        """Call back before this process changes the files beside the model, opening to write included."""
        number = 0
        folder = str(self.path.parent)

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal number
            opens = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
            if (event in CHANGES or opens) and (type(arguments[0]) is int or folder in str(arguments[0])):
                before(number)
                number += 1

        sys.addaudithook(watch)


def kill_at_changes(desk: Desk, times: int) -> None:
    """Kill before changes of files: the first, the last, and others between them."""

    def count() -> int:
        numbers: list[int] = []
        desk.changes(numbers.append)
        desk.learn()
        return len(numbers)

    desk.begin()
    last = int(in_child(count)) - 1

    def kill_before(number: int) -> None:
        desk.changes(lambda now: now == number and os.kill(os.getpid(), signal.SIGKILL))

    for number in sorted({round(place * last / (times - 1)) for place in range(times)}):
        desk.killed(lambda number=number: kill_before(number))


def kill_at_moments(desk: Desk, times: int) -> None:
    """Kill at random moments."""
    desk.begin()
    started = time.monotonic()
    if in_child(desk.learn) != "promoted: True":
        raise AssertionError("the model cannot learn")
    takes = time.monotonic() - started
    draw = random.Random(0)

    def kill_within(delay: float) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the kernel ends the process, as with SIGKILL
        signal.setitimer(signal.ITIMER_REAL, delay)

    for _ in range(times):
        delay = draw.uniform(0.001, takes)
        desk.killed(lambda delay=delay: kill_within(delay))


if __name__ == "__main__":
    ways = {"changes": kill_at_changes, "moments": kill_at_moments}
    ways[sys.argv[1]](Desk(*map(Path, sys.argv[2:5])), int(sys.argv[5]))
