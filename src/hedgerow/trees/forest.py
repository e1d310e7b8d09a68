"""The members of a model, searched together and stored together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native
from hedgerow.inputs.search import JudgedSearch, SearchSettings, within_int32
from hedgerow.inputs.subset import LabelSubset
from hedgerow.progress import Stage
from hedgerow.trees.label_tree import LabelTree
from hedgerow.trees.tree_model import Section, TreeClassifier

__all__ = ["UNASKED_SCORE", "UNASKED_SHARE", "Dropout", "Ensemble", "Found"]

EVERYTHING = np.iinfo(np.int32).max  # a beam as wide as any layer
# Labels below nodes under a floor have this score where candidates are scored, and their node this share of
# the floor; as in native/candidate_scores.cpp.
UNASKED_SCORE, UNASKED_SHARE = -1.0, 1e-3
_SUBSETS = 8  # whose ways through the trees are remembered

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Dropout:
    """Passes over a single model, its members; each drops a share of the weights, by the seed."""

    share: float
    passes: int
    seed: int


@dataclass(frozen=True, eq=False)
class Found:
    """The candidates of each input, in CSR form, and their probabilities, shape (entries, members).

    `bound` and `missed`, shape (inputs,): how far a probability, and the total uncertainty of an input, may
    be off. `reach` is as of `Ensemble.reach`. `classifiers`, shape (entries,): what the labels' own
    classifiers say, where the search was asked for that.
    """

    indptr: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    probs: npt.NDArray[np.float32]
    bound: npt.NDArray[np.float32]
    missed: npt.NDArray[np.float32]
    reach: Floats | None = None
    classifiers: npt.NDArray[np.float32] | None = None


class Ensemble:
    """Trees that vote together; a tree may carry several members, and dropout makes several of one."""

    def __init__(self, trees: Sequence[TreeClassifier], labels: int, dropout: Dropout | None = None) -> None:
        self.trees = tuple(trees)
        self.labels = labels
        self.dropout = dropout
        off = dropout or Dropout(0.0, 0, 0)
        native = _native.Forest([tree.native for tree in self.trees], labels, off.share, off.passes, off.seed)
        self._forest = native

        @lru_cache(_SUBSETS)
        def allowed(subset: LabelSubset) -> _native.LabelSubset:
            return native.subset(subset.columns)

        self._allowed = allowed

    @property
    def members(self) -> int:
        """Number of members."""
        return int(self._forest.members)

    @property
    def rows_each(self) -> int:
        """Rows of features that make an input."""
        return 1

    @property
    def tree(self) -> LabelTree:
        """The tree of the first member."""
        return self.trees[0].tree

    @property
    def features(self) -> int:
        """Width of an input."""
        return self.trees[0].features

    @property
    def transform(self) -> str:
        """How scores become probabilities."""
        return self.trees[0].transform

    @cached_property
    def known(self) -> int:
        """Number of labels that any tree has: what the sample of one lacks, another may have."""
        return int(self.knows.sum())

    def known_of(self, subset: LabelSubset) -> int:
        """How many labels of a subset any tree has."""
        return int(self.knows[subset.columns].sum())

    @cached_property
    def knows(self) -> npt.NDArray[np.bool_]:
        """Which labels any tree has."""
        seen = np.zeros(self.labels, dtype=bool)
        for tree in self.trees:
            seen[tree.tree.labels] = True
        return seen

    def top(
        self,
        X: _native.Rows,
        k: int,
        search: SearchSettings,
        threads: int,
        exact: bool = False,
        progress: Stage | None = None,
        subset: LabelSubset | None = None,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """The best k labels of each row and their mean probabilities, both of shape (rows, k)."""
        if self.members == 1:
            beam = within_int32(search.beam)
            return self.trees[0].top(X, k, beam, exact, threads, progress, self._ways(subset))
        if exact:
            search = replace(search, candidates="all")
        found = self.uncertain(X, k, search, threads, progress, subset)
        return found.labels, found.probability

    def uncertain(
        self,
        X: _native.Rows,
        k: int,
        search: SearchSettings,
        threads: int,
        progress: Stage | None = None,
        subset: LabelSubset | None = None,
    ) -> _native.FoundLabels:
        """The best k labels of each row with their measures, and the measures of each row."""
        how = self._how(search)
        return self._forest.uncertain(X, k, *how, threads, progress, subset=self._ways(subset))

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
        """Candidates, at least k for each row; with `reach`, also what that method gives, from one search.

        A subset changes nothing about the reach.
        """
        headroom = search.headroom if isinstance(search, JudgedSearch) else None
        how, ways = self._how(search), self._ways(subset)
        found = self._forest.votes(X, k, *how, threads, progress, list(reach), ways, headroom)
        reached = found.reach if reach else None
        classifiers = None if headroom is None else found.classifiers
        return Found(found.indptr, found.labels, found.probs, found.bound, found.missed, reached, classifiers)

    def score(
        self,
        X: _native.Rows,
        indptr: npt.NDArray[np.int64],
        labels: npt.NDArray[np.int32],
        threads: int,
        headroom: float = 0.0,
        floor: float = 0.0,
    ) -> _native.ScoredCandidates:
        """What the members say of given candidates of each row: arrays of shape (candidates, members).

        `probs` are probabilities; `own` are those below the label's leaf, without the way to it. Scores of
        labels are lowered by `headroom`: else all that are above 1 have the same probability. Below nodes
        under the `floor` nobody is asked, and every label counts as one that its classifier does not see.
        """
        return self._forest.score(X, indptr, labels, self.trees[0].normalize, headroom, floor, threads)

    def reach(self, X: _native.Rows, wanted: Sequence[tuple[int, int]], threads: int) -> Floats:
        """How far the members follow each row down their trees, shape (rows, len(wanted)).

        For every wanted (layer, nodes): the sum of the N highest energies that a member gives to nodes of the
        layer, the mean over the members. The first layer below the root is 1; of the others only the children
        of the four best nodes count.
        """
        return self._forest.reach(X, list(wanted), self.trees[0].normalize, threads)

    def leaves_for(self, k: int, subset: LabelSubset | None = None) -> int:
        """How many leaves are enough for k labels, whichever they are, in the tree that needs most."""
        if subset is not None:
            return int(self._allowed(subset).leaves_for(k))
        return max(tree.tree.leaves_for(k) for tree in self.trees)

    def _ways(self, subset: LabelSubset | None) -> _native.LabelSubset | None:
        return None if subset is None else self._allowed(subset)

    def _how(self, search: SearchSettings) -> tuple[int, int, str, float, float, bool]:
        everything = search.candidates == "all"
        tolerance = math.inf if search.tolerance is None else float(search.tolerance)
        several = len(self.trees) > 1 and not everything
        return (
            EVERYTHING if everything else within_int32(search.beam),
            0 if isinstance(search.candidates, str) else within_int32(search.candidates),
            search.missing,
            tolerance,
            min(float(search.floor), tolerance) if several else 0.0,
            self.trees[0].normalize,
        )

    def to_sections(self, prefix: str = "tree") -> dict[str, Section]:
        """Arrays for a model file."""
        sections: dict[str, Section] = {}
        for number, tree in enumerate(self.trees):
            sections |= tree.to_sections(f"{prefix}.{number}")
        return sections

    def to_header(self) -> list[dict[str, Any]]:
        """Entries of a model file's header."""
        return [tree.to_header() for tree in self.trees]

    @classmethod
    def from_sections(
        cls,
        headers: Sequence[Mapping[str, Any]],
        sections: Mapping[str, npt.NDArray[Any]],
        labels: int,
        dropout: Dropout | None,
        verify: bool,
        prefix: str = "tree",
    ) -> Ensemble:
        """Open the trees over the arrays of a model file, which are not copied.

        Members share the form of their scores. Scorers need not: centroids are cosines whatever the loss.
        """
        if not isinstance(headers, list) or not headers:
            raise ValueError("the file has no tree")
        trees = [
            TreeClassifier.from_sections(f"{prefix}.{number}", header, sections, labels, verify)
            for number, header in enumerate(headers)
        ]
        transforms = {tree.transform for tree in trees} if prefix == "tree" else ()
        if len({(tree.features, tree.normalize) for tree in trees}) > 1 or len(transforms) > 1:
            raise ValueError("the trees do not fit together")
        return cls(trees, labels, dropout)

    # The native forest is made again from the trees.
    def __getstate__(self) -> dict[str, Any]:
        return {"trees": self.trees, "labels": self.labels, "dropout": self.dropout}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
