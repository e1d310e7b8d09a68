"""What fuzzing found, each with the input that showed it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from corpus import findings
from fuzz_model_file import ask, sealed

from hedgerow import load
from hedgerow.inputs.threads import threads_for
from hedgerow.storage.container import Malformed


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
