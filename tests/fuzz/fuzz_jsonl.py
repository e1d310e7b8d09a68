"""The reader of JSONL: the first byte of an input chooses how to read, the rest is the file.

Either the file is refused with a `DataError`, or it is read, and reads the same after it was written anew.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hedgerow.data import DataError, Part, read_jsonl, write_jsonl

LABEL_FIELDS = ("labels", "tags", None)
SPLITS = (None, "train")
NAMES = (None, ["a", "b"])
ENDINGS = ("", "", "", "", "", ".gz", ".xz", ".zst")


def run(data: bytes, folder: Path) -> None:
    """Read one input, and check what comes of it."""
    choice = data[0] if data else 0
    choice, field = divmod(choice, len(LABEL_FIELDS))
    choice, split = divmod(choice, len(SPLITS))
    choice, names = divmod(choice, len(NAMES))
    path = folder / f"records.jsonl{ENDINGS[choice % len(ENDINGS)]}"
    path.write_bytes(data[1:])
    try:
        part = read_jsonl(path, SPLITS[split], label_names=NAMES[names], labels_field=LABEL_FIELDS[field])
    except DataError:
        return
    check_again(part, folder / "again.jsonl")


def check_again(part: Part, path: Path) -> None:
    """What was read, written and read again is the same."""
    records = [{"text": text} for text in part.texts or []]
    if part.ids is not None:
        for record, id in zip(records, part.ids, strict=True):
            record["id"] = id
    if part.Y is not None and part.label_names is not None:
        for row, record in enumerate(records):
            labels = part.Y.indices[part.Y.indptr[row] : part.Y.indptr[row + 1]]
            if not (np.diff(labels) > 0).all():
                raise AssertionError(f"the labels of row {row} do not ascend: {labels}")
            record["labels"] = [part.label_names[label] for label in labels]
    write_jsonl(path, records)
    again = read_jsonl(path, label_names=part.label_names)
    if again.texts != part.texts or again.ids != part.ids or again.unknown_labels:
        raise AssertionError("texts or ids differ after writing")
    if part.Y is not None and (again.Y is None or (again.Y != part.Y).nnz):
        raise AssertionError("labels differ after writing")
