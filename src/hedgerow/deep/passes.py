"""One tree asked several times, each time about another view of the same input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow import _native
from hedgerow.inputs.search import SearchSettings
from hedgerow.inputs.subset import LabelSubset
from hedgerow.progress import Stage
from hedgerow.trees.forest import Ensemble, Floats, Found
from hedgerow.trees.tree_model import TreeClassifier


class PassEnsemble(Ensemble):
    """A single tree whose members are passes of an encoder with dropout.

    An input is as many rows as there are passes, one after the other. A label that one pass met and another
    did not has probability 0 for the latter; `bound` says how far that may be off.
    """

    def __init__(self, trees: Sequence[TreeClassifier], labels: int, passes: int) -> None:
        super().__init__(trees, labels)
        self.passes = passes

    @property
    def members(self) -> int:
        """How many members vote."""
        return self.passes

    @property
    def rows_each(self) -> int:
        """Rows of features that make an input."""
        return self.passes

    def votes(
        self,
        X: _native.Rows,
        k: int,
        search: SearchSettings,
        threads: int,
        reach: Sequence[tuple[int, int]] = (),
        progress: Stage | None = None,
        subset: LabelSubset | None = None,
    ) -> Found:
        """Candidates, at least k for each input: those of all its passes."""
        found = super().votes(X, k, search, threads, reach, progress, subset)
        rows = np.repeat(np.arange(len(found.indptr) - 1), np.diff(found.indptr))
        inputs = (len(found.indptr) - 1) // self.passes
        entries = rows // self.passes * self.labels + found.labels
        union, place = np.unique(entries, return_inverse=True)
        merged = np.zeros((len(union), self.passes), dtype=np.float32)
        merged[place, rows % self.passes] = found.probs.reshape(-1)
        return Found(
            np.searchsorted(union, np.arange(inputs + 1, dtype=np.int64) * self.labels),
            (union % self.labels).astype(np.int32),
            merged,
            # What a pass does not know of a probability is divided among all; the uncertainty that is missed
            # grows with the mass that is missed, and the mean of that is no more than the largest.
            found.bound.reshape(-1, self.passes).mean(axis=1),
            found.missed.reshape(-1, self.passes).max(axis=1),
            None if found.reach is None else self._mean(found.reach),
        )

    def reach(self, X: _native.Rows, wanted: Sequence[tuple[int, int]], threads: int) -> Floats:
        """As of `Ensemble`, the mean over the passes."""
        return self._mean(super().reach(X, wanted, threads))

    def _mean(self, sums: Floats) -> Floats:
        mean: Floats = sums.reshape(len(sums) // self.passes, self.passes, sums.shape[1]).mean(axis=1)
        return mean

    def __getstate__(self) -> dict[str, Any]:
        return {"trees": self.trees, "labels": self.labels, "passes": self.passes}
