"""Records in order of time, with their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.data.times import Times
from hedgerow.inputs.labels import encode_labels
from hedgerow.inputs.rows import count, take

__all__ = ["Rows", "Stream"]

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stream:
    """Inputs, their labels, what these are called, and when each input is from."""

    inputs: Any
    labels: sp.csr_array
    names: npt.NDArray[np.object_]
    times: Times

    @classmethod
    def of(cls, X: Any, Y: Any, times: Any, classes: list[str] | None = None) -> Self:
        """Check that all have one entry for each input; labels by number are called by it."""
        rows = count(X)
        own = times if isinstance(times, Times) else Times.of(times)
        if len(own) != rows:
            raise ValueError(f"there are {rows:,} inputs, but {len(own):,} times; give each input one")
        encoded = encode_labels(Y, rows, classes)
        names = np.array([str(name) for name in encoded.names.tolist()], dtype=object)
        return cls(X, encoded.indicator, names, own)

    def take(self, rows: Rows) -> Any:
        """The inputs in these rows."""
        return take(self.inputs, rows)

    def learnable(self, rows: Rows) -> tuple[sp.csr_array, list[str]]:
        """The labels of rows, in columns for those that occur there, and what these are called."""
        labels = self.labels[rows]
        own = np.unique(labels.indices)
        return sp.csr_array(labels[:, own]), self.names[own].tolist()

    def lists(self, rows: Rows) -> list[list[str]]:
        """The labels of rows by name."""
        labels = self.labels[rows]
        parts = np.split(self.names[labels.indices], labels.indptr[1:-1])
        return [part.tolist() for part in parts]

    def truth(self, rows: Rows, classes: npt.NDArray[Any]) -> sp.csr_array:
        """The labels of rows in the columns of a model; those that it does not know come after them."""
        known = {name: column for column, name in enumerate(classes.tolist())}
        place = np.array([known.get(name, -1) for name in self.names.tolist()], dtype=np.int64)
        strange = np.flatnonzero(place < 0)
        place[strange] = len(classes) + np.arange(len(strange))
        own = self.labels[rows]
        truth = sp.csr_array(
            (np.ones(own.nnz, dtype=np.int8), place[own.indices].astype(np.int32), own.indptr),
            shape=(len(rows), len(classes) + len(strange)),
        )
        truth.sort_indices()
        return truth
