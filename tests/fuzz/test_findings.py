"""What fuzzing found, each with the input that showed it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from corpus import findings
from fuzz_model_file import ask, sealed

from hedgerow import load
from hedgerow.inputs.threads import threads_for
from hedgerow.records.file import read_records
from hedgerow.storage.container import Malformed, ModelFileError


def test_model_with_more_dropout_passes_than_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.hedgerow"
    path.write_bytes(sealed(findings("model_file")["dropout-of-too-many-passes"]))
    with pytest.raises(Malformed, match="1 to 4096 passes"):
        load(path)


def test_model_that_asks_for_more_threads_than_memory_answers_with_fewer(tmp_path: Path) -> None:
    path = tmp_path / "model.hedgerow"
    path.write_bytes(sealed(findings("model_file")["more-threads-than-memory"]))
    model = load(path)
    assert model.n_jobs == 2**31 - 1
    assert 256 <= threads_for(model.n_jobs) <= max(256, os.cpu_count() or 1)
    ask(model)


def test_records_whose_updates_rename_labels_to_numbers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.hedgerow.data"
    path.write_bytes(sealed(findings("records")["a-step-that-names-a-number"]))
    with pytest.raises(ModelFileError, match="its labels are broken"):
        read_records(path)


def test_records_with_more_values_than_a_list_can_have_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.data"
    path.write_bytes(sealed(findings("records")["more-values-than-a-list-can-have"]))
    with pytest.raises(ModelFileError):
        read_records(path)
