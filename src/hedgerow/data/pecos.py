"""The folder layout of PECOS: ``X.trn.npz``, ``Y.trn.npz``, the same for tst, and ``output-items.txt``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from scipy.sparse import csc_array, csr_array

from hedgerow.storage.atomic_file import atomic_file

from .errors import DataError, reading_matrix
from .label_space import name_columns, read_names, unique_names
from .lines import read_lines
from .part import Part, indicator
from .reading import Reading

_KEYS = ("indices", "indptr", "data", "shape", "format")


@dataclass(frozen=True)
class PecosFiles:
    """The files that a part of a PECOS folder has: sparse matrices, and one text or label name per line."""

    features: Path | None
    texts: Path | None
    labels: Path | None
    names: Path | None


def read_pecos(files: PecosFiles, reading: Reading) -> Part:
    """Read one part of a PECOS folder. Labels are mapped by name, or without names by their columns."""
    X = None if files.features is None else load_matrix(files.features)
    texts = None
    if files.texts is not None:
        texts = [text for _, text in read_lines(files.texts, progress=reading.progress)]
        if X is not None and X.shape[0] != len(texts):
            raise DataError(
                files.texts, f"has {len(texts)} lines, but {files.features} has {X.shape[0]} rows"
            )
    if files.labels is None:
        return Part(X=X, texts=texts)
    Y = load_matrix(files.labels)
    Y.eliminate_zeros()
    Y.data[:] = 1
    rows = X.shape[0] if X is not None else Y.shape[0] if texts is None else len(texts)
    if Y.shape[0] != rows:
        raise DataError(
            files.labels, f"has {Y.shape[0]} rows, but {files.features or files.texts} has {rows}"
        )
    wanted = reading.label_names
    if files.names is None:
        return Part(X=X, texts=texts, Y=Y, label_names=name_columns(files.labels, Y.shape[1], wanted))
    names = read_names(files.names, files.labels, Y.shape[1])
    if wanted is None or list(wanted) == names:
        return Part(X=X, texts=texts, Y=Y, label_names=names)
    numbers = unique_names(files.names, wanted)
    place = np.array([numbers.get(name, -1) for name in names], dtype=np.int32)
    columns = place[Y.indices]
    known = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(known, dtype=np.int64)])[Y.indptr]
    mapped = indicator(columns[known], indptr, len(numbers))
    mapped.has_sorted_indices = False
    mapped.sum_duplicates()
    mapped.data[:] = 1
    unknown = int(len(columns) - known.sum())
    return Part(X=X, texts=texts, Y=mapped, label_names=list(wanted), unknown_labels=unknown)


def load_matrix(path: Path) -> csr_array:
    """Load a sparse matrix as float32 and check all that a damaged or hostile file could get wrong."""
    with reading_matrix(path), np.load(path, allow_pickle=False) as file:
        missing = [key for key in _KEYS if key not in file]
        if missing:
            raise DataError(
                path,
                f"is not a sparse matrix: {', '.join(missing)} missing; write it with scipy.sparse.save_npz",
            )
        indices, indptr, data, shape, kind = (file[key] for key in _KEYS)
        # A member that is not an array comes as its bytes.
        if not all(isinstance(array, np.ndarray) for array in (indices, indptr, data, shape, kind)):
            raise ValueError("not all of its members are arrays")
    name = kind.item() if kind.ndim == 0 else None
    name = name.decode("ascii", "replace") if isinstance(name, bytes) else name
    if name not in ("csr", "csc"):
        raise DataError(path, f"has the format {name!r}; convert the matrix to csr before it is saved")
    integers = all(np.issubdtype(array.dtype, np.integer) for array in (indices, indptr, shape))
    if not integers or shape.shape != (2,) or shape.min() < 0 or not np.issubdtype(data.dtype, np.number):
        raise DataError(
            path, "has arrays of the wrong type; write the matrix again with scipy.sparse.save_npz"
        )
    rows, columns = (int(size) for size in (shape if name == "csr" else shape[::-1]))
    sound = (
        indptr.shape == (rows + 1,)
        and indices.shape == data.shape == (indptr[-1],)
        and indptr[0] == 0
        and bool((indptr[1:] >= indptr[:-1]).all())
    )
    if not sound:
        raise DataError(path, f"its arrays do not make a matrix of shape {tuple(shape)}; the file is damaged")
    if len(indices) and (indices.min() < 0 or indices.max() >= columns):
        bad = int(np.flatnonzero((indices < 0) | (indices >= columns))[0])
        row = int(np.searchsorted(indptr, bad, side="right")) - 1
        noun = "row" if name == "csr" else "column"
        raise DataError(path, f"index {indices[bad]} in {noun} {row} is out of range: there are {columns}")
    with np.errstate(over="ignore"):
        data = data.astype(np.float32)
    if not np.isfinite(data).all():
        bad = int(np.flatnonzero(~np.isfinite(data))[0])
        row = int(np.searchsorted(indptr, bad, side="right")) - 1 if name == "csr" else int(indices[bad])
        raise DataError(
            path, f"row {row} has a value that is not a finite 32-bit float; clean or scale the matrix"
        )
    container = csr_array if name == "csr" else csc_array
    try:
        matrix = csr_array(container((data, indices, indptr), shape=(int(shape[0]), int(shape[1]))))
    except (ValueError, OverflowError, MemoryError) as error:
        raise DataError(path, f"has the shape {tuple(shape.tolist())}, for which there is no room") from error
    matrix.sort_indices()
    if not matrix.has_canonical_format:
        raise DataError(
            path, "has an entry twice in the same place; call sum_duplicates() before the matrix is saved"
        )
    return matrix


def write_pecos(folder: str | PathLike[str], train: Part, test: Part | None = None) -> None:
    """Write a data set as a PECOS folder.

    Every file appears as a whole or not at all. Texts, where the parts have them, go to ``X.trn.txt`` and
    ``X.tst.txt``.

    Parameters
    ----------
    folder : path-like
        Is made if it does not exist. Other files in it are left alone.
    train, test : Part
        The parts. If labels have names, both parts must have the same.
    """
    folder = Path(folder)
    if test is not None and test.Y is not None and train.label_names != test.label_names:
        raise DataError(
            folder,
            "train and test differ in their label names; read test with label_names=train.label_names",
        )
    parts = [("trn", train)] if test is None else [("trn", train), ("tst", test)]
    for _, part in parts:
        for noun, lines in (("text", part.texts), ("label name", part.label_names)):
            for row, line in enumerate(lines or ()):
                if "\n" in line or line.endswith("\r"):
                    raise DataError(
                        folder, f"{noun} {row}, {line!r:.60}, has a line end in it; replace it by a space"
                    )
    folder.mkdir(parents=True, exist_ok=True)
    for ending, part in parts:
        if part.X is not None:
            _save(folder / f"X.{ending}.npz", part.X)
        if part.texts is not None:
            _save_lines(folder / f"X.{ending}.txt", part.texts)
        if part.Y is not None:
            _save(folder / f"Y.{ending}.npz", part.Y)
    if train.label_names is not None:
        _save_lines(folder / "output-items.txt", train.label_names)


def _save(path: Path, matrix: csr_array) -> None:
    # The keys of both scipy and PECOS. PECOS wants the format as bytes, scipy takes either.
    arrays: dict[str, Any] = {
        "indices": matrix.indices,
        "indptr": matrix.indptr,
        "format": np.array(b"csr"),
        "shape": np.array(matrix.shape, dtype=np.int64),
        "data": matrix.data,
    }
    with atomic_file(path, overwrite=True) as file:
        np.savez(cast(IO[bytes], file), **arrays)


def _save_lines(path: Path, lines: Sequence[str]) -> None:
    with atomic_file(path, overwrite=True) as file:
        for line in lines:
            file.write(line.encode() + b"\n")
