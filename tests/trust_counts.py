"""How many cases were tried: `make damage` adds them up for docs/reliability.md."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

Count = Callable[[str, int], None]


@pytest.fixture(scope="session")
def count() -> Count:
    """Notes that so many cases of a kind went well, in the file that HEDGEROW_TRUST_COUNTS names, if any."""
    path = os.environ.get("HEDGEROW_TRUST_COUNTS")

    def note(kind: str, cases: int = 1) -> None:
        if path:
            with Path(path).open("a") as file:
                file.write(json.dumps([kind, cases]) + "\n")

    return note
