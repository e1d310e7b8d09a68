from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgerow.progress import Stage

from .seen_ids import SeenIds


@dataclass(frozen=True)
class Reading:
    """How `read_part` or `read_parts` was asked to read, as its readers need it.

    `seen` refuses an id that was read before, in this file or another; `others` are the paths that are read
    beside this one.
    """

    label_names: Sequence[str] | None = None
    labels_field: str | None = "labels"
    label_separator: str | None = None
    threads: int = 0
    progress: Stage | None = None
    text_fields: Sequence[str] | None = None
    time_field: str | None = None
    until: str | None = None
    seen: SeenIds | None = None
    others: frozenset[Path] = frozenset()

    def text_of(self, record: Mapping[str, Any]) -> Any:
        """The text of a record, or its texts by name; None if it has neither."""
        wanted = self.text_fields
        if wanted is None or not any(name in record for name in wanted):
            return record.get("text")
        found = {name: record[name] for name in wanted if record.get(name) is not None}
        return found or {wanted[0]: ""}
