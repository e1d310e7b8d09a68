"""The shape of trees whose labels are told apart from many others."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hedgerow.training.plan import TrainingPlan
from hedgerow.training.settings import EnsembleSettings, Method

__all__ = ["Shape", "wide_plan", "wide_shape"]

# Where there are more labels, their leaves would be too many for the root.
_MOST_FOR_MATCHER = 20_000
_BRANCHING = 16


@dataclass(frozen=True)
class Shape:
    """How labels are clustered, and from which inputs a node learns; names are those of the parameters."""

    branching: int
    leaf_size: int
    negatives: str = "tfn"
    matcher_beam: int = 20

    def describe(self) -> dict[str, int | str]:
        """As parameters of a classifier."""
        return dict(vars(self))


def wide_shape(labels: int, rivals: int) -> Shape:
    """A tree in which each label is told apart from some `rivals` others.

    Of few labels, those in the leaves that the model itself finds most probable are rivals: they are hard to
    tell apart, so a third of all labels does as well as all of them. Of many labels, those that share the
    label's leaf are.
    """
    if rivals >= labels:
        return Shape(2, labels)
    if labels <= _MOST_FOR_MATCHER:
        leaves = max(2, round(math.sqrt(labels)))
        size = math.ceil(labels / leaves)
        return Shape(leaves, size + 1, "tfn+man", max(1, round(rivals / size)))
    return Shape(_BRANCHING, rivals)


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
            solver=replace(settings.solver, negatives=shape.negatives, matcher_beam=shape.matcher_beam),
        ),
        tree=None,
        views=None,
    )
