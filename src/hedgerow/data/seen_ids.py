"""Ids that must not occur twice, in however many files."""

from __future__ import annotations

from pathlib import Path

from .errors import DataError


class SeenIds:
    """Remembers where each id was read first, and refuses it the second time."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Path, int]] = {}

    def add(self, id: str, path: Path, line: int) -> None:
        """Note an id, or raise a `DataError` that names both places."""
        first, first_line = self._places.setdefault(id, (path, line))
        if (first, first_line) != (path, line):
            raise DataError(
                path,
                f"the id {id!r:.80} was read before, at {first}:{first_line}; a record must not be learned"
                " from twice: take one of them out, give each an id of its own, or let the later one replace"
                " the earlier with later_wins",
                line,
            )
