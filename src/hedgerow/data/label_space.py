from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from .errors import DataError
from .lines import read_lines
from .part import indicator


def unique_names(path: Path, names: Sequence[str]) -> dict[str, int]:
    """Number the label names, and refuse a name that occurs twice."""
    numbers = {name: number for number, name in enumerate(names)}
    if len(numbers) < len(names):
        twice = next(name for number, name in enumerate(names) if numbers[name] != number)
        raise DataError(
            path, f"the label name {twice!r} occurs twice among the label names; make them distinct"
        )
    return numbers


def name_columns(path: Path, columns: int, label_names: Sequence[str] | None) -> list[str] | None:
    """Check that label names fit a file that knows its labels by number."""
    if label_names is None:
        return None
    if len(label_names) != columns:
        raise DataError(
            path,
            f"the file has {columns} labels known by number, but {len(label_names)} label names were given; "
            "give one name for each, or none",
        )
    return list(label_names)


def read_names(path: Path, labels_path: Path, columns: int) -> list[str]:
    """Read label names, one per line, and check that there is one for each column of the label matrix."""
    names = [name for _, name in read_lines(path)]
    if len(names) != columns:
        raise DataError(
            path,
            f"has {len(names)} label names, but {labels_path} has {columns} columns; one name per line",
        )
    return names


class LabelCollector:
    """Collects the named labels of rows, one row after the other, into a label matrix.

    Without label names the label space is made of what occurs, in the order of the sorted names, so that it
    does not depend on the order of the rows. With label names it is theirs, and labels that they lack are
    counted.
    """

    def __init__(self, path: Path, label_names: Sequence[str] | None) -> None:
        self._given = None if label_names is None else list(label_names)
        self._numbers = {} if self._given is None else unique_names(path, self._given)
        self._indices = array("i")
        self._indptr = array("q", [0])
        self.unknown = 0

    def add(self, names: Iterable[str]) -> None:
        """Add a row. A name that occurs twice in it counts once."""
        numbers = self._numbers
        row = set()
        for name in set(names):
            number = numbers.setdefault(name, len(numbers)) if self._given is None else numbers.get(name)
            if number is None:
                self.unknown += 1
            else:
                row.add(number)
        self._indices.extend(sorted(row))
        self._indptr.append(len(self._indices))

    def finish(self) -> tuple[csr_array, list[str]]:
        """Return the label matrix and the names of its columns."""
        indices = np.array(self._indices, dtype=np.int32)
        indptr = np.array(self._indptr, dtype=np.int64)
        if self._given is not None:
            return indicator(indices, indptr, len(self._given)), self._given
        names = sorted(self._numbers)
        place = np.empty(len(names), dtype=np.int32)
        for column, name in enumerate(names):
            place[self._numbers[name]] = column
        Y = indicator(place[indices], indptr, len(names))
        Y.has_sorted_indices = False
        Y.sort_indices()
        return Y, names
