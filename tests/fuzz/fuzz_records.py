"""The file of records: an input is a file, whose checksums are made right, or no change would get past them.

Either it is refused with a `ModelFileError`, now or when its texts are read, or its records can be changed.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from fuzz_model_file import mutated, sealed

from hedgerow.records.changes import Arrivals, Changes, ChangesError, apply_changes
from hedgerow.records.file import read_records, write_records
from hedgerow.records.table import RecordTable
from hedgerow.storage.container import ModelFileError

__all__ = ["mutated", "run"]


def run(data: bytes, folder: Path) -> None:
    """Read one input, and change what it holds."""
    path = folder / "records.data"
    path.write_bytes(sealed(data))
    try:
        table, of = read_records(path)
    except ModelFileError:
        return
    with contextlib.suppress(ModelFileError):
        change(table)
    again = folder / "again.data"
    write_records(table, of, again)
    once = again.read_bytes()
    write_records(read_records(again)[0], of, again)
    if again.read_bytes() != once:
        raise AssertionError("records differ after writing")


def change(table: RecordTable) -> None:
    """Have a table do all that updates ask of it."""
    places = table.places()
    for step in range(table.now + 1):
        table.labels_at(step)
        table.prefix(step)
    last = table.labels_at()
    present = table.present
    if last.indicator.shape[0] != len(present):
        raise AssertionError("records and their labels differ in number")
    table.without(list(places)[:2])
    nothing = Arrivals(
        [], sp.csr_array((0, table.rows.shape[1]), dtype=np.float32), np.zeros(0, np.uint64), [], []
    )
    used = sorted({last.names[column] for column in last.indicator.indices.tolist()})
    for one in (
        Changes(nothing, list(places)[:1]),
        Changes(nothing, (), {used[0]: used[-1]} if used else {}),
        Changes(nothing, (), {}, used[:1]),
    ):
        with contextlib.suppress(ChangesError):
            applied = apply_changes(table, one, "2030")
            if applied.table.now != table.now + 1:
                raise AssertionError("an update did not count")
    table.inputs(present)
