"""Boosted decision trees: log-odds that are learned from numbers of any scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native

__all__ = ["BoostedTrees", "Boosting", "fit_boosted_trees"]

_DTYPES: dict[str, type[np.generic]] = {
    "begins": np.int64,
    "features": np.int32,
    "thresholds": np.float64,
    "left": np.int32,
    "right": np.int32,
}


@dataclass(frozen=True)
class Boosting:
    """How boosted trees are learned."""

    trees: int = 150
    leaves: int = 15
    rate: float = 0.08
    least: int = 200  # examples in a leaf


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """Small decision trees whose leaves add up to log-odds.

    Attributes
    ----------
    begins : int64 array, shape (n_trees + 1,)
        Where the nodes of each tree begin.
    features : int32 array, shape (n_nodes,)
        What a node asks for; -1 is a leaf.
    thresholds : float64 array, shape (n_nodes,)
        A value of at most this goes left; of a leaf, what it adds.
    left, right : int32 array, shape (n_nodes,)
        Where to go on: a later node of the same tree.
    """

    begins: npt.NDArray[np.int64]
    features: npt.NDArray[np.int32]
    thresholds: npt.NDArray[np.float64]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]

    def log_odds(self, seen: npt.NDArray[np.float32], threads: int) -> npt.NDArray[np.float64]:
        """What the trees say of rows of numbers, shape (rows,)."""
        return _native.sum_boosted_trees(
            self.begins, self.features, self.thresholds, self.left, self.right, seen, threads
        )

    def to_sections(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """Arrays for a model file."""
        return {f"{prefix}.{name}": getattr(self, name) for name in _DTYPES}

    @classmethod
    def from_sections(
        cls, prefix: str, sections: Mapping[str, npt.NDArray[Any]], numbers: int
    ) -> BoostedTrees:
        """Take back what `to_sections` gave, for rows of so many numbers, after checking it."""
        arrays = {}
        for name, dtype in _DTYPES.items():
            array = sections[f"{prefix}.{name}"]
            if array.dtype != dtype or array.ndim != 1:
                raise ValueError(f"{prefix}.{name} has the wrong type or shape")
            arrays[name] = np.asarray(array)
        trees = cls(**arrays)
        trees.log_odds(np.zeros((1, numbers), dtype=np.float32), 1)  # refuses nodes that lead nowhere
        return trees


def fit_boosted_trees(
    seen: npt.NDArray[np.float32],
    true: npt.NDArray[np.bool_],
    weights: npt.NDArray[np.float32],
    rising: Sequence[bool],
    how: Boosting,
) -> BoostedTrees:
    """Learn trees that say how probable examples are to be true.

    Parameters
    ----------
    seen : float32 array, shape (examples, numbers)
        What is known of each.
    true : bool array, shape (examples,)
        What is to be learned.
    weights : float32 array, shape (examples,)
        How often each counts.
    rising : sequence of bool
        Of which numbers the log-odds may only rise.
    how : Boosting
        How many trees, and how large.
    """
    import lightgbm  # a second to import, and only needed here

    booster = lightgbm.train(
        {
            "objective": "binary",
            "learning_rate": how.rate,
            "num_leaves": how.leaves,
            "min_data_in_leaf": how.least,
            "monotone_constraints": [int(one) for one in rising] if any(rising) else None,
            "use_missing": False,
            "seed": 0,
            # The same bits on every machine; threads of this library would wait for each other.
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbose": -1,
        },
        lightgbm.Dataset(seen, true.astype(np.float32), weight=weights, free_raw_data=True),
        how.trees,
    )
    return _flat([tree["tree_structure"] for tree in booster.dump_model()["tree_info"]])


def _flat(roots: Sequence[Mapping[str, Any]]) -> BoostedTrees:
    """The nodes of all trees, each after its parent."""
    nodes: list[tuple[int, float, int, int]] = []
    begins = [0]
    for root in roots:
        waiting = [(root, -1, 0)]
        while waiting:
            node, parent, side = waiting.pop()
            own = len(nodes)
            if parent >= 0:
                feature, threshold, *children = nodes[parent]
                children[side] = own
                nodes[parent] = (feature, threshold, children[0], children[1])
            if "split_feature" in node:
                nodes.append((node["split_feature"], node["threshold"], 0, 0))
                waiting += [(node["right_child"], own, 1), (node["left_child"], own, 0)]
            else:
                nodes.append((-1, node["leaf_value"], 0, 0))
        begins.append(len(nodes))
    features, thresholds, left, right = zip(*nodes, strict=True)
    return BoostedTrees(
        np.array(begins, dtype=np.int64),
        np.array(features, dtype=np.int32),
        np.array(thresholds, dtype=np.float64),
        np.array(left, dtype=np.int32),
        np.array(right, dtype=np.int32),
    )
