"""Brings a tree up to date with records that came or left, without training all of it again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow import _native
from hedgerow.inputs.matrices import as_rows
from hedgerow.progress import Stage
from hedgerow.training.data import Costs, TrainingData
from hedgerow.training.settings import SolverSettings, TreeSettings
from hedgerow.trees.label_tree import aggregate_features, grow_over
from hedgerow.trees.regrowth import regrow, renumbered
from hedgerow.trees.tree_model import TreeClassifier

__all__ = ["RENEWAL", "ChangedRows", "TreeVersion", "amend_tree"]

Ints = npt.NDArray[np.int32]

# A classifier is trained again when this share of its positive inputs has changed. On debian-depends, ten
# updates of 5 % lost as much P@1 with 0.04 as with 0.1, and with 0.2 a little more.
RENEWAL = 0.1
# The examples of a new label that decide for its leaf, and the leaves that each of them proposes.
_EXAMPLES, _PROPOSED, _BEAM = 20, 10, 50
# A leaf is split when it has so many times the labels that it may have.
_OVERFULL = 2


@dataclass(frozen=True, eq=False)
class TreeVersion:
    """A tree, and for each layer the update that trained the classifier of each node."""

    tree: TreeClassifier
    solved: tuple[Ints, ...]

    @classmethod
    def fitted(cls, tree: TreeClassifier) -> TreeVersion:
        """A tree of which all was trained by a full fit."""
        return cls(tree, tuple(np.zeros(nodes, dtype=np.int32) for nodes in tree.tree.layer_sizes[1:]))


@dataclass(frozen=True, eq=False)
class ChangedRows:
    """All rows that are there now, and what changed.

    `changed` is the update that brought each row or its labels, `now` the last one. `lost` has the labels of
    rows that left. `columns` is the new column of each label that the tree knew, or -1.
    """

    data: TrainingData
    changed: Ints
    now: int
    lost: sp.csr_array
    columns: npt.NDArray[np.int64]


def amend_tree(
    version: TreeVersion,
    rows: ChangedRows,
    costs: Costs,
    settings: tuple[TreeSettings, SolverSettings],
    seed: int,
    threads: int,
    progress: Stage | None = None,
) -> TreeVersion:
    """The tree with labels attached where their examples belong, and with what changed trained again."""
    before, data = version.tree, rows.data
    shape, solver = settings
    there = np.bincount(data.indicator.indices, minlength=data.indicator.shape[1]) > 0
    tree, dropped = renumbered(before.tree, rows.columns, there)
    taught = data.indicator if costs is None else data.indicator[costs > 0]
    examples = np.bincount(taught.indices, minlength=data.indicator.shape[1])
    has = np.zeros(data.indicator.shape[1], dtype=bool)
    has[tree.labels[~dropped[tree.labels]]] = True
    new = np.flatnonzero((examples > 0) & ~has)
    leaves = _leaves_for(before, rows, costs, new, threads)
    grown = regrow(tree, new, leaves, dropped)
    sizes = np.diff(grown.tree.begins[-1])
    if before.tree.depth > 1 and sizes.max() > _OVERFULL * shape.leaf_size:
        sample = replace(data, costs=costs)
        halves = {}
        for leaf in np.flatnonzero(sizes > _OVERFULL * shape.leaf_size).tolist():
            own = np.sort(grown.tree.children(grown.tree.depth - 1, leaf))
            old = int(grown.origins[-2][leaf])
            halves[old] = _second_half(own, sample, shape.normalize, seed, threads)
        grown = regrow(tree, new, leaves, dropped, halves)
    found = _native.amend(
        before.native,
        data.X,
        data.Y,
        list(grown.tree.begins),
        grown.tree.labels,
        list(grown.origins),
        rows.changed,
        list(grown.carry(version.solved, 0)),
        rows.now,
        RENEWAL,
        _native.Rows(*_arrays(rows.lost)) if rows.lost.nnz else None,
        costs,
        None,
        threads=threads,
        progress=progress,
        **solver.for_engine(1.0, seed),
    )
    amended = TreeClassifier(
        grown.tree,
        before.features,
        before.transform,
        before.normalize,
        found.model,
        before.weights + found.more_weights,
    )
    return TreeVersion(amended, tuple(found.when))


def _leaves_for(
    before: TreeClassifier,
    rows: ChangedRows,
    costs: Costs,
    new: npt.NDArray[np.int64],
    threads: int,
) -> npt.NDArray[np.int64]:
    """The leaf where the examples of each new label belong, by what the tree says of them."""
    leaves = np.zeros(len(new), dtype=np.int64)
    depth = before.tree.depth
    if depth == 1 or not len(new):
        return leaves
    by_label = sp.csc_array(rows.data.indicator)[:, new]
    pairs: list[tuple[int, int]] = []
    for number in range(len(new)):
        own = by_label.indices[by_label.indptr[number] : by_label.indptr[number + 1]]
        if costs is not None:
            own = own[costs[own] > 0]
        pairs += [(number, row) for row in np.sort(own)[:_EXAMPLES].tolist()]
    labels, examples = (np.array(part, dtype=np.int64) for part in zip(*pairs, strict=True))
    wanted, place = np.unique(examples, return_inverse=True)
    count = before.tree.layer_sizes[depth - 1]
    k = min(_PROPOSED, count)
    nodes, logs = before.best_nodes(_some(rows.data, wanted), depth - 1, k, max(k, _BEAM), threads)
    entries = (np.exp(logs[place].astype(np.float64)).ravel(), (np.repeat(labels, k), nodes[place].ravel()))
    sums = sp.csr_array(entries, shape=(len(new), count))
    sums.sum_duplicates()
    for number in range(len(new)):
        ways = slice(sums.indptr[number], sums.indptr[number + 1])
        leaves[number] = sums.indices[ways][np.argmax(sums.data[ways])]
    return leaves


def _second_half(
    labels: npt.NDArray[np.int32], data: TrainingData, normalize: bool, seed: int, threads: int
) -> npt.NDArray[np.int32]:
    """Of the labels of a leaf that has become too large, those that move to a leaf of their own."""
    sums = aggregate_features(data.X, data.indicator, labels, data.width, data.costs, normalize, threads)
    vectors = as_rows(sums, "label_features", threads=threads)
    most = -(-len(labels) // 2)
    cut = grow_over(vectors, labels, branching=2, leaf_size=most, seed=seed, threads=threads, progress=None)
    return cut.labels[cut.begins[-1][1] :]


def _some(data: TrainingData, wanted: npt.NDArray[np.int64]) -> sp.csr_array:
    indptr, indices, values, columns = data.X.arrays()
    if values is None:
        values = np.ones(len(indices), dtype=np.float32)
    return sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1, columns))[wanted]


def _arrays(labels: sp.csr_array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], None, int]:
    return labels.indptr.astype(np.int64), labels.indices.astype(np.int32), None, labels.shape[1]
