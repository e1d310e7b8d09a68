"""Every public entry point with every kind of wrong argument: refused, or answered where that has a sense."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from trust_counts import Count

WORKER = Path(__file__).with_name("bad_calls.py")
# The truth to compare with is whatever is not zero; that is written where it is read.
ANY_TRUTH = [
    "score Y",
    "calibrate Y",
    "learn_policy Y",
    "evaluate Y",
    "learn_from_held_out Y",
    "assess Y",
    "precision_at Y",
    "recall_at Y",
    "ndcg_at Y",
    "macro_f1_at Y",
]
ANSWERED = {
    *((entry, kind) for entry in ANY_TRUTH for kind in ("half a label", "negative")),
    ("decide k", "0"),  # no label that is rejected
    ("query diversity", "True"),
    ("texts: seen_in_training", "half a character"),  # no such text was seen
    ("Votes probs", "two dimensions"),  # two members
    ("risk_coverage first", "infinity"),
    ("detection", "infinity"),
    *((entry, "a range") for entry in ("Votes indptr", "detection", "propensities")),
}


@pytest.mark.parametrize("optimized", [False, True])
def test_bad_call_is_refused_in_words_and_nothing_crashes(optimized: bool, count: Count) -> None:
    done = subprocess.run(
        [sys.executable, *(["-O"] if optimized else []), str(WORKER)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (lines[-1:], done.stderr[-2000:])
    outcomes = {(entry, kind): outcome for entry, kind, outcome in lines if outcome}
    assert len(outcomes) > 1500
    assert {case for case, outcome in outcomes.items() if outcome == "answered"} == ANSWERED
    assert {case: o for case, o in outcomes.items() if o not in ("answered", "refused")} == {}
    count("bad arguments of the library", len(outcomes))
