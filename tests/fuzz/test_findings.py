"""What fuzzing found, each with the input that showed it."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus import findings
from fuzz_model_file import sealed

from hedgerow import load
from hedgerow.model_file import Malformed


def test_model_with_more_dropout_passes_than_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.hedgerow"
    path.write_bytes(sealed(findings("model_file")["dropout-of-too-many-passes"]))
    with pytest.raises(Malformed, match="1 to 4096 passes"):
        load(path)
