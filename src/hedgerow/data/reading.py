from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hedgerow.progress import Stage


@dataclass(frozen=True)
class Reading:
    """How `read_part` was asked to read, as its readers need it."""

    label_names: Sequence[str] | None = None
    labels_field: str | None = "labels"
    label_separator: str | None = None
    threads: int = 0
    progress: Stage | None = None
