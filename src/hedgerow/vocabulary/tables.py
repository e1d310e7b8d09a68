"""Vocabularies as tables: TSV and CSV with a header, and Annif's TSV, which has none."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hedgerow.data.errors import DataError
from hedgerow.data.lines import read_lines

from .building import Builder, EntryError
from .columns import Columns
from .names import VocabularyWarning

__all__ = ["read_csv", "read_tsv"]

_IDS = ("id", "uri")
_NAMES = re.compile(r"(name|label|alt)(?:_([A-Za-z0-9-]+))?")
_YES, _NO = ("true", "1", "yes"), ("", "false", "0", "no")
_COLUMNS = "id or uri, label_LANGUAGE, alt_LANGUAGE, notation, broader, scheme, replaced_by and deprecated"
_ANNIF = 3  # cells of a line, at most


@dataclass(frozen=True)
class _Header:
    """What the columns of a table hold; a column may occur several times, with one value in each."""

    id: int
    kinds: tuple[tuple[int, str, str | None], ...]
    columns: int

    def add(self, cells: list[str], line: int, builder: Builder) -> None:
        """Add the entry of a row. Cells that are missing at its end are empty."""
        if len(cells) > self.columns:
            raise EntryError(f"the row has {len(cells)} cells, but the header {self.columns}", line)
        builder.entry(_bare(cells[self.id]) if self.id < len(cells) else "", line)
        for place, kind, language in self.kinds:
            cell = cells[place] if place < len(cells) else ""
            if not cell:
                continue
            if kind in ("name", "alt"):
                builder.name(cell, language, kind == "name")
            elif kind == "notation":
                builder.notation(cell)
            elif kind == "broader":
                builder.broader(_bare(cell))
            elif kind == "scheme":
                builder.scheme(_bare(cell))
            elif kind == "replaced_by":
                builder.successor(_bare(cell))
            elif cell.lower() in _YES:
                builder.deprecate()
            elif cell.lower() not in _NO:
                raise EntryError(f"deprecated is {cell!r}; write true or false", line)


def read_tsv(path: Path) -> Columns:
    """A table with tabs between its cells; without a header, Annif's: id, name and perhaps notation."""
    builder = Builder()
    header: _Header | None = None
    names = False
    for number, line in read_lines(path):
        if not line.strip():
            continue
        cells = line.split("\t")
        if number == 1 and cells[0].strip().lower() in _IDS:
            header = _header(path, cells)
            continue
        if header is not None:
            header.add(cells, number, builder)
            continue
        if len(cells) > _ANNIF:
            raise EntryError(
                f"the line has {len(cells)} cells, but without a header there are at most {_ANNIF}: id, name,"
                " notation; put a header in the first line",
                number,
            )
        names |= len(cells) > 1
        builder.entry(_bare(cells[0]), number)
        if len(cells) > 1:
            builder.name(cells[1], None, True)
        if len(cells) == _ANNIF:
            builder.notation(cells[2])
    if header is None and len(builder) and not names:
        raise EntryError("no line has a tab; a line has an id, a tab and a name")
    return builder.finish()


def read_csv(path: Path) -> Columns:
    """A table with commas (or semicolons) between its cells, and a header."""
    builder = Builder()
    lines = (f"{line}\n" for _, line in read_lines(path))
    first = next(lines, "")
    separator = "," if "," in first or ";" not in first else ";"

    def whole() -> Iterator[str]:
        yield first
        yield from lines

    rows = csv.reader(whole(), delimiter=separator, strict=True)
    header: _Header | None = None
    before = 0
    try:
        for cells in rows:
            line, before = before + 1, rows.line_num
            if not any(cells):
                continue
            if header is None:
                header = _header(path, cells)
            else:
                header.add(cells, line, builder)
    except csv.Error as error:
        raise DataError(path, f"is not valid CSV: {error}", before + 1) from error
    return builder.finish()


def _header(path: Path, cells: list[str]) -> _Header:
    id, kinds, ignored = -1, [], []
    for place, cell in enumerate(cells):
        column = cell.strip()
        found = _NAMES.fullmatch(column)
        if column.lower() in _IDS and id < 0:
            id = place
        elif found:
            kinds.append((place, "alt" if found[1] == "alt" else "name", found[2]))
        elif column in ("notation", "broader", "scheme", "replaced_by", "deprecated"):
            kinds.append((place, column, None))
        else:
            ignored.append(column)
    if id < 0:
        raise DataError(path, f"has no column id or uri; its columns may be {_COLUMNS}", 1)
    if ignored:
        warnings.warn(
            f"{path}: the columns {', '.join(map(repr, ignored))} are not used; those known are {_COLUMNS}",
            VocabularyWarning,
            stacklevel=3,
        )
    return _Header(id, tuple(kinds), len(cells))


def _bare(id: str) -> str:
    """An id without the angle brackets that Annif's files have around URIs."""
    return id[1:-1] if id.startswith("<") and id.endswith(">") else id
