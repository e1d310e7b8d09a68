"""Several files, or folders and files, as one part of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, vstack

from hedgerow.progress import Stage

from .errors import DataError
from .layout import read_as
from .part import Part, indicator
from .reading import Reading
from .seen_ids import SeenIds
from .times import TimeError, Times

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


def read_parts(
    paths: Paths,
    part: str | None = None,
    *,
    folder_part: str = "train",
    unique_ids: bool = True,
    later_wins: bool = False,
    label_names: Sequence[str] | None = None,
    labels_field: str | None = "labels",
    label_separator: str | None = None,
    threads: int = 0,
    progress: Stage | None = None,
    text_fields: Sequence[str] | None = None,
    time_field: str | None = None,
    until: str | None = None,
) -> Part:
    r"""Read several files or folders as if they were one.

    Each is read as `read_part` reads it, in its own format, and with its own separator of labels. Several
    need texts: features of one file mean nothing in another. Each needs a record, and labels if another has
    some; without label names, the label space is made of the labels of all.

    Parameters
    ----------
    paths : path-like or sequence of them
        The files and folders, in the order of their rows.
    part : str, optional
        Which part, as of `read_part`. None: `folder_part` of folders, and all records of files.
    folder_part : str, default "train"
        The part of folders if `part` is None.
    unique_ids : bool, default True
        Whether an id that occurs twice, in one file or in two, is an error that names both places.
    later_wins : bool, default False
        Whether of records with the same id only the last is kept, as a correction of those before it.
    label_names, labels_field, label_separator, threads, progress, text_fields, time_field, until
        As of `read_part`.

    Raises
    ------
    DataError
        As of `read_part`, and where files do not go together.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> old, new = (pathlib.Path(folder.name, name) for name in ("train.jsonl", "reviewed.csv"))
    >>> _ = old.write_text('{"id": 1, "text": "a hedge", "labels": ["garden"]}')
    >>> _ = new.write_text("id,text,labels\n1,a hedge,finance;garden\n2,a lawn,garden")
    >>> part = read_parts([old, new], later_wins=True)
    >>> part.ids, part.label_names, part.Y.toarray().tolist()
    (['1', '2'], ['finance', 'garden'], [[1.0, 1.0], [0.0, 1.0]])
    >>> folder.cleanup()
    """
    given = [Path(one) for one in ([paths] if isinstance(paths, str | PathLike) else paths)]
    if not given:
        raise ValueError("there is no path to read; give at least one")
    _check_distinct(given)
    seen = SeenIds() if unique_ids and not later_wins else None
    resolved = frozenset(path.resolve() for path in given)
    parts = []
    for number, path in enumerate(given):
        reading = Reading(
            label_names,
            labels_field,
            label_separator,
            threads,
            _share(progress, number, len(given)),
            text_fields,
            time_field,
            until,
            seen,
            resolved,
        )
        parts.append(read_as(path, part or (folder_part if path.is_dir() else None), reading))
    found = parts[0]
    if len(parts) > 1:
        _check_together(given, parts, labels_field)
        found = _joined(given, parts, labels_field, label_names)
    return _without_earlier(found, label_names) if later_wins else found


def _share(progress: Stage | None, number: int, count: int) -> Stage | None:
    return None if progress is None else lambda share: progress((number + share) / count)


def _check_distinct(paths: list[Path]) -> None:
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise DataError(path, "is given twice; name each file once")
        seen.add(path.resolve())


def _check_together(paths: list[Path], parts: list[Part], labels_field: str | None) -> None:
    """Refuse parts of which one would be lost, or mean something else, among the others."""
    for path, part in zip(paths, parts, strict=True):
        if part.X is not None or part.texts is None:
            raise DataError(
                path, "has features, which mean nothing beside those of another file; give texts, or one file"
            )
        if part.n == 0:
            raise DataError(path, "has no rows; check how it was made, or leave it out")
    if labels_field is None:
        return
    labelled = [part.Y is not None for part in parts]
    if any(labelled) and not all(labelled):
        one, other = paths[labelled.index(False)], paths[labelled.index(True)]
        fields = parts[labelled.index(False)].fields
        there = "" if fields is None else f", but there are {', '.join(fields[:20])}"
        raise DataError(
            one,
            f"has no labels in the field {labels_field!r}, where {other} has them{there}; call the field of"
            " the labels the same in all files",
        )
    named = [part.label_names is not None for part in parts if part.Y is not None]
    if any(named) and not all(named):
        raise DataError(
            paths[named.index(False)],
            f"has labels by number, but {paths[named.index(True)]} by name; give names to all",
        )


def _joined(
    paths: list[Path], parts: list[Part], labels_field: str | None, label_names: Sequence[str] | None
) -> Part:
    """The rows of all parts, one after the other."""
    Y, names = (None, None) if labels_field is None else _labels(paths, parts, label_names)
    fields = [part.fields for part in parts if part.fields is not None]
    splits = {part.split for part in parts}
    times = [part.times for part in parts if part.times is not None]
    some_ids = any(part.ids is not None for part in parts)
    return Part(
        texts=[text for part in parts for text in part.texts or ()],
        Y=Y,
        label_names=names,
        ids=[id for part in parts for id in part.ids or [None] * part.n] if some_ids else None,
        unknown_labels=sum(part.unknown_labels for part in parts),
        skipped=sum(part.skipped for part in parts),
        fields=sorted({name for own in fields for name in own}) if fields else None,
        split=splits.pop() if len(splits) == 1 else None,
        times=_times(paths, times) if len(times) == len(parts) else None,
        later=sum(part.later for part in parts),
    )


def _labels(
    paths: list[Path], parts: list[Part], label_names: Sequence[str] | None
) -> tuple[csr_array | None, list[str] | None]:
    """The labels of all rows in one label space."""
    own = [part.Y for part in parts if part.Y is not None]
    if not own:
        return None, None
    if parts[0].label_names is None or label_names is not None:
        widths = [Y.shape[1] for Y in own]
        for path, width in zip(paths, widths, strict=True):
            if width != widths[0]:
                raise DataError(
                    path,
                    f"has {width} labels by number, but {paths[0]} has {widths[0]}; give names to all labels",
                )
        return csr_array(vstack(own, format="csr")), parts[0].label_names
    names = sorted({name for part in parts for name in part.label_names or ()})
    place = {name: column for column, name in enumerate(names)}
    rows = []
    for part, Y in zip(parts, own, strict=True):
        columns = np.array([place[name] for name in part.label_names or ()], dtype=np.int32)
        moved = indicator(columns[Y.indices], Y.indptr, len(names))
        moved.has_sorted_indices = False
        moved.sort_indices()
        rows.append(moved)
    return csr_array(vstack(rows, format="csr")), names


def _without_earlier(part: Part, label_names: Sequence[str] | None) -> Part:
    """Only the last of the rows with the same id, and no label that only the others had."""
    if part.ids is None:
        return part
    last = {id: row for row, id in enumerate(part.ids) if id is not None}
    kept = [row for row, id in enumerate(part.ids) if id is None or last[id] == row]
    if len(kept) == part.n:
        return part
    Y, names = part.Y, part.label_names
    if Y is not None:
        before = _counts(Y)
        Y = csr_array(Y[kept])
        left = before.astype(bool) & (_counts(Y) == 0)
        if label_names is None and names is not None and left.any():
            Y = csr_array(Y[:, np.flatnonzero(~left)])
            names = [name for name, gone in zip(names, left.tolist(), strict=True) if not gone]
    texts: list[Any] = part.texts or []
    return Part(
        X=None if part.X is None else csr_array(part.X[kept]),
        texts=None if part.texts is None else [texts[row] for row in kept],
        Y=Y,
        label_names=names,
        ids=[part.ids[row] for row in kept],
        unknown_labels=part.unknown_labels,
        skipped=part.skipped,
        fields=part.fields,
        split=part.split,
        times=None if part.times is None else Times(part.times.kind, part.times.values[kept]),
        later=part.later,
    )


def _times(paths: list[Path], times: list[Times]) -> Times:
    try:
        return Times.concatenate(times)
    except TimeError as error:
        raise DataError(paths[0], str(error)) from error


def _counts(Y: csr_array) -> npt.NDArray[np.int64]:
    return np.bincount(Y.indices, minlength=Y.shape[1])
