"""The records that a model was trained on, and every change since its last full fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.inputs.training_record import Hashes
from hedgerow.records.packed import BrokenValuesError, Packed

__all__ = ["HeldOutRecords", "Labels", "RecordTable", "Step", "as_ones", "check_texts"]

Ints = npt.NDArray[np.int32]
STAYS = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Step:
    """What an update did besides bringing and removing records: when, and with which labels.

    A label that is renamed to one that others have is merged with it.
    """

    at: str
    renamed: Mapping[Any, Any] = field(default_factory=dict)
    removed_labels: tuple[Any, ...] = ()

    @property
    def labels(self) -> tuple[Any, ...]:
        """All labels that it names."""
        return (*self.renamed, *self.renamed.values(), *self.removed_labels)

    def to_header(self) -> dict[str, Any]:
        """An entry of a file's header; numbers stay numbers."""
        return {
            "at": self.at,
            "renamed": [list(pair) for pair in self.renamed.items()],
            "removed_labels": list(self.removed_labels),
        }

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> Step:
        """Take back what `to_header` gave."""
        if not isinstance(header["at"], str):
            raise ValueError("an update has no time")
        renamed = {_label(old): _label(new) for old, new in header["renamed"]}
        return cls(header["at"], renamed, tuple(map(_label, header["removed_labels"])))


