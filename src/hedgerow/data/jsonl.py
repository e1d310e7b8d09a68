"""Records as JSON, one per line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import orjson

from hedgerow.progress import Stage

from .compressed import packed_file
from .errors import DataError
from .lines import decode, read_raw_lines
from .part import Part
from .reading import Reading
from .records import RecordCollector

_BUFFER_BYTES = 1 << 20


def read_jsonl(
    path: str | PathLike[str],
    part: str | None = None,
    *,
    label_names: Sequence[str] | None = None,
    labels_field: str | None = "labels",
    text_fields: Sequence[str] | None = None,
    progress: Stage | None = None,
) -> Part:
    """Read records ``{"text": ..., "labels": [...], "id": ...}``, one per line.

    Records may carry a field ``split``; then those of the split `part` are read. In such a file, a label set
    chosen by another field than ``labels`` need not cover all records: those without it are skipped and
    counted.

    Parameters
    ----------
    path : path-like
        The file; .gz, .xz and .zst are unpacked on the way.
    part : str, optional
        The split to read, such as ``train``, if records carry one; None reads all.
    label_names : sequence of str, optional
        The label space to map onto; None makes it of what occurs.
    labels_field : str or None, default "labels"
        The field that holds the labels; None reads no labels.
    text_fields : sequence of str, optional
        The fields that hold texts, such as ``["title", "abstract"]``; None reads ``text``.
    progress : callable(share), optional
        Called with the share of the file that was read.

    Returns
    -------
    Part
        With `texts`, and with `Y`, `label_names` and `ids` where the records have them.
    """
    return read_records(
        Path(path), part, Reading(label_names, labels_field, progress=progress, text_fields=text_fields)
    )


def read_records(path: Path, part: str | None, reading: Reading) -> Part:
    """Do the work of `read_jsonl`."""
    labels_field = reading.labels_field
    records = RecordCollector(path, reading)
    has_split: bool | None = None
    splits: set[str] = set()
    fields: set[str] = set()
    for number, line in read_raw_lines(path, progress=reading.progress):
        if not line.strip():
            continue
        record = _parse(path, number, line)
        split = record.get("split")
        if has_split is None:
            has_split = split is not None
        elif has_split != (split is not None):
            raise DataError(
                path, "some records have a split and some have none; give all of them one", number
            )
        if has_split and part is not None:
            if not isinstance(split, str):
                raise DataError(path, f"the split is {split!r:.60}, not a string such as 'train'", number)
            splits.add(split)
            if split != part:
                continue
        fields.update(record)
        labels = None if labels_field is None else record.get(labels_field)
        if has_split and labels_field not in (None, "labels") and not labels:
            records.skipped += 1
            continue
        if not records.is_wanted(number, record):
            continue
        records.add(number, reading.text_of(record), labels, record.get("id"))
    if records.n == 0 and splits and part not in splits:
        raise DataError(path, f"no record has the split {part!r}; the file has {', '.join(sorted(splits))}")
    if records.n == 0 and records.skipped:
        raise DataError(
            path,
            f"no record has labels in the field {labels_field!r}; the fields are {', '.join(sorted(fields))}",
        )
    return records.finish(sorted(fields), part if has_split else None)


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        decode(path, number, line)
        raise DataError(path, f"is not JSON: {error}; write one object per line", number) from error
    if not isinstance(record, dict):
        raise DataError(
            path, f"is {line[:60].decode('utf-8', 'replace')!r}, not an object with a text", number
        )
    return record


def write_jsonl(path: str | PathLike[str], records: Iterable[Mapping[str, object]]) -> None:
    """Write records as JSON, one per line.

    The file appears as a whole or not at all, packed as its ending says (.gz, .xz, .zst).

    Parameters
    ----------
    path : path-like
        The file to write.
    records : iterable of mappings
        Such as ``{"text": "...", "labels": ["a", "b"]}``.
    """
    with packed_file(path, overwrite=True) as file:
        lines: list[bytes] = []
        size = 0
        for number, record in enumerate(records, 1):
            try:
                line = orjson.dumps(
                    dict(record), option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
                )
            except TypeError as error:
                raise DataError(path, f"the record cannot be written as JSON: {error}", number) from error
            lines.append(line)
            size += len(line)
            if size >= _BUFFER_BYTES:
                file.write(b"".join(lines))
                lines, size = [], 0
        file.write(b"".join(lines))
