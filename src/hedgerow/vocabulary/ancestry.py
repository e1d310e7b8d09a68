"""Which entries of a vocabulary are broader than which: parents, ancestors and depths of all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .vocabulary import Vocabulary

__all__ = ["Ancestry", "CyclicHierarchy", "above_labels", "relatives"]

Entries = npt.NDArray[np.int32]

_DEEPEST = 100  # broader terms one above the other
_MOST_STEPS = 2 * 10**8  # of the computation of ancestors: a second or two
_NAMED = 10  # entries of a cycle that a message names


class CyclicHierarchy(ValueError):  # noqa: N818
    """Some entry is broader than itself; `cycle` holds such entries, each followed by one that is broader."""

    def __init__(self, cycle: Sequence[int]) -> None:
        self.cycle = tuple(cycle)
        shown = [str(entry) for entry in self.cycle[:_NAMED]]
        if len(self.cycle) > _NAMED:
            shown.append(f"({len(self.cycle) - _NAMED} more)")
        super().__init__(
            f"the broader terms form a cycle, {' < '.join([*shown, str(self.cycle[0])])}, so no term of it is"
            " broader than the others; remove one of these relations"
        )


@dataclass(frozen=True, eq=False)
class Ancestry:
    """Which entries are broader than which. An entry may have several broader ones, or none.

    Entries are numbered from 0. Where they stand for the labels of a model, the labels come first, in the
    order of the model, see `for_labels`.

    Attributes
    ----------
    entries : int
        Number of entries.
    child, parent : int32 array, shape (relations,)
        ``parent[i]`` is a broader term of ``child[i]``. Each pair is kept once, in ascending order.

    Examples
    --------
    >>> trees = Ancestry(4, child=[0, 1, 2], parent=[2, 2, 3])  # yew, pine < conifer < plant
    >>> trees.depths
    array([2, 2, 1, 0], dtype=int32)
    >>> trees.broader(0), trees.ancestors_of(0), trees.descendants(3)
    (array([2], dtype=int32), array([2, 3], dtype=int32), array([0, 1, 2], dtype=int32))
    """

    entries: int
    child: npt.NDArray[np.integer[Any]]
    parent: npt.NDArray[np.integer[Any]]

    def __post_init__(self) -> None:
        if isinstance(self.entries, bool) or not isinstance(self.entries, int | np.integer):
            raise TypeError(f"entries is {self.entries!r}; it must be an integer")
        if not 0 <= self.entries < 2**31:
            raise ValueError(f"entries is {self.entries}; it must be from 0 to 2**31 - 1")
        child = _checked("child", self.child, int(self.entries))
        parent = _checked("parent", self.parent, int(self.entries))
        if len(child) != len(parent):
            raise ValueError(f"child has {len(child)} entries, but parent has {len(parent)}")
        pairs = np.unique(child * self.entries + parent)
        set_ = object.__setattr__  # the object is frozen from here on
        set_(self, "entries", int(self.entries))
        set_(self, "child", (pairs // max(1, self.entries)).astype(np.int32))
        set_(self, "parent", (pairs % max(1, self.entries)).astype(np.int32))
        self.depths  # noqa: B018  refuses cycles

    # --- one entry ---

    def broader(self, entry: int) -> Entries:
        """The entries directly above one, ascending."""
        return _row(self._up, self._known(entry))

    def narrower(self, entry: int) -> Entries:
        """The entries directly below one, ascending."""
        return _row(self._down, self._known(entry))

    def ancestors_of(self, entry: int) -> Entries:
        """All entries above one, ascending."""
        return _row(self.ancestors, self._known(entry))

    def descendants(self, entry: int) -> Entries:
        """All entries below one, ascending."""
        return _row(self._descendants, self._known(entry))

    # --- all entries ---

    @cached_property
    def depths(self) -> Entries:
        """The length of the longest chain of broader terms above each entry, shape (entries,).

        0 where nothing is broader. An entry is always deeper than all that are broader.
        """
        depth = np.zeros(self.entries, dtype=np.int32)
        waiting = np.bincount(self.child, minlength=self.entries)
        ready = np.flatnonzero(waiting == 0)
        level = 0
        while ready.size:
            below, times = np.unique(relatives(self._down, ready)[1], return_counts=True)
            waiting[below] -= times
            ready = below[waiting[below] == 0]
            level += 1
            if ready.size and level > _DEEPEST:
                raise ValueError(
                    f"entry {ready[0]} has more than {_DEEPEST} broader terms one above the other, which no"
                    " vocabulary has; check which column holds the broader terms"
                )
            depth[ready] = level
        if (waiting > 0).any():
            raise CyclicHierarchy(self._cycle(waiting > 0))
        return depth

    @cached_property
    def ancestors(self) -> sp.csr_array:
        """All entries above each, shape (entries, entries): ones in its row, in the columns of its ancestors.

        Sorted, of int32.
        """
        reach = self.upwards
        return _pattern(reach - sp.eye_array(self.entries, dtype=np.int32, format="csr"))

    @cached_property
    def upwards(self) -> sp.csr_array:
        """The same with a 1 for each entry itself: in its row are the entry and all its ancestors."""
        reach = _pattern(sp.eye_array(self.entries, dtype=np.int32, format="csr") + self._up)
        steps, deepest = 1, int(self.depths.max(initial=0))
        while steps < deepest:
            sizes = np.diff(reach.indptr)
            if int(sizes[reach.indices].sum()) > _MOST_STEPS:
                raise ValueError(
                    "the entries have too many broader terms above them, directly or not; check which column"
                    " holds the broader terms"
                )
            reach = _pattern(reach @ reach)
            steps *= 2
        return reach

    @cached_property
    def inner(self) -> npt.NDArray[np.bool_]:
        """Whether an entry has narrower ones, shape (entries,)."""
        has: npt.NDArray[np.bool_] = np.bincount(self.parent, minlength=self.entries) > 0
        return has

    @cached_property
    def roots(self) -> npt.NDArray[np.bool_]:
        """Whether an entry has narrower ones and nothing is broader than it, shape (entries,)."""
        found: npt.NDArray[np.bool_] = self.inner & (self.depths == 0)
        return found

    def for_labels(self, places: npt.ArrayLike) -> tuple[Ancestry, npt.NDArray[np.int64]]:
        """The hierarchy above the labels of a model, with these labels first.

        Parameters
        ----------
        places : int array, shape (n_labels,)
            The entry of each label, none twice; -1 for a label that is no entry: it has no broader terms.

        Returns
        -------
        Ancestry
            The labels in their order, and then all that is broader than one of them.
        int64 array, shape (entries,)
            Which entry of this hierarchy each of its entries is; -1 for none.
        """
        own = np.asarray(places)
        if own.ndim != 1 or (own.size and own.dtype.kind not in "iu"):
            raise ValueError(f"places must be a vector of integers; it has shape {own.shape}")
        own = own.astype(np.int64)
        met = np.flatnonzero(own >= 0)
        if own.size and (own.min() < -1 or own.max() >= self.entries):
            raise ValueError(f"places must be from -1 to {self.entries - 1}, the last of the entries")
        values, times = np.unique(own[met], return_counts=True)
        if (times > 1).any():
            raise ValueError(f"two labels are entry {values[times > 1][0]}; each entry is one label")
        above = np.zeros(self.entries, dtype=bool)
        above[relatives(self.upwards, own[met])[1]] = True
        above[own[met]] = False
        order = np.concatenate([own, np.flatnonzero(above)])
        number = np.full(self.entries, -1, dtype=np.int64)
        kept = np.flatnonzero(order >= 0)
        number[order[kept]] = kept
        child, parent = number[self.child], number[self.parent]
        chosen = child >= 0  # all that is broader is chosen with it
        return Ancestry(len(order), child[chosen], parent[chosen]), order

    def with_more(self, entries: int) -> Ancestry:
        """The same with further entries at the end, which stand by themselves."""
        return Ancestry(self.entries + entries, self.child, self.parent)

    @cached_property
    def _up(self) -> sp.csr_array:
        return self._relation(self.child, self.parent)

    @cached_property
    def _down(self) -> sp.csr_array:
        return self._relation(self.parent, self.child)

    @cached_property
    def _descendants(self) -> sp.csr_array:
        return _pattern(sp.csr_array(self.ancestors.T))

    def _relation(self, of: npt.NDArray[Any], to: npt.NDArray[Any]) -> sp.csr_array:
        ones = np.ones(len(of), dtype=np.int32)
        return _pattern(sp.csr_array((ones, (of, to)), shape=(self.entries, self.entries)))

    def _known(self, entry: int) -> int:
        if isinstance(entry, bool) or not isinstance(entry, int | np.integer):
            raise TypeError(f"entry is {entry!r}; it must be an integer")
        if not 0 <= entry < self.entries:
            raise IndexError(f"there is no entry {entry}; there are {self.entries}")
        return int(entry)

    def _cycle(self, left: npt.NDArray[np.bool_]) -> list[int]:
        """One cycle, from its lowest entry up; every entry that is left has a broader one that is."""
        entry = int(np.flatnonzero(left)[0])
        way: dict[int, int] = {}
        while entry not in way:
            way[entry] = len(way)
            above = _row(self._up, entry)
            entry = int(above[left[above]][0])
        cycle = list(way)[way[entry] :]
        lowest = cycle.index(min(cycle))
        return cycle[lowest:] + cycle[:lowest]


def _checked(name: str, values: Any, entries: int) -> npt.NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(
            f"{name} must be a vector of integers; it has shape {array.shape}, type {array.dtype}"
        )
    outside = np.flatnonzero((array < 0) | (array >= entries)) if array.size else array
    if outside.size:
        raise ValueError(
            f"{name}[{outside[0]}] is {array[outside[0]]}, but there are {entries} entries, from 0 on"
        )
    return array.astype(np.int64)


def _pattern(matrix: Any) -> sp.csr_array:
    """Sorted, with ones in place of counts."""
    made = sp.csr_array(matrix)
    made.eliminate_zeros()
    made.sort_indices()
    made.data = np.ones(made.nnz, dtype=np.int32)
    return made


def _row(matrix: sp.csr_array, row: int) -> Entries:
    return np.asarray(matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]], dtype=np.int32)


def above_labels(
    vocabulary: Vocabulary, labels: npt.NDArray[Any]
) -> tuple[Ancestry, npt.NDArray[np.object_]]:
    """What a vocabulary has above the labels of a model.

    Parameters
    ----------
    vocabulary : Vocabulary
        Its ids are the labels; a label that it lacks has no broader terms.
    labels : array, shape (n_labels,)
        The labels; numbers as they are written.

    Returns
    -------
    Ancestry
        The labels in their order, and then all that is broader.
    object array, shape (entries,)
        The labels and then the ids of the others.
    """
    stored = vocabulary.hierarchy
    child = np.repeat(np.arange(len(stored)), np.diff(stored.begins))
    whole = Ancestry(len(stored), child, np.asarray(stored.entries))
    ancestry, order = whole.for_labels(vocabulary.indices(str(label) for label in labels.tolist()))
    names = np.empty(len(order), dtype=object)
    names[: len(labels)] = labels.tolist()
    names[len(labels) :] = vocabulary.columns.ids.taken(order[len(labels) :].tolist())
    return ancestry, names


def relatives(
    relation: sp.csr_array, entries: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The relatives of several entries, one entry after the other.

    Parameters
    ----------
    relation : csr_array, shape (entries, entries)
        Such as `Ancestry.ancestors`.
    entries : int array
        Entries, in any order and any number of times.

    Returns
    -------
    int64 array
        For each relative the place in `entries` of whose it is.
    int64 array
        The relatives.
    """
    sizes = np.diff(relation.indptr)[entries]
    begins = np.repeat(relation.indptr[entries] - (np.cumsum(sizes) - sizes), sizes)
    found = relation.indices[begins + np.arange(int(sizes.sum()))].astype(np.int64)
    return np.repeat(np.arange(len(entries)), sizes), found
