"""Saves, trains and loads in children of its own while the shim makes calls fail; prints what became of each.

Arguments: the task; a folder; two model files that differ; how many cases, 0 for all. One line of JSON for
each case: what was done, where, what became of the child, what a reader sees afterwards, files left over.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import hedgerow
from hedgerow import HedgerowTextClassifier
from hedgerow.cli import main
from hedgerow.estimators import updating
from hedgerow.storage.container import ModelFileError

sys.path.insert(0, str(Path(__file__).parent.parent))
from whole_model import some_texts

KILL_BEFORE, KILL_AFTER, NO_SPACE, INPUT_OUTPUT, SHORT, NO_MEMORY = range(1, 7)
CLEAN, DIRTY, RAISED, BLAMED = range(4)  # what a child ends with
shim = ctypes.CDLL(None)
shim.fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long]
shim.fault_calls.restype = ctypes.c_long


def in_child(work: Callable[[], Any], allowed: tuple[type[BaseException], ...] = ()) -> str:
    """Do it in a forked process, and say how that ended."""
    child = os.fork()
    if child == 0:
        status = DIRTY
        try:
            work()
            status = CLEAN
        except allowed:
            status = RAISED
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return ["done", "another error", "refused", "called damaged"][os.WEXITSTATUS(status)]


def seen_by_a_reader(target: Path, old: bytes, new: bytes) -> str:
    found = target.read_bytes()
    return "old" if found == old else "new" if found == new else "neither"


def cases_of(kinds: tuple[int, ...], save: Callable[[], None], folder: Path) -> Iterator[tuple[int, int]]:
    """Every call of a save, with every kind of fault."""
    calls = Path(tempfile.mkdtemp()) / "calls"

    def counted() -> None:
        shim.fault_arm(os.fsencode(folder), 0, -1)
        save()
        shim.fault_disarm()
        calls.write_text(str(shim.fault_calls()))

    assert in_child(counted) == "done"
    for kind in kinds:
        for at in range(int(calls.read_text())):
            yield kind, at


def save_with_faults(kinds: tuple[int, ...], folder: Path, first: Path, second: Path) -> None:
    target = folder / "model.hedgerow"
    old, new = first.read_bytes(), second.read_bytes()
    model = hedgerow.load(second)

    def save() -> None:
        model.save(target, overwrite=True)

    target.write_bytes(old)
    for kind, at in list(cases_of(kinds, save, folder)):
        target.write_bytes(old)

        def fail(kind: int = kind, at: int = at) -> None:
            shim.fault_arm(os.fsencode(folder), kind, at)
            save()

        ended = in_child(fail, (OSError,))
        others = [name for name in os.listdir(folder) if name != target.name]
        print(json.dumps([kind, at, ended, seen_by_a_reader(target, old, new), len(others)]), flush=True)
        for name in others:
            os.unlink(folder / name)


def save_and_be_killed(count: int, folder: Path, first: Path, second: Path) -> None:
    target = folder / "model.hedgerow"
    old, new = first.read_bytes(), second.read_bytes()
    models = [hedgerow.load(first), hedgerow.load(second)]
    target.write_bytes(old)
    draw = random.Random(0)
    for number in range(count):

        def save_for_ever(delay: float = draw.uniform(0.0005, 0.03)) -> None:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the kernel ends the process, as with SIGKILL
            signal.setitimer(signal.ITIMER_REAL, delay)
            while True:
                for model in models:
                    model.save(target, overwrite=True)

        ended = in_child(save_for_ever)
        print(json.dumps([number, 0, ended, seen_by_a_reader(target, old, new), 0]), flush=True)


def train_and_be_killed(count: int, folder: Path) -> None:
    texts, labels = some_texts(60, 5)
    expected = folder / "expected.hedgerow"

    def fit(checkpoint: Path | None, path: Path) -> None:
        model = HedgerowTextClassifier(method="boosted-bagging", members=5, n_jobs=1, random_state=0)
        model.fit(texts, labels, checkpoint=checkpoint).save(path, overwrite=True)

    fit(None, expected)
    checkpoint, path = folder / "checkpoint", folder / "found.hedgerow"
    begin = time.monotonic()
    fit(checkpoint, path)
    takes = time.monotonic() - begin
    shutil.rmtree(checkpoint)
    draw = random.Random(0)
    killed = 0
    for number in range(10 * count):
        if killed == count:
            break

        def interrupted(delay: float = draw.uniform(0.001, takes)) -> None:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, delay)
            fit(checkpoint, folder / "half.hedgerow")

        begin = time.monotonic()
        ended = in_child(interrupted)
        members = len(list(checkpoint.glob("member-*"))) if checkpoint.exists() else 0
        again = in_child(lambda: fit(checkpoint, path))
        takes = time.monotonic() - begin  # both parts together: the machine may be busier than before
        same = again == "done" and path.read_bytes() == expected.read_bytes()
        if ended != "done":  # some come too late
            killed += 1
            print(json.dumps([number, members, ended, "new" if same else "neither", 0]), flush=True)
        shutil.rmtree(checkpoint, ignore_errors=True)


def fitted_with_records(folder: Path) -> dict[str, bytes]:
    """The files of a model that can be updated."""
    texts, labels = some_texts(80, 5)
    model = HedgerowTextClassifier(leaf_size=3, n_jobs=1, random_state=0)
    model.fit(texts, labels, ids=[f"r{row}" for row in range(80)], keep_records=True)
    model.save(folder / "model.hedgerow")
    return files_in(folder)


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def put_back(folder: Path, files: dict[str, bytes]) -> None:
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


class StoppedClock(datetime):
    """A clock that stands still, so that an update has the same bytes each time."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> StoppedClock:
        return cls(2030, 1, 1, tzinfo=tz)


