"""The members of a model, whatever made them: searched together, stored together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native
from hedgerow.trees.label_tree import LabelTree
from hedgerow.trees.tree_model import Section, TreeClassifier

__all__ = ["Dropout", "Ensemble", "FoundInputs", "FoundLabels", "FoundVotes", "Reach", "Search"]

EVERYTHING = np.iinfo(np.int32).max  # a beam as wide as any layer

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Reach = Sequence[tuple[int, int]]  # (layer, nodes), see `Ensemble.reach`


@dataclass(frozen=True)
class Dropout:
    """Passes over a single model, each with a share of its weights left out.

    Attributes
    ----------
    share : float
        Share of the weights that a pass drops.
    passes : int
        Number of passes; they are the members.
    seed : int
        Which weights a pass drops.
    """

    share: float
    passes: int
    seed: int


@dataclass(frozen=True)
class Search:
    """How candidates are found.

    Attributes
    ----------
    beam : int
        Nodes kept in each layer of a tree.
    candidates : {"scored", "all"} or int
        All labels that the beam scored, all labels there are, or the best N of each member.
    missing : {"exact", "delta", "bound"}
        What stands for the probability of a candidate that a member did not meet.
    tolerance : float
        Go on below every node that is more probable; 0 goes everywhere, infinity leaves it to the beam.
    threads : int
        0 uses all processors.
    """

    beam: int
    candidates: str | int = "scored"
    missing: str = "exact"
    tolerance: float = math.inf
    threads: int = 0


@dataclass(frozen=True, eq=False)
class FoundVotes:
    """Candidates of each row and the members' probabilities; `reach`, (rows, wanted), as of `Ensemble`."""

    indptr: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    probs: Singles
    bound: Singles
    missed: Singles
    reach: Floats


@dataclass(frozen=True, eq=False)
class FoundInputs:
    """Sums over the candidates of each row, and how far they may be off. Arrays of shape (rows,)."""

    expected: Singles
    total: Singles
    data: Singles
    knowledge: Singles
    variance: Singles
    bound: Singles
    missed: Singles


@dataclass(frozen=True, eq=False)
class FoundLabels:
    """The best labels of each row with their measures, shape (rows, k); `reach` is (rows, wanted)."""

    labels: npt.NDArray[np.int32]
    probability: Singles
    total: Singles
    data: Singles
    knowledge: Singles
    variance: Singles
    inputs: FoundInputs
    reach: Floats


class Ensemble:
    """Trees that vote together.

    Parameters
    ----------
    trees : sequence of TreeClassifier
        The members; a tree may carry several.
    labels : int
        Number of labels of the model.
    dropout : Dropout, optional
        Make members of one by dropout.
    """

    def __init__(self, trees: Sequence[TreeClassifier], labels: int, dropout: Dropout | None = None) -> None:
        self.trees = tuple(trees)
        self.labels = labels
        self.dropout = dropout
        off = dropout or Dropout(0.0, 0, 0)
        self._forest = _native.Forest(
            [tree.native for tree in self.trees], labels, off.share, off.passes, off.seed
        )

    @property
    def members(self) -> int:
        """How many members vote."""
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
        """Labels that can be asked for: what the sample of one tree lacks, another may have."""
        seen = np.zeros(self.labels, dtype=bool)
        for tree in self.trees:
            seen[tree.tree.labels] = True
        return int(seen.sum())

    def top(
        self,
        X: _native.Rows,
        k: int,
        exact: bool,
        search: Search,
        progress: Callable[[float], None] | None = None,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """The best k labels of each row and their mean probabilities, both of shape (rows, k)."""
        if self.members == 1:
            return self.trees[0].top(X, k, search.beam, exact, search.threads, progress)
        found = self.uncertain(X, k, search, progress, everything=exact)
        return found.labels, found.probability

    def uncertain(
        self,
        X: _native.Rows,
        k: int,
        search: Search,
        progress: Callable[[float], None] | None = None,
        everything: bool = False,
        reach: Reach = (),
    ) -> FoundLabels:
        """The best k labels of each row with their measures, the measures of each row, and its reach."""
        found = self._forest.uncertain(X, k, *self._how(search, everything), progress, list(reach))
        inputs = FoundInputs(**{part.name: getattr(found.inputs, part.name) for part in fields(FoundInputs)})
        return FoundLabels(
            found.labels,
            found.probability,
            found.total,
            found.data,
            found.knowledge,
            found.variance,
            inputs,
            found.reach,
        )

    def votes(
        self,
        X: _native.Rows,
        search: Search,
        progress: Callable[[float], None] | None = None,
        k: int = 1,
        reach: Reach = (),
    ) -> FoundVotes:
        """Candidates, at least k for each row, with the members' probabilities, and the reach of each row."""
        found = self._forest.votes(X, k, *self._how(search, False), progress, list(reach))
        return FoundVotes(found.indptr, found.labels, found.probs, found.bound, found.missed, found.reach)

    def reach(self, X: _native.Rows, wanted: Reach, threads: int) -> Floats:
        """How far the members follow each row down their trees, shape (rows, len(wanted)).

        For every wanted (layer, nodes): the sum of the highest energies that a member gives to N nodes of the
        layer, the mean over the members. The first layer below the root is 1; of the others only the children
        of the four best nodes count, whatever the beam of the search. Where votes are wanted too, `votes` and
        `uncertain` find it in the same search.
        """
        return self._forest.reach(X, list(wanted), self.trees[0].normalize, threads)

    def _how(self, search: Search, everything: bool) -> tuple[int, int, str, float, bool, int]:
        everything = everything or search.candidates == "all"
        top = search.candidates if isinstance(search.candidates, int) and not everything else 0
        return (
            EVERYTHING if everything else search.beam,
            top,
            search.missing,
            search.tolerance,
            self.trees[0].normalize,
            search.threads,
        )

    def to_sections(self) -> dict[str, Section]:
        """Arrays for a model file."""
        sections: dict[str, Section] = {}
        for number, tree in enumerate(self.trees):
            sections |= tree.to_sections(f"tree.{number}")
        return sections

    def to_header(self) -> list[dict[str, Any]]:
        """What a model file's header says of the trees."""
        return [tree.to_header() for tree in self.trees]

    @classmethod
    def from_sections(
        cls,
        headers: Sequence[Mapping[str, Any]],
        sections: Mapping[str, npt.NDArray[Any]],
        labels: int,
        dropout: Dropout | None,
        verify: bool,
    ) -> Ensemble:
        """Open the trees over the arrays of a model file, which are not copied."""
        if not isinstance(headers, list) or not headers:
            raise ValueError("there is no tree in it")
        trees = [
            TreeClassifier.from_sections(f"tree.{number}", header, sections, labels, verify)
            for number, header in enumerate(headers)
        ]
        if len({(tree.features, tree.transform, tree.normalize) for tree in trees}) > 1:
            raise ValueError("the trees do not fit together")
        return cls(trees, labels, dropout)

    # The native forest is made again from the trees.
    def __getstate__(self) -> dict[str, Any]:
        return {"trees": self.trees, "labels": self.labels, "dropout": self.dropout}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
