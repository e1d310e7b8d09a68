"""A model as the server asks it: with tables of its labels that are made once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from hedgerow.decisions.goals import Goal
from hedgerow.inputs.subset import LabelSubset
from hedgerow.model import Model

from .errors import ApiError
from .verdicts import Sorting, curves, sorting

_REMEMBERED = 256  # goals and numbers of labels
_SUBSETS = 16


@dataclass(frozen=True)
class AllowedLabels:
    """The labels that a request allows and excludes, each once and in order; None where it says nothing."""

    only: tuple[str | int, ...] | None = None
    exclude: tuple[str | int, ...] | None = None

    @classmethod
    def of(cls, only: Iterable[str | int] | None, exclude: Iterable[str | int] | None) -> AllowedLabels:
        """Those of two lists, so that equal sets are equal."""
        return cls(*(None if of is None else tuple(sorted(set(of), key=_order)) for of in (only, exclude)))


ALL_LABELS = AllowedLabels()


def _order(label: str | int) -> tuple[bool, str | int]:
    return isinstance(label, str), label


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

    def subset(self, allowed: AllowedLabels) -> LabelSubset | None:
        """The labels that may be answered, the same object for the same labels; None for all."""
        if allowed == ALL_LABELS:
            return None
        try:
            return self._subsets(allowed)
        except (ValueError, TypeError) as error:
            where = "exclude" if allowed.only is None or str(error).startswith("exclude") else "only"
            raise ApiError(422, "labels", str(error), where) from error

    def finds(self, k: int, subset: LabelSubset | None = None) -> bool:
        """Whether the search finds k labels of any input as it is."""
        return self._finds(k) if subset is None else self.model.finds(k, subset)

    @cached_property
    def _sortings(self) -> Callable[[Goal], Sorting]:
        return lru_cache(_REMEMBERED)(lambda goal: sorting(self.model, goal))

    @cached_property
    def _subsets(self) -> Callable[[AllowedLabels], LabelSubset | None]:
        return lru_cache(_SUBSETS)(lambda allowed: self.model.subset(allowed.only, allowed.exclude))

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

    @property
    def column(self) -> dict[str | int, int]:
        """The column of each label."""
        return self.model.column

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
