"""Promotes and rolls back in children of its own that are killed; prints who answers afterwards.

Arguments: "steps" and a folder; or "moments", a folder, two model files, labelled data, and how many times.
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
from hedgerow.comparison.model_files import ModelFiles
from hedgerow.comparison.promotion import Judge
from hedgerow.comparison.results import ComparisonSettings
from hedgerow.serve.promoting import Promoter

OLD, NEW = b"the old model" * 1000, b"the new model" * 1000
# What Python reports before it changes a name or opens a file.
CHANGES = {"os.rename", "os.link", "os.remove", "os.chmod"}


def in_child(work: Callable[[], Any]) -> str:
    """Do it in a forked process, and say how that ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return "done" if os.WEXITSTATUS(status) == 0 else "another error"


def killed_before(change: int) -> None:
    """Let the process be killed before it changes files for the n-th time, opening for writing included."""
    left = [change]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        opens = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        if event in CHANGES or opens:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1

    sys.addaudithook(watch)


def prepared(path: Path, **others: bytes) -> ModelFiles:
    for file in path.parent.iterdir():
        file.unlink()
    path.write_bytes(OLD)
    files = ModelFiles(path)
    for name, content in others.items():
        getattr(files, name).write_bytes(content)
    return files


def answers(files: ModelFiles, old: bytes, new: bytes) -> str:
    found = files.answering.read_bytes()
    return "old" if found == old else "new" if found == new else "neither"


def whole(files: ModelFiles, *models: bytes) -> bool:
    """Whether whatever has a name is a whole model."""
    files.clean_up()
    if list(files.path.parent.glob("*.candidate.*")):
        return False
    named = (files.path, files.accepted, files.previous, files.refused)
    return all(file.read_bytes() in models for file in named if file.exists())


def kill_at_steps(folder: Path) -> None:
    path = folder / "room" / "used.hedgerow"
    path.parent.mkdir()

    def accept(files: ModelFiles) -> None:
        files.stage(folder / "new")
        files.accept()

    def install(files: ModelFiles) -> None:
        files.stage(folder / "new")
        files.install()

    actions: dict[str, tuple[dict[str, bytes], Callable[[ModelFiles], Any]]] = {
        "begin": ({}, lambda files: [files.stage(), files.begin()]),
        "refuse": ({"accepted": OLD}, lambda files: [files.stage(folder / "new"), files.refuse()]),
        "accept": ({"accepted": OLD, "refused": OLD}, accept),
        "install": ({}, install),
        "install both": ({"accepted": OLD}, install),
        "roll back": ({"accepted": OLD, "previous": NEW}, ModelFiles.roll_back),
        "roll back both": ({"accepted": OLD, "previous": NEW}, lambda files: files.roll_back(also_path=True)),
        "promote refused": ({"accepted": OLD, "refused": NEW}, ModelFiles.promote_refused),
    }
    (folder / "new").write_bytes(NEW)
    for name, (others, act) in actions.items():
        step = 0
        while True:
            files = prepared(path, **others)

            def work(step: int = step, act: Any = act, files: ModelFiles = files) -> None:
                killed_before(step)
                act(files)

            ended = in_child(work)
            if ended == "done":
                break
            print(
                json.dumps([name, step, ended, answers(files, OLD, NEW), whole(files, OLD, NEW)]), flush=True
            )
            step += 1


def kill_at_moments(folder: Path, first: Path, second: Path, data: Path, times: int) -> None:
    path = folder / "room" / "used.hedgerow"
    path.parent.mkdir()
    models = first.read_bytes(), second.read_bytes()
    path.write_bytes(models[0])
    judge = Judge(RowsWanted((data,), threads=1), settings=ComparisonSettings(draws=100))
    draw = random.Random(0)

    def promote_both() -> None:
        promoter = Promoter(path, judge, 1)
        served = promoter.open()
        for model in models[::-1]:
            new = folder / "new"
            new.write_bytes(model)
            new.replace(path)
            served = promoter.consider(served)
            if promoter.files.has_previous:
                served = promoter.roll_back(served)
            if promoter.files.has_refused:
                served = promoter.promote_refused(served)

    def promote_for_ever(delay: float) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the kernel ends the process, as with SIGKILL
        signal.setitimer(signal.ITIMER_REAL, delay)
        while True:
            promote_both()

    def restart() -> None:
        promoter = Promoter(path, judge, 1)
        served = promoter.open()
        if answers(promoter.files, *models) == "neither":
            raise AssertionError("what answers is no whole model")
        promoter.consider(served)

    begin = time.monotonic()
    if in_child(promote_both) != "done":
        raise AssertionError("the models cannot be promoted")
    takes = time.monotonic() - begin
    for number in range(times):
        ended = in_child(lambda: promote_for_ever(draw.uniform(0.001, takes)))
        files = ModelFiles(path)
        found = answers(files, *models)
        sound = whole(files, *models) and in_child(restart) == "done"
        print(json.dumps([number, ended, found, sound]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "steps":
        kill_at_steps(Path(sys.argv[2]))
    else:
        kill_at_moments(*map(Path, sys.argv[2:6]), int(sys.argv[6]))
