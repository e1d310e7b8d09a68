"""Model files of every format version load for ever, and predict what they did."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from trust_counts import Count

import hedgerow
from hedgerow.decisions.rules import ACCEPT
from hedgerow.storage.container import FORMAT_VERSION, read_model

sys.path.insert(0, str(Path(__file__).parent.parent / "golden"))
from make_golden import MODELS, predicted

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = sorted(GOLDEN.glob("format-*/*.hedgerow"))


def test_every_format_version_has_a_file_of_each_kind() -> None:
    versions = [f"format-{version}" for version in range(1, FORMAT_VERSION + 1)]
    assert {path.parent.name for path in FILES} == set(versions)
    assert {path.stem for path in FILES if path.parent.name == versions[-1]} == set(MODELS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_golden_file_predicts_what_it_did(path: Path, count: Count) -> None:
    assert f"format-{read_model(path).version}" == path.parent.name
    model = hedgerow.load(path)
    model.set_params(n_jobs=1)
    found = predicted(path.stem, model)
    with np.load(path.with_suffix(".npz")) as expected:
        assert set(expected.files) == set(found)
        for name in expected.files:
            if name == "decision":
                # Goals have changed since the first files: what is accepted has not.
                np.testing.assert_array_equal(found[name] == ACCEPT, expected[name] == ACCEPT, err_msg=name)
            elif expected[name].dtype.kind == "f":
                # Levels of SIMD may round otherwise.
                np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-5, err_msg=name)
            else:
                np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    count("files of every format so far", 1)
