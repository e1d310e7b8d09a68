"""A model as the server asks it: with tables of its labels that are made once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from hedgerow.decisions.goals import Goal
from hedgerow.inputs.subset import LabelSubset
from hedgerow.model import Model
from hedgerow.vocabulary.naming import Naming

from .errors import ApiError
from .verdicts import Sorting, choices, sorting
from .watching import WatchedInputs

_REMEMBERED = 256  # goals and numbers of labels
_SUBSETS = 16
_LANGUAGES = 16
_SCHEMES = 100  # that a person can choose from
_NUMBER = re.compile("0|-?[1-9][0-9]{0,17}")


@dataclass(frozen=True)
class AllowedLabels:
    """What a request allows and excludes, each once and in order; None where it says nothing.

    That are labels, schemes of the vocabulary, and entries of it with all that is below them.
    """

    only: tuple[str | int, ...] | None = None
    exclude: tuple[str | int, ...] | None = None
    only_scheme: tuple[str | int, ...] | None = None
    only_subtree: tuple[str | int, ...] | None = None
    exclude_scheme: tuple[str | int, ...] | None = None
    exclude_subtree: tuple[str | int, ...] | None = None

    @classmethod
    def of(cls, **lists: Iterable[str | int] | None) -> AllowedLabels:
        """Those of lists, so that equal sets are equal."""
        return cls(
            **{name: None if of is None else tuple(sorted(set(of), key=_order)) for name, of in lists.items()}
        )

    @property
    def by_vocabulary(self) -> bool:
        """Whether the vocabulary is asked, which can take a while."""
        groups = (self.only_scheme, self.only_subtree, self.exclude_scheme, self.exclude_subtree)
        return any(of is not None for of in groups)


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
    def watched(self) -> WatchedInputs:
        """What it was asked since it was loaded."""
        return WatchedInputs(self.model)

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
        return lru_cache(_SUBSETS)(self._subset)

    def _subset(self, allowed: AllowedLabels) -> LabelSubset | None:
        only = self._within("only", allowed.only, allowed.only_scheme, allowed.only_subtree)
        exclude = self._within("exclude", allowed.exclude, allowed.exclude_scheme, allowed.exclude_subtree)
        return self.model.subset(only, exclude)

    def _within(
        self,
        what: str,
        labels: Iterable[str | int] | None,
        schemes: Iterable[str | int] | None,
        subtrees: Iterable[str | int] | None,
    ) -> list[str | int] | None:
        """Labels of a request, and those of schemes and subtrees; None where it names none of them."""
        if labels is None and schemes is None and subtrees is None:
            return None
        listed, where = list(labels or ()), what
        try:
            if schemes is not None:
                where = f"{what}_scheme"
                listed += self.model.labels_in(schemes=map(str, schemes))
            if subtrees is not None:
                where = f"{what}_subtree"
                listed += self.model.labels_in(subtrees=map(str, subtrees))
        except ValueError as error:
            raise ApiError(422, "labels", str(error), where) from error
        if what == "only" and not listed:
            raise ApiError(
                422,
                "labels",
                "no label of the model is among these entries, so nothing could be answered",
                where,
            )
        return listed

    @cached_property
    def _finds(self) -> Callable[[int], bool]:
        return lru_cache(_REMEMBERED)(self.model.finds)

    @cached_property
    def choices(self) -> dict[str, Any] | None:
        """What can be chosen for decisions, and what that guarantees."""
        return choices(self.model)

    @cached_property
    def labels(self) -> list[str | int]:
        """All labels."""
        return self.model.classes.tolist()  # type: ignore[no-any-return]

    @cached_property
    def schemes(self) -> list[str]:
        """The schemes of the vocabulary, of many the first."""
        vocabulary = self.model.vocabulary
        found = None if vocabulary is None else vocabulary.columns.schemes
        return [] if found is None else found.tolist()[:_SCHEMES]

    @cached_property
    def has_hierarchy(self) -> bool:
        """Whether some entry of the vocabulary is broader than another."""
        vocabulary = self.model.vocabulary
        return vocabulary is not None and len(vocabulary.columns.broader.entries) > 0

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
    def columns_by_text(self) -> dict[str, int]:
        """The column of each label as it is written, which is how vocabularies have it."""
        return {str(label): number for number, label in enumerate(self.labels)}

    def as_label(self, id: str) -> str | int:
        """An entry of the vocabulary as a label that the model could learn: a number, if its labels are."""
        numbers = bool(self.labels) and not isinstance(self.labels[0], str)
        return int(id) if numbers and _NUMBER.fullmatch(id) else id

    @cached_property
    def nameless(self) -> list[int]:
        """Columns of the labels without a name, the frequent ones first."""
        vocabulary = self.model.vocabulary
        if vocabulary is None:
            return self.by_frequency
        named = np.append(np.diff(vocabulary.columns.name_begins.astype(np.int64)) > 0, False)
        has = named[vocabulary.indices(map(str, self.labels))]  # the last stands for what has no entry
        return [number for number in self.by_frequency if not has[number]]

    def naming(self, lang: str | None) -> Naming | None:
        """How labels are called, in a language if there are names in it; None without a vocabulary."""
        return self._namings(lang and lang.lower())

    @cached_property
    def _namings(self) -> Callable[[str | None], Naming | None]:
        return lru_cache(_LANGUAGES)(
            lambda lang: None if self.model.vocabulary is None else Naming(self.model.vocabulary, lang)
        )

    def prepare_search(self) -> None:
        """Make the tables for searches by names, so that the first search is as fast as others."""
        if self.model.vocabulary is not None:
            self.model.vocabulary.prepare_search()
            self.nameless, self.columns_by_text  # noqa: B018

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
