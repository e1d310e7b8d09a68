"""Tables with a column of texts: CSV and Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import DataError
from .lines import MAX_LINE_BYTES, read_lines
from .part import Part
from .reading import Reading
from .records import RecordCollector
from .separators import LabelCells, find_label_cells


def read_csv(path: Path, reading: Reading) -> Part:
    """Read a CSV file with a column `text` and, if there are any, columns of labels and `id`."""
    records = RecordCollector(path, reading)
    read: list[tuple[int, Any, str | None, str | None]] = []
    rows = csv.reader((text + "\n" for _, text in read_lines(path, progress=reading.progress)), strict=True)
    with _large_fields():
        try:
            columns = next(rows, [])
            _check_columns(path, columns, reading)
            for row in rows:
                if not row:
                    continue
                if len(row) != len(columns):
                    raise DataError(
                        path,
                        f"the row has {len(row)} cells, but the header names {len(columns)} columns; "
                        'put "quotes" around cells with a comma in them',
                        rows.line_num,
                    )
                cells = dict(zip(columns, row, strict=True))
                if not records.is_wanted(rows.line_num, cells):
                    continue
                cell = None if reading.labels_field is None else cells.get(reading.labels_field)
                read.append((rows.line_num, reading.text_of(cells), cell, cells.get("id")))
        except csv.Error as error:
            raise DataError(path, f"is not CSV: {error}; check the quotes", rows.line_num) from error
    # Only the whole column tells what separates labels.
    if reading.label_separator is not None:
        held = LabelCells(reading.label_separator)
    else:
        held = find_label_cells(path, [(line, cell) for line, _, cell, _ in read if cell is not None])
    for line, text, cell, id in read:
        records.add(line, text, None if cell is None else held.labels(cell), id)
    return records.finish(columns)


@contextmanager
def _large_fields() -> Iterator[None]:
    """Raise the csv module's limit of 128 KiB per cell, which long documents exceed, while a file is read."""
    old = csv.field_size_limit(MAX_LINE_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(old)


def _check_columns(path: Path, columns: Sequence[str], reading: Reading) -> None:
    wanted = ["text"] if reading.text_fields is None else [*reading.text_fields, "text"]
    if not set(wanted) & set(columns):
        found = ", ".join(columns) or "none"
        named = " or ".join(map(repr, wanted))
        raise DataError(path, f"there is no column {named}; the columns are: {found}", 1)
    if reading.time_field is not None and reading.time_field not in columns:
        found = ", ".join(columns)
        raise DataError(path, f"there is no column {reading.time_field!r}; the columns are: {found}", 1)


def read_parquet(path: Path, reading: Reading) -> Part:
    """Read a Parquet file with a column `text` and, if there are any, columns of labels (lists) and `id`.

    Errors name the row, counted from 1, where other formats name the line.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(path, "reading Parquet needs pyarrow: pip install hedgerow[parquet]") from error
    records = RecordCollector(path, reading)
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            columns: list[str] = table.schema_arrow.names
            _check_columns(path, columns, reading)
            texts = reading.text_fields or ()
            asked = ("text", *texts, reading.labels_field, "id", reading.time_field)
            wanted = list(dict.fromkeys(name for name in asked if name in columns))
            total = max(1, table.metadata.num_rows)
            number = 0
            for batch in table.iter_batches(batch_size=8192, columns=wanted):
                for row in batch.to_pylist():
                    number += 1
                    if not records.is_wanted(number, row):
                        continue
                    labels = row.get(reading.labels_field)
                    records.add(number, reading.text_of(row), labels, row.get("id"))
                if reading.progress is not None:
                    reading.progress(number / total)
    except DataError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(path, f"cannot be read as Parquet: {error}") from error
    return records.finish(columns)
