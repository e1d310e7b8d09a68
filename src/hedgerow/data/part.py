from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from .times import Times


@dataclass(frozen=True, eq=False)
class Part:
    """One part of a data set, such as its training part.

    Attributes
    ----------
    X : csr_array of float32, shape (n, d), or None
        Features; indices ascend within a row and none occurs twice.
    texts : list of str or of dict of str to str, or None
        Raw texts, one per row; texts by name where several fields were asked for.
    Y : csr_array of float32, shape (n, L), or None
        Labels: ones, indices ascend. None if the data carry no labels.
    label_names : list of str, or None
        The names of the L labels; None if labels are known by number only.
    ids : list of str or None, or None
        The names of the rows; None of a row that has none, and for all if none has one.
    unknown_labels : int
        Labels (counted once per row) that were left out of `Y` because the given label names lack them.
    skipped : int
        Records that were left out because they carry no labels of the label set that was asked for.
    fields : list of str, or None
        The fields that records have, or the columns of their table; None if the data are not records.
    split : str or None
        The split whose records were read; None if records have no split, or all were read.
    times : Times or None
        When each record is from, where a field of times was asked for.
    later : int
        Records that were left out because they are later than asked for.
    """

    X: csr_array | None = None
    texts: list[Any] | None = None
    Y: csr_array | None = None
    label_names: list[str] | None = None
    ids: list[str | None] | None = None
    unknown_labels: int = 0
    skipped: int = 0
    fields: list[str] | None = None
    split: str | None = None
    times: Times | None = None
    later: int = 0

    def __post_init__(self) -> None:
        lengths = {
            name: int(value.shape[0]) if isinstance(value, csr_array) else len(value)
            for name, value in (
                *(("X", self.X), ("texts", self.texts), ("Y", self.Y)),
                *(("ids", self.ids), ("times", self.times)),
            )
            if value is not None
        }
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns of a part differ in their number of rows: {lengths}")
        if self.Y is not None and self.label_names is not None and self.Y.shape[1] != len(self.label_names):
            raise ValueError(
                f"Y has {self.Y.shape[1]} columns, but there are {len(self.label_names)} label names"
            )

    @property
    def whole_texts(self) -> list[str] | None:
        """The texts, several of a row joined to one."""
        if self.texts is None:
            return None
        return [
            text if isinstance(text, str) else "\n".join(filter(None, text.values())) for text in self.texts
        ]

    @property
    def n(self) -> int:
        """The number of rows."""
        for matrix in (self.X, self.Y):
            if matrix is not None:
                return int(matrix.shape[0])
        return len(self.texts or self.ids or ())


def csr(values: np.ndarray, indices: np.ndarray, indptr: np.ndarray, columns: int) -> csr_array:
    """Make a matrix from arrays whose indices ascend within each row, without a copy of the large ones.

    scipy wants both index arrays to have one type, and takes the wider; so the row starts become int32 where
    they can, rather than all indices int64.
    """
    narrow = indptr[-1] <= np.iinfo(np.int32).max
    return csr_array(
        (values, indices, indptr.astype(np.int32 if narrow else np.int64, copy=False)),
        shape=(len(indptr) - 1, columns),
    )


def indicator(indices: np.ndarray, indptr: np.ndarray, columns: int) -> csr_array:
    """A matrix of ones from the labels of all rows, ascending within each row, and where the rows begin."""
    return csr(np.ones(len(indices), dtype=np.float32), indices, indptr, columns)
