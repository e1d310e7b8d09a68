"""What an update brings: new and corrected records, records and labels that go, other names of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.inputs.training_record import Hashes
from hedgerow.records.table import STAYS, HeldOutRecords, RecordTable, Step

__all__ = ["Applied", "Arrivals", "Changes", "ChangesError", "apply_changes"]


class ChangesError(ValueError):
    """Changes that contradict the records, or each other."""


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Records that come: inputs as given, their features, hashes, labels (lists) and ids (None: has none)."""

    inputs: Any
    rows: sp.csr_array
    hashes: Hashes
    labels: Sequence[Sequence[Any]]
    ids: Sequence[str | None]


@dataclass(frozen=True, eq=False)
class Changes:
    """An update: arrivals, ids of records that go, labels with their new names, and labels that go."""

    arrivals: Arrivals
    removed: Sequence[str] = ()
    renamed: Mapping[Any, Any] = field(default_factory=dict)
    removed_labels: Sequence[Any] = ()


@dataclass(frozen=True, eq=False)
class Applied:
    """The records after an update, and what it did to them; `gone` are the places of those that left."""

    table: RecordTable
    gone: npt.NDArray[np.int64]
    added: int
    corrected: int
    removed: int
    labels_added: tuple[Any, ...]


def apply_changes(table: RecordTable, changes: Changes, at: str) -> Applied:
    """The records after an update; ChangesError where it does not fit them.

    A record with the id of one that is there corrects it: the old one leaves. A record without an id is
    always new.
    """
    places = table.places()
    arrivals = changes.arrivals
    given = [id for id in arrivals.ids if id is not None]
    if len(set(given)) != len(given):
        twice = next(id for number, id in enumerate(given) if id in given[:number])
        raise ChangesError(f"two of the new records have the id {twice!r}; leave one of them out")
    for id in changes.removed:
        if id not in places:
            raise ChangesError(f"no record has the id {id!r}, so it cannot be removed")
        if id in set(given):
            raise ChangesError(f"the record {id!r} is to be removed and comes again; leave out one of both")
    present = table.labels_at()
    used = np.zeros(len(present.names), dtype=bool)
    used[present.indicator.indices] = True
    known = {name for name, one in zip(present.names, used.tolist(), strict=True) if one}
    _check_labels(changes, known)
    now = table.now + 1
    gone = np.array(
        sorted([places[id] for id in given if id in places] + [places[id] for id in changes.removed]),
        dtype=np.int64,
    )
    left = table.left.copy()
    left[gone] = now
    names = list(table.names)
    number = {name: place for place, name in enumerate(names)}
    # In their own order, so that it does not depend on records which may be forgotten.
    fresh_names = sorted({label for labels in arrivals.labels for label in labels} - set(number))
    number |= {name: len(names) + place for place, name in enumerate(fresh_names)}
    names += fresh_names
    encoded = [sorted({number[label] for label in labels}) for labels in arrivals.labels]
    indices = np.array([column for own in encoded for column in own], dtype=np.int32)
    indptr = np.concatenate([[0], np.cumsum([len(own) for own in encoded])]).astype(np.int64)
    count = len(encoded)
    fresh = sp.csr_array((np.ones(len(indices), dtype=np.int8), indices, indptr), shape=(count, len(names)))
    widened = sp.csr_array(
        (table.labels.data, table.labels.indices, table.labels.indptr), shape=(len(left), len(names))
    )
    after = replace(
        table,
        ids=table.ids.and_more(arrivals.ids),
        texts=None if table.texts is None else table.texts.and_more(arrivals.inputs),
        rows=sp.csr_array(sp.vstack([table.rows, arrivals.rows], format="csr")) if count else table.rows,
        names=names,
        labels=sp.csr_array(sp.vstack([widened, fresh], format="csr")),
        arrived=np.concatenate([table.arrived, np.full(count, now, dtype=np.int32)]),
        left=np.concatenate([left, np.full(count, STAYS, dtype=np.int32)]),
        hashes=np.concatenate([table.hashes, np.asarray(arrivals.hashes, dtype=np.uint64)]),
        steps=(*table.steps, Step(at, dict(changes.renamed), tuple(changes.removed_labels))),
        held_out=_held_out(table.held_out, changes),
    )
    came = {label for labels in arrivals.labels for label in labels}
    corrected = sum(id in places for id in given)
    return Applied(
        after, gone, count - corrected, corrected, len(changes.removed), tuple(sorted(came - known, key=str))
    )


def _held_out(held_out: HeldOutRecords | None, changes: Changes) -> HeldOutRecords | None:
    """Held-out records with the labels that they have after the update."""
    if held_out is None or not (changes.renamed or changes.removed_labels):
        return held_out
    gone = set(changes.removed_labels)
    labels = [
        list(dict.fromkeys(changes.renamed.get(label, label) for label in own if label not in gone))
        for own in held_out.labels
    ]
    return replace(held_out, labels=labels)


def _check_labels(changes: Changes, known: set[Any]) -> None:
    for old, new in changes.renamed.items():
        if old not in known:
            raise ChangesError(f"no record has the label {old!r}, so it cannot be renamed")
        if new == old or new in changes.renamed:
            raise ChangesError(f"{old!r} is to become {new!r}, which is renamed itself; name its last name")
        if type(new) is not type(old):
            raise ChangesError(f"{old!r} is to become {new!r}; labels are all strings or all numbers")
    for label in changes.removed_labels:
        if label not in known:
            raise ChangesError(f"no record has the label {label!r}, so it cannot be removed")
        if label in changes.renamed or label in changes.renamed.values():
            raise ChangesError(f"the label {label!r} is to be removed and renamed; choose one of both")
    strings = {isinstance(label, str) for label in known}
    for row, labels in enumerate(changes.arrivals.labels):
        for label in labels:
            if isinstance(label, bool) or not isinstance(label, str | int | np.integer):
                raise ChangesError(f"new record {row} has the label {label!r}; labels are strings or numbers")
            if strings and isinstance(label, str) not in strings:
                raise ChangesError(
                    f"new record {row} has the label {label!r}, but the model's labels are"
                    f" {'strings' if True in strings else 'numbers'}"
                )
