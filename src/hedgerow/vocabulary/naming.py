"""Names of labels in one language, for all that shows labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .vocabulary import Vocabulary

__all__ = ["Naming"]

_SINGLY = 1000  # labels; more are looked up in a table of all ids


@dataclass(frozen=True, eq=False)
class Naming:
    """Names labels as a vocabulary does: in the language asked for, else as `Vocabulary.name` chooses.

    Labels are looked up as they are written; what was found is remembered.
    """

    vocabulary: Vocabulary
    lang: str | None = None
    _known: dict[Any, str | None] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, labels: npt.ArrayLike) -> npt.NDArray[np.object_]:
        """The names of labels, an array of the same shape; None of labels without a name."""
        found = np.asarray(labels, dtype=object)
        flat = found.ravel().tolist()
        self._learn([label for label in dict.fromkeys(flat) if label not in self._known])
        named = np.empty(len(flat), dtype=object)
        named[:] = [self._known.get(label) for label in flat]
        return named.reshape(found.shape)

    def of(self, label: Any) -> str | None:
        """The name of one label."""
        if label not in self._known:
            self._learn([label])
        return self._known.get(label)

    def shown(self, label: Any) -> str:
        """The name of a label for people, with the label in parentheses where that says more."""
        name = self.of(label)
        return str(label) if name is None or name == str(label) else f"{name} ({label})"

    def _learn(self, labels: list[Any]) -> None:
        """Remember the names of entries; of other labels there may be any number."""
        vocabulary, columns = self.vocabulary, self.vocabulary.columns
        if len(labels) > _SINGLY:
            for label, number in zip(labels, vocabulary.indices(map(str, labels)).tolist(), strict=True):
                if number >= 0:
                    self._known[label] = columns.name_of(number, self.lang)
            return
        for label in labels:
            if (id := str(label)) in vocabulary:
                self._known[label] = vocabulary.name(id, self.lang)
