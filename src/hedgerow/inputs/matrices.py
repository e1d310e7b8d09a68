"""Where matrices enter: whatever scipy or NumPy offers becomes CSR rows that the engine can trust."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from hedgerow import _native

_INT32_MAX = np.iinfo(np.int32).max
_INDICATOR = "Y is an indicator matrix: 1 where a row has the label, 0 or nothing elsewhere"


def as_rows(X: Any, name: str = "X", columns: int | None = None, threads: int = 0) -> _native.Rows:
    """Check a matrix of features and hand it to the engine, copying only what has the wrong type.

    The view keeps its arrays alive. `columns` is the width that the matrix must have; None accepts any.
    """
    csr = _as_csr(X, name)
    if 0 in csr.shape:
        raise ValueError(
            f"{name} is empty: its shape is {csr.shape}; at least one row and one column are needed"
        )
    if columns is not None and csr.shape[1] != columns:
        # The wording that scikit-learn's checks expect.
        raise ValueError(
            f"X has {csr.shape[1]} features, but the model is expecting {columns} features as input"
        )
    _check_numbers(csr.data.dtype, name)
    with np.errstate(over="ignore"):
        values = csr.data.astype(np.float32, copy=False)
    return _checked(csr, values, name, threads)[1]


def as_indicator(Y: Any, rows: int, threads: int = 0) -> tuple[sp.csr_array, _native.Rows]:
    """Check a label matrix that must have this many rows: an entry that is stored and not zero is a label.

    Returns the matrix with sorted indices and without stored zeros, and the engine's view of it.
    """
    csr = _as_csr(Y, "Y")
    if csr.shape[0] != rows:
        raise ValueError(f"X has {rows} rows, but Y has {csr.shape[0]}; they must be the same inputs")
    data = np.asarray(csr.data)
    if data.strides == (0,):  # one number in all places, as of mapped files
        data = data[:1]
    wrong = np.flatnonzero(~np.isin(data, (0, 1))) if data.dtype != bool else np.empty(0, dtype=np.intp)
    if wrong.size:
        raise _no_indicator(_row_of(csr, wrong[0]), csr.indices[wrong[0]], data[wrong[0]])
    if data.size and not data.all():
        _checked(csr, None, "Y", threads)  # scipy trusts what it is given
        csr = csr.copy()
        csr.eliminate_zeros()
    return _checked(csr, None, "Y", threads)


def as_truth(Y: Any, rows: int, columns: int) -> sp.csr_array:
    """Check the labels that predictions are compared with; `columns` is the fewest that there must be.

    Unlike training, a comparison does not mind how often an entry is stored, nor in which order. Returns ones
    of int8 with int64 indptr and int32 indices, sorted and each stored once.
    """
    csr = _as_csr(Y, "Y")
    if csr.shape[0] != rows or csr.shape[1] < columns:
        raise ValueError(f"Y has shape {csr.shape}; it must be {(rows, columns)}, or wider")
    _check_numbers(csr.data.dtype, "Y")
    indptr, indices = csr.indptr, csr.indices
    if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise ValueError("Y.indptr is broken; build the matrix again")
    _check_range(csr, "Y", csr.shape[1])
    if not np.isfinite(csr.data).all():
        at = int(np.flatnonzero(~np.isfinite(csr.data))[0])
        raise _no_indicator(_row_of(csr, at), indices[at], csr.data[at])
    kept = csr.data != 0
    ends = np.concatenate([[0], np.cumsum(kept)])[indptr]
    truth = sp.csr_array((np.ones(int(ends[-1]), dtype=np.int8), indices[kept], ends), shape=csr.shape)
    truth.sum_duplicates()
    truth.data = np.ones(truth.nnz, dtype=np.int8)
    truth.indptr, truth.indices = truth.indptr.astype(np.int64), truth.indices.astype(np.int32)
    return truth


def check_finite(rows: _native.Rows, name: str, threads: int) -> None:
    """Raise ValueError where numbers that were computed are too large."""
    fault = rows.fault(threads)
    if fault is not None:
        _, row, column, value = fault
        raise _not_finite(name, row, column, value)


def _as_csr(matrix: Any, name: str) -> sp.csr_array:
    if sp.issparse(matrix):
        sparse = cast("sp.csr_array", matrix)
        if sparse.ndim != 2:
            raise ValueError(f"{name} has {sparse.ndim} dimension(s); reshape it to (rows, columns)")
        try:
            return sp.csr_array(sparse)
        except ValueError as error:
            raise ValueError(f"{name} is not a valid sparse matrix: {error}; build it again") from error
    dense = np.asarray(matrix)
    if dense.dtype.kind in "US" or (
        dense.dtype == object and any(isinstance(value, str) for value in dense.ravel()[:1])
    ):
        raise TypeError(
            f"{name} holds text, but numbers are needed; for texts use HedgerowTextClassifier or a vectorizer"
        )
    if dense.dtype == object:
        try:
            dense = dense.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name} has dtype {dense.dtype}; a matrix of numbers is needed ({error})"
            ) from error
    _check_numbers(dense.dtype, name)
    if dense.ndim != 2:
        raise ValueError(
            f"{name} has shape {dense.shape}, but a matrix (rows, columns) is needed. Reshape your data"
            " either using array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it is a"
            " single input"
        )
    if dense.dtype.kind == "f" and not np.isfinite(dense).all():
        row, column = (int(v) for v in np.argwhere(~np.isfinite(dense))[0])
        wrong = dense[row, column]
        raise _no_indicator(row, column, wrong) if name == "Y" else _not_finite(name, row, column, wrong)
    # scipy has no half precision.
    return sp.csr_array(dense.astype(np.float32) if dense.dtype == np.float16 else dense)


def _check_numbers(dtype: np.dtype[Any], name: str) -> None:
    if dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {dtype}")
    if dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {dtype}; a matrix of numbers is needed")


def _check_range(csr: sp.csr_array, name: str, limit: int) -> None:
    """Refuse an index below 0 or not below the limit."""
    indices = csr.indices
    if indices.size and (indices.min() < 0 or indices.max() >= limit):
        at = int(np.flatnonzero((indices < 0) | (indices >= limit))[0])
        raise _out_of_range(name, _row_of(csr, at), int(indices[at]), csr.shape[1])


def _row_of(csr: sp.csr_array, entry: int) -> int:
    return int(np.searchsorted(csr.indptr, entry, side="right")) - 1


def _checked(
    csr: sp.csr_array, values: np.ndarray | None, name: str, threads: int
) -> tuple[sp.csr_array, _native.Rows]:
    """Return the matrix, sorted where it was not, and the engine's view of it."""
    if max(csr.shape) > _INT32_MAX:
        raise ValueError(f"{name} has shape {csr.shape}; rows and columns must be fewer than 2**31")
    if csr.indices.dtype != np.int32:
        _check_range(csr, name, _INT32_MAX + 1)
    indices = csr.indices.astype(np.int32, copy=False)
    rows = _native.Rows(
        np.ascontiguousarray(csr.indptr, dtype=np.int64),
        np.ascontiguousarray(indices),
        None if values is None else np.ascontiguousarray(values),
        csr.shape[1],
    )
    fault = rows.fault(threads)
    if fault is None:
        return csr, rows
    kind, row, column, _ = fault
    if kind == "order":
        # scipy leaves many matrices unsorted; that is not the user's mistake.
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
        raise _out_of_range(name, row, column, csr.shape[1])
    raise ValueError(f"{name}.indptr is broken at row {row}: {column}; build the matrix again")


def _no_indicator(row: int, column: int, value: Any) -> ValueError:
    if value != value:
        return ValueError(
            f"Y[{row}, {column}] is NaN: it is unknown whether row {row} has this label. Write 1 or 0 there,"
            f" or drop row {row} from X and Y; {_INDICATOR}"
        )
    return ValueError(f"Y[{row}, {column}] is {value}; {_INDICATOR}")


def _not_finite(name: str, row: int, column: int, value: Any) -> ValueError:
    shown = "NaN" if value != value else "inf" if value > 0 else "-inf"
    large = "" if not np.isfinite(value) else f" ({value} is too large for float32)"
    return ValueError(
        f"{name}[{row}, {column}] is {shown}{large}; features must be finite numbers: fix or drop the row"
    )


def _out_of_range(name: str, row: int, column: int, columns: int) -> ValueError:
    return ValueError(
        f"row {row} of {name} has index {column}, but the matrix has columns 0 to {columns - 1};"
        " build it again"
    )
