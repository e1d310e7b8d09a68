"""Whatever fails while a model is saved, trained or loaded: the file is whole, and the error clean."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from trust_counts import Count

HERE = Path(__file__).parent
OTHER = HERE.parent / "golden/format-1/shared-tree.hedgerow"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="the shim needs Linux and a C compiler"
)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that is loaded before all others and makes calls fail."""
    path = tmp_path_factory.mktemp("shim") / "fault_shim.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", str(path), str(HERE / "fault_shim.c"), "-ldl"], check=True
    )
    return path


def run(shim: Path, task: str, folder: Path, model: Path, count: int = 0) -> list[list[Any]]:
    room = folder / "room"
    room.mkdir()
    done = subprocess.run(
        [sys.executable, str(HERE / "fault_worker.py"), task, str(room), str(OTHER), str(model), str(count)],
        capture_output=True,
        text=True,
        check=False,
        # Python's own pools would hide allocations; the address sanitizer brings a shim of its own.
        env={**os.environ, "LD_PRELOAD": str(shim), "PYTHONMALLOC": "malloc"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def test_kill_at_every_system_call_of_a_save_leaves_the_old_model_or_the_new(
    shim: Path, tmp_path: Path, whole_file: Path, count: Count
) -> None:
    cases = run(shim, "kill", tmp_path, whole_file)
    assert {ended for _, _, ended, _, _ in cases} == {"SIGKILL"}
    assert {seen for _, _, _, seen, _ in cases} == {"old", "new"}
    # Once the new model has its name it keeps it, and nothing is left over but one unfinished file.
    for kind in (1, 2):
        found = [(seen, left) for own, _, _, seen, left in cases if own == kind]
        assert found == sorted(found, key=lambda case: case[0] == "new")
        assert all(left <= 1 if seen == "old" else left == 0 for seen, left in found)
    count("killed while saving", len(cases))


@pytest.mark.parametrize("times", [20, pytest.param(200, marks=pytest.mark.trust)])
def test_kill_at_any_time_of_a_save_leaves_one_model_or_the_other(
    shim: Path, tmp_path: Path, whole_file: Path, times: int, count: Count
) -> None:
    cases = run(shim, "kill saving", tmp_path, whole_file, times)
    assert [(ended, seen in ("old", "new")) for _, _, ended, seen, _ in cases] == [("SIGALRM", True)] * times
    count("killed while saving", times)


@pytest.mark.parametrize("times", [20, pytest.param(200, marks=pytest.mark.trust)])
def test_kill_at_any_time_of_a_fit_with_a_checkpoint_then_ends_with_the_same_bits(
    shim: Path, tmp_path: Path, whole_file: Path, times: int, count: Count
) -> None:
    cases = run(shim, "kill training", tmp_path, whole_file, times)
    assert [(ended, seen) for _, _, ended, seen, _ in cases] == [("SIGALRM", "new")] * times
    assert len({members for _, members, *_ in cases}) > 2
    count("killed while training", times)


@pytest.mark.trust
def test_kill_at_every_system_call_of_an_update_leaves_a_model_with_its_records(
    shim: Path, tmp_path: Path, whole_file: Path, count: Count
) -> None:
    cases = run(shim, "kill update", tmp_path, whole_file)
    assert {ended for _, _, ended, _, _ in cases} == {"SIGKILL"}
    assert {seen for _, _, _, seen, _ in cases} == {"old", "new"}
    for kind in (1, 2):
        found = [seen for own, _, _, seen, _ in cases if own == kind]
        assert found == sorted(found, reverse=True)  # once there, the new model stays
    count("killed while updating", len(cases))


@pytest.mark.parametrize("times", [8, pytest.param(100, marks=pytest.mark.trust)])
def test_kill_at_any_time_of_an_update_leaves_a_model_with_its_records(
    shim: Path, tmp_path: Path, whole_file: Path, times: int, count: Count
) -> None:
    cases = run(shim, "kill updating", tmp_path, whole_file, times)
    assert [(ended, seen in ("old", "new")) for _, _, ended, seen, _ in cases] == [("SIGALRM", True)] * times
    count("killed while updating", times)


@pytest.mark.trust
def test_failing_system_call_of_an_update_leaves_a_model_with_its_records(
    shim: Path, tmp_path: Path, whole_file: Path, count: Count
) -> None:
    cases = run(shim, "fail update", tmp_path, whole_file)
    assert {ended for _, _, ended, _, _ in cases} <= {"refused", "done"}
    assert {seen for _, _, _, seen, _ in cases} == {"old", "new"}
    assert all(seen == "new" for _, _, ended, seen, _ in cases if ended == "done")
    count("system calls that fail while updating", len(cases))


def test_failing_system_call_of_a_save_is_a_clean_error_and_leaves_the_old_model(
    shim: Path, tmp_path: Path, whole_file: Path, count: Count
) -> None:
    cases = run(shim, "fail", tmp_path, whole_file)
    for kind, at, ended, seen, left in cases:
        assert left == 0, (kind, at)
        if kind == 5:  # a short write is no error: the rest is written
            assert (ended, seen) == ("done", "new"), at
        else:
            assert ended == "refused", (kind, at)
    for kind in (3, 4):
        found = [seen for own, _, _, seen, _ in cases if own == kind]
        # Only what comes after the new name, the sync of the folder, finds the new model.
        assert found == ["old"] * (len(found) - 3) + ["new"] * 3
    count("system calls that fail while saving", len(cases))


@pytest.mark.parametrize("cases", [40, pytest.param(0, marks=pytest.mark.trust)])
def test_failing_allocation_of_a_load_is_an_error_that_does_not_blame_the_file(
    shim: Path, tmp_path: Path, whole_file: Path, cases: int, count: Count
) -> None:
    found = run(shim, "starve", tmp_path, whole_file, cases)
    assert len(found) >= cases
    ends = Counter(ended for _, _, ended, _, _ in found)
    # Python, NumPy and scikit-learn lose a MemoryError here and there and raise something else.
    assert set(ends) <= {"refused", "done", "another error"}
    assert ends["another error"] <= max(1, 0.01 * len(found))
    count("allocations that fail while loading", len(found))
