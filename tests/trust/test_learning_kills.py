"""A process that is killed while it learns from reviews leaves a whole model, and the next one goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from reviewed_models import REVIEWS, TRAINED, Desk, desk, recorded_model
from trust_counts import Count

__all__ = ["desk", "recorded_model"]

WORKER = Path(__file__).with_name("learning_worker.py")
# What a model that has learned has beside it; a file that was being written may be left under a name that
# begins with a dot.
BESIDE = ["", ".data", ".data.previous", ".previous"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")


def kill(way: str, desk: Desk, times: int) -> list[str]:
    """Kill and go on; gives how the processes ended, once all that they left is as it should be."""
    desk.review_more()
    done = subprocess.run(
        [sys.executable, str(WORKER), way, str(desk.model), str(desk.queue), str(desk.held), str(times)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    old, new = str(TRAINED), str(TRAINED + REVIEWS)
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    for case in cases:
        _, left, goes_on, at_last, names = case
        assert (left, goes_on) in {(old, "promoted: True"), (new, "nothing new")}, case
        assert at_last == new, case
        assert [name for name in names if not name.startswith(".tags")] == BESIDE, case
    return [case[0] for case in cases]


@pytest.mark.parametrize("times", [4, pytest.param(100, marks=pytest.mark.trust)])
def test_kill_before_a_change_of_a_file_then_the_model_is_whole_and_the_next_run_goes_on(
    desk: Desk, times: int, count: Count
) -> None:
    ended = kill("changes", desk, times)
    assert set(ended) == {"SIGKILL"}
    assert len(ended) >= min(times, 10)  # there are fewer changes than a hundred
    count("killed while learning from reviews", len(ended))


@pytest.mark.trust
def test_kill_at_any_time_of_learning_then_the_model_is_whole_and_the_next_run_goes_on(
    desk: Desk, count: Count
) -> None:
    ended = kill("moments", desk, 100)
    # A child whose moment came too late has learned.
    assert set(ended) <= {"SIGALRM", "promoted: True"}
    assert ended.count("SIGALRM") >= 10
    count("killed while learning from reviews", 100)
