"""The folder layout of PECOS: ``X.trn.npz``, ``Y.trn.npz``, the same for tst, and ``output-items.txt``."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from scipy.sparse import csc_array, csr_array

from hedgerow.storage.atomic_file import atomic_file

from .errors import BROKEN_ARRAY, DataError
from .label_space import name_columns, unique_names
from .lines import Progress, read_lines
from .part import Part, indicator

_KEYS = ("indices", "indptr", "data", "shape", "format")


def read_pecos(
    features_path: Path | None,
    texts_path: Path | None,
    labels_path: Path | None,
    names_path: Path | None,
    *,
    label_names: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Part:
    """Read one part of a PECOS folder from the files that it has.

    Parameters
    ----------
    features_path, labels_path : Path or None
        Sparse matrices as `scipy.sparse.save_npz` or PECOS's own `smat_util.save_matrix` write them.
    texts_path : Path or None
        Raw texts, one a line.
    names_path : Path or None
        Label names, one a line.
    label_names : sequence of str, optional
        The label space to map onto, by name; without `names_path`, the names of the columns.
    progress : callable, optional
        Is told the share of the texts that was read.

    Returns
    -------
    Part
    """
    X = None if features_path is None else load_matrix(features_path)
    texts = None if texts_path is None else [text for _, text in read_lines(texts_path, progress=progress)]
    if X is not None and texts is not None and X.shape[0] != len(texts):
        raise DataError(
            texts_path or "", f"has {len(texts)} lines, but {features_path} has {X.shape[0]} rows"
        )
    if labels_path is None:
        return Part(X=X, texts=texts)
    Y = _ones(load_matrix(labels_path))
    rows = Y.shape[0] if X is None and texts is None else X.shape[0] if X is not None else len(texts or ())
    if Y.shape[0] != rows:
        raise DataError(labels_path, f"has {Y.shape[0]} rows, but {features_path or texts_path} has {rows}")
    if names_path is None:
        return Part(X=X, texts=texts, Y=Y, label_names=name_columns(labels_path, Y.shape[1], label_names))
    names = [name for _, name in read_lines(names_path)]
    if len(names) != Y.shape[1]:
        raise DataError(
            names_path,
            f"has {len(names)} label names, but {labels_path} has {Y.shape[1]} columns; one line a label",
        )
    if label_names is None or list(label_names) == names:
        return Part(X=X, texts=texts, Y=Y, label_names=names)
    numbers = unique_names(names_path, list(label_names))
    place = np.array([numbers.get(name, -1) for name in names], dtype=np.int32)
    columns = place[Y.indices]
    known = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(known, dtype=np.int64)])[Y.indptr]
    mapped = indicator(columns[known], indptr, len(numbers))
    mapped.has_sorted_indices = False
    mapped.sum_duplicates()
    mapped.data[:] = 1
    unknown = int(len(columns) - known.sum())
    return Part(X=X, texts=texts, Y=mapped, label_names=list(label_names), unknown_labels=unknown)


def load_matrix(path: Path) -> csr_array:
    """Load a sparse matrix as float32 and check all that a damaged or hostile file could get wrong."""
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [key for key in _KEYS if key not in file]
            if missing:
                raise DataError(
                    path,
                    f"is no sparse matrix: {', '.join(missing)} missing; write it with scipy.sparse.save_npz",
                )
            indices, indptr, data, shape, kind = (file[key] for key in _KEYS)
            # A member that is no array comes as its bytes.
            if not all(isinstance(array, np.ndarray) for array in (indices, indptr, data, shape, kind)):
                raise ValueError("not all of its members are arrays")
    except DataError:
        raise
    except BROKEN_ARRAY as error:
        raise DataError(
            path, f"cannot be read as a sparse matrix: {error}; write it with scipy.sparse.save_npz"
        ) from error
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


def _ones(Y: csr_array) -> csr_array:
    if not Y.data.all():
        Y.eliminate_zeros()
    Y.data[:] = 1
    return Y


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
