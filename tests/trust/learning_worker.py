"""Learns from reviews in children of its own that are killed; prints what they left.

Arguments: a folder with a model and its records, a queue, held-out rows, and how often to kill.
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

from hedgerow.comparison.held_rows import RowsWanted
from hedgerow.comparison.learning import learn_reviewed
from hedgerow.comparison.promotion import Judge
from hedgerow.comparison.results import ComparisonSettings
from hedgerow.estimators.loading import load
from hedgerow.records.file import beside
from hedgerow.serve.reviews import read_reviewed


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


def kill_at_moments(base: Path, queue: Path, held: Path, times: int) -> None:
    path = base.with_name("room") / base.name
    path.parent.mkdir()
    judge = Judge(RowsWanted((held,), threads=1), "no-worse", ComparisonSettings(margin=90, draws=100))
    draw = random.Random(0)

    def begin() -> None:
        for file in path.parent.iterdir():
            file.unlink()
        for source, target in ((base, path), (beside(base), beside(path))):
            target.write_bytes(source.read_bytes())

    def learn() -> str:
        lesson = learn_reviewed(path, read_reviewed(queue), judge, threads=1)
        return "nothing new" if lesson.promotion is None else f"promoted: {lesson.promotion.promoted}"

    def learn_until(delay: float) -> str:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the kernel ends the process, as with SIGKILL
        signal.setitimer(signal.ITIMER_REAL, delay)
        return learn()

    def look() -> int:
        """How many records the model has; fails if model or records are not whole, or not each other's."""
        return len(load(path).records().places())

    begin()
    started = time.monotonic()
    if in_child(learn) != "promoted: True":
        raise AssertionError("the model cannot learn")
    takes = time.monotonic() - started
    begin()
    for number in range(times):
        ended = in_child(lambda: learn_until(draw.uniform(0.001, takes)))
        left = in_child(look)
        goes_on = in_child(learn)
        names = sorted(file.name.removeprefix(path.name) for file in path.parent.iterdir())
        print(json.dumps([number, ended, left, goes_on, in_child(look), names]))
        begin()


if __name__ == "__main__":
    kill_at_moments(*map(Path, sys.argv[1:4]), int(sys.argv[4]))
