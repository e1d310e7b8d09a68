"""What names of labels mean to the encoder that reads the inputs: evidence, and further candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.judge.name_map import NameMap
from hedgerow.judge.name_vectors import NO_COSINE, NameVectors

__all__ = ["NEAR", "NEAR_EVIDENCE", "LabelText", "NoLabelText", "entries_of"]

# What the judge sees of a candidate by the vector of its name.
NEAR_EVIDENCE = ("cosine", "cosine to the best")
NEAR = 20  # labels with the nearest names that are proposed


@dataclass(frozen=True)
class NoLabelText:
    """Vectors of names were tried and left out: nDCG@5 without them, and of the best way with them."""

    before: float
    after: float

    def describe(self) -> dict[str, Any]:
        """The same for people and programs."""
        return {"ndcg_before": round(self.before, 4), "ndcg": round(self.after, 4)}

    def to_header(self) -> dict[str, Any]:
        """An entry of a model file's header."""
        return {"before": self.before, "after": self.after}

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> NoLabelText:
        """Take back what `to_header` gave, after checking it."""
        _check_quality(header)
        return cls(header["before"], header["after"])


@dataclass(frozen=True, eq=False)
class LabelText:
    """Vectors of names, and the label of each.

    Attributes
    ----------
    vectors : NameVectors
        The vector of each entry.
    map : NameMap
        From inputs to names.
    columns : int32 array
        The label of each entry.
    labels : int
        How many labels there are.
    near : int
        How many labels are proposed for an input because their names are nearest to it.
    before, after : float
        nDCG@5 of names without this and with it, on inputs that the judge was not learned from.
    """

    vectors: NameVectors
    map: NameMap
    columns: npt.NDArray[np.int32]
    labels: int
    near: int
    before: float = 0.0
    after: float = 0.0

    @cached_property
    def _entries(self) -> npt.NDArray[np.int64]:
        return entries_of(self.columns, self.labels)

    def proposed(self, queries: npt.NDArray[np.int8], threads: int) -> npt.NDArray[np.int64]:
        """Inputs and the labels nearest to them: the input in the upper half of the bits."""
        if not self.near:
            return np.empty(0, dtype=np.int64)
        labels = self.columns[self.vectors.nearest(queries, self.near, threads).entries]
        rows = np.arange(len(queries), dtype=np.int64)[:, None]
        return np.asarray(rows << 32 | labels).ravel()

    def evidence(
        self, queries: npt.NDArray[np.int8], rows: npt.NDArray[np.int64], labels: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.float32]:
        """`NEAR_EVIDENCE` of candidates."""
        cosines = self.vectors.cosines(queries, rows, self._entries[labels])
        best = np.full(len(queries), NO_COSINE, dtype=np.float32)
        np.maximum.at(best, rows, cosines)
        return np.column_stack([cosines, cosines - best[rows]])

    def describe(self) -> dict[str, Any]:
        """What it is, for people and programs."""
        return {
            "width": self.vectors.width,
            "proposed": self.near,
            "ndcg_before": round(self.before, 4),
            "ndcg": round(self.after, 4),
        }

    def to_header(self) -> dict[str, Any]:
        """Entries of a model file's header."""
        return {"near": self.near, "before": self.before, "after": self.after}

    def to_sections(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays for a model file."""
        return {"names.vectors": self.vectors.directions, "names.map": self.map.numbers}

    @classmethod
    def from_file(
        cls,
        header: Mapping[str, Any],
        sections: Mapping[str, npt.NDArray[Any]],
        columns: npt.NDArray[np.int32],
        labels: int,
        width: int | None,
    ) -> LabelText:
        """Take back what `to_header` and `to_sections` gave, for such entries, after checking it."""
        if width is None:
            raise ValueError("there are vectors of names, but no encoder to compare them with inputs")
        if type(header["near"]) is not int or not 0 <= header["near"] <= NEAR:
            raise ValueError(f"the names propose {header['near']!r} labels by their vectors")
        _check_quality(header)
        vectors = NameVectors.from_section(sections["names.vectors"], len(columns), width)
        map = NameMap.from_section(sections["names.map"], width)
        return cls(vectors, map, columns, labels, header["near"], header["before"], header["after"])


def entries_of(columns: npt.NDArray[np.int32], labels: int) -> npt.NDArray[np.int64]:
    """The entry of each label, where `columns` has the label of each entry; -1 where it has none."""
    entries = np.full(labels, -1)
    entries[columns] = np.arange(len(columns))
    return entries


def _check_quality(header: Mapping[str, Any]) -> None:
    if any(type(header[name]) is not float for name in ("before", "after")):
        raise ValueError("the vectors of the names do not say how good they are")
