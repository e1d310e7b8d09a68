"""Two files side by side: one text a line, and the labels of that text in the same line of the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from .errors import DataError
from .label_space import LabelCollector
from .lines import Progress, read_lines
from .part import Part

_SAMPLE_LINES = 10_000


def read_text_labels(
    texts_path: Path,
    labels_path: Path | None,
    *,
    label_names: Sequence[str] | None = None,
    label_separator: str | None = None,
    separated_as: Path | None = None,
    progress: Progress | None = None,
) -> Part:
    """Read texts and, from a second file, their labels.

    Parameters
    ----------
    texts_path : Path
        One text a line.
    labels_path : Path or None
        The labels of each text, in the same line.
    label_names : sequence of str, optional
        The label space to map onto; None makes it of what occurs.
    label_separator : str, optional
        What stands between two labels; None finds out, see `find_separator`.
    separated_as : Path, optional
        The file to find that out from; by default `labels_path`. The parts of a data set must agree.
    progress : callable, optional
        Is told the share of the texts that was read.

    Returns
    -------
    Part
        With `texts`, and with `Y` and `label_names` if there are labels.
    """
    texts = [text for _, text in read_lines(texts_path, progress=progress)]
    if labels_path is None:
        return Part(texts=texts)
    split = _splitter(label_separator or find_separator(separated_as or labels_path))
    labels = LabelCollector(labels_path, label_names)
    rows = 0
    for _, line in read_lines(labels_path):
        labels.add(split(line))
        rows += 1
    if rows != len(texts):
        raise DataError(
            labels_path,
            f"has {rows} lines, but {texts_path} has {len(texts)}; they must match line by line",
            min(rows, len(texts)) + 1,
        )
    Y, names = labels.finish()
    return Part(texts=texts, Y=Y, label_names=names, unknown_labels=labels.unknown)


def find_separator(path: Path) -> str:
    """Find out what separates the labels of a line.

    Looks at the first lines: a tab if any has one; a comma if at least one labelled line in twenty has one
    (rarer commas are taken for parts of names); else a space. With tabs or commas, names may have spaces in
    them.
    """
    sample = [line for _, line in islice(read_lines(path), _SAMPLE_LINES) if line.strip()]
    if any("\t" in line.strip() for line in sample):
        return "\t"
    commas = sum("," in line for line in sample)
    return "," if commas and commas * 20 >= len(sample) else " "


def _splitter(separator: str) -> Callable[[str], list[str]]:
    if separator == " ":
        return str.split
    return lambda line: [name for piece in line.split(separator) if (name := piece.strip())]
