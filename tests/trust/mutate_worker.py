"""Runs tests in forks of a process that has all but Hedgerow imported already: most of the time goes there.

Each line of the input is a file and how many seconds it may take, in JSON; each line of the output is the
exit code of pytest, or that of the signal that ended it. Started by `mutate.py` in the copy of the tree.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "--timeout=0"]


def in_child(file: str, seconds: float) -> int:
    """Run pytest in a fork; its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        os._exit(int(pytest.main([*OPTIONS, file])))
    # From outside: no handler of a signal is called while native code goes round in circles.
    watch = threading.Timer(seconds, os.kill, (child, signal.SIGKILL))
    watch.start()
    _, status = os.waitpid(child, 0)
    watch.cancel()
    return os.waitstatus_to_exitcode(status)


def import_all_but_hedgerow() -> None:
    """Import what the tests import, as a throw-away fork finds it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        sys.path.insert(0, str(Path.cwd() / "tests"))
        importlib.import_module("conftest")
        own = {path.stem for path in Path("tests").glob("*.py")} | {"hedgerow", "conftest", "__main__"}
        found = [name for name in sys.modules if name.split(".")[0] not in own]
        with os.fdopen(writer, "w") as file:
            json.dump(found, file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        names = json.load(file)
    os.waitpid(child, 0)
    for name in names:
        # Some exist only under the conditions of their importer.
        with contextlib.suppress(Exception):
            importlib.import_module(name)


if __name__ == "__main__":
    import_all_but_hedgerow()
    for line in sys.stdin:
        print(in_child(*json.loads(line)), flush=True)
