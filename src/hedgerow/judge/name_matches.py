"""Labels whose names inputs have, and what is known of each find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.features.name_matcher import NameMatcher, NameMatches

__all__ = ["LabelRecord", "Matched", "find_names", "number_names"]

# What is seen of a find in each text of an input, in all of them, and of the label.
_OF_TEXT = ("outer", "early")
_OF_INPUT = (
    "count",
    "outer share",
    "exact share",
    "same case share",
    "words",
    "ambiguity",
    "preferred",
    "shortened",
    "length",
    "found in input",
)
_OF_LABEL = ("frequency", "inputs with the name", "share that is right", "new")
_LIKELY = (0.5, 5.0)  # right finds and finds that count as seen before any is


@dataclass(frozen=True, eq=False)
class Matched:
    """Labels by input in CSR form, ascending, and numbers that describe each find.

    The numbers are those of `number_names`, without those of the label.
    """

    indptr: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.float32]

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The input of each find."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


@dataclass(frozen=True, eq=False)
class LabelRecord:
    """How labels and their names have done in training: for each label, how many inputs.

    Attributes
    ----------
    frequency : int64 array, shape (n_labels,)
        Have the label.
    found : int64 array, shape (n_labels,)
        Have its name.
    right : int64 array, shape (n_labels,)
        Have both.
    """

    frequency: npt.NDArray[np.int64]
    found: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]

    def describe(
        self, labels: npt.NDArray[np.int32], own: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[np.float32]:
        """The numbers of labels; with `own`, without an input whose label is right or not, and is counted."""
        frequency, found, right = (
            counts[labels].astype(np.float64) for counts in (self.frequency, self.found, self.right)
        )
        if own is not None:
            frequency, found, right = frequency - own, found - 1, right - own
        least, most = _LIKELY
        share = np.log((right + least) / (found + most))
        return np.column_stack([np.log1p(frequency), np.log1p(found), share, frequency == 0]).astype(
            np.float32
        )


def number_names(texts: int) -> tuple[str, ...]:
    """What is known of a find, where an input has so many texts."""
    return (
        tuple(f"{name} in text {text}" for text in range(texts) for name in _OF_TEXT) + _OF_INPUT + _OF_LABEL
    )


def find_names(
    matcher: NameMatcher,
    columns: npt.NDArray[np.int32],
    texts: Sequence[tuple[str, ...]],
    threads: int,
) -> Matched:
    """Look for names in inputs.

    Parameters
    ----------
    matcher : NameMatcher
        Knows the names of entries.
    columns : int32 array
        The label of each entry.
    texts : sequence of tuple of str
        The texts of all inputs, such as the titles, and then the abstracts.
    threads : int
        0 is all processors.
    """
    found = [matcher.match(own, threads=threads) for own in texts]
    inputs = len(found[0].indptr) - 1
    keys = [_keys(one, columns) for one in found]
    every = np.unique(np.concatenate(keys))
    places = [np.searchsorted(every, own) for own in keys]

    def gathered(name: str) -> list[npt.NDArray[np.float64]]:
        spread = []
        for one, at in zip(found, places, strict=True):
            values = np.zeros(len(every))
            values[at] = getattr(one, name)
            spread.append(values)
        return spread

    count = np.sum(gathered("count"), axis=0)
    outer = gathered("outer")
    early = [np.zeros(len(every)) for _ in found]
    ambiguity, shortened = np.full(len(every), np.inf), np.ones(len(every))
    for text, (one, at) in enumerate(zip(found, places, strict=True)):
        early[text][at] = 1.0 - one.first
        ambiguity[at] = np.minimum(ambiguity[at], one.ambiguity)
        shortened[at] = np.minimum(shortened[at], one.shortened)
    rows = every >> 32
    own = [part for pair in zip((np.log1p(values) for values in outer), early, strict=True) for part in pair]
    in_input = np.bincount(rows, minlength=inputs)[rows]
    tokens = np.sum([one.tokens for one in found], axis=0)[rows]
    numbers: list[Any] = [
        *own,
        np.log1p(count),
        np.sum(outer, axis=0) / count,
        np.sum(gathered("exact"), axis=0) / count,
        np.sum(gathered("same_case"), axis=0) / count,
        np.max(gathered("words"), axis=0),
        np.log(ambiguity),
        np.max(gathered("preferred"), axis=0),
        shortened,
        np.log1p(tokens),
        np.log1p(in_input),
    ]
    indptr = np.searchsorted(rows, np.arange(inputs + 1)).astype(np.int64)
    labels = (every & 0xFFFFFFFF).astype(np.int32)
    return Matched(indptr, labels, np.column_stack(numbers).astype(np.float32))


def _keys(found: NameMatches, columns: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Input and label of each find in one number, in the order of both."""
    rows = np.repeat(np.arange(len(found.indptr) - 1, dtype=np.int64), np.diff(found.indptr))
    return rows << 32 | columns[found.entries]
