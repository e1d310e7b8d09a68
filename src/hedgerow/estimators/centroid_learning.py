"""Learns the centroids of labels after a model was fitted, for OOD detection."""

from __future__ import annotations

from typing import Any

from hedgerow.inputs.matrices import as_indicator
from hedgerow.model import Model
from hedgerow.training.centroids import label_centroids
from hedgerow.training.data import TrainingData
from hedgerow.trees.tree_model import TreeClassifier

__all__ = ["learn_centroids"]

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
