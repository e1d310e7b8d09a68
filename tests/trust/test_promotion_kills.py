"""A process that is killed while it promotes or rolls back leaves one model or the other, whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_promotion import equal_model, judge, worse_model
from trust_counts import Count

from hedgerow.comparison.promotion import Judge

__all__ = ["equal_model", "judge", "worse_model"]

WORKER = Path(__file__).with_name("promotion_worker.py")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")


def run(task: str, *arguments: object) -> list[list[object]]:
    done = subprocess.run(
        [sys.executable, str(WORKER), task, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_kill_before_every_change_of_a_file_leaves_one_model_or_the_other_and_a_way_on(
    tmp_path: Path, count: Count
) -> None:
    cases = run("steps", tmp_path)
    # What is done, before which change, how the process ended, who answers, and whether all else is whole.
    assert {ended for _, _, ended, _, _ in cases} == {"SIGKILL"}
    assert all(whole for *_, whole in cases)
    for action in ("accept", "install", "install both", "roll back", "roll back both", "promote refused"):
        seen = [answers for own, _, _, answers, _ in cases if own == action]
        assert len(seen) >= 3
        assert seen == sorted(seen, key=lambda answers: answers == "new"), (
            action
        )  # once it has changed, it stays
        assert seen[0] == "old"
    for action in ("begin", "refuse"):
        assert {answers for own, _, _, answers, _ in cases if own == action} == {"old"}
    count("killed while promoting", len(cases))


@pytest.mark.parametrize("times", [5, pytest.param(100, marks=pytest.mark.trust)])
def test_kill_at_any_time_of_promotions_and_rollbacks_then_the_next_process_serves_a_whole_model(
    text_model: Path, equal_model: Path, judge: Judge, tmp_path: Path, times: int, count: Count
) -> None:
    cases = run("moments", tmp_path, text_model, equal_model, judge.rows.paths[0], times)
    assert [(ended, whole) for _, ended, _, whole in cases] == [("SIGALRM", True)] * times
    if times >= 100:  # few draws may all find the same one
        assert {answers for _, _, answers, _ in cases} == {"old", "new"}
    count("killed while promoting", times)
