"""Finds out in which layout data lie, and reads them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path

from hedgerow.progress import Stage

from .compressed import SUFFIXES
from .errors import DataError, LeftOutWarning
from .jsonl import read_records
from .mapped import read_mapped
from .part import Part
from .part_files import PARTS, find_file, short_name
from .pecos import PecosFiles, read_pecos
from .reading import Reading
from .tables import read_csv, read_parquet
from .text_labels import read_text_labels
from .times import check_time
from .xmc_text import read_xmc_text

_RECORDS = (".jsonl", ".ndjson", ".csv", ".parquet")
_HELD_OUT = ("valid", "validation", "val", "dev")  # parts that nobody expects to be read with another
_NAMED = 5


def read_part(
    path: str | PathLike[str],
    part: str | None = "train",
    *,
    label_names: Sequence[str] | None = None,
    labels_field: str | None = "labels",
    label_separator: str | None = None,
    threads: int = 0,
    progress: Stage | None = None,
    text_fields: Sequence[str] | None = None,
    time_field: str | None = None,
    until: str | None = None,
) -> Part:
    """Read one part of a data set from a folder or a file.

    In a folder, the names of the files decide the layout:

    - ``train.txt``, ``test.txt``: text format of the extreme classification repository;
    - ``X.trn.npz``, ``Y.trn.npz``, ``X.tst.npz``, ``Y.tst.npz``, ``output-items.txt``: PECOS;
    - ``X.trn.indptr.npy`` and its companions: arrays that are mapped, as `map_data` makes them;
    - ``train_texts.txt``, ``train_labels.txt``, ``test_texts.txt``, ``test_labels.txt``: one text per line,
      and its labels in the same line;
    - ``train.jsonl``, ``test.jsonl``: records ``{"text": ..., "labels": [...], "id": ...}``;
    - one other ``*.jsonl``, whose records also have ``"split": "train"`` or ``"test"``.

    ``trn`` and ``tst`` stand for ``train`` and ``test``, and text files may be packed (.xz, .gz, .zst). A
    file is read by its ending: .txt (extreme classification repository), .jsonl, .csv (columns text, labels
    separated by ``;`` or what else the column shows, id) or .parquet (columns text, labels as a list, id).

    Parameters
    ----------
    path : path-like
        The folder or file.
    part : str or None, default "train"
        Which part: of a folder, and of JSON records that have a split. None reads all records of such a file.
    label_names : sequence of str, optional
        The label space to map onto, usually `label_names` of the training part. Labels that it lacks are left
        out of `Y` and counted in `unknown_labels`. None makes the label space of the labels that occur,
        sorted by name.
    labels_field : str or None, default "labels"
        The field or column that holds the labels of records; None reads no labels from them.
    label_separator : str, optional
        What stands between labels in ``train_labels.txt`` and ``test_labels.txt`` (None: a tab, comma or
        space, whichever the former uses) and in CSV cells (None: ``;``, ``|``, a tab or a comma, or lists of
        JSON, as the whole column shows; where it could be read in two ways, that is an error).
    threads : int, default 0
        Threads that parse; 0 means all processors. The result does not depend on it.
    progress : callable(share), optional
        Called with the share of the work that is done, between 0 and 1.
    text_fields : sequence of str, optional
        The fields or columns of records that hold texts, such as ``["title", "abstract"]``; their texts are
        then mappings of these names. A record without any of them is read by its ``text``.
    time_field : str, optional
        The field or column that says when a record is from: dates, months, years, numbers or times, all of
        one kind. They are then in `times`.
    until : str, optional
        Leave out records that are later: a time as in `time_field`, or a year or month, which is included.

    Raises
    ------
    DataError
        If there is nothing to read, or what is there is wrong; the message names the file and the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "train.jsonl")
    >>> _ = path.write_text('{"text": "a hedge", "labels": ["garden", "finance"]}')
    >>> part = read_part(folder.name, "train")
    >>> part.texts, part.label_names, part.Y.shape
    (['a hedge'], ['finance', 'garden'], (1, 2))
    >>> folder.cleanup()
    """
    reading = Reading(
        *(label_names, labels_field, label_separator, threads, progress, text_fields, time_field, until)
    )
    return read_as(Path(path), part, reading)


def read_as(path: Path, part: str | None, reading: Reading) -> Part:
    """Do the work of `read_part`."""
    time_field, until = reading.time_field, reading.until
    if reading.label_separator == "":
        raise DataError(path, "the label_separator is empty; give what stands between labels")
    if until is not None and time_field is None:
        raise ValueError("until says up to which time records are read, so it needs time_field")
    if until is not None:
        check_time(until)
    found = _read(path, part, reading)
    if time_field is not None and found.times is None:
        raise DataError(
            path, f"has no records with fields, so there is no {time_field!r}; give .jsonl, .csv or .parquet"
        )
    return found


def _read(path: Path, part: str | None, reading: Reading) -> Part:
    if path.is_dir():
        if part is None:
            raise DataError(path, "is a folder; say which part of it to read, such as 'train' or 'test'")
        used, read = _only(path, part, dict(_readers_of_folder(path, part, reading)))
        found = read()
        _name_left_out(path, part, used, reading)
        return found
    if not path.exists():
        raise DataError(path, "there is no such file or folder")
    name = path.name
    for suffix in SUFFIXES[1:]:
        name = name.removesuffix(suffix)
    if name.endswith(".txt"):
        return _read_xmc(path, reading)
    if name.endswith((".jsonl", ".ndjson")):
        return read_records(path, part, reading)
    if name.endswith(".csv"):
        return read_csv(path, reading)
    if path.name.endswith(".parquet"):
        return read_parquet(path, reading)
    raise DataError(
        path,
        "its ending is not that of a known format; known are .txt (extreme classification repository), "
        ".jsonl, .csv, also with .xz, .gz or .zst, and .parquet",
    )


def _read_xmc(path: Path, reading: Reading) -> Part:
    return read_xmc_text(
        path, label_names=reading.label_names, threads=reading.threads, progress=reading.progress
    )


def _readers_of_folder(folder: Path, part: str, reading: Reading) -> Iterator[tuple[str, Callable[[], Part]]]:
    """Yield what could be read from the folder: the name of the file that gives it away, and its reader."""
    if xmc := find_file(folder, part, "{}.txt"):
        yield xmc.name, lambda: _read_xmc(xmc, reading)
    names = find_file(folder, part, "output-items.txt")
    features, labels = (find_file(folder, part, f"{matrix}.{{}}.npz", packed=False) for matrix in "XY")
    texts_beside = find_file(folder, part, "X.{}.txt")
    if pecos := features or labels or texts_beside:
        files = PecosFiles(features, texts_beside, labels, names)
        yield pecos.name, lambda: read_pecos(files, reading)
    if mapped := find_file(folder, part, "X.{}.indptr.npy", packed=False):
        mapped_labels = find_file(folder, part, "Y.{}.indptr.npy", packed=False)
        yield mapped.name, lambda: read_mapped(mapped, mapped_labels, names, reading)
    if texts := find_file(folder, part, "{}_texts.txt"):
        text_labels = find_file(folder, part, "{}_labels.txt")
        training_labels = find_file(folder, "train", "{}_labels.txt")
        yield texts.name, lambda: read_text_labels(texts, text_labels, training_labels, reading)
    if records := find_file(folder, part, "{}.jsonl") or _split_file(folder):
        yield records.name, lambda: read_records(records, part, reading)


def _split_file(folder: Path) -> Path | None:
    """Find the one file of JSON records that holds all parts."""
    if any(find_file(folder, part, "{}.jsonl") for part in PARTS):
        return None
    found = sorted(path for suffix in SUFFIXES for path in folder.glob("*.jsonl" + suffix) if path.is_file())
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise DataError(
            folder,
            f"has more than one file of records: {names}; name the file instead of the folder, or several",
        )
    return found[0] if found else None


def _name_left_out(folder: Path, part: str, used: str, reading: Reading) -> None:
    """Warn of records beside the file that was read, which nobody should believe to be read."""
    parts = {*PARTS, *map(short_name, PARTS), part, short_name(part), *_HELD_OUT}
    beside = sorted(
        path.name
        for ending in _RECORDS
        for suffix in (SUFFIXES if ending != ".parquet" else SUFFIXES[:1])
        for path in folder.glob("*" + ending + suffix)
        if path.is_file()
        and path.name != used
        and path.name.removesuffix(suffix).removesuffix(ending) not in parts
        and path.resolve() not in reading.others
    )
    if beside:
        names = ", ".join(beside[:_NAMED]) + (" and more" if len(beside) > _NAMED else "")
        warnings.warn(
            f"{folder}: read {used}, and not {names} beside it; to read such a file as well, name it after"
            f" the folder: {folder} {folder / beside[0]}",
            LeftOutWarning,
            stacklevel=4,
        )


def _only(folder: Path, part: str, readers: dict[str, Callable[[], Part]]) -> tuple[str, Callable[[], Part]]:
    if len(readers) > 1:
        names = ", ".join(readers)
        raise DataError(folder, f"has more than one layout ({names}); name the file, or move the others away")
    for found in readers.items():
        return found
    short = short_name(part)
    raise DataError(
        folder,
        f"has no {part} part in a known layout; looked for {part}.txt, X.{short}.npz and Y.{short}.npz, "
        f"X.{short}.indptr.npy, X.{short}.txt, {part}_texts.txt and {part}_labels.txt, {part}.jsonl, or one"
        f" *.jsonl of records with a split ({' or '.join(dict.fromkeys((part, short)))}; text files also as"
        " .xz, .gz or .zst)",
    )
