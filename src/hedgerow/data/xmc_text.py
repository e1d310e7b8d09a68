"""The text format of the extreme classification repository.

A header ``rows features labels``, then one line per row: ``label,label feature:value feature:value``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from hedgerow import _native
from hedgerow.progress import Stage

from .compressed import packed_file
from .errors import DataError
from .label_space import name_columns
from .lines import read_blocks
from .part import Part, csr, indicator

Shape = tuple[int, int, int]  # rows, features, labels

_HEADER = re.compile(rb"\s*(\d+)\s+(\d+)\s+(\d+)\s*")
_MAX_COLUMNS = 2**31 - 1
_ENTRIES_PER_BLOCK = 1 << 20


def read_xmc_text(
    path: str | PathLike[str],
    *,
    label_names: Sequence[str] | None = None,
    threads: int = 0,
    progress: Stage | None = None,
) -> Part:
    """Read a file in the text format of the extreme classification repository.

    Parameters
    ----------
    path : path-like
        The file; .gz, .xz and .zst are unpacked on the way.
    label_names : sequence of str, optional
        Names for the labels 0, 1, ...; the file itself knows them by number only.
    threads : int, default 0
        Threads that parse; 0 means all processors.
    progress : callable(share), optional
        Called with the share of the file that was read.

    Returns
    -------
    Part
        With `X` and `Y`.
    """
    path = Path(path)
    parser: Any = None
    for shape, block in _read_blocks(path, progress):
        parser = parser or _native.XmcTextParser(*shape)
        _feed(path, parser, block, threads)
    _check_complete(path, shape[0], parser.rows, parser.lines)
    x_indptr, x_indices, x_values, y_indptr, y_indices = parser.finish()
    _, features, labels = shape
    X = csr(x_values, x_indices, x_indptr, features)
    Y = indicator(y_indices, y_indptr, labels)
    return Part(X=X, Y=Y, label_names=name_columns(path, labels, label_names))


def read_rows(
    path: Path, threads: int, progress: Stage | None
) -> Iterator[tuple[Shape, tuple[np.ndarray, ...]]]:
    """Read the same format a block at a time.

    Yields the shape of the whole, and of some rows indptr, indices and values of the features, then indptr
    and indices of the labels; both indptr begin with 0.
    """
    rows = lines = 0
    for shape, block in _read_blocks(path, progress):
        parser: Any = _native.XmcTextParser(shape[0] - rows, *shape[1:])
        _feed(path, parser, block, threads, lines)
        rows, lines = rows + parser.rows, lines + parser.lines
        yield shape, parser.finish()
    _check_complete(path, shape[0], rows, lines)


def _read_blocks(path: Path, progress: Stage | None) -> Iterator[tuple[Shape, bytes]]:
    """Yield the shape that the header states, with every block of rows."""
    shape: Shape | None = None
    for block in read_blocks(path, progress=progress):
        if shape is None:
            header, _, block = block.partition(b"\n")
            shape = _parse_header(path, header)
        yield shape, block
    if shape is None:
        raise DataError(path, "the file is empty; its first line must be `rows features labels`", 1)


def _feed(path: Path, parser: Any, block: bytes, threads: int, lines_before: int = 0) -> None:
    if fault := parser.feed(block, threads):
        line, message = fault
        raise DataError(path, message, lines_before + line + 2)


def _check_complete(path: Path, stated: int, rows: int, lines: int) -> None:
    if rows < stated:
        raise DataError(
            path,
            f"the header says {stated} rows, but the file ends after {rows}; "
            "fetch the file again or correct the header",
            lines + 1,
        )


def _parse_header(path: Path, header: bytes) -> Shape:
    match = _HEADER.fullmatch(header)
    if match is None:
        start = header[:60].decode("utf-8", "backslashreplace")
        raise DataError(
            path,
            f"the header is missing: line 1 must be three numbers, `rows features labels`, found {start!r}; "
            "one text per line belongs in a folder as train_texts.txt or test_texts.txt",
            1,
        )
    rows, features, labels = (int(number) for number in match.groups())
    for noun, count in (("features", features), ("labels", labels)):
        if count > _MAX_COLUMNS:
            raise DataError(path, f"the header says {count} {noun}; at most {_MAX_COLUMNS} are supported", 1)
    if rows > 2**62:
        raise DataError(path, f"the header says {rows} rows, which no file can hold", 1)
    return rows, features, labels


def write_xmc_text(path: str | PathLike[str], X: Any, Y: Any, *, threads: int = 0) -> None:
    """Write features and labels in the text format of the extreme classification repository.

    The file appears as a whole or not at all, packed as its ending says (.gz, .xz, .zst). Values are rounded
    to 32-bit floats and written with the fewest digits that read back as the same float.

    Parameters
    ----------
    path : path-like
        The file to write.
    X : sparse or dense matrix, shape (n, d)
        Features, finite.
    Y : sparse or dense matrix, shape (n, L)
        Labels; every entry that is not zero is a label of the row.
    threads : int, default 0
        Threads that format; 0 means all processors.
    """
    with np.errstate(over="ignore"):
        X = csr_array(X, dtype=np.float32)
    Y = csr_array(Y)
    if X.shape[0] != Y.shape[0]:
        raise DataError(path, f"X has {X.shape[0]} rows and Y has {Y.shape[0]}; they must be the same rows")
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if not np.isfinite(X.data).all():
        row = int(np.searchsorted(X.indptr, np.flatnonzero(~np.isfinite(X.data))[0], side="right")) - 1
        raise DataError(
            path, f"row {row} of X has a value that is not finite as a 32-bit float; clean or scale X"
        )
    if not Y.has_canonical_format or not Y.data.all():
        Y = Y.copy()
        Y.sum_duplicates()
        Y.eliminate_zeros()
    rows = X.shape[0]
    x_indptr = np.ascontiguousarray(X.indptr, dtype=np.int64)
    y_indptr = np.ascontiguousarray(Y.indptr, dtype=np.int64)
    with packed_file(path, overwrite=True) as file:
        file.write(f"{rows} {X.shape[1]} {Y.shape[1]}\n".encode())
        start = 0
        while start < rows:
            stop = max(
                start + 1, int(np.searchsorted(x_indptr, x_indptr[start] + _ENTRIES_PER_BLOCK, "right")) - 1
            )
            stop = min(rows, stop, start + _ENTRIES_PER_BLOCK)
            x_range = slice(x_indptr[start], x_indptr[stop])
            y_range = slice(y_indptr[start], y_indptr[stop])
            file.write(
                _native.format_xmc_rows(
                    x_indptr[start : stop + 1],
                    np.ascontiguousarray(X.indices[x_range], dtype=np.int32),
                    np.ascontiguousarray(X.data[x_range]),
                    y_indptr[start : stop + 1],
                    np.ascontiguousarray(Y.indices[y_range], dtype=np.int32),
                    threads,
                )
            )
            start = stop
