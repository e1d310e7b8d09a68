"""Names of labels as vectors of the encoder that reads the inputs, and how near they are to an input."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native

__all__ = ["NO_COSINE", "WIDEST", "NameVectors", "Nearest", "directions"]

NO_COSINE = -1.0  # of a label without a vector
_LARGEST = 127
WIDEST = 2**17 - 1  # sums of so many products of two bytes fit 32 bits
_TOGETHER = 8192  # vectors that are taken out at once


@dataclass(frozen=True, eq=False)
class Nearest:
    """The entries nearest to each input, nearest first; of equally near ones, the lower number first."""

    entries: npt.NDArray[np.int32]
    cosines: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class NameVectors:
    """The direction of the name of each entry, in bytes; zeros where an entry has no name.

    Integers add up to the same sum in any order. So no cosine depends on threads, batches or the machine.
    """

    directions: npt.NDArray[np.int8]

    @property
    def width(self) -> int:
        """Length of a vector."""
        return int(self.directions.shape[1])

    def cosines(
        self, queries: npt.NDArray[np.int8], rows: npt.NDArray[np.int64], entries: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Of inputs, given by their place in `queries`, and entries; `NO_COSINE` where the entry is -1."""
        found = np.full(len(rows), NO_COSINE, dtype=np.float32)
        lengths = _lengths(queries)
        for begin in range(0, len(rows), _TOGETHER):
            part = slice(begin, begin + _TOGETHER)
            named = begin + np.flatnonzero((entries[part] >= 0) & self._has_vector[entries[part]])
            own, other = entries[named], rows[named]
            dots = np.einsum("ij,ij->i", self.directions[own], queries[other], dtype=np.int32)
            found[named] = _cosine(dots, self._lengths[own], lengths[other])
        return found

    def nearest(self, queries: npt.NDArray[np.int8], count: int, threads: int) -> Nearest:
        """The `count` entries that are nearest to each input, exactly; fewer where fewer have a vector."""
        count = min(count, int(self._has_vector.sum()))
        return Nearest(
            *_native.nearest_names(self.directions, self._lengths, queries, _lengths(queries), count, threads)
        )

    @classmethod
    def from_section(cls, section: npt.NDArray[Any], entries: int, width: int) -> NameVectors:
        """Take back the directions of so many entries with so many numbers each, after checking them."""
        if section.dtype != np.int8 or section.shape != (entries, width) or not 1 <= width <= WIDEST:
            raise ValueError("the vectors of the names have the wrong type or shape")
        if section.size and section.min() < -_LARGEST:
            raise ValueError("the vectors of the names are out of range")
        return cls(np.asarray(section))

    @cached_property
    def _lengths(self) -> npt.NDArray[np.float64]:
        return _lengths(self.directions)

    @cached_property
    def _has_vector(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self._lengths > 0)


def directions(vectors: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    """Vectors in bytes, each scaled so that its largest number is 127.

    Examples
    --------
    >>> directions(np.array([[0.6, -0.8], [0.0, 0.0]])).tolist()
    [[95, -127], [0, 0]]
    """
    found = np.empty(vectors.shape, dtype=np.int8)
    for begin in range(0, len(vectors), _TOGETHER):
        part = vectors[begin : begin + _TOGETHER].astype(np.float64)
        largest = np.abs(part).max(axis=1, keepdims=True)
        found[begin : begin + len(part)] = np.rint(part * (_LARGEST / np.where(largest > 0, largest, 1.0)))
    return found


def _lengths(vectors: npt.NDArray[np.int8]) -> npt.NDArray[np.float64]:
    squares: npt.NDArray[np.int32] = np.einsum("ij,ij->i", vectors, vectors, dtype=np.int32)
    return np.asarray(np.sqrt(squares, dtype=np.float64))


def _cosine(dots: npt.NDArray[Any], lengths: Any, others: Any) -> npt.NDArray[np.float32]:
    product = np.maximum(lengths * others, 1.0)  # a direction that is none has length 0
    return np.asarray(dots / product, dtype=np.float32)
