"""A seed gives one model and one prediction, whatever the threads and the batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from trust_counts import Count

WORKER = Path(__file__).with_name("determinism_worker.py")


def run(seed: int, out: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(WORKER), str(seed), out],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.trust), pytest.param(2, marks=pytest.mark.trust)]
)
def test_seed_gives_one_file_and_one_prediction_at_any_threads_and_batch(seed: int, count: Count) -> None:
    ways = [json.loads(line) for line in run(seed, "hashes").splitlines()]
    assert len({(threads, batch) for threads, batch, *_ in ways}) == 15
    assert len({file for *_, file, _ in ways}) == 1
    assert len({prediction for *_, prediction in ways}) == 1
    count("ways to the same model", len(ways))


def test_predictions_at_any_simd_level_differ_by_rounding_only(tmp_path: Path) -> None:
    levels = ["baseline", "v3", "v4", "v4_vbmi2"]
    found = []
    for level in levels:
        run(0, str(tmp_path / f"{level}.npz"), HEDGEROW_SIMD=level)
        with np.load(tmp_path / f"{level}.npz") as arrays:
            found.append({name: arrays[name] for name in arrays.files})
    for other in found[1:]:
        for name, array in found[0].items():
            if array.dtype.kind == "f":
                # Calibration moves odds; those of a probability next to 1 have few digits left.
                close = 1e-4 if name.startswith("calibrated") else 1e-5
                np.testing.assert_allclose(other[name], array, rtol=0, atol=close, err_msg=name)
            else:
                np.testing.assert_array_equal(other[name], array, err_msg=name)
