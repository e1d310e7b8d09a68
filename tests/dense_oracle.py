"""What a trained tree should predict, computed label by label in float64, and small models to ask it about.

Nothing here uses the engine's search: the stored weights of each node are read out, every path is walked by
a plain loop. So the only difference to the engine is the rounding of its float32 arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from hedgerow import HedgerowClassifier, LabelTree
from hedgerow.trees.tree_model import TreeClassifier


def dense_rows(X: Any, normalize: bool = True) -> npt.NDArray[np.float64]:
    """Rows in float64, scaled to length 1."""
    rows = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    if not normalize:
        return rows
    lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return rows / np.where(lengths > 0, lengths, 1)


def dense_weights(
    trained: TreeClassifier, layer: int, node: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The classifiers of a node's children, (children, features), and their biases."""
    features, children, values, bias = trained.node_weights(layer, node)
    weights = np.zeros((len(bias), trained.features))
    for feature, child, value in zip(features, children, values, strict=True):
        weights[child, feature] = value
    return weights, np.asarray(bias, dtype=np.float64)


def log_probability(score: float, transform: str) -> float:
    """The logarithm of the probability that a score stands for."""
    if transform == "l3-hinge":
        return -(max(0.0, 1.0 - score) ** 3)
    return min(score, 0.0) - math.log1p(math.exp(-abs(score)))


def node_log_probabilities(
    trained: TreeClassifier, X: Any, layer: int, normalize: bool = True
) -> npt.NDArray[Any]:
    """Path log-probabilities, (rows, nodes), of all nodes of a layer; the places of the labels come last."""
    rows = dense_rows(X, normalize)
    reached = np.zeros((len(rows), 1))
    for above in range(layer):
        begins = trained.tree.begins[above]
        below = np.zeros((len(rows), trained.tree.layer_sizes[above + 1]))
        for node in range(len(begins) - 1):
            weights, bias = dense_weights(trained, above, node)
            scores = rows @ weights.T + bias
            for row in range(len(rows)):
                for child in range(len(bias)):
                    below[row, begins[node] + child] = reached[row, node] + log_probability(
                        scores[row, child], trained.transform
                    )
        reached = below
    return reached


def label_probabilities(model: HedgerowClassifier, X: Any) -> npt.NDArray[np.float64]:
    """Probabilities of all labels, (rows, labels); -1 for labels that are not in the tree."""
    trained = model.model_.forest.trees[0]
    places = np.exp(node_log_probabilities(trained, X, trained.tree.depth, model.normalize))
    by_label = np.full((len(places), len(model.classes_)), -1.0)
    for place, label in enumerate(trained.tree.labels):
        by_label[:, label] = places[:, place]
    return by_label


def random_problem(
    seed: int, rows: int, features: int, labels: int, density: float = 0.2, per_row: int = 3
) -> tuple[csr_array, csr_array]:
    """Sparse inputs and labels; some inputs are empty, some have no label; every label occurs."""
    random = np.random.default_rng(seed)
    dense = random.normal(size=(rows, features)) * (random.random((rows, features)) < density)
    dense[random.random(rows) < 0.1] = 0
    truth = np.zeros((rows, labels), dtype=np.int8)
    for label in range(labels):
        # Labels that depend on the inputs, so that the weights are not all alike.
        truth[np.argsort(dense @ random.normal(size=features))[-(1 + label % per_row) :], label] = 1
    truth[random.random(rows) < 0.1] = 0
    truth[random.integers(0, rows, labels), np.arange(labels)] = 1
    return csr_array(dense.astype(np.float32)), csr_array(truth)


def objective(
    X: npt.NDArray[np.float64],
    signs: npt.NDArray[np.float64],
    costs: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    loss: str,
) -> float:
    """The primal objective of one binary problem; the constant feature is a column of X."""
    margins = signs * (X @ weights)
    losses = np.maximum(0, 1 - margins) ** 2 if loss == "squared_hinge" else np.logaddexp(0, -margins)
    return float(0.5 * weights @ weights + costs @ losses)


def two_layers(assigned: Any) -> LabelTree:
    """A tree with one layer of clusters between the root and the labels."""
    return LabelTree.from_clusters([np.asarray(assigned)])
