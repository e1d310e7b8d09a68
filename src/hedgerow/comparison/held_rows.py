"""Labelled rows that two models are compared on, as each of them reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.data import DataError, Part, read_part
from hedgerow.inputs.labels import encode_labels
from hedgerow.inputs.rows import count
from hedgerow.model import Model
from hedgerow.progress import Progress, stage

__all__ = ["HeldRows", "RowsWanted", "held_rows", "read_rows"]


@dataclass(frozen=True, eq=False)
class HeldRows:
    """Inputs of the old and the new model, row by row the same; true labels by name; and maybe groups."""

    old_inputs: Any
    new_inputs: Any
    Y: sp.csr_array
    names: npt.NDArray[Any]
    groups: Sequence[Any] | None = None


@dataclass(frozen=True)
class RowsWanted:
    """Files or folders with labelled rows, and what to read of them; of folders "test" by default."""

    paths: tuple[Path, ...]
    part: str | None = None
    labels_field: str = "labels"
    group_field: str | None = None
    threads: int = 0


def held_rows(X: Any, Y: Any, groups: Sequence[Any] | None, classes: Sequence[str] | None) -> HeldRows:
    """The same rows for both models; `classes` are the names of the columns of a matrix of labels."""
    labels = encode_labels(Y, count(X), classes)
    if groups is not None and len(groups) != count(X):
        raise ValueError(f"there are {count(X)} inputs, but groups for {len(groups)}")
    return HeldRows(X, X, labels.indicator, labels.names, groups)


def read_rows(wanted: RowsWanted, old: Model, new: Model, progress: Progress | None = None) -> HeldRows:
    """Read all files, each as both models need it; raises DataError or ValueError where that cannot be."""
    inputs: tuple[list[Any], list[Any]] = ([], [])
    labels: list[list[Any]] = []
    groups: list[Any] = []
    group = wanted.group_field
    for path in wanted.paths:
        part = _read(path, wanted, _text_fields(old, group), progress)
        inputs[0].append(_inputs_of(path, part, old, group))
        labels += _labels_of(path, part, wanted)
        groups += [] if group is None else _groups_of(part, group)
        if not _read_alike(old, new):
            part = _read(path, wanted, _text_fields(new, group), progress)
        inputs[1].append(_inputs_of(path, part, new, group))
    names = sorted({label for row in labels for label in row})
    column = {name: number for number, name in enumerate(names)}
    indptr = np.cumsum([0, *map(len, labels)])
    indices = np.array([column[label] for row in labels for label in row], dtype=np.int32)
    Y = sp.csr_array((np.ones(len(indices), np.int8), indices, indptr), (len(labels), max(1, len(names))))
    if group is not None and all(of is None for of in groups):
        raise DataError(wanted.paths[0], f"no record has the field {group!r} to group rows by")
    named = np.array(names, dtype=object if names and isinstance(names[0], str) else np.int64)
    own, other = (_joined(parts) for parts in inputs)
    return HeldRows(own, other, Y, named, None if group is None else groups)


def _read_alike(old: Model, new: Model) -> bool:
    return _reads_features(old) == _reads_features(new) and old.reader.text_fields == new.reader.text_fields


def _reads_features(model: Model) -> bool:
    return model.reader.kind == "features"


def _text_fields(model: Model, group: str | None) -> tuple[str, ...] | None:
    """The texts to read of a record; the group is read as one more."""
    own = model.reader.text_fields
    if group is None or _reads_features(model):
        return own
    return tuple(dict.fromkeys((*(own or ("text",)), group)))


def _read(path: Path, wanted: RowsWanted, fields: Sequence[str] | None, progress: Progress | None) -> Part:
    found = read_part(
        path,
        wanted.part or ("test" if path.is_dir() else None),
        labels_field=wanted.labels_field,
        threads=wanted.threads,
        progress=stage(progress, "reading"),
        text_fields=fields,
    )
    if wanted.part is not None and found.n and found.split is None and not path.is_dir():
        raise DataError(path, f"has no part {wanted.part!r}, as its records have no field 'split'")
    return found


def _inputs_of(path: Path, part: Part, model: Model, group: str | None) -> Any:
    if _reads_features(model):
        if part.X is None:
            raise DataError(path, "has only texts, but a model was trained on features; give it features")
        if group is not None:
            raise DataError(path, f"has rows of features, which have no field {group!r} to group them by")
        return part.X
    if part.texts is None:
        raise DataError(path, "has only features, but a model was trained on texts; give it texts")
    if group is None:
        return part.texts
    own = model.reader.text_fields
    return [_without_group(path, row, text, own) for row, text in enumerate(part.texts, 1)]


def _without_group(path: Path, row: int, text: Any, own: tuple[str, ...] | None) -> Any:
    if isinstance(text, str):
        return text
    found = {name: text[name] for name in (own or ("text",)) if name in text}
    if own is not None:
        return found or {own[0]: ""}
    if "text" not in found:
        raise DataError(path, f"the text of record {row} is missing; every record needs a text")
    return found["text"]


def _labels_of(path: Path, part: Part, wanted: RowsWanted) -> list[list[Any]]:
    if part.Y is None or part.Y.nnz == 0:
        raise DataError(
            path,
            f"has no labels to compare with in the field {wanted.labels_field!r}"
            if part.fields is not None
            else "has no labels to compare with",
        )
    names: Any = range(part.Y.shape[1]) if part.label_names is None else part.label_names
    ends = part.Y.indptr.tolist()
    columns = part.Y.indices.tolist()
    return [[names[column] for column in columns[begin:end]] for begin, end in pairwise(ends)]


def _groups_of(part: Part, group: str) -> list[Any]:
    return [text.get(group) if isinstance(text, dict) else None for text in part.texts or ()]


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if sp.issparse(parts[0]):
        width = max(part.shape[1] for part in parts)
        wide = [sp.csr_array((of.data, of.indices, of.indptr), (of.shape[0], width)) for of in parts]
        return sp.csr_array(sp.vstack(wide))
    return [row for part in parts for row in part]
