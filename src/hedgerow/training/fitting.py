"""Trains the members of a model: here, or where its cluster or its memory budget sends it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native
from hedgerow.training.block_training import BlockTraining
from hedgerow.training.members import Boosting, Checkpoint, TrainingData, train_members
from hedgerow.training.site import open_site
from hedgerow.trees.label_tree import LabelTree
from hedgerow.trees.tree_model import TreeClassifier

if TYPE_CHECKING:
    from hedgerow.estimators.features import HedgerowClassifier

__all__ = ["Wanted", "train_model"]

Progress = Callable[[float, str], None]
Stage = Callable[[float], None] | None
Costs = npt.NDArray[np.float32] | None


@dataclass(frozen=True, eq=False)
class Wanted:
    """What a model is to learn from.

    Attributes
    ----------
    data : TrainingData
        Inputs and labels as the engine has them.
    seed : int
        What all else that is drawn comes from.
    tree : LabelTree or None
        A tree for all members.
    label_features : sparse matrix or None
        Vectors to cluster the labels by.
    """

    data: TrainingData
    seed: int
    tree: LabelTree | None
    label_features: Any


def train_model(
    model: HedgerowClassifier,
    wanted: Wanted,
    checkpoint: str | os.PathLike[str] | None,
    done: list[TreeClassifier],
    progress: Progress | None,
) -> list[TreeClassifier]:
    """Train the members that are not done, and bring those that share a tree together."""
    with open_site(
        model.cluster,
        model.memory,
        wanted.data,
        wanted.label_features,
        checkpoint,
        lambda: _mark(model, wanted),
        threads=model._threads(),
        branching=model.branching,
        matched=model.matcher_beam if model.negatives == "tfn+man" else 0,
        wrong=model.hard_negatives if "boost" in model.method else 0,
    ) as site:
        return _train_members(model, wanted, checkpoint, done, site, progress)


def _train_members(
    model: HedgerowClassifier,
    wanted: Wanted,
    checkpoint: str | os.PathLike[str] | None,
    done: list[TreeClassifier],
    site: BlockTraining | None,
    progress: Progress | None,
) -> list[TreeClassifier]:
    data, seed = wanted.data, wanted.seed
    threads = model._threads() if site is None else site.threads or model._threads()
    scratch = None if site is None else site.scratch

    def grow(number: int, costs: Costs, own: int, told: Stage) -> LabelTree:
        if wanted.tree is not None:
            return wanted.tree
        seen = model._seen_by(number, data)

        def here() -> LabelTree:
            return model._grow(seen, wanted.label_features, costs, own, threads, told, scratch)

        if site is None:
            return here()
        # Many trees are grown on the cluster; for one at a time, the threads of this machine are faster.
        many = site.spreads and model.method == "bagging" and model._trees() == model.members
        return site.grow(number, costs, model._tree_settings(own), None if many else here)

    def train(
        number: int,
        own_tree: LabelTree,
        costs: Costs,
        negatives: _native.Rows | None,
        alpha: float,
        own: int,
        told: Stage,
    ) -> TreeClassifier:
        settings = model._solver_settings(alpha, own)
        if site is not None:
            return site.train(number, own_tree, costs, negatives, settings, told)
        seen = model._seen_by(number, data)
        normalize = settings.pop("normalise")
        return TreeClassifier.train(
            seen.X,
            seen.Y,
            seen.width,
            own_tree,
            normalize=normalize,
            costs=costs,
            negatives=negatives,
            threads=threads,
            progress=told,
            **settings,
        )

    if model.method in ("single", "mc-dropout"):
        own_tree = grow(0, data.costs, seed, _stage(progress, "clustering"))
        return [train(0, own_tree, data.costs, None, 1.0, seed, _stage(progress, "training"))]
    store = None
    if checkpoint is not None:
        store = Checkpoint(checkpoint, _mark(model, wanted), data.indicator.shape[1])
        done = store.read()
    members = train_members(
        data,
        members=model.members,
        trees=model._trees(),
        bootstrap="bagging" in model.method,
        boosting=Boosting(model.alpha, model.hard_negatives) if "boost" in model.method else None,
        seed=seed,
        grow=grow,
        train=train,
        threads=threads,
        done=done,
        keep=store.write if store and site is None else lambda number, member: None,
        progress=progress,
        ask=None if site is None else site.top,
        together=None if site is None else site.together,
    )
    trees = model._trees()
    groups = [
        [member for number, member in enumerate(members) if number * trees // model.members == group]
        for group in range(trees)
    ]
    return [TreeClassifier.merge(group, threads) for group in groups]


def _mark(model: HedgerowClassifier, wanted: Wanted) -> str:
    """By what a later fit knows that it is the same."""
    if not isinstance(model.random_state, int | np.integer):
        raise ValueError("a fit can only go on later with an integer random_state; choose one")
    # Another release, or other kernels, may give other bits.
    engine = (metadata.version("hedgerow"), _native.simd_level())
    settings = repr((sorted(model._plain_parameters().items()), wanted.seed, engine))
    return wanted.data.fingerprint(wanted.tree, wanted.label_features, settings)


def _stage(progress: Progress | None, what: str) -> Stage:
    return None if progress is None else lambda share: progress(share, what)
