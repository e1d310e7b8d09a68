"""Whom the judge asks about candidates besides the members: classifiers of labels, and centroids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native
from hedgerow.judge.judging import HEADROOM
from hedgerow.trees.forest import Ensemble
from hedgerow.trees.tree_model import Section, TreeClassifier

__all__ = ["SCORERS", "Scorers"]

# The probability of a tree with wide leaves; that of a label's own classifier, without the way to its leaf;
# and the cosine of the input and the centroid of the label's inputs.
SCORERS = ("wide", "label", "centroid")


class Scorers:
    """What they say of candidates, a column each.

    Parameters
    ----------
    classifier : TreeClassifier or None
        The tree that "wide" and "label" ask.
    centroids : TreeClassifier
        The tree that "centroid" asks.
    labels : int
        Number of labels.
    shared : bool
        Whether the classifier is the only member itself: then its own probability is no news, and it is not
        stored twice.
    """

    def __init__(
        self, classifier: TreeClassifier | None, centroids: TreeClassifier, labels: int, shared: bool = False
    ) -> None:
        self.classifier, self.centroids, self.shared = classifier, centroids, shared
        trees = [centroids] if classifier is None else [classifier, centroids]
        self.trees = Ensemble(trees, labels)

    @property
    def names(self) -> tuple[str, ...]:
        """What the columns are."""
        if self.classifier is None:
            return SCORERS[2:]
        return SCORERS[1:] if self.shared else SCORERS

    def score(
        self,
        X: _native.Rows,
        indptr: npt.NDArray[np.int64],
        labels: npt.NDArray[np.int32],
        threads: int,
        classifiers: npt.NDArray[np.float32] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Probabilities of given candidates of each row, shape (candidates, len(names)).

        Where the search in the only member says already what the labels' own classifiers say, nobody but the
        centroids is asked.
        """
        if classifiers is not None:
            near = self._centroids.score(X, indptr, labels, threads, HEADROOM).probs
            return np.column_stack([classifiers, near])
        found = self.trees.score(X, indptr, labels, threads, HEADROOM)
        columns = {"wide": found.probs[:, 0], "label": found.own[:, 0], "centroid": found.probs[:, -1]}
        return np.column_stack([columns[name] for name in self.names])

    @cached_property
    def _centroids(self) -> Ensemble:
        return Ensemble([self.centroids], self.trees.labels)

    @property
    def _stored(self) -> Ensemble:
        return self._centroids if self.shared else self.trees

    def to_header(self) -> list[dict[str, Any]]:
        """Entries of a model file's header."""
        return self._stored.to_header()

    def to_sections(self) -> dict[str, Section]:
        """Arrays for a model file."""
        return self._stored.to_sections("scorer")

    @classmethod
    def from_sections(
        cls,
        names: Sequence[str],
        headers: Sequence[Mapping[str, Any]],
        sections: Mapping[str, npt.NDArray[Any]],
        forest: Ensemble,
        verify: bool,
    ) -> Scorers:
        """Take back what `to_header` and `to_sections` gave, for the judge that asks the scorers `names`."""
        stored = Ensemble.from_sections(headers, sections, forest.labels, None, verify, "scorer").trees
        shared = tuple(names) == SCORERS[1:]
        classifier = forest.trees[0] if shared else stored[0] if len(stored) > 1 else None
        found = cls(classifier, stored[-1], forest.labels, shared)
        if found.names != tuple(names) or len(stored) > 2 or found.trees.features != forest.features:
            raise ValueError("the judge and its scorers do not fit the trees")
        return found
