"""Real data, where they are at hand; CONTRIBUTING.md says which."""

import os
from pathlib import Path

import numpy as np
import pytest

from hedgerow.data import read_part

DATA = Path(os.environ.get("HEDGEROW_DATA") or Path(__file__).parents[2] / "shared" / "data")


def folder(name: str) -> Path:
    if not (DATA / name).is_dir():
        pytest.skip(f"{DATA / name} is not here; set HEDGEROW_DATA")
    return DATA / name


def test_eurlex_has_its_known_shape():
    train = read_part(folder("eurlex-4k"), "train")
    test = read_part(folder("eurlex-4k"), "test")
    assert train.X.shape == (15539, 5000)
    assert train.Y.shape == (15539, 3993)
    assert test.X.shape == (3809, 5000)
    assert int((np.diff(train.Y.indptr) == 0).sum()) == 28
    assert int((np.diff(test.Y.indptr) == 0).sum()) == 6
    assert len(np.unique(train.Y.indices)) == 3786
    assert train.X.has_canonical_format
    assert train.X.indices.dtype == np.int32


def test_debian_has_its_known_parts():
    train = read_part(folder("debian"), "train", labels_field="tags")
    test = read_part(folder("debian"), "test", labels_field="tags", label_names=train.label_names)
    assert train.n + train.skipped == 49857
    assert test.n + test.skipped == 13583
    assert train.label_names == test.label_names == sorted(train.label_names)
    assert test.unknown_labels > 0
    assert np.diff(train.Y.indptr).min() >= 1
