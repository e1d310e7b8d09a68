"""Finds out in which layout data lie, and reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path

from .compressed import SUFFIXES
from .errors import DataError
from .jsonl import read_jsonl
from .lines import Progress
from .mapped import read_mapped
from .part import Part
from .pecos import read_pecos
from .tables import read_csv, read_parquet
from .text_labels import read_text_labels
from .xmc_text import read_xmc_text

_SPELLINGS = {"train": ("train", "trn"), "test": ("test", "tst")}


def read_part(
    path: str | PathLike[str],
    part: str | None = "train",
    *,
    label_names: Sequence[str] | None = None,
    labels_field: str | None = "labels",
    label_separator: str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> Part:
    """Read one part of a data set from a folder or a file.

    In a folder, the files tell the layout:

    - ``train.txt``, ``test.txt``: text format of the extreme classification repository;
    - ``X.trn.npz``, ``Y.trn.npz``, ``X.tst.npz``, ``Y.tst.npz``, ``output-items.txt``: PECOS;
    - ``X.trn.indptr.npy`` and its companions: arrays that are mapped, as `map_data` makes them;
    - ``train_texts.txt``, ``train_labels.txt``, ``test_texts.txt``, ``test_labels.txt``: one text a line, and
      its labels in the same line;
    - ``train.jsonl``, ``test.jsonl``: records ``{"text": ..., "labels": [...], "id": ...}``;
    - one other ``*.jsonl``, whose records also have ``"split": "train"`` or ``"test"``.

    ``trn`` and ``tst`` stand for ``train`` and ``test``, and text files may be packed (.xz, .gz, .zst). A
    file is read by its ending: .txt (extreme classification repository), .jsonl, .csv (columns text, labels
    separated by ``;``, id) or .parquet (columns text, labels as a list, id).

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
        space, whichever the former uses) and in CSV cells (None: ``;``).
    threads : int, default 0
        Threads that parse; 0 means all processors. The result does not depend on it.
    progress : callable, optional
        Is told the share of the work that is done, between 0 and 1.

    Returns
    -------
    Part

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
    path = Path(path)
    if path.is_dir():
        readers = _readers_of_folder(
            path, part, label_names, labels_field, label_separator, threads, progress
        )
        return _only(path, part, list(readers))()
    if not path.exists():
        raise DataError(path, "there is no such file or folder")
    name = path.name
    for suffix in SUFFIXES[1:]:
        name = name.removesuffix(suffix)
    if name.endswith(".txt"):
        return read_xmc_text(path, label_names=label_names, threads=threads, progress=progress)
    if name.endswith((".jsonl", ".ndjson")):
        return read_jsonl(path, part, label_names=label_names, labels_field=labels_field, progress=progress)
    if name.endswith(".csv"):
        return read_csv(
            path,
            label_names=label_names,
            labels_field=labels_field,
            label_separator=label_separator,
            progress=progress,
        )
    if path.name.endswith(".parquet"):
        return read_parquet(path, label_names=label_names, labels_field=labels_field, progress=progress)
    raise DataError(
        path,
        "its ending says no known format; known are .txt (extreme classification repository), .jsonl, .csv, "
        "also with .xz, .gz or .zst, and .parquet",
    )


_Reader = tuple[str, Callable[[], Part]]


def _readers_of_folder(
    folder: Path,
    part: str | None,
    label_names: Sequence[str] | None,
    labels_field: str | None,
    label_separator: str | None,
    threads: int,
    progress: Progress | None,
) -> Iterator[_Reader]:
    """Yield what could be read from the folder: the name of a telling file, and its reader."""
    if part is None:
        raise DataError(folder, "is a folder; say which part of it to read, such as 'train' or 'test'")
    if xmc := find_in(folder, part, "{}.txt"):
        yield (
            xmc.name,
            lambda: read_xmc_text(xmc, label_names=label_names, threads=threads, progress=progress),
        )
    features = find_in(folder, part, "X.{}.npz", packed=False)
    labels = find_in(folder, part, "Y.{}.npz", packed=False)
    raw = find_in(folder, part, "X.{}.txt")
    if found := features or labels or raw:
        names = find_in(folder, part, "output-items.txt")
        yield (
            found.name,
            lambda: read_pecos(features, raw, labels, names, label_names=label_names, progress=progress),
        )
    if mapped := find_in(folder, part, "X.{}.indptr.npy", packed=False):
        mapped_labels = find_in(folder, part, "Y.{}.indptr.npy", packed=False)
        mapped_names = find_in(folder, part, "output-items.txt")
        yield (
            mapped.name,
            lambda: read_mapped(
                mapped, mapped_labels, mapped_names, label_names=label_names, threads=threads
            ),
        )
    if texts := find_in(folder, part, "{}_texts.txt"):
        text_labels = find_in(folder, part, "{}_labels.txt")
        training_labels = find_in(folder, "train", "{}_labels.txt")
        yield (
            texts.name,
            lambda: read_text_labels(
                texts,
                text_labels,
                label_names=label_names,
                label_separator=label_separator,
                separated_as=training_labels,
                progress=progress,
            ),
        )
    records = find_in(folder, part, "{}.jsonl") or _split_file(folder)
    if records:
        yield (
            records.name,
            lambda: read_jsonl(
                records, part, label_names=label_names, labels_field=labels_field, progress=progress
            ),
        )


def find_in(folder: Path, part: str, pattern: str, *, packed: bool = True) -> Path | None:
    """Find the file that a pattern names, in any spelling and packing; plain files come first."""
    for suffix in SUFFIXES if packed else SUFFIXES[:1]:
        for spelling in _SPELLINGS.get(part, (part,)):
            path = folder / (pattern.format(spelling) + suffix)
            if path.is_file():
                return path
    return None


def _split_file(folder: Path) -> Path | None:
    """Find the one file of JSON records that holds all parts."""
    if any(find_in(folder, part, "{}.jsonl") for part in _SPELLINGS):
        return None
    found = sorted(path for suffix in SUFFIXES for path in folder.glob("*.jsonl" + suffix) if path.is_file())
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise DataError(
            folder, f"has more than one file of records: {names}; name the file instead of the folder"
        )
    return found[0] if found else None


def _only(folder: Path, part: str | None, readers: list[_Reader]) -> Callable[[], Part]:
    if len(readers) > 1:
        names = ", ".join(name for name, _ in readers)
        raise DataError(folder, f"has more than one layout ({names}); name the file, or move the others away")
    if readers:
        return readers[0][1]
    first, *others = _SPELLINGS.get(part or "", (str(part),))
    short = others[0] if others else first
    raise DataError(
        folder,
        f"has no {part} part in a known layout; looked for {first}.txt, X.{short}.npz and Y.{short}.npz, "
        f"X.{short}.indptr.npy, X.{short}.txt, {first}_texts.txt and {first}_labels.txt, {first}.jsonl, "
        f"or one *.jsonl of records with a split ({' or '.join((first, *others))}; text files also as .xz, "
        ".gz or .zst)",
    )
