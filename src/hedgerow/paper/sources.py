"""The data of experiments: where they lie, and what is read from there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from hedgerow.data import DataError, Part, read_part
from hedgerow.inputs.training_record import add_strings

_QUICK_TRAIN, _QUICK_TEST = 2000, 500


@dataclass(frozen=True)
class Source:
    """The folder or file where data lie, and the field of their records that has the labels."""

    path: Path
    labels_field: str = "labels"

    @classmethod
    def parse(cls, text: str) -> Source:
        """Read PATH or PATH:FIELD.

        Examples
        --------
        >>> Source.parse("packages:tags").name
        'packages-tags'
        """
        path, colon, labels_field = text.rpartition(":")
        if Path(text).exists() or not colon or not path or not labels_field or "/" in labels_field:
            return cls(Path(text))
        return cls(Path(path), labels_field)

    @property
    def name(self) -> str:
        """How tables call it."""
        return self.stem if self.labels_field == "labels" else f"{self.stem}-{self.labels_field}"

    @property
    def stem(self) -> str:
        """How tables call it where its texts are out-of-distribution inputs."""
        return self.path.resolve().name.split(".")[0]


@dataclass(frozen=True)
class LoadedData:
    """A data set in memory."""

    train: Part
    test: Part

    @property
    def has_texts(self) -> bool:
        """Whether models read its texts, not features."""
        return self.train.X is None

    @property
    def inputs(self) -> tuple[Any, Any]:
        """What a model reads to train and to test."""
        train, test = self.train, self.test
        return (train.texts, test.texts) if self.has_texts else (train.X, test.X)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what is learned and judged, the same wherever the data lie."""
        digest = xxhash.xxh3_128()
        for part in (self.train, self.test):
            for strings in (part.texts, part.label_names):
                add_strings(digest, strings or ())
            for matrix in (part.X, part.Y):
                if matrix is not None:
                    digest.update(np.asarray(matrix.indptr, dtype=np.int64).tobytes())
                    digest.update(np.asarray(matrix.indices, dtype=np.int64).tobytes())
            if part.X is not None:
                digest.update(np.asarray(part.X.data, dtype=np.float32).tobytes())
        return str(digest.hexdigest())


class OodTexts:
    """Texts of all data sets, which are out-of-distribution inputs to each other; each is read once."""

    def __init__(self, sources: Sequence[Source], rows: int) -> None:
        self._sources: dict[Path, Source] = {}
        for source in sources:
            self._sources.setdefault(source.path.resolve(), source)
        self._rows = rows
        self._texts: dict[Source, list[str]] = {}

    def beside(self, own: Source) -> dict[str, list[str]]:
        """The texts of all other data sets that have any, by name."""
        others = [source for path, source in self._sources.items() if path != own.path.resolve()]
        return {other.stem: texts for other in others if (texts := self._read(other))}

    def _read(self, source: Source) -> list[str]:
        if source not in self._texts:
            part = read_part(source.path, "test" if source.path.is_dir() else None, labels_field=None)
            self._texts[source] = _thinned(part, self._rows).texts or []
        return self._texts[source]


def load(source: Source, quick: bool, threads: int) -> LoadedData:
    """Read both parts, or for a quick experiment some of their rows."""
    train, test = (
        read_part(source.path, part, labels_field=source.labels_field, threads=threads)
        for part in ("train", "test")
    )
    for name, part in (("train", train), ("test", test)):
        if part.Y is None or part.n == 0:
            raise DataError(source.path, f"its {name} part has no labels; name their field as PATH:FIELD")
    if (train.X is None) != (test.X is None):
        raise DataError(source.path, "one of its parts has features and the other has texts")
    if quick:
        train, test = _thinned(train, _QUICK_TRAIN), _thinned(test, _QUICK_TEST)
    return LoadedData(train, test)


def evenly_spread(count: int, most: int) -> np.ndarray:
    """Numbers of rows, all of them or this many."""
    return np.linspace(0, count - 1, max(1, min(count, most))).astype(int)


def _thinned(part: Part, most: int) -> Part:
    """Some rows, evenly spread; the label space stays."""
    if part.n <= most:
        return part
    rows = evenly_spread(part.n, most)
    return Part(
        X=None if part.X is None else part.X[rows],
        texts=None if part.texts is None else [part.texts[row] for row in rows],
        Y=None if part.Y is None else part.Y[rows],
        label_names=part.label_names,
    )


def hash_strings(strings: Iterable[object]) -> str:
    """A hash of strings in their order."""
    digest = xxhash.xxh3_128()
    add_strings(digest, strings)
    return str(digest.hexdigest())
