"""One tree asked several times, each time about another view of the same input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native
from hedgerow.progress import Stage
from hedgerow.trees.forest import Ensemble, Floats, Search
from hedgerow.trees.tree_model import TreeClassifier
from hedgerow.votes.measures import instance_uncertainty, label_uncertainty
from hedgerow.votes.votes import Votes

__all__ = ["PassEnsemble"]


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

    def top(
        self, X: _native.Rows, k: int, exact: bool, search: Search, progress: Stage | None = None
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """The best k labels of each input and their mean probabilities, both of shape (n, k)."""
        found = self.uncertain(X, k, search, progress, everything=exact)
        return found["labels"], found["probability"]

    def uncertain(
        self, X: _native.Rows, k: int, search: Search, progress: Stage | None = None, everything: bool = False
    ) -> dict[str, npt.NDArray[Any]]:
        """The best k labels of each input with their measures, and the measures of each input."""
        if everything:
            search = replace(search, candidates="all")
        votes = self._merged(X, k, search, progress)
        of_labels, of_inputs = label_uncertainty(votes), instance_uncertainty(votes)
        best = _best(votes, of_labels.probability, k)
        found: dict[str, npt.NDArray[Any]] = {"labels": votes.labels[best]}
        for name in ("probability", "total", "data", "knowledge", "variance"):
            found[name] = getattr(of_labels, name)[best].astype(np.float32)
        found["input_expected"] = of_inputs.probability.astype(np.float32)
        for name in ("total", "data", "knowledge", "variance"):
            found[f"input_{name}"] = getattr(of_inputs, name).astype(np.float32)
        found["input_bound"], found["input_missed"] = votes.bound, votes.missed  # type: ignore[assignment]
        return found

    def votes(
        self, X: _native.Rows, search: Search, progress: Stage | None = None, k: int = 1
    ) -> tuple[npt.NDArray[Any], ...]:
        """At least k candidates for each input: (indptr, labels, probs, bound, missed)."""
        votes = self._merged(X, k, search, progress)
        return votes.indptr, votes.labels, votes.probs, votes.bound, votes.missed  # type: ignore[return-value]

    def reach(self, X: _native.Rows, wanted: Sequence[tuple[int, int]], threads: int) -> Floats:
        """As of `Ensemble`, the mean over the passes."""
        sums = super().reach(X, wanted, threads)
        mean: Floats = sums.reshape(-1, self.passes, sums.shape[1]).mean(axis=1)
        return mean

    def _merged(self, X: _native.Rows, k: int, search: Search, progress: Stage | None) -> Votes:
        found = self._forest.votes(X, k, *self._how(search, False), progress)
        indptr, labels, probs, bound, missed = found
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        inputs = (len(indptr) - 1) // self.passes
        entries = rows // self.passes * self.labels + labels
        union, place = np.unique(entries, return_inverse=True)
        merged = np.zeros((len(union), self.passes), dtype=np.float32)
        merged[place, rows % self.passes] = probs.reshape(-1)
        return Votes(
            np.searchsorted(union, np.arange(inputs + 1, dtype=np.int64) * self.labels),
            (union % self.labels).astype(np.int32),
            merged,
            self.labels,
            # What a pass does not know of a probability is divided among all. The uncertainty that is missed
            # grows with the mass that is missed, and the mean of that is no more than the largest.
            bound.reshape(-1, self.passes).mean(axis=1),
            missed.reshape(-1, self.passes).max(axis=1),
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"trees": self.trees, "labels": self.labels, "passes": self.passes}


def _best(votes: Votes, probability: npt.NDArray[Any], k: int) -> npt.NDArray[np.int64]:
    """Places of the best k candidates of each input; of equal ones, the first labels."""
    rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
    order = np.lexsort((votes.labels, -probability.astype(np.float32), rows))
    return np.asarray(order[votes.indptr[:-1, None] + np.arange(k)])