@dataclass(frozen=True, eq=False)
class HeldOutRecords:
    """What a model was calibrated with: inputs, their labels, and the settings of `learn_from_held_out`."""

    inputs: Any
    labels: list[list[Any]]
    settings: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of records that are there: a matrix over `names`, and the update that set those of each."""

    names: list[Any]
    indicator: sp.csr_array
    changed: Ints


@dataclass(frozen=True, eq=False)
class RecordTable:
    """Records in the order in which they came; none is ever moved, and what left stays until a full fit.

    Attributes
    ----------
    kind : str
        "texts" (or records of several texts), or "features".
    ids : Packed
        The id of each record; None for one that has none.
    texts : Packed or None
        Their texts.
    rows : csr_array of float32
        Features: as they were given, or those of the texts.
    names : list
        All labels that any record ever had, strings or numbers.
    labels : csr_array of int8, shape (records, names)
        As each record came with them.
    arrived, left : int32 arrays
        The update that brought a record (0 is the fit), and the one that removed it, or `STAYS`.
    hashes : uint64 array
        Of each input.
    steps : tuple of Step
        One for each update.
    solved : tuple of tuples of int32 arrays
        For each tree and layer: the update that trained the classifier of each node.
    held_out : HeldOutRecords or None
        What the model was calibrated with.
    base_names : int
        How many of the labels the last full fit knew, with those that no record had.
    """

    kind: str
    ids: Packed
    texts: Packed | None
    rows: sp.csr_array
    names: list[Any]
    labels: sp.csr_array
    arrived: Ints
    left: Ints
    hashes: Hashes
    steps: tuple[Step, ...] = ()
    solved: tuple[tuple[Ints, ...], ...] = ()
    held_out: HeldOutRecords | None = None
    base_names: int = 0

    @property
    def now(self) -> int:
        """The number of the last update."""
        return len(self.steps)

    @property
    def present(self) -> npt.NDArray[np.int64]:
        """The records that are there, by their places."""
        return np.flatnonzero(self.left == STAYS)

    @property
    def base(self) -> int:
        """How many records the last full fit had."""
        return int(np.count_nonzero(self.arrived == 0))

    @property
    def changed(self) -> int:
        """How many records came or left since the last full fit."""
        return int(np.count_nonzero(self.arrived) + np.count_nonzero(self.left != STAYS))

    def places(self) -> dict[str, int]:
        """Where the records that are there, and have an id, stand."""
        listed = self.ids.values()
        return {listed[place]: place for place in self.present.tolist() if listed[place] is not None}

    def inputs(self, places: npt.NDArray[np.integer[Any]]) -> Any:
        """Inputs as users gave them."""
        if self.texts is not None:
            return check_texts(self.texts.some(places))
        return self.rows[places]

    def labels_at(self, step: int | None = None) -> Labels:
        """The labels of the records that were there after an update, by default the last."""
        step = self.now if step is None else step
        places = np.flatnonzero((self.arrived <= step) & (self.left > step))
        labels = sp.csr_array(self.labels[places])
        names, own = list(self.names), {name: number for number, name in enumerate(self.names)}
        rows = np.repeat(np.arange(len(places)), np.diff(labels.indptr))
        columns = labels.indices.astype(np.int64)
        came, changed = self.arrived[places], self.arrived[places].copy()
        for number, done in enumerate(self.steps[:step], start=1):
            if not done.renamed and not done.removed_labels:
                continue
            to = np.arange(len(names) + len(done.renamed), dtype=np.int64)
            for old, new in done.renamed.items():
                if new not in own:
                    own[new] = len(names)
                    names.append(new)
                if old in own:
                    to[own[old]] = own[new]
            for gone in done.removed_labels:
                if gone in own:
                    to[own[gone]] = -1
            then = came[rows] < number
            moved = then & (to[columns] != columns)
            columns = np.where(then, to[columns], columns)
            changed[rows[moved]] = number
            kept = columns >= 0
            rows, columns = rows[kept], columns[kept]
        indicator = sp.csr_array(
            (np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(len(places), len(names))
        )
        indicator.sum_duplicates()
        indicator.data[:] = 1
        indicator.sort_indices()
        return Labels(names, indicator, changed.astype(np.int32))

    def prefix(self, step: int) -> RecordTable:
        """The table as it was after an update."""
        count = int(np.count_nonzero(self.arrived <= step))  # records are in the order of their arrival
        used = np.zeros(len(self.names), dtype=bool)
        labels = sp.csr_array(self.labels[:count])
        used[labels.indices] = True
        last = max(self.base_names, int(np.flatnonzero(used)[-1]) + 1 if used.any() else 0)
        places = np.arange(count)
        return replace(
            self,
            ids=_packed(self.ids, places, self.arrived[places]),
            texts=None if self.texts is None else _packed(self.texts, places, self.arrived[places]),
            rows=sp.csr_array(self.rows[:count]),
            names=self.names[:last],
            labels=sp.csr_array(labels[:, :last]),
            arrived=self.arrived[:count],
            left=np.where(self.left[:count] <= step, self.left[:count], STAYS).astype(np.int32),
            hashes=self.hashes[:count],
            steps=self.steps[:step],
            solved=(),
        )

    def labels_added(self, step: int) -> int:
        """How many labels came with an update that no record had before it."""
        before = self.labels_at(step - 1)
        had = {before.names[column] for column in np.unique(before.indicator.indices).tolist()}
        came = np.unique(self.labels[np.flatnonzero(self.arrived == step)].indices)
        return len({self.names[column] for column in came.tolist()} - had)

    def without(self, ids: Sequence[str]) -> RecordTable:
        """The table as it would be if records of these ids, and all their versions, had never been there."""
        gone = set(ids)
        kept = np.array(
            [place for place, id in enumerate(self.ids.values()) if id not in gone], dtype=np.int64
        )
        labels = sp.csr_array(self.labels[kept])
        used = np.zeros(len(self.names), dtype=bool)
        used[labels.indices] = True
        before = np.zeros(len(self.names), dtype=bool)
        before[self.labels.indices] = True
        stay = np.flatnonzero(used | ~before)  # a name that only they had goes, too
        stay = np.array(self._in_order(stay, kept), dtype=np.int64)
        rest = replace(
            self,
            ids=_packed(self.ids, kept, self.arrived[kept]),
            texts=None if self.texts is None else _packed(self.texts, kept, self.arrived[kept]),
            rows=sp.csr_array(self.rows[kept]),
            names=[self.names[place] for place in stay.tolist()],
            labels=sp.csr_array(labels[:, stay]),
            arrived=self.arrived[kept],
            left=self.left[kept],
            hashes=self.hashes[kept],
            base_names=int(np.count_nonzero(stay < self.base_names)),
        )
        return _with_steps_that_did_something(rest)

    def _in_order(self, columns: npt.NDArray[np.int64], kept: npt.NDArray[np.int64]) -> list[int]:
        """Labels in the order in which they came with some records: those of a later update by name."""
        first = np.full(len(self.names), -1, dtype=np.int64)
        rows = np.repeat(kept, np.diff(self.labels.indptr)[kept])
        # The first record that has a label comes last, and stays.
        first[self.labels[kept].indices[::-1]] = self.arrived[rows][::-1]
        base = [column for column in columns.tolist() if column < self.base_names]
        later = [column for column in columns.tolist() if column >= self.base_names]
        return base + sorted(later, key=lambda column: (int(first[column]), self.names[column]))


def as_ones(labels: sp.csr_array) -> sp.csr_array:
    """A matrix of labels with small ones."""
    ones: Any = (np.ones(labels.nnz, dtype=np.int8), labels.indices, labels.indptr)
    return sp.csr_array(ones, shape=labels.shape)


def _with_steps_that_did_something(table: RecordTable) -> RecordTable:
    """The table without changes of labels that no record had."""
    steps = table.steps
    table = replace(table, steps=())
    for number, step in enumerate(steps):
        there = table.labels_at(number)
        had = {there.names[column] for column in np.unique(there.indicator.indices).tolist()}
        renamed = {old: new for old, new in step.renamed.items() if old in had}
        removed = tuple(label for label in step.removed_labels if label in had)
        table = replace(table, steps=(*table.steps, Step(step.at, renamed, removed)))
    return table


def _packed(values: Packed, places: npt.NDArray[np.int64], arrived: Ints) -> Packed:
    """Some values, in the blocks that they would be in if they alone had come, update by update."""
    found = values.some(places)
    packed = Packed()
    cuts = [0, *(np.flatnonzero(np.diff(arrived)) + 1).tolist(), len(found)]
    for begin, end in pairwise(cuts):
        packed = packed.and_more(found[begin:end])
    return packed


def check_texts(values: list[Any]) -> list[Any]:
    """The same texts, or records of several texts; an error where a file has something else there."""
    for value in values:
        parts = value if type(value) is list else [value]
        if any(type(part) is not str for part in parts):
            raise BrokenValuesError(f"{value!r:.100} is no text")
    return values


def _label(value: Any) -> Any:
    if type(value) not in (str, int):
        raise ValueError(f"{value!r} is no label")
    return value
