"""Labels as users have them (a matrix, or lists of names), as the engine wants them, and in files."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from hedgerow import _native
from hedgerow.inputs.matrices import as_indicator
from hedgerow.storage.container import ModelFile


class LabelledRows(NamedTuple):
    """Labels in a matrix, the engine's view of it, and what its columns are called."""

    indicator: sp.csr_array
    rows: _native.Rows
    names: np.ndarray


def encode_labels(Y: Any, rows: int, classes: Sequence[str] | None = None, threads: int = 0) -> LabelledRows:
    """Bring labels, an indicator matrix or lists of strings or integers, into a matrix.

    `classes` are names for the columns of an indicator matrix.
    """
    Y = without_frame(Y)
    if _is_matrix(Y):
        if Y.ndim == 1:
            raise ValueError(
                "Y has one dimension; give an indicator matrix (n, L) or a list with the labels of each"
            )
        matrix, view = as_indicator(Y, rows, threads)
        names = np.arange(matrix.shape[1]) if classes is None else _as_names(classes, matrix.shape[1])
    else:
        if classes is not None:
            raise ValueError("classes name the columns of an indicator matrix, but Y is a list of labels")
        matrix, names = _from_lists(Y, rows)
        matrix, view = as_indicator(matrix, rows, threads)
    if matrix.nnz == 0:
        raise ValueError("no input has any label; there is nothing to learn")
    return LabelledRows(matrix, view, names)


def align_labels(
    Y: sp.csr_array, names: Sequence[str] | None, classes: np.ndarray
) -> tuple[sp.csr_array, list[Any]]:
    """Bring true labels into the columns of a model; labels that it does not know get columns after those.

    Without `names`, the columns of Y are known by number. Returns the labels, and the names of those that the
    model does not know, in the order of their columns.

    Examples
    --------
    >>> classes = np.array(["elm", "holly"], dtype=object)
    >>> Y, unknown = align_labels(sp.csr_array([[1, 1]]), ["holly", "yew"], classes)
    >>> Y.toarray(), unknown
    (array([[0, 1, 1]]), ['yew'])
    """
    known = {name: number for number, name in enumerate(classes.tolist())}
    own: list[Any] = list(range(Y.shape[1])) if names is None else list(names)
    if own == list(known):
        return Y, []
    place = np.array([known.get(name, -1) for name in own], dtype=np.int64)
    strange = place < 0
    occurring = np.zeros(len(own), dtype=bool)
    occurring[Y.indices] = True
    if occurring.any() and not (occurring & ~strange).any():
        example = own[int(np.flatnonzero(occurring)[0])]
        raise ValueError(
            f"none of the labels is known to the model, such as {example!r}; it was trained on others,"
            f" such as {classes.tolist()[0]!r}"
        )
    unknown = np.flatnonzero(strange & occurring)
    place[unknown] = len(classes) + np.arange(len(unknown))
    aligned = sp.csr_array(
        (Y.data, place[Y.indices].astype(np.int32), Y.indptr), shape=(Y.shape[0], len(classes) + len(unknown))
    )
    aligned.sort_indices()
    return aligned, [own[column] for column in unknown.tolist()]


def truth_for(Y: Any, classes: np.ndarray) -> sp.csr_array:
    """True labels as users have them, in the columns of a model; unknown ones have columns after those."""
    Y = without_frame(Y)
    if _is_matrix(Y):
        truth = sp.csr_array(cast(Any, Y))
        if truth.ndim != 2 or truth.shape[1] < len(classes):
            raise ValueError(f"Y has {truth.shape[-1]} columns, but the model knows {len(classes)} labels")
        return truth
    matrix, _, names = encode_labels(Y, len(Y))
    return align_labels(matrix, names.tolist(), classes)[0]


def without_frame(Y: Any) -> Any:
    """The values of a data frame, as of pandas; anything else as it is."""
    if not (hasattr(Y, "columns") and hasattr(Y, "to_numpy")):
        return Y
    values = np.asarray(Y.to_numpy())
    if values.dtype.kind in "biuf":
        return values
    # Columns of different types, such as bool and int, make a matrix of objects.
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        for row, column in np.ndindex(*values.shape):
            if _is_missing(values[row, column]):
                raise ValueError(
                    f"Y[{row}, {column}] is {values[row, column]}: it is unknown whether row {row} has this"
                    f" label. Write 1 or 0 there, or drop row {row} from X and Y"
                ) from error
        name = next((name for name in Y.columns if isinstance(name, str)), "labels")
        raise TypeError(
            f"Y is a {type(Y).__name__} that is not an indicator matrix ({error}); if a column of it holds"
            f" lists of labels, pass that, such as df[{name!r}]"
        ) from error


def _is_matrix(Y: Any) -> bool:
    return bool(sp.issparse(Y)) or (isinstance(Y, np.ndarray) and Y.dtype != object)


