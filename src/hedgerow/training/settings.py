"""Settings of a fit: the ensemble, the trees and the solver. Checked once, then handed down."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hedgerow.inputs.parameters import check_choice, check_integer, check_real
from hedgerow.inputs.search import within_int32

__all__ = [
    "LOSSES",
    "METHODS",
    "MOST_MEMBERS",
    "EnsembleSettings",
    "Method",
    "SolverSettings",
    "TrainingSettings",
    "TreeSettings",
]

MOST_MEMBERS = 4096
LOSSES = ("squared_hinge", "logistic")
NEGATIVES = ("tfn", "tfn+man")


class Method(StrEnum):
    """How the members of an ensemble are made."""

    SINGLE = "single"
    MC_DROPOUT = "mc-dropout"
    BAGGING = "bagging"
    BOOSTING = "boosting"
    BOOSTED_BAGGING = "boosted-bagging"

    @property
    def bootstraps(self) -> bool:
        """Whether each member is trained on a sample of its own."""
        return self in (Method.BAGGING, Method.BOOSTED_BAGGING)

    @property
    def boosts(self) -> bool:
        """Whether members learn from what the earlier ones get wrong."""
        return self in (Method.BOOSTING, Method.BOOSTED_BAGGING)

    @property
    def trains_members(self) -> bool:
        """Whether several members are trained; otherwise one model is."""
        return self.bootstraps or self.boosts


METHODS = tuple(method.value for method in Method)


@dataclass(frozen=True)
class EnsembleSettings:
    """How many members there are, and what makes them differ."""

    method: Method
    members: int
    trees: int | None
    alpha: float
    hard_negatives: int

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        object.__setattr__(self, "method", Method(self.method))
        check_integer("members", self.members, 1, MOST_MEMBERS)
        if self.trees is not None:
            check_integer("trees", self.trees, 1, MOST_MEMBERS)
        check_real("alpha", self.alpha, at_least=0)
        check_integer("hard_negatives", self.hard_negatives, 1, 100)

    @property
    def tree_count(self) -> int:
        """Trees that the members are spread over."""
        return self.members if self.trees is None else int(self.trees)

    @property
    def own_trees(self) -> bool:
        """Whether every member has a tree of its own."""
        return self.tree_count == self.members

    def check_trees(self) -> None:
        """Refuse more trees than members."""
        if self.trees is not None and self.trees > self.members:
            raise ValueError(
                f"trees is {self.trees}, but there are only {self.members} members to spread over them"
            )


@dataclass(frozen=True)
class TreeSettings:
    """How labels are clustered."""

    branching: int
    leaf_size: int
    normalize: bool

    def __post_init__(self) -> None:
        check_integer("branching", self.branching, 2, 1024)
        check_integer("leaf_size", self.leaf_size, 1)
        check_choice("normalize", self.normalize, (True, False))
        object.__setattr__(self, "leaf_size", within_int32(self.leaf_size))


@dataclass(frozen=True)
class SolverSettings:
    """How the classifier of a node is trained."""

    loss: str
    C: float
    positive_cost: float
    negative_cost: float
    tolerance: float
    max_passes: int
    weight_threshold: float
    negatives: str
    matcher_beam: int
    bias: float
    normalize: bool

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        for name in ("C", "positive_cost", "negative_cost", "tolerance"):
            check_real(name, getattr(self, name), above=0)
        check_integer("max_passes", self.max_passes, 1)
        check_real("weight_threshold", self.weight_threshold, at_least=0)
        check_choice("negatives", self.negatives, NEGATIVES)
        check_integer("matcher_beam", self.matcher_beam, 1)
        check_real("bias", self.bias, at_least=0)
        check_choice("normalize", self.normalize, (True, False))

    @property
    def matched(self) -> int:
        """Nodes that a matcher finds for each input; 0 without one."""
        return within_int32(self.matcher_beam) if self.negatives == "tfn+man" else 0

    def for_engine(self, alpha: float, seed: int) -> dict[str, Any]:
        """Arguments of the engine's `train` besides the data."""
        return {
            "loss": self.loss,
            "negative_share": alpha,
            "C": self.C,
            "positive_cost": self.positive_cost,
            "negative_cost": self.negative_cost,
            "bias": self.bias,
            "tolerance": self.tolerance,
            "max_passes": within_int32(self.max_passes),
            "weight_threshold": self.weight_threshold,
            "matcher_beam": self.matched,
            "normalise": self.normalize,
            "seed": seed,
        }


@dataclass(frozen=True)
class TrainingSettings:
    """Everything that determines the members besides the data and the seed."""

    ensemble: EnsembleSettings
    tree: TreeSettings
    solver: SolverSettings
