"""The shape of trees whose labels are told apart from many others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hedgerow.training.plan import TrainingPlan
from hedgerow.training.settings import EnsembleSettings, Method

__all__ = ["MOST_FOR_MATCHER", "Shape", "rivals_in", "wide_plan", "wide_shape", "wide_tolerance"]

# Where there are more labels, their leaves would be too many for the root.
MOST_FOR_MATCHER = 20_000
_MOST_BRANCHES = 100
_TOLERANCE = 1.0


@dataclass(frozen=True)
class Shape:
    """How labels are clustered, and from which inputs a node learns; names are those of the parameters."""

    branching: int
    leaf_size: int
    negatives: str = "tfn"
    matcher_beam: int = 20

    def describe(self) -> dict[str, Any]:
        """As parameters of a classifier."""
        return dict(vars(self))

    def levels(self, labels: int) -> int:
        """How often labels are clustered, about: the layers of nodes above the leaves."""
        count = 0
        while labels > self.leaf_size * self.branching**count:
            count += 1
        return count

    def children_shown(self, labels: int, labels_each: float) -> float:
        """How many nodes and labels learn from an input, about: the children of the nodes it comes to."""
        shown, nodes = 0.0, 1
        while True:
            reached = min(nodes, labels_each * 0.8 + 0.2) if nodes > 1 else 1.0
            if self.negatives == "tfn+man" and nodes > 1:
                reached = min(nodes, reached + self.matcher_beam)
            if labels / nodes <= self.leaf_size:
                return shown + reached * labels / nodes
            nodes *= self.branching
            shown += reached * min(self.branching, labels)


def rivals_in(parameters: Mapping[str, Any]) -> int:
    """The labels that a label is told apart from, given the parameters that describe a shape."""
    matched = parameters["matcher_beam"] if parameters["negatives"] == "tfn+man" else 1
    return int(parameters["leaf_size"] * matched)


def wide_shape(labels: int, rivals: int) -> Shape:
    """A tree in which each label is told apart from some `rivals` others.

    Of few labels, those in the leaves that the model itself finds most probable are rivals: they are hard to
    tell apart; on eurlex-4k a third of all labels did as well as all of them. Of many labels, those that
    share the label's leaf are.
    """
    if rivals >= labels:
        return Shape(2, max(1, labels))
    if labels <= MOST_FOR_MATCHER:
        leaves = max(2, round(math.sqrt(labels)))
        size = math.ceil(labels / leaves)
        return Shape(leaves, size + 1, "tfn+man", max(1, round(rivals / size)))
    leaves = math.ceil(labels / rivals)
    branching = leaves if leaves <= _MOST_BRANCHES else math.ceil(math.sqrt(leaves))
    return Shape(max(2, branching), math.ceil(rivals * 1.05))


def wide_tolerance(tolerance: float) -> float:
    """How precisely a wide tree is solved: only the mean of several members forgives a loose solution."""
    return min(tolerance, _TOLERANCE)


def wide_plan(plan: TrainingPlan, rivals: int) -> TrainingPlan:
    """The plan of one wide tree that learns from all inputs."""
    settings = plan.settings
    shape = wide_shape(len(set(plan.data.indicator.indices.tolist())), rivals)
    return replace(
        plan,
        settings=replace(
            settings,
            ensemble=EnsembleSettings(Method.SINGLE, 1, None, 0.5, 10),
            tree=replace(settings.tree, branching=shape.branching, leaf_size=shape.leaf_size),
            solver=replace(
                settings.solver,
                negatives=shape.negatives,
                matcher_beam=shape.matcher_beam,
                tolerance=wide_tolerance(settings.solver.tolerance),
            ),
        ),
        tree=None,
        views=None,
    )
