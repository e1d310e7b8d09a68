"""Learns the centroids of labels after a model was fitted, for OOD detection."""

from __future__ import annotations

from typing import Any

from hedgerow.inputs.matrices import as_indicator
from hedgerow.model import Model
from hedgerow.training.centroids import label_centroids
from hedgerow.training.data import TrainingData
from hedgerow.trees.tree_model import TreeClassifier

__all__ = ["PAYS", "added_by", "learn_centroids", "worth_keeping"]

PAYS = 0.2  # of the bytes of the trees: centroids that nobody asked for may add less than this
# Features of a centroid that are kept: with fewer, OOD inputs of familiar words are found less often.
_KEPT = 300


def learn_centroids(model: Model, X: Any, Y: Any) -> TreeClassifier:
    """The centroids of labels over their training inputs; see `HedgerowClassifier.learn_ood`."""
    if model.forest.rows_each > 1:
        raise ValueError(
            "every pass of this model reads an input otherwise, so labels have no one centroid; leave out"
            " training="
        )
    inputs, truth = model.inputs_and_truth(X, Y)
    known = truth[:, : len(model.classes)]
    if not known.nnz:
        raise ValueError("no training input has a label that the model knows; give the data it was fitted to")
    indicator, rows = as_indicator(known, known.shape[0], model.threads)
    read = model.reader.read(inputs, model.threads).rows
    data = TrainingData(read, rows, indicator, model.forest.features, None)
    first = model.forest.trees[0]
    return label_centroids(data, first.tree, first.normalize, model.threads, _KEPT)


def added_by(model: Model) -> float | None:
    """What its centroids add to the bytes of its trees, as a share of these; None without."""
    return None if model.centroids is None else _bytes(model.centroids) / _trees(model)


def worth_keeping(model: Model, X: Any, Y: Any, at_most: float) -> TreeClassifier | None:
    """The centroids, where the model can have them and they add less than that share; else None."""
    if model.forest.rows_each > 1:
        return None
    found = learn_centroids(model, X, Y)
    return found if _bytes(found) < at_most * _trees(model) else None


def _trees(model: Model) -> int:
    return max(1, sum(map(_bytes, model.forest.trees)))


def _bytes(tree: TreeClassifier) -> int:
    return int(tree.native.table()[:, 1].sum())
