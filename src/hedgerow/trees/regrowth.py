"""A label tree with some labels more or fewer, and with leaves split that have grown too large."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.trees.label_tree import LabelTree

__all__ = ["Regrown", "regrow", "renumbered"]

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Regrown:
    """A changed tree, and for each layer below the root which node of the old tree each node was, or -1."""

    tree: LabelTree
    origins: tuple[Ints, ...]

    def carry(self, layers: tuple[Ints, ...], otherwise: int) -> tuple[Ints, ...]:
        """Numbers of the nodes of the old tree, brought to those of the new one."""
        return tuple(
            np.where(origin >= 0, old[np.maximum(origin, 0)], np.int32(otherwise)).astype(np.int32)
            for origin, old in zip(self.origins, layers, strict=True)
        )


def regrow(
    tree: LabelTree,
    added: npt.NDArray[np.integer],
    leaves: npt.NDArray[np.integer],
    dropped: npt.NDArray[np.bool_],
    halves: Mapping[int, npt.NDArray[np.integer]] | None = None,
) -> Regrown:
    """Add labels to leaves, and drop labels with the nodes that they leave empty.

    Parameters
    ----------
    tree : LabelTree
        A tree of any depth.
    added, leaves : int arrays, shape (n_added,)
        Labels that the tree does not have, and the leaf for each.
    dropped : bool array
        Which labels (columns of Y) go. At least one label must stay.
    halves : mapping of int to int array, optional
        Leaves to split in two: of each the labels of the second half. The root is no leaf that can be split.

    Returns
    -------
    Regrown
    """
    labels = np.concatenate([tree.labels, np.asarray(added, dtype=np.int32)])
    owner = np.concatenate([_owners(tree.begins[-1]), np.asarray(leaves, dtype=np.int32)]).astype(np.int64)
    origin = np.concatenate(
        [np.arange(len(tree.labels), dtype=np.int32), np.full(len(added), -1, dtype=np.int32)]
    )
    key = 2 * owner
    split = np.zeros(len(tree.begins[-1]) - 1, dtype=bool)
    for leaf, second in (halves or {}).items():
        split[leaf] = True
        key[(owner == leaf) & np.isin(labels, second)] += 1
    stays = ~dropped[labels]
    labels, key, origin = labels[stays], key[stays], origin[stays]
    order = np.argsort(key, kind="stable")
    labels, key = labels[order], key[order]
    begins: list[Ints] = []
    origins = [origin[order]]
    for layer in range(tree.depth - 1, -1, -1):
        nodes, first = np.unique(key, return_index=True)
        begins.append(np.append(first, len(key)).astype(np.int32))
        if layer == 0:
            break
        old = nodes // 2
        if layer == tree.depth - 1:
            origins.append(np.where(split[old], -1, old).astype(np.int32))
        else:
            origins.append(old.astype(np.int32))
        key = 2 * _owners(tree.begins[layer - 1])[old].astype(np.int64)
    return Regrown(LabelTree(tuple(begins[::-1]), labels), tuple(origins[::-1]))


def renumbered(
    tree: LabelTree, columns: npt.NDArray[np.int64], there: npt.NDArray[np.bool_]
) -> tuple[LabelTree, npt.NDArray[np.bool_]]:
    """The tree with labels in other columns, and which labels are to be dropped from it.

    `columns` is the new column of each label, or -1, and `there` says which columns any input has. Labels
    without a column are numbered after all others.
    """
    labels = columns[tree.labels].astype(np.int64)
    gone = labels < 0
    labels[gone] = len(there) + np.arange(int(gone.sum()))
    dropped = np.ones(len(there) + int(gone.sum()), dtype=bool)
    dropped[: len(there)] = ~there
    return LabelTree(tree.begins, labels.astype(np.int32)), dropped


def _owners(begins: Ints) -> Ints:
    return np.repeat(np.arange(len(begins) - 1, dtype=np.int32), np.diff(begins))