def update_in_place(folder: Path, id: str) -> None:
    """What `hedgerow update MODEL new.jsonl --remove ID` does."""
    updating.datetime = StoppedClock
    status = main(["update", str(folder / "model.hedgerow"), "--remove", id, "--threads", "1"])
    if status != 0:
        raise OSError(f"status {status}")


def after_an_update(
    folder: Path, old: dict[str, bytes], new: dict[str, bytes], later: dict[str, dict[str, bytes]]
) -> tuple[str, int]:
    """Which model is there, and how many files are left over; neither, if it can not be updated any more."""
    found = files_in(folder)
    seen = "old" if found["model.hedgerow"] == old["model.hedgerow"] else "neither"
    seen = "new" if found["model.hedgerow"] == new["model.hedgerow"] else seen
    left = len(found.keys() - old.keys())
    if seen == "neither" or in_child(lambda: update_in_place(folder, "r7")) != "done":
        return "neither", left
    after = {name: files_in(folder).get(name) for name in old}
    return (seen if after == later[seen] else "neither"), left


def known_updates(folder: Path) -> tuple[dict[str, bytes], dict[str, bytes], dict[str, dict[str, bytes]]]:
    """The files before an update and after it, and those after one more update of both."""
    old = fitted_with_records(folder)
    states = {"old": old}
    in_child(lambda: update_in_place(folder, "r3"))
    new = states["new"] = files_in(folder)
    later = {}
    for name, files in states.items():
        put_back(folder, files)
        in_child(lambda: update_in_place(folder, "r7"))
        later[name] = files_in(folder)
    put_back(folder, old)
    if len({tuple(sorted(files.items())) for files in (old, new, *later.values())}) != 4:
        raise RuntimeError("updates do not differ")
    return old, new, later


def update_with_faults(kinds: tuple[int, ...], folder: Path) -> None:
    old, new, later = known_updates(folder)
    cases = list(cases_of(kinds, lambda: update_in_place(folder, "r3"), folder))
    for kind, at in cases:
        put_back(folder, old)

        def fail(kind: int = kind, at: int = at) -> None:
            shim.fault_arm(os.fsencode(folder), kind, at)
            update_in_place(folder, "r3")

        ended = in_child(fail, (OSError,))
        print(json.dumps([kind, at, ended, *after_an_update(folder, old, new, later)]), flush=True)


def update_and_be_killed(count: int, folder: Path) -> None:
    old, new, later = known_updates(folder)
    begin = time.monotonic()
    in_child(lambda: update_in_place(folder, "r3"))
    takes = time.monotonic() - begin
    draw = random.Random(0)
    killed = 0
    for number in range(10 * count):
        if killed == count:
            break
        put_back(folder, old)

        def interrupted(delay: float = draw.uniform(0.001, takes)) -> None:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, delay)
            update_in_place(folder, "r3")

        ended = in_child(interrupted)
        seen, left = after_an_update(folder, old, new, later)
        if ended != "done":
            killed += 1
            print(json.dumps([number, 0, ended, seen, left]), flush=True)


def load_without_memory(count: int, first: Path) -> None:
    hedgerow.load(first)
    found = Path(tempfile.mkdtemp()) / "calls"

    def counted() -> None:
        shim.fault_arm(b"", NO_MEMORY, -1)
        model = hedgerow.load(first)
        shim.fault_disarm()
        assert model is not None
        found.write_text(str(shim.fault_calls()))

    assert in_child(counted) == "done"
    calls = int(found.read_text())
    step = max(1, calls // count) if count else 1
    for at in range(0, calls, step):

        def starve(at: int = at) -> None:
            try:
                shim.fault_arm(b"", NO_MEMORY, at)
                hedgerow.load(first)
            except ModelFileError:
                os._exit(BLAMED)
            finally:
                shim.fault_disarm()

        ended = in_child(starve, (MemoryError,))
        print(json.dumps([NO_MEMORY, at, ended, "old", 0]), flush=True)


if __name__ == "__main__":
    task, room, one, other, number = sys.argv[1:]
    if task == "kill":
        save_with_faults((KILL_BEFORE, KILL_AFTER), Path(room), Path(one), Path(other))
    elif task == "fail":
        save_with_faults((NO_SPACE, INPUT_OUTPUT, SHORT), Path(room), Path(one), Path(other))
    elif task == "kill saving":
        save_and_be_killed(int(number), Path(room), Path(one), Path(other))
    elif task == "kill training":
        train_and_be_killed(int(number), Path(room))
    elif task == "kill update":
        update_with_faults((KILL_BEFORE, KILL_AFTER), Path(room))
    elif task == "fail update":
        update_with_faults((NO_SPACE, INPUT_OUTPUT), Path(room))
    elif task == "kill updating":
        update_and_be_killed(int(number), Path(room))
    elif task == "starve":
        load_without_memory(int(number), Path(one))
