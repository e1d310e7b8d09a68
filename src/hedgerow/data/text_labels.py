"""Two files side by side: one text per line, and the labels of that text in the same line of the other."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from .errors import DataError
from .label_space import LabelCollector
from .lines import read_lines, split_cell
from .part import Part
from .reading import Reading

_SAMPLE_LINES = 10_000


def read_text_labels(
    texts_path: Path, labels_path: Path | None, separated_as: Path | None, reading: Reading
) -> Part:
    """Read texts and their labels; `separated_as` decides what separates labels, as the parts must agree."""
    texts = [text for _, text in read_lines(texts_path, progress=reading.progress)]
    if labels_path is None:
        return Part(texts=texts)
    separator = reading.label_separator or _find_separator(separated_as or labels_path)
    labels = LabelCollector(labels_path, reading.label_names)
    rows = 0
    for _, line in read_lines(labels_path):
        labels.add(line.split() if separator == " " else split_cell(line, separator))
        rows += 1
    if rows != len(texts):
        raise DataError(
            labels_path,
            f"has {rows} lines, but {texts_path} has {len(texts)}; they must match line by line",
            min(rows, len(texts)) + 1,
        )
    Y, names = labels.finish()
    return Part(texts=texts, Y=Y, label_names=names, unknown_labels=labels.unknown)


def _find_separator(path: Path) -> str:
    """Find out what separates labels: a tab or a comma, with which names may have spaces, else a space.

    Commas in fewer than one labelled line in twenty are taken for parts of names.
    """
    sample = [line for _, line in islice(read_lines(path), _SAMPLE_LINES) if line.strip()]
    if any("\t" in line.strip() for line in sample):
        return "\t"
    commas = sum("," in line for line in sample)
    return "," if commas and commas * 20 >= len(sample) else " "
