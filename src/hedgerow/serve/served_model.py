"""A model as the server asks it: with tables of its labels that are made once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from hedgerow.decisions.goals import Goal
from hedgerow.model import Model

from .verdicts import Sorting, curves, sorting

_REMEMBERED = 256  # goals and numbers of labels


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model that answers requests, and a hash of its file. Two of the same file have the same id."""

    model: Model
    id: str

    @cached_property
    def reads_texts(self) -> bool:
        """Whether inputs are texts, not features."""
        return self.model.reader.kind != "features"

    @cached_property
    def fields(self) -> tuple[str, ...] | None:
        """The texts of an input by name; None where it is one text, or features."""
        return self.model.reader.text_fields

    @cached_property
    def tolerance(self) -> float | None:
        """How far to search: guarantees hold for the search that they were learned with."""
        policy = self.model.policy
        return None if policy is None else policy.search.tolerance

    def sorting(self, goal: Goal) -> Sorting:
        """How labels are sorted for a goal. The last goals are remembered: their thresholds take time to
        find.
        """
        return self._sortings(goal)

    def finds(self, k: int) -> bool:
        """Whether the search finds k labels of any input as it is."""
        return self._finds(k)

    @cached_property
    def _sortings(self) -> Callable[[Goal], Sorting]:
        return lru_cache(_REMEMBERED)(lambda goal: sorting(self.model, goal))

    @cached_property
    def _finds(self) -> Callable[[int], bool]:
        return lru_cache(_REMEMBERED)(self.model.finds)

    @cached_property
    def curves(self) -> dict[str, Any] | None:
        """The thresholds of decisions at every risk."""
        return curves(self.model)

    @cached_property
    def labels(self) -> list[str | int]:
        """All labels."""
        return self.model.classes.tolist()  # type: ignore[no-any-return]

    @cached_property
    def counts(self) -> list[int] | None:
        """How often each label occurred in training."""
        counts = self.model.label_counts
        return None if counts is None else counts.tolist()

    @cached_property
    def column(self) -> dict[str | int, int]:
        """The column of each label."""
        return {label: number for number, label in enumerate(self.labels)}

    @cached_property
    def folded(self) -> list[str]:
        """The labels without the difference of capital and small letters, for search."""
        return [str(label).casefold() for label in self.labels]

    @cached_property
    def by_frequency(self) -> list[int]:
        """Columns of the labels, the frequent ones first; of equals, the first in the alphabet."""
        counts = self.counts or [0] * len(self.labels)
        return sorted(range(len(self.labels)), key=lambda number: (-counts[number], self.folded[number]))

    def search(self, query: str) -> list[int]:
        """Columns of the labels that hold the query; those that begin with it first, then frequent ones."""
        wanted = query.casefold()
        begin: list[int] = []
        within: list[int] = []
        for number in self.by_frequency:
            name = self.folded[number]
            if name.startswith(wanted):
                begin.append(number)
            elif wanted in name:
                within.append(number)
        return begin + within
