"""Which labels of a model have an entry and a name."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .names import VocabularyWarning
from .vocabulary import Vocabulary

__all__ = ["Coverage", "check_vocabulary", "coverage"]

SHOWN = 5


@dataclass(frozen=True, eq=False)
class Coverage:
    """What a vocabulary knows of labels.

    Attributes
    ----------
    labels : int
        Number of labels.
    missing : list
        Labels without an entry.
    named : int
        Number of labels with a name.
    """

    labels: int
    missing: list[Any]
    named: int


def coverage(vocabulary: Vocabulary, labels: npt.NDArray[Any]) -> Coverage:
    """Look labels up in a vocabulary; numbers as they are written."""
    names = labels.tolist()
    numbers = vocabulary.indices(str(name) for name in names)
    named = np.diff(vocabulary.columns.name_begins.astype(np.int64))[numbers[numbers >= 0]] > 0
    missing = [names[place] for place in np.flatnonzero(numbers < 0).tolist()]
    return Coverage(len(names), missing, int(named.sum()))


def check_vocabulary(vocabulary: Vocabulary | None, labels: npt.NDArray[Any]) -> None:
    """Refuse what is no vocabulary, and warn of labels that it lacks."""
    if vocabulary is None:
        return
    if not isinstance(vocabulary, Vocabulary):
        raise TypeError(
            f"vocabulary is a {type(vocabulary).__name__}; read one with hedgerow.read_vocabulary(path)"
        )
    missing = coverage(vocabulary, labels).missing
    if missing:
        shown = ", ".join(map(repr, missing[:SHOWN])) + (", ..." if len(missing) > SHOWN else "")
        warnings.warn(
            f"{len(missing):,} of {len(labels):,} labels are not in the vocabulary, so they are shown without"
            f" names: {shown}; they are predicted all the same",
            VocabularyWarning,
            stacklevel=3,
        )
