"""Trains a tree that is asked about some inputs before it learns from them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import log_expit

from hedgerow import _native
from hedgerow.progress import Stage
from hedgerow.training.growing import Resources, grow_tree
from hedgerow.training.plan import TrainingPlan
from hedgerow.trees.forest import UNASKED_SCORE, UNASKED_SHARE
from hedgerow.trees.label_tree import LabelTree
from hedgerow.trees.tree_model import TRANSFORMS, TreeClassifier

__all__ = ["HeldOutVotes", "train_asked"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeldOutVotes:
    """What a tree said of labels of held-out inputs, in CSR form.

    `parents` are the logarithms of the probability of a label's leaf, `scores` those of the label there.
    """

    indptr: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    parents: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]
    transform: str

    def own(self, headroom: float = 0.0) -> Floats:
        """The probability of a label below its leaf, with its score lowered by the headroom."""
        return np.asarray(np.exp(self._own_logs(headroom)))

    def probs(self, headroom: float = 0.0) -> Floats:
        """The probability of a label."""
        return np.asarray(np.exp(self.parents + self._own_logs(headroom)))

    def above(self, floor: float) -> HeldOutVotes:
        """The same where labels below nodes under the floor are not asked about, as of `Ensemble.score`."""
        if not floor:
            return self
        asked = self.parents >= np.log(floor)
        parents = np.where(asked, self.parents, np.log(UNASKED_SHARE * floor)).astype(np.float32)
        scores = np.where(asked, self.scores, UNASKED_SCORE).astype(np.float32)
        return replace(self, parents=parents, scores=scores)

    def _own_logs(self, headroom: float) -> Floats:
        scores = self.scores.astype(np.float64) - headroom
        if self.transform == "l3-hinge":
            return np.asarray(-(np.maximum(0.0, 1.0 - scores) ** 3))
        return np.asarray(log_expit(scores))


def train_asked(
    plan: TrainingPlan,
    held_out: npt.NDArray[np.int64],
    candidates: _native.Rows | None,
    threads: int,
    progress: Stage | None = None,
) -> tuple[TreeClassifier, HeldOutVotes]:
    """A single tree, and what it said of the held-out inputs before it was trained on them.

    It is asked about the candidates of these inputs or, where there are none, about the best labels that it
    finds itself. Labels are clustered with these inputs: a tree decides which labels are told apart
    together, and the classifiers, which decide what is true, have not seen them.
    """
    data, solver = plan.data, plan.settings.solver
    tree: LabelTree | None = plan.tree
    if tree is None:
        settings, resources = plan.settings.tree, Resources(threads)
        tree = grow_tree(data, plan.label_features, data.costs, settings, plan.seed, resources)
    found = _native.train_asked(
        data.X,
        data.Y,
        list(tree.begins),
        tree.labels,
        data.costs,
        held_out.astype(np.int32),
        candidates,
        threads=threads,
        progress=progress,
        **solver.for_engine(1.0, plan.seed),
    )
    transform = TRANSFORMS[solver.loss]
    trained = TreeClassifier(tree, data.width, transform, solver.normalize, found.model, found.weights)
    return trained, HeldOutVotes(found.indptr, found.labels, found.parents, found.scores, transform)
