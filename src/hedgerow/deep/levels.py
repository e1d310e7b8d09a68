"""The levels of the label tree, coarse to fine: what a text belongs to, and what it may be confused with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow import _native
from hedgerow.deep.candidate_scores import RIGHT
from hedgerow.deep.tuning_settings import FineTuning, Matching
from hedgerow.inputs.matrices import as_indicator, as_rows
from hedgerow.trees.label_tree import LabelTree
from hedgerow.trees.tree_model import LabelledInputs, TreeClassifier

__all__ = ["Level", "Matching", "Targets", "chosen_layers", "level_truth", "match"]

# Fewer nodes teach an encoder nothing that the next layer would not.
_FEWEST_NODES = 16
_WIDER = 4
# The solver of the classifiers from which the fine-tuning of a level starts.
_SOLVER = {
    "C": 1.0,
    "positive_cost": 1.0,
    "negative_cost": 1.0,
    "bias": 1.0,
    "tolerance": 0.1,
    "max_passes": 100,
    "weight_threshold": 0.0,
    "matcher_beam": 0,
}


@dataclass(frozen=True, eq=False)
class Targets:
    """What texts are labelled with: a matrix of shape (texts, labels), and the tree over the labels.

    `costs` are weights of the texts, such as how often a bootstrap drew each; None where all count the same.
    """

    Y: sp.csr_array
    tree: LabelTree
    costs: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False)
class Level:
    """What an encoder is fine-tuned on at one layer of the tree; the root is layer 0, labels are the last.

    `candidates`, shape (texts, nodes), has the children of the beam in the layer above and the nodes that
    score highest, 1 where they are wrong, and all nodes above (or at) the labels of each text, which are 2.
    `weights`, shape (nodes, width + 1), are classifiers that the engine trained on the embeddings, with their
    biases: where fine-tuning starts.
    """

    layer: int
    candidates: sp.csr_array
    weights: npt.NDArray[np.float32]


def chosen_layers(tree: LabelTree, levels: int | None) -> list[int]:
    """The layers to fine-tune on, coarse to fine: from the first with enough nodes on, at most `levels`.

    Examples
    --------
    >>> tree = LabelTree.from_clusters([np.arange(200) // 10, np.arange(20) // 5])
    >>> tree.layer_sizes, chosen_layers(tree, None)
    ((1, 4, 20, 200), [2, 3])
    """
    sizes = tree.layer_sizes
    large = [layer for layer in range(1, len(sizes)) if sizes[layer] >= _FEWEST_NODES]
    return (large or [len(sizes) - 1])[:levels]


def level_truth(tree: LabelTree, Y: sp.csr_array, layer: int) -> sp.csr_array:
    """The nodes of a layer that have a label of each text below them; labels without a place are left out."""
    nodes = np.arange(len(tree.labels))
    for begins in reversed(tree.begins[layer:]):
        nodes = np.searchsorted(begins, nodes, side="right") - 1
    shape = (Y.shape[1], tree.layer_sizes[layer])
    member = sp.csr_array((np.ones(len(nodes), dtype=np.int32), (tree.labels, nodes)), shape=shape)
    return _ones(sp.csr_array(Y.astype(np.int32) @ member))


def match(
    targets: Targets,
    embeddings: npt.NDArray[np.float32],
    layer: int,
    settings: FineTuning,
    seed: int = 0,
    threads: int = 0,
) -> Level:
    """Train linear classifiers on the embeddings, and find with them what each text may be confused with.

    `embeddings` are those of the texts by the encoder as it is now, shape (texts, width).
    """
    tree = targets.tree
    above = LabelTree(tree.begins[:layer], np.arange(tree.layer_sizes[layer], dtype=np.int32))
    truth, rows_of_truth = as_indicator(level_truth(tree, targets.Y, layer), targets.Y.shape[0], threads)
    rows = as_rows(embeddings, threads=threads)
    taught = LabelledInputs(rows, rows_of_truth, embeddings.shape[1], targets.costs)
    solver = {"loss": settings.loss, "normalise": False, "negative_share": 1.0, "seed": seed, **_SOLVER}
    trained = TreeClassifier.train(taught, above, solver, threads, None)
    matching = settings.matching
    near = _children_of_beam(trained, embeddings, rows, layer, matching, threads)
    k = min(matching.negatives, truth.shape[1])
    # A wider beam than for the children: they are candidates already, and the wrong ones elsewhere are not.
    best, _ = trained.top(rows, k, max(_WIDER * matching.beam, k), False, threads)
    found = _ones(sp.csr_array(near + _indicator(best, truth.shape[1]) + truth.astype(np.int32)))
    candidates = sp.csr_array(found + (RIGHT - 1) * truth.astype(np.int8))
    candidates.sort_indices()
    return Level(layer, candidates, _weights(trained, embeddings.shape[1]))


def _children_of_beam(
    trained: TreeClassifier, X: Any, rows: _native.Rows, layer: int, matching: Matching, threads: int
) -> sp.csr_array:
    begins = trained.tree.begins[layer - 1]
    parents, nodes = len(begins) - 1, int(begins[-1])
    family = sp.csr_array(
        (np.ones(nodes, dtype=np.int32), np.arange(nodes), begins.astype(np.int64)), shape=(parents, nodes)
    )
    beam = max(1, min(matching.beam, matching.most * parents // nodes, parents))
    if parents == 1:
        best = np.zeros((X.shape[0], 1), dtype=np.int32)
    else:
        best, _ = trained.best_nodes(X, layer - 1, beam, max(matching.beam, beam), threads)
    return sp.csr_array(_indicator(best, parents) @ family)


def _indicator(nodes: npt.NDArray[np.int32], width: int) -> sp.csr_array:
    """Ones at some nodes of each row; negative numbers stand for none."""
    there = nodes >= 0
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    ones = np.ones(int(indptr[-1]), dtype=np.int32)
    matrix = sp.csr_array((ones, nodes[there], indptr), shape=(len(nodes), width))
    matrix.sort_indices()
    return matrix


def _ones(matrix: sp.csr_array) -> sp.csr_array:
    """Ones wherever something is stored, with sorted indices."""
    matrix.sort_indices()
    return sp.csr_array(
        (np.ones(matrix.nnz, dtype=np.int8), matrix.indices.astype(np.int32), matrix.indptr),
        shape=matrix.shape,
    )


def _weights(trained: TreeClassifier, width: int) -> npt.NDArray[np.float32]:
    """The classifiers of the last layer, dense, each with its bias behind."""
    layer = trained.tree.depth - 1
    begins = trained.tree.begins[layer]
    weights = np.zeros((int(begins[-1]), width + 1), dtype=np.float32)
    for parent, first in enumerate(begins[:-1].tolist()):
        features, lanes, values, bias = trained.node_weights(layer, parent)
        weights[first + lanes, features] = values
        weights[first : begins[parent + 1], -1] = bias
    return weights
