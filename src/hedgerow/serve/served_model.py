"""A model as the server asks it: with tables of its labels that are made once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hedgerow.model import Model

from .verdicts import curves


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
    def tolerance(self) -> float | None:
        """How far to search: guarantees hold for the search that they were learned with."""
        policy = self.model.policy
        return None if policy is None else policy.search.tolerance

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
