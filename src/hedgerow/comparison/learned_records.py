"""Which reviewed records a model has learned already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from xxhash import xxh3_64_intdigest

from hedgerow.model import Model
from hedgerow.records.table import RecordTable

__all__ = ["LearnedRecords", "Reviewed"]


@dataclass(frozen=True, eq=False)
class Reviewed:
    """Records that people reviewed: inputs as of `update`, their labels, and an id for each."""

    inputs: Sequence[Any]
    labels: Sequence[Sequence[Any]]
    ids: Sequence[str]

    def some(self, places: Iterable[int]) -> Reviewed:
        """Some of them, by their places."""
        kept = list(places)
        return Reviewed(
            [self.inputs[place] for place in kept],
            [self.labels[place] for place in kept],
            [self.ids[place] for place in kept],
        )


@dataclass(frozen=True, eq=False)
class LearnedRecords:
    """The records of a model that have an id, as one number each: a hash of id, input and labels.

    That is little enough to stay in memory, where the records themselves are not.
    """

    marks: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, table: RecordTable) -> LearnedRecords:
        """Those that the model is trained on."""
        ids, begins, columns = table.ids.values(), table.labels.indptr, table.labels.indices
        marks = [
            _mark(
                ids[place],
                hash,
                [table.names[n] for n in columns[begins[place] : begins[place + 1]].tolist()],
            )
            for place, hash in zip(table.present.tolist(), table.hashes[table.present].tolist(), strict=True)
            if ids[place] is not None
        ]
        return cls(np.array(marks, dtype=np.uint64))

    def lacks(self, model: Model, reviewed: Reviewed) -> list[int]:
        """The places of reviewed records that the model has not learned with these labels and this input."""
        if not reviewed.ids:
            return []
        hashes = model.hashes(model.inputs(reviewed.inputs)).tolist()
        marks = [_mark(*one) for one in zip(reviewed.ids, hashes, reviewed.labels, strict=True)]
        return np.flatnonzero(~np.isin(np.array(marks, dtype=np.uint64), self.marks)).tolist()


def _mark(id: str, hash: int, labels: Sequence[Any]) -> int:
    return xxh3_64_intdigest(orjson.dumps([id, hash, sorted(set(labels), key=repr)]))