def _is_missing(value: object) -> bool:
    """Whether a value stands for one that is missing: None, NaN, and NA or NaT of pandas."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _as_names(classes: Sequence[str], columns: int) -> np.ndarray:
    if isinstance(classes, (str, bytes)):
        raise TypeError(f"classes is {classes!r}; give a list with the name of each column of Y")
    names = list(classes)
    if len(names) != columns:
        raise ValueError(f"there are {len(names)} classes for the {columns} columns of Y")
    seen: set[str] = set()
    for column, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(f"classes[{column}] is {name!r} of type {type(name).__name__}; names are strings")
        if name in seen:
            raise ValueError(f"classes holds {name!r} twice; each column of Y needs a name of its own")
        _check_text(name, f"classes[{column}]")
        seen.add(name)
    return np.array(names, dtype=object)


def _check_text(name: str, where: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where} holds {name!r}, which is not valid Unicode ({error.reason}); fix the name"
        ) from error


def _from_lists(Y: Iterable[Any], rows: int) -> tuple[sp.csr_array, np.ndarray]:
    lists = checked_lists(Y, rows)
    known = {label for labels in lists for label in labels}
    ordered = sorted(known)
    names = np.array(ordered, dtype=object if isinstance(next(iter(known), None), str) else np.int64)
    number = {label: i for i, label in enumerate(ordered)}
    # A label that a list names twice is one label.
    encoded = [sorted({number[label] for label in labels}) for labels in lists]
    indptr = np.concatenate([[0], np.cumsum([len(e) for e in encoded])]).astype(np.int64)
    indices = np.fromiter((i for e in encoded for i in e), dtype=np.int32, count=int(indptr[-1]))
    matrix = sp.csr_array(
        (np.ones(len(indices), dtype=np.int8), indices, indptr), shape=(rows, max(1, len(names)))
    )
    return matrix, names


def checked_lists(Y: Iterable[Any], rows: int) -> list[list[Any]]:
    """Lists of labels, strings or integers, one for each input; an error where they are none."""
    if isinstance(Y, (str, bytes)) or not isinstance(Y, Iterable):
        raise TypeError(
            f"Y is {Y!r}; give an indicator matrix of shape (n, L) or a list with the labels of each input"
        )
    if isinstance(Y, Mapping):
        raise TypeError(
            f"Y is a {type(Y).__name__}; if its values are the labels of each input, pass list(d.values())"
        )
    lists = [_labels_of(row, labels) for row, labels in enumerate(Y)]
    if len(lists) != rows:
        raise ValueError(f"there are {rows} inputs, but Y has {len(lists)} lists of labels")
    known: set[Hashable] = set()
    for row, labels in enumerate(lists):
        for label in labels:
            # Integers always: True equals 1, and would pass for it.
            if type(label) is not str or label not in known:
                _check_label(row, label)
        known.update(labels)
    kinds = {isinstance(label, str) for label in known}
    if len(kinds) > 1:
        raise TypeError("Y mixes strings and integers as labels; use one of them")
    return lists


def _labels_of(row: int, labels: Any) -> list[Any]:
    if isinstance(labels, Iterable) and not isinstance(labels, (str, bytes)):
        return list(labels)
    if np.ndim(labels) == 0 and _is_missing(labels):
        raise TypeError(
            f"Y[{row}] is {labels}: the labels of this input are missing. Drop row {row} from X and Y, or"
            " give it an empty list if it has no labels"
        )
    raise TypeError(f"Y[{row}] is {labels!r}; give each input a list of its labels, such as [{labels!r}]")


def _check_label(row: int, label: Any) -> None:
    if isinstance(label, str):
        _check_text(label, f"Y[{row}]")
    elif isinstance(label, (bool, np.bool_)) or not isinstance(label, (int, np.integer)):
        if np.ndim(label) == 0 and _is_missing(label):
            raise TypeError(
                f"Y[{row}] holds {label}, a missing label. Leave it out of the list (an empty list has no"
                f" labels), or drop row {row} from X and Y"
            )
        raise TypeError(
            f"Y[{row}] holds {label!r} of type {type(label).__name__}; labels are strings or integers"
        )
    elif not -(2**63) <= label < 2**63:
        raise ValueError(f"Y[{row}] holds {label}; integers as labels have 64 bits at most: use strings")


def add_label_sections(classes: np.ndarray, sections: dict[str, Any], header: dict[str, Any]) -> None:
    """Add the names or numbers of the labels to what goes into a file."""
    header["names"] = classes.dtype == object
    if header["names"]:
        encoded = [name.encode() for name in classes]
        sections["classes.begins"] = np.concatenate([[0], np.cumsum([len(e) for e in encoded])]).astype(
            np.uint64
        )
        sections["classes.text"] = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    else:
        sections["classes.numbers"] = np.asarray(classes, dtype=np.int64)


def read_label_sections(file: ModelFile) -> np.ndarray:
    """The names or numbers of the labels in a file; raises ValueError or KeyError when they are broken."""
    if not file.header["names"]:
        numbers = file.sections["classes.numbers"]
        if numbers.dtype != np.int64 or numbers.shape != (file.header["labels"],):
            raise ValueError("the labels have another type or number")
        if len(np.unique(numbers)) != len(numbers):
            raise ValueError("a label occurs twice")
        return np.asarray(numbers)
    begins, text = file.sections["classes.begins"], file.sections["classes.text"]
    if begins.dtype != np.uint64 or text.dtype != np.uint8 or begins.shape != (file.header["labels"] + 1,):
        raise ValueError("the label names have another type or number")
    bounds = begins.astype(np.int64)
    if bounds[0] != 0 or bounds[-1] != text.size or (np.diff(bounds) < 0).any():
        raise ValueError("the label names are cut wrongly")
    whole = text.tobytes()
    names = np.empty(len(bounds) - 1, dtype=object)
    for i, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        names[i] = whole[begin:end].decode()
    if len(set(names)) != len(names):
        raise ValueError("a label occurs twice")
    return names
