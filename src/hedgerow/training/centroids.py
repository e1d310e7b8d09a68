"""The centroids of labels, as a tree that scores labels."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow import _native
from hedgerow.inputs.matrices import as_rows
from hedgerow.training.data import TrainingData
from hedgerow.trees.label_tree import LabelTree, aggregate_features
from hedgerow.trees.regrowth import regrow, renumbered
from hedgerow.trees.tree_model import TreeClassifier

__all__ = ["amend_centroids", "label_centroids"]

# Features, children, weights and biases of a node.
_Node = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.float32]]

# Features of a label's centroid that are kept, the largest ones.
_FEATURES_KEPT = 100
# Labels of a group, whose features lie side by side. In one group of 12,000 labels a centroid takes 13 times
# the bytes, and no search gets faster.
_GROUP = 256


def label_centroids(
    data: TrainingData, first: LabelTree, normalize: bool, threads: int, kept: int = _FEATURES_KEPT
) -> TreeClassifier:
    """A tree whose scores are the cosines of an input and the centroid of each label's inputs.

    Labels that are close in the tree `first` are close here, too. Of a centroid, the largest features are
    kept.
    """
    Y, costs = data.indicator, data.costs
    taught = Y if costs is None else Y[costs > 0]
    used = np.bincount(taught.indices, minlength=Y.shape[1]) > 0
    ordered = first.labels[used[first.labels]]
    lacking = used.copy()
    lacking[ordered] = False
    labels = np.concatenate([ordered, np.flatnonzero(lacking)]).astype(np.int32)
    ascending = np.sort(labels)
    vectors = aggregate_features(data.X, Y, ascending, data.width, costs, normalize, threads)
    vectors = vectors[np.searchsorted(ascending, labels)]
    ends = np.append(np.arange(0, len(labels), _GROUP), len(labels)).astype(np.int32)
    nodes = [_node(vectors[begin:end], kept) for begin, end in pairwise(ends.tolist())]
    begins = [ends]
    if len(nodes) > 1:
        # The way to each group is sure.
        nothing = np.zeros(0, dtype=np.int32)
        nodes.insert(0, (nothing, nothing, nothing.astype(np.float32), np.ones(len(nodes), dtype=np.float32)))
        begins.insert(0, np.array([0, len(ends) - 1], dtype=np.int32))
    tree = LabelTree(tuple(begins), labels)
    native = _native.assemble(list(tree.begins), tree.labels, data.width, "l3-hinge", nodes, 1)
    weights = sum(len(node[0]) for node in nodes)
    return TreeClassifier(tree, data.width, "l3-hinge", normalize, native, weights)


def amend_centroids(
    before: TreeClassifier,
    data: TrainingData,
    first: LabelTree,
    columns: npt.NDArray[np.int64],
    changed: npt.NDArray[np.bool_],
    threads: int,
    kept: int = _FEATURES_KEPT,
) -> TreeClassifier:
    """The centroids after an update: those of labels that are new or `changed` are computed again.

    `columns` is the new column of each label that there was, or -1. A new label joins the group of a label
    that is close in the tree `first`; a group that becomes too large is cut in two.
    """
    Y = data.indicator
    used = np.bincount(Y.indices, minlength=Y.shape[1]) > 0
    if before.tree.depth == 1 and used.sum() > _GROUP:
        return label_centroids(data, first, before.normalize, threads, kept)
    tree, dropped = renumbered(before.tree, columns, used)
    group = np.full(Y.shape[1], -1, dtype=np.int64)
    place = np.repeat(np.arange(len(tree.begins[-1]) - 1), np.diff(tree.begins[-1]))
    old = tree.labels < Y.shape[1]
    group[tree.labels[old]] = place[old]
    near = group[first.labels]
    # Of a label without a group, that of the last label before it which has one.
    last = np.maximum.accumulate(np.where(near >= 0, np.arange(len(near)), 0))
    new = np.flatnonzero(used & (group < 0))
    beside = np.zeros(Y.shape[1], dtype=np.int64)
    beside[first.labels] = np.maximum(near[last], 0)
    grown = regrow(tree, new, beside[new], dropped)
    stale = used & (changed | (group < 0))
    sizes = np.diff(grown.tree.begins[-1])
    halves: dict[int, npt.NDArray[np.int32]] = {}
    for number in np.flatnonzero(sizes > _GROUP).tolist() if tree.depth > 1 else []:
        own_labels = grown.tree.children(tree.depth - 1, number)
        halves[int(grown.origins[-2][number])] = own_labels[len(own_labels) // 2 :]
        stale[own_labels] = True
    if halves:
        grown = regrow(tree, new, beside[new], dropped, halves)
    labels = grown.tree.labels
    again = np.flatnonzero(stale).astype(np.int32)
    sums = aggregate_features(data.X, Y, again, data.width, data.costs, before.normalize, threads)
    columns_kept, lanes, values, _ = _node(sums, kept)
    rows = np.empty(Y.shape[1], dtype=np.int64)
    rows[labels] = np.arange(len(labels))
    own: Any = (values, (rows[again[lanes]], columns_kept))
    weights = sp.csr_array(own, shape=(len(labels), data.width))
    given = np.zeros(len(labels), dtype=np.uint8)
    given[rows[again]] = 1
    found = _native.graft(
        before.native,
        list(grown.tree.begins),
        labels,
        list(grown.origins),
        as_rows(weights, threads=threads),
        given,
        threads,
    )
    total = before.weights + found.more_weights
    return TreeClassifier(grown.tree, data.width, "l3-hinge", before.normalize, found.model, total)


def _node(vectors: sp.csr_array, most: int) -> _Node:
    """Features, labels, weights and biases of a group of labels: of each its largest features."""
    size = np.diff(vectors.indptr)
    lanes = np.repeat(np.arange(len(size), dtype=np.int32), size)
    kept = np.ones(len(lanes), dtype=bool)
    for row in np.flatnonzero(size > most):
        own = slice(vectors.indptr[row], vectors.indptr[row + 1])
        values = np.abs(vectors.data[own])  # embeddings have signs
        least = np.partition(values, -most)[-most]
        kept[own] = values > least
        # Of equals, the first.
        equal = np.flatnonzero(values == least)
        kept[own][equal[: most - kept[own].sum()]] = True
    weights = vectors.data[kept].astype(np.float32)
    bias = np.zeros(len(size), dtype=np.float32)
    return vectors.indices[kept].astype(np.int32), lanes[kept], weights, bias
