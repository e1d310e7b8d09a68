"""Where sparse matrices enter: whatever scipy or NumPy offers becomes sound CSR rows, or a clear error."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from hedgerow import _native

__all__ = ["as_indicator", "as_rows", "as_truth", "check_finite"]

_INT32_MAX = np.iinfo(np.int32).max


def as_rows(X: Any, name: str = "X", columns: int | None = None, threads: int = 0) -> _native.Rows:
    """Check a matrix of features and hand it to the engine, copying only what has the wrong type.

    Parameters
    ----------
    X : sparse matrix or array, or dense array, shape (n, d)
        Any scipy format, float32 or float64 (or integers), int32 or int64 indices; may be read-only.
    name : str
        How errors call it.
    columns : int or None
        The width it must have; None accepts any.
    threads : int
        0 uses all processors.

    Returns
    -------
    _native.Rows
        A view that keeps its arrays alive.
    """
    csr = _as_csr(X, name)
    n, d = csr.shape
    if n == 0 or d == 0:
        raise ValueError(
            f"{name} is empty: its shape is {csr.shape}; at least one row and one column are needed"
        )
    if columns is not None and d != columns:
        # The wording that scikit-learn's checks expect.
        raise ValueError(f"X has {d} features, but the model is expecting {columns} features as input")
    values = csr.data if csr.data.dtype == np.float32 else _as_float32(csr, name)
    return _sound_rows(csr, values, name, threads)


def as_indicator(Y: Any, rows: int, threads: int = 0) -> tuple[sp.csr_array, _native.Rows]:
    """Check a label matrix: an entry that is stored and not zero is a label.

    Parameters
    ----------
    Y : sparse matrix or array, or dense array, shape (n, L)
        Ones where a row has a label.
    rows : int
        The number of rows it must have.
    threads : int
        0 uses all processors.

    Returns
    -------
    csr_array, _native.Rows
        The matrix with sorted indices and without stored zeros, and the engine's view of it.
    """
    csr = _as_csr(Y, "Y")
    if csr.shape[0] != rows:
        raise ValueError(f"X has {rows} rows, but Y has {csr.shape[0]}; they must be the same inputs")
    data = np.asarray(csr.data)
    if data.strides == (0,):  # one number in all places, as of mapped files
        data = data[:1]
    wrong = np.flatnonzero(~np.isin(data, (0, 1))) if data.dtype != bool else np.empty(0, dtype=np.intp)
    if wrong.size:
        at = int(wrong[0])
        row = int(np.searchsorted(csr.indptr, at, side="right")) - 1
        raise ValueError(
            f"Y[{row}, {csr.indices[at]}] is {data[at]}; Y is an indicator matrix: 1 where a row has the"
            " label, 0 or nothing elsewhere"
        )
    if data.size and not data.all():
        _checked(csr, None, "Y", threads)  # scipy trusts what it is given
        csr = csr.copy()
        csr.eliminate_zeros()
    kept, view = _checked(csr, None, "Y", threads)
    return kept, view


def as_truth(Y: Any, rows: int, columns: int) -> sp.csr_array:
    """Check the labels that predictions are compared with: what is stored and not zero is a label.

    Unlike training, a comparison does not mind how often an entry is stored, nor in which order.

    Parameters
    ----------
    Y : sparse matrix or array, or dense array, shape (n, L)
        Not zero where a row has a label.
    rows, columns : int
        How many rows it must have, and how many columns at least.

    Returns
    -------
    csr_array of int8
        Ones with int64 indptr and int32 indices, sorted and each stored once.
    """
    csr = _as_csr(Y, "Y")
    if csr.shape[0] != rows or csr.shape[1] < columns:
        raise ValueError(f"Y has shape {csr.shape}; it must be {(rows, columns)}, or wider")
    if csr.data.dtype.kind not in "biuf":
        raise TypeError(f"Y has dtype {csr.data.dtype}; an indicator matrix of numbers is needed")
    indptr, indices = csr.indptr, csr.indices
    if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise ValueError("Y.indptr is broken; build the matrix anew")
    if indices.size and (indices.min() < 0 or indices.max() >= csr.shape[1]):
        at = int(np.flatnonzero((indices < 0) | (indices >= csr.shape[1]))[0])
        row = int(np.searchsorted(indptr, at, side="right")) - 1
        raise _out_of_range("Y", row, int(indices[at]), csr.shape[1])
    if not np.isfinite(csr.data).all():
        at = int(np.flatnonzero(~np.isfinite(csr.data))[0])
        row = int(np.searchsorted(indptr, at, side="right")) - 1
        raise ValueError(f"Y[{row}, {indices[at]}] is {csr.data[at]}; an indicator is 0 or 1")
    kept = csr.data != 0
    ends = np.concatenate([[0], np.cumsum(kept)])[indptr]
    truth = sp.csr_array((np.ones(int(ends[-1]), dtype=np.int8), indices[kept], ends), shape=csr.shape)
    truth.sum_duplicates()
    truth.data = np.ones(truth.nnz, dtype=np.int8)
    truth.indptr, truth.indices = truth.indptr.astype(np.int64), truth.indices.astype(np.int32)
    return truth


def _as_csr(matrix: Any, name: str) -> sp.csr_array:
    if sp.issparse(matrix):
        sparse = cast("sp.csr_array", matrix)
        if sparse.ndim != 2:
            raise ValueError(f"{name} has {sparse.ndim} dimension(s); reshape it to (rows, columns)")
        try:
            return sp.csr_array(sparse)
        except ValueError as error:
            raise ValueError(f"{name} is no sound sparse matrix: {error}; build it anew") from error
    dense = np.asarray(matrix)
    if dense.dtype == object or dense.dtype.kind not in "biuf":
        if dense.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: {name} has dtype {dense.dtype}")
        if dense.dtype.kind in "US" or (
            dense.dtype == object and any(isinstance(v, str) for v in dense.ravel()[:1])
        ):
            raise TypeError(
                f"{name} holds text, but numbers are needed; for texts use HedgerowTextClassifier"
                " or a vectoriser"
            )
        try:
            dense = dense.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name} has dtype {dense.dtype}; a matrix of numbers is needed ({error})"
            ) from error
    if dense.ndim != 2:
        raise ValueError(
            f"{name} has shape {dense.shape}, but a matrix (rows, columns) is needed. Reshape your data"
            " either using array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it is a"
            " single input"
        )
    if dense.dtype.kind == "f" and not np.isfinite(dense).all():
        row, column = (int(v) for v in np.argwhere(~np.isfinite(dense))[0])
        raise _not_finite(name, row, column, dense[row, column])
    # scipy has no half precision.
    return sp.csr_array(dense.astype(np.float32) if dense.dtype == np.float16 else dense)


def _as_float32(csr: sp.csr_array, name: str) -> np.ndarray:
    if csr.data.dtype.kind not in "biuf":
        if csr.data.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: {name} has dtype {csr.data.dtype}")
        raise TypeError(f"{name} has dtype {csr.data.dtype}; a matrix of numbers is needed")
    with np.errstate(over="ignore"):
        return csr.data.astype(np.float32)


def _sound_rows(csr: sp.csr_array, values: np.ndarray | None, name: str, threads: int) -> _native.Rows:
    return _checked(csr, values, name, threads)[1]


def _checked(
    csr: sp.csr_array, values: np.ndarray | None, name: str, threads: int
) -> tuple[sp.csr_array, _native.Rows]:
    n, d = csr.shape
    if n > _INT32_MAX or d > _INT32_MAX:
        raise ValueError(f"{name} has shape {csr.shape}; rows and columns must be fewer than 2**31")
    indices = csr.indices
    if indices.dtype != np.int32:
        if indices.size and (indices.min() < 0 or indices.max() > _INT32_MAX):
            bad = int(np.flatnonzero((indices < 0) | (indices > _INT32_MAX))[0])
            row = int(np.searchsorted(csr.indptr, bad, side="right")) - 1
            raise _out_of_range(name, row, int(indices[bad]), d)
        indices = indices.astype(np.int32)
    rows = _native.Rows(
        np.ascontiguousarray(csr.indptr, dtype=np.int64),
        np.ascontiguousarray(indices),
        None if values is None else np.ascontiguousarray(values),
        d,
    )
    fault = rows.fault(threads)
    if fault is None:
        return csr, rows
    kind, row, column, _ = fault
    if kind == "order":
        # scipy leaves many matrices unsorted; that is no mistake of the user's.
        ordered = sp.csr_array(
            (np.ones(len(indices), dtype=np.int8) if values is None else values, indices, csr.indptr),
            shape=csr.shape,
            copy=True,
        )
        ordered.sort_indices()
        return _checked(ordered, None if values is None else ordered.data, name, threads)
    if kind == "duplicate":
        raise ValueError(
            f"{name} stores ({row}, {column}) twice; add duplicates up with {name}.sum_duplicates(),"
            " or drop one"
        )
    if kind == "finite":
        shown = csr.data[csr.indptr[row] + int(np.flatnonzero(csr.indices[csr.indptr[row] :] == column)[0])]
        raise _not_finite(name, row, column, shown)
    if kind == "range":
        raise _out_of_range(name, row, column, d)
    raise ValueError(f"{name}.indptr is broken at row {row}: {column}; build the matrix anew")


def check_finite(rows: _native.Rows, name: str, threads: int) -> None:
    """Raise ValueError where numbers that were computed are too large."""
    fault = rows.fault(threads)
    if fault is not None:
        _, row, column, value = fault
        raise _not_finite(name, row, column, value)


def _not_finite(name: str, row: int, column: int, value: Any) -> ValueError:
    shown = "NaN" if value != value else "inf" if value > 0 else "-inf"
    large = "" if not np.isfinite(value) else f" ({value} is too large for float32)"
    return ValueError(
        f"{name}[{row}, {column}] is {shown}{large}; NaN and infinity have no meaning as a feature:"
        " mend or drop the row"
    )


def _out_of_range(name: str, row: int, column: int, columns: int) -> ValueError:
    return ValueError(
        f"row {row} of {name} has index {column}, but the matrix has columns 0 to {columns - 1};"
        " build it anew"
    )
