"""The labels of two models and of the truth, told apart by their ids and never by their columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

__all__ = ["LabelUnion"]


@dataclass(frozen=True, eq=False)
class LabelUnion:
    """All labels that either model knows or that are true, each once; `columns` finds them."""

    ids: list[Any]
    columns: dict[Any, int]

    @classmethod
    def of(cls, *groups: npt.NDArray[Any]) -> LabelUnion:
        """The union of label ids. Names and numbers do not mix: 7 and "7" might mean the same.

        Examples
        --------
        >>> LabelUnion.of(np.array([3, 5]), np.array([5, 4])).ids
        [3, 5, 4]
        """
        columns: dict[Any, int] = {}
        for ids in groups:
            for label in ids.tolist():
                columns.setdefault(label, len(columns))
        kinds = {isinstance(label, str) for label in columns}
        if len(kinds) > 1:
            raise ValueError(
                "labels are names in one place and numbers in another, so the models and the data cannot be"
                " compared label by label; give all of them the same kind of labels"
            )
        return cls(list(columns), columns)

    def __len__(self) -> int:
        return len(self.ids)

    def places(self, classes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The place of each of a model's labels, and after them the places of all labels it does not know."""
        own = np.array([self.columns[label] for label in classes.tolist()], dtype=np.int64)
        others = np.ones(len(self), dtype=bool)
        others[own] = False
        return np.concatenate([own, np.flatnonzero(others)])

    def truth(self, Y: sp.csr_array, names: npt.NDArray[Any], places: npt.NDArray[np.int64]) -> sp.csr_array:
        """The true labels, whose columns have these names, in the order that `places` gives."""
        to_union = np.array([self.columns[name] for name in names.tolist()], dtype=np.int64)
        to_place = np.empty(len(self), dtype=np.int64)
        to_place[places] = np.arange(len(self))
        indices = to_place[to_union][Y.indices]
        return sp.csr_array((np.ones(len(indices), np.int8), indices, Y.indptr), (Y.shape[0], len(self)))
