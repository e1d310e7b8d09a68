"""What separates the labels in a column of a table: found in the whole column, or refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import orjson

from .errors import DataError
from .lines import split_cell

_USUAL = (";", "|", "\t")  # hardly any label has one of these
_OTHERS = (*_USUAL, ",")
_COMES_BACK = 0.5  # share of the pieces that occur in other cells, too, if labels were split
_MOVES = (
    0.25  # share of the later pieces that also stand first or alone; the parts of a name keep their places
)
_SORTED = 15  # cells that are not sorted by chance
_RARE = 0.05
_FEWEST = 10  # cells that spaces can be judged by


@dataclass(frozen=True)
class LabelCells:
    """How the cells of a column hold labels: with a separator, as JSON lists, or (None) one in each."""

    separator: str | None = None
    lists: bool = False

    def labels(self, cell: str) -> object:
        """The labels of a cell; a list of JSON may hold what is no label."""
        if self.lists:
            return orjson.loads(cell) if cell.strip() else []
        if self.separator is None:
            return [name] if (name := cell.strip()) else []
        return split_cell(cell, self.separator)


def find_label_cells(path: Path, cells: Sequence[tuple[int, str]]) -> LabelCells:
    """Find out how cells, each with its line, hold labels.

    One of ``;``, ``|`` and tab separates them, unless the latter two are hardly ever there. A comma does
    where what stands between commas comes back in other cells and changes its place, or is always sorted.
    Whatever else could separate labels as well is refused with an example.
    """
    filled = [(line, cell.strip()) for line, cell in cells if cell.strip()]
    if _are_lists(path, filled):
        return LabelCells(lists=True)
    column = Counter(cell for _, cell in filled)
    counts = {mark: sum(n for cell, n in column.items() if mark in cell) for mark in _OTHERS}
    chosen = max(_USUAL, key=lambda mark: counts[mark])
    most = 0.5 * len(filled)
    if counts[chosen]:
        few = chosen != ";" and counts[chosen] <= _RARE * len(filled)
        if few and _Split.of(column, chosen).comes_back < _COMES_BACK:
            _refuse(path, filled, chosen, f"{chosen!r} could, or be a part of names")
        names = Counter[str]()
        for cell, n in column.items():
            for name in split_cell(cell, chosen):
                names[name] += n
        for mark in filter(counts.__getitem__, _OTHERS):
            split = _Split.of(names, mark)
            often = counts[mark] > max(counts[chosen], most) and split.repeated < _COMES_BACK
            if mark != chosen and (often or split.is_of_labels):
                _refuse(path, filled, mark, f"{chosen!r} and {mark!r} both could")
        return LabelCells(chosen)
    if counts[","]:
        split = _Split.of(column, ",")
        if split.is_of_labels:
            return LabelCells(",")
        rare = split.repeated >= 0.5 or counts[","] <= _RARE * len(filled)
        if counts[","] > most or split.comes_back >= _COMES_BACK or not rare:
            _refuse(path, filled, ",", "a comma could, or be a part of names")
    spaced = sum(n for cell, n in column.items() if " " in cell)
    if len(filled) >= _FEWEST and spaced > most and not counts[","]:
        split = _Split.of(column, " ")
        if split.is_of_labels and split.repeated < 0.5:
            _refuse(path, filled, " ", "a space could, or be a part of names")
    return LabelCells()


@dataclass(frozen=True)
class _Split:
    """What cells look like when split at a mark.

    `comes_back` is the share of their pieces that occur in another cell, `moves` that of the pieces after a
    mark that also stand before one or alone, and `repeated` the share of cells that occur more than once.
    `in_order` is how many cells have their pieces in the order of the alphabet, if all have.
    """

    pieces: int
    comes_back: float
    moves: float
    repeated: float
    in_order: int

    @classmethod
    def of(cls, cells: Counter[str], mark: str) -> _Split:
        """Of different cells, each with how often it occurs."""
        rows = [tuple(dict.fromkeys(split_cell(cell, mark))) for cell in cells]
        split = [row for row in rows if len(row) > 1]
        occurs = Counter(piece for row in rows for piece in row)
        leading = {row[0] for row in rows if row}
        all_, later = [p for row in split for p in row], [p for row in split for p in row[1:]]
        marked = [n for cell, n in cells.items() if mark in cell]
        return cls(
            pieces=sum(occurs[piece] > 1 for piece in all_),
            comes_back=sum(occurs[piece] > 1 for piece in all_) / max(1, len(all_)),
            moves=sum(piece in leading for piece in later) / max(1, len(later)),
            repeated=sum(n for n in marked if n > 1) / max(1, sum(marked)),
            in_order=len(split) if all(list(row) == sorted(row) for row in split) else 0,
        )

    @property
    def is_of_labels(self) -> bool:
        """Whether the pieces are labels: they come back, and in other places, or all are sorted."""
        if self.in_order >= _SORTED and self.moves > 0:  # labels that are sorted move little
            return self.pieces > 1
        return self.pieces > 1 and self.comes_back >= _COMES_BACK and self.moves >= _MOVES


def _are_lists(path: Path, filled: Sequence[tuple[int, str]]) -> bool:
    """Whether all cells are lists of JSON; refuses a column of which only some are, and other lists."""
    lists = [_is_list(cell) for _, cell in filled]
    bracketed = [re.fullmatch(r"\[[^\[\]]*\]", cell) is not None for _, cell in filled]
    if not filled or not (any(lists) or all(bracketed)):
        return False
    if all(lists):
        return True
    line, cell = filled[lists.index(False)]
    raise DataError(
        path,
        f"the labels {_example(cell)} are not a list of JSON, as those of other rows are or seem to be; write"
        ' all of them like ["a", "b"], or say what stands between labels with label_separator=',
        line,
    )


def _is_list(cell: str) -> bool:
    try:
        return isinstance(orjson.loads(cell), list)
    except orjson.JSONDecodeError:
        return False


def _refuse(path: Path, filled: Sequence[tuple[int, str]], mark: str, why: str) -> NoReturn:
    line, cell = next((line, cell) for line, cell in filled if mark in cell)
    raise DataError(
        path,
        f"it is not clear what separates labels, such as those of {_example(cell)}: {why}; say what does"
        f" with label_separator= (here perhaps {mark!r}; if each cell is one label, whatever is in none)",
        line,
    )


def _example(cell: str) -> str:
    return repr(cell if len(cell) <= 60 else cell[:59] + "…")
