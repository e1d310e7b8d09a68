"""Which entries are broader than which."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

__all__ = ["Hierarchy"]

Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """The broader entries of each entry, by number: those of i are ``entries[begins[i]:begins[i + 1]]``.

    There is no cycle: no entry is broader than itself, however many steps are taken.
    """

    begins: npt.NDArray[np.int64]
    entries: Numbers

    def __len__(self) -> int:
        return len(self.begins) - 1

    @classmethod
    def of(cls, children: Numbers, parents: Numbers, count: int) -> Hierarchy:
        """From pairs of an entry and a broader one, in the order of the entries."""
        begins = np.concatenate([[0], np.cumsum(np.bincount(children, minlength=count))]).astype(np.int64)
        order = np.argsort(children, kind="stable")
        return cls(begins, parents[order].astype(np.int32))

    def broader(self, entry: int) -> Numbers:
        """The entries right above one."""
        return self.entries[self.begins[entry] : self.begins[entry + 1]]

    def narrower(self, entry: int) -> Numbers:
        """The entries right below one, in the order of the vocabulary."""
        return self._below.broader(entry)

    def ancestors(self, entry: int) -> Numbers:
        """All entries above one, nearest first; of those that are equally near, the first that is met."""
        return _reached(self, entry)

    def descendants(self, entry: int) -> Numbers:
        """All entries below one, nearest first."""
        return _reached(self._below, entry)

    def cycle(self) -> list[int]:
        """Entries that are broader than themselves, along the way, if there are any; else an empty list."""
        left = np.diff(self.begins).astype(np.int64)  # broader entries that may still be in a cycle
        below = self._below
        ready = np.flatnonzero(left == 0).tolist()
        while ready:
            under = below.broader(ready.pop())
            np.subtract.at(left, under, 1)
            ready += {entry for entry in under.tolist() if left[entry] == 0}
        caught = np.flatnonzero(left)
        if not len(caught):
            return []
        way: list[int] = [int(caught[0])]
        place = {way[0]: 0}
        while True:
            step = next(above for above in self.broader(way[-1]).tolist() if left[above])
            if step in place:
                return way[place[step] :]
            place[step] = len(way)
            way.append(step)

    @cached_property
    def _below(self) -> Hierarchy:
        children = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.begins))
        return Hierarchy.of(self.entries, children, len(self))


def _reached(hierarchy: Hierarchy, entry: int) -> Numbers:
    """What steps from an entry lead to, in layers."""
    found: dict[int, None] = {}
    layer = hierarchy.broader(entry).tolist()
    while layer:
        layer = [above for above in dict.fromkeys(layer) if above not in found]
        found |= dict.fromkeys(layer)
        layer = [above for met in layer for above in hierarchy.broader(met).tolist()]
    return np.fromiter(found, dtype=np.int32, count=len(found))
