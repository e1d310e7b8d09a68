"""What is to be trained: the data, the settings, the seed, and trees or vectors that the user gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from hedgerow import _native
from hedgerow.training.data import Costs, TrainingData
from hedgerow.training.settings import TrainingSettings
from hedgerow.trees.label_tree import LabelTree

__all__ = ["MemberPlan", "TrainingPlan"]


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """What is to be trained. A given tree is that of all members.

    Labels are clustered by `label_features`, if given. `views` gives the data of a member that has features
    of its own.
    """

    data: TrainingData
    settings: TrainingSettings
    seed: int
    tree: LabelTree | None = None
    label_features: Any = None
    views: Callable[[int], TrainingData] | None = None

    def seen_by(self, number: int) -> TrainingData:
        """What a member learns from."""
        return self.data if self.views is None else self.views(number)

    def fingerprint(self) -> str:
        """Equal fingerprints give equal members; another release, or other kernels, may not."""
        engine = (metadata.version("hedgerow"), _native.simd_level())
        return self.data.fingerprint(self.tree, self.label_features, repr((self.settings, self.seed, engine)))


@dataclass(frozen=True, eq=False)
class MemberPlan:
    """One member: its number and seed, what its inputs cost, and the mistakes of earlier members."""

    number: int
    seed: int
    costs: Costs
    negatives: _native.Rows | None = None
    alpha: float = 1.0
