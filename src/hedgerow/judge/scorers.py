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

__all__ = ["SCORERS", "Scorers", "scorer_floor"]

# The probability of a tree with wide leaves; that of a label's own classifier, without the way to its leaf;
# and the cosine of the input and the centroid of the label's inputs.
SCORERS = ("wide", "label", "centroid")


# Under nodes of a wide classifier that are less probable, its labels are not asked about.
_FLOOR = 1e-5


def scorer_floor(transform: str) -> float:
    """The floor of a wide classifier; what labels below have in place of a score is the hinge loss's."""
    return _FLOOR if transform == "l3-hinge" else 0.0


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
    floor : float
        Below nodes of the classifier that are less probable, no label is asked about: all of them count as
        equally improbable.
    """

    def __init__(
        self,
        classifier: TreeClassifier | None,
        centroids: TreeClassifier,
        labels: int,
        shared: bool = False,
        floor: float = 0.0,
    ) -> None:
        self.classifier, self.centroids, self.shared, self.floor = classifier, centroids, shared, floor
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
        found = self.trees.score(X, indptr, labels, threads, HEADROOM, self.floor)
        columns = {"wide": found.probs[:, 0], "label": found.own[:, 0], "centroid": found.probs[:, -1]}
        return np.column_stack([columns[name] for name in self.names])

    @cached_property
    def _centroids(self) -> Ensemble:
        return Ensemble([self.centroids], self.trees.labels)

    @property
    def _stored(self) -> Ensemble:
        return self._centroids if self.shared else self.trees

    def to_header(self) -> dict[str, Any]:
        """Entries of a model file's header."""
        return {"trees": self._stored.to_header()} | ({"floor": self.floor} if self.floor else {})

    def to_sections(self) -> dict[str, Section]:
        """Arrays for a model file."""
        return self._stored.to_sections("scorer")

    @classmethod
    def from_sections(
        cls,
        names: Sequence[str],
        header: Mapping[str, Any],
        sections: Mapping[str, npt.NDArray[Any]],
        forest: Ensemble,
        verify: bool,
    ) -> Scorers:
        """Take back what `to_header` and `to_sections` gave, for the judge that asks the scorers `names`."""
        stored = Ensemble.from_sections(
            header["trees"], sections, forest.labels, None, verify, "scorer"
        ).trees
        shared = tuple(names) == SCORERS[1:]
        classifier = forest.trees[0] if shared else stored[0] if len(stored) > 1 else None
        floor = header.get("floor", 0.0)  # judges of older files asked about all
        if type(floor) is not float or not 0 <= floor < 1:
            raise ValueError("the floor of the judge is not a probability")
        found = cls(classifier, stored[-1], forest.labels, shared, floor)
        if found.names != tuple(names) or len(stored) > 2 or found.trees.features != forest.features:
            raise ValueError("the judge and its scorers do not fit the trees")
        return found
