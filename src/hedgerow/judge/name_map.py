"""Turns the embedding of an input towards the names of the labels that such inputs have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from hedgerow.judge.name_vectors import NameVectors, directions

__all__ = ["NameMap", "learn_name_map"]

_LARGEST = 2**15 - 1
# The map without any input to learn from, and how many inputs outweigh it, all of one direction.
_OWN_WAY, _PENALTY = 0.5, 100.0
_TOGETHER = 4096


@dataclass(frozen=True, eq=False)
class NameMap:
    """A linear map from the embedding of an input to the space of names.

    `numbers` has a row for each number of an embedding. They are integers, and so is what is mapped; sums
    stay below 2^53, so that a float64 is exact and the result the same in any batch.
    """

    numbers: npt.NDArray[np.int16]

    def apply(self, embeddings: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
        """The directions that are compared with those of names."""
        return directions(directions(embeddings).astype(np.float64) @ self.numbers.astype(np.float64))

    @classmethod
    def from_section(cls, section: npt.NDArray[Any], width: int) -> NameMap:
        """Take back the numbers for an encoder so wide, after checking them."""
        if section.dtype != np.int16 or section.shape != (width, width):
            raise ValueError("the map from inputs to names has the wrong type or shape")
        return cls(np.asarray(section))


def learn_name_map(
    embeddings: npt.NDArray[Any], truth: sp.csr_array, vectors: NameVectors, entries: npt.NDArray[np.int64]
) -> NameMap:
    """Ridge regression from inputs to the mean direction of the names of their labels.

    Few inputs change little: what is penalised is the distance to a map that turns nothing.

    Parameters
    ----------
    embeddings : array, shape (inputs, width)
        The inputs.
    truth : csr_array, shape (inputs, n_labels)
        Their labels.
    vectors : NameVectors
        The names of entries.
    entries : int64 array, shape (n_labels,)
        The entry of each label; -1 where it has none.
    """
    width = vectors.width
    square, target = _PENALTY * np.eye(width), _PENALTY * _OWN_WAY * np.eye(width)
    with threadpool_limits(1, user_api="blas"):  # the same bits whatever the number of threads
        for begin in range(0, len(embeddings), _TOGETHER):
            own = _unit(directions(embeddings[begin : begin + _TOGETHER]))
            means, named = _mean_names(truth[begin : begin + _TOGETHER], vectors, entries)
            square += own[named].T @ own[named]
            target += own[named].T @ means[named]
        found = np.linalg.solve(square, target)
    return NameMap(np.rint(found * (_LARGEST / np.abs(found).max())).astype(np.int16))


def _mean_names(
    truth: sp.csr_array, vectors: NameVectors, entries: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """The mean direction of the names of each input's labels, and which inputs have any."""
    own = entries[truth.indices]
    rows = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr))[own >= 0]
    names, places = np.unique(own[own >= 0], return_inverse=True)
    shape = (truth.shape[0], len(names))
    sums = sp.csr_array((np.ones(len(rows)), (rows, places)), shape=shape) @ _unit(vectors.directions[names])
    count = np.bincount(rows, minlength=truth.shape[0])
    return sums / np.maximum(count, 1)[:, None], count > 0


def _unit(vectors: npt.NDArray[np.int8]) -> npt.NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    squares: npt.NDArray[np.float64] = np.einsum("ij,ij->i", wide, wide)  # of integers, so exact
    return np.asarray(wide / np.sqrt(np.maximum(squares, 1.0))[:, None])
