"""Whatever is cut off a model file, and whichever bit of it flips, it is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from trust_counts import Count

from hedgerow.storage.container import read_model

WORKER = Path(__file__).with_name("damage_worker.py")
# Primes, so that the sample meets every bit of a byte and every place of a section.
SAMPLE = {"flips": 211, "cuts": 23}


def test_file_has_every_kind_of_section(whole_file: Path) -> None:
    file = read_model(whole_file)
    kinds = {name.split(".")[0] for name in file.sections}
    learned = {"calibration", "familiar", "policy", "reference"}
    assert kinds == {"classes", "label_counts", "seen", "text", "tree"} | learned
    assert "calibration.group" in file.sections
    assert {"tree.1.weights", "text.pairs", "policy.inputs.unfamiliarity"} <= set(file.sections)
    assert {"calibration", "familiar", "policy", "training"} <= set(file.header)


@pytest.mark.parametrize("share", ["sample", pytest.param("all", marks=pytest.mark.trust)])
@pytest.mark.parametrize("kind", ["flips", "cuts"])
def test_damaged_file_is_refused_and_nothing_crashes(
    whole_file: Path, tmp_path: Path, kind: str, share: str, count: Count
) -> None:
    path = tmp_path / "damaged.hedgerow"
    shutil.copy(whole_file, path)
    cases = path.stat().st_size * (8 if kind == "flips" else 1)
    step = SAMPLE[kind] if share == "sample" else 1
    done = subprocess.run(
        [sys.executable, str(WORKER), str(path), kind, "0", str(cases), str(step)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = path.with_name(f"{path.name}.case").read_text().strip()
        pytest.fail(f"the process ended with {done.returncode} at case {last}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    assert found["failed"] == []
    tried = len(range(0, cases, step)) * (1 if kind == "flips" else 2)
    assert sum(found["rejected"].values()) == tried
    if share == "all":
        count("every bit flipped" if kind == "flips" else "cut off at every byte", tried)
