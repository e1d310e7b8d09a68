"""Where members are grown and trained: here in memory, or in blocks (see `block_training`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hedgerow.progress import Stage
from hedgerow.training.growing import Resources, grow_tree
from hedgerow.training.plan import MemberPlan, TrainingPlan
from hedgerow.trees.label_tree import LabelTree
from hedgerow.trees.tree_model import LabelledInputs, TreeClassifier

__all__ = ["Here", "Place"]

Best = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]


class Place(Protocol):
    """What grows, trains and asks the members of a plan."""

    resources: Resources
    keeps_members: bool  # whether it stores finished members, so that nothing else has to
    at_once: bool  # whether independent members are made at the same time

    def grow(self, member: MemberPlan, progress: Stage | None) -> LabelTree:
        """The label tree of a member."""

    def train(self, member: MemberPlan, tree: LabelTree, progress: Stage | None) -> TreeClassifier:
        """The classifiers of a member."""

    def top(self, member: TreeClassifier, k: int, beam: int) -> Best:
        """The best k labels of each training input, and their probabilities."""

    def together(self, make: Callable[[int], TreeClassifier], numbers: Sequence[int]) -> list[TreeClassifier]:
        """Make several members."""


class Here:
    """Trains in the memory of this process, one member after the other."""

    keeps_members = False
    at_once = False

    def __init__(self, plan: TrainingPlan, threads: int) -> None:
        self._plan = plan
        self.resources = Resources(threads)

    def grow(self, member: MemberPlan, progress: Stage | None) -> LabelTree:
        """Grow the tree from the data of the member."""
        plan = self._plan
        if plan.tree is not None:
            return plan.tree
        data = plan.seen_by(member.number)
        settings = plan.settings.tree
        return grow_tree(
            data, plan.label_features, member.costs, settings, member.seed, self.resources, progress
        )

    def train(self, member: MemberPlan, tree: LabelTree, progress: Stage | None) -> TreeClassifier:
        """Train all nodes."""
        data = self._plan.seen_by(member.number)
        settings = self._plan.settings.solver.for_engine(member.alpha, member.seed)
        rows = LabelledInputs(data.X, data.Y, data.width, member.costs, member.negatives)
        return TreeClassifier.train(rows, tree, settings, self.resources.threads, progress)

    def top(self, member: TreeClassifier, k: int, beam: int) -> Best:
        """Ask a member about all inputs."""
        return member.top(self._plan.data.X, k, beam, False, self.resources.threads)

    def together(self, make: Callable[[int], TreeClassifier], numbers: Sequence[int]) -> list[TreeClassifier]:
        """One after the other: each uses all threads."""
        return [make(number) for number in numbers]
