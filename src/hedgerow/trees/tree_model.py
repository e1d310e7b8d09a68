"""One tree with its weights, as the engine trains, searches and stores it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native
from hedgerow.inputs.matrices import as_rows
from hedgerow.progress import Stage
from hedgerow.storage.container import ALIGNMENT, Chunked, Malformed
from hedgerow.trees.label_tree import LabelTree

__all__ = ["LabelledInputs", "TreeClassifier"]

Section = npt.NDArray[Any] | Chunked
TRANSFORMS = {"squared_hinge": "l3-hinge", "logistic": "sigmoid"}


@dataclass(frozen=True, eq=False)
class LabelledInputs:
    """What a tree learns from: inputs, their labels and costs, hard negatives."""

    X: _native.Rows
    Y: _native.Rows
    features: int
    costs: npt.NDArray[np.float32] | None = None
    negatives: _native.Rows | None = None


class TreeClassifier:
    """A label tree and the classifiers of its nodes, which may be those of several members.

    `parts` is how many numbers add up to a weight, where one is not precise enough.
    """

    def __init__(  # noqa: PLR0913 - what a model file holds of a tree
        self,
        tree: LabelTree,
        features: int,
        transform: str,
        normalize: bool,
        native: _native.TreeModel,
        weights: int,
        members: int = 1,
        parts: int = 1,
    ) -> None:
        self.tree = tree
        self.features = features
        self.transform = transform
        self.normalize = normalize
        self.native = native
        self.weights = weights
        self.members = members
        self.parts = parts

    @classmethod
    def train(
        cls,
        rows: LabelledInputs,
        tree: LabelTree,
        settings: Mapping[str, Any],
        threads: int,
        progress: Stage | None,
    ) -> TreeClassifier:
        """Fit the classifiers of a tree; `settings` are those of the engine's `train`."""
        found = _native.train(
            rows.X,
            rows.Y,
            list(tree.begins),
            tree.labels,
            rows.costs,
            rows.negatives,
            threads=threads,
            progress=progress,
            **settings,
        )
        transform = TRANSFORMS[settings["loss"]]
        return cls(tree, rows.features, transform, settings["normalise"], found.model, found.weights)

    @classmethod
    def merge(cls, members: Sequence[TreeClassifier], threads: int) -> TreeClassifier:
        """Join members that were trained on the same tree."""
        first = members[0]
        if len(members) == 1:
            return first
        native = _native.merge([member.native for member in members], threads, None)
        return cls(
            first.tree,
            first.features,
            first.transform,
            first.normalize,
            native,
            sum(member.weights for member in members),
            sum(member.members for member in members),
        )

    def top(
        self,
        X: _native.Rows,
        k: int,
        beam: int,
        exact: bool,
        threads: int,
        progress: Stage | None = None,
        subset: _native.LabelSubset | None = None,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """The best k labels of each row and their probabilities, both of shape (rows, k)."""
        found = self.native.top(X, k, beam, self.normalize, exact, threads, progress, subset)
        return found.labels, found.probabilities

    def best_nodes(
        self, X: Any, layer: int, k: int, beam: int, threads: int = 0
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """The best k nodes of a layer as a beam finds them, and the logarithms of their probabilities."""
        rows = as_rows(X, columns=self.features, threads=threads)
        found = self.native.best_nodes(rows, layer, k, beam, self.normalize, threads)
        return found.nodes, found.logs

    def node_weights(
        self, layer: int, node: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """Weights of a node's children as (features, child numbers, weights) and their biases."""
        chunk = sum(self.tree.layer_sizes[:layer]) + node
        entries = self.native.chunk_entries(chunk)
        return entries.features, entries.lanes, entries.weights, entries.bias

    def to_sections(self, prefix: str) -> dict[str, Section]:
        """Arrays for a model file; the weights are streamed, not copied."""
        table = self.native.table()
        sections: dict[str, Section] = {
            f"{prefix}.begins.{t}": begins for t, begins in enumerate(self.tree.begins)
        }
        sections[f"{prefix}.labels"] = self.tree.labels
        sections[f"{prefix}.chunks"] = table
        sections[f"{prefix}.weights"] = Chunked(
            np.uint8, (int(table[:, 1].sum()),), (self.native.block(i) for i in range(len(table)))
        )
        return sections

    # Copies, pickles and worker processes carry the arrays of a model file. Unpickling can run any code, so
    # models from others belong in model files; but a broken array is refused here, too.
    def __getstate__(self) -> dict[str, Any]:
        table = self.native.table()
        weights = aligned(int(table[:, 1].sum()))
        for number, (begin, size) in enumerate(table[:, :2].tolist()):
            weights[begin : begin + size] = self.native.block(number)
        return {"tree": self.tree, "header": self.to_header(), "table": table, "weights": weights}

    def __setstate__(self, state: dict[str, Any]) -> None:
        tree, header, weights = state["tree"], state["header"], state["weights"]
        if weights.ctypes.data % ALIGNMENT:
            weights = aligned(len(weights))
            weights[:] = state["weights"]
        native = _native.TreeModel.open(
            list(tree.begins),
            tree.labels,
            header["features"],
            header["transform"],
            header["members"],
            header["parts"],
            state["table"],
            weights,
            True,
            0,
        )
        self.__init__(  # type: ignore[misc]
            tree,
            header["features"],
            header["transform"],
            header["normalize"],
            native,
            header["weights"],
            header["members"],
            header["parts"],
        )

    def to_header(self) -> dict[str, Any]:
        """Entries of a model file's header."""
        return {
            "features": self.features,
            "transform": self.transform,
            "normalize": self.normalize,
            "weights": self.weights,
            "depth": self.tree.depth,
            "members": self.members,
            "parts": self.parts,
        }

    @classmethod
    def from_sections(
        cls,
        prefix: str,
        header: Mapping[str, Any],
        sections: Mapping[str, npt.NDArray[Any]],
        labels: int,
        verify: bool,
        threads: int = 0,
    ) -> TreeClassifier:
        """Open a tree over the arrays of a model file, which are not copied; it may lack some labels.

        With `verify`, every row of every node's weights is checked, not only the bounds of sections.
        """
        try:
            depth, features, transform = header["depth"], header["features"], header["transform"]
            if not (
                type(depth) is int
                and 1 <= depth <= 64
                and type(features) is int
                and type(header["weights"]) is int
                and 0 <= header["weights"] < 2**63
                and type(header["members"]) is int
                and type(header["parts"]) is int
                and type(header["normalize"]) is bool
            ):
                raise ValueError("impossible depth, number of features or of weights, or no normalize")
            if transform not in TRANSFORMS.values():
                raise ValueError(f"unknown transform {transform!r}")
            begins = tuple(_vector(sections, f"{prefix}.begins.{t}", np.int32) for t in range(depth))
            tree = LabelTree(begins, _vector(sections, f"{prefix}.labels", np.int32))
            if int(tree.labels.max()) >= labels:
                raise ValueError(f"label {tree.labels.max()} of {labels}")
            table = sections[f"{prefix}.chunks"]
            if table.dtype != np.uint64 or table.ndim != 2:
                raise ValueError("the table of chunks has the wrong type")
            native = _native.TreeModel.open(
                list(begins),
                tree.labels,
                features,
                transform,
                header["members"],
                header["parts"],
                table,
                _vector(sections, f"{prefix}.weights", np.uint8),
                verify,
                threads,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Malformed(f"{prefix} cannot be read: {error}") from error
        return cls(
            tree,
            features,
            transform,
            header["normalize"],
            native,
            header["weights"],
            header["members"],
            header["parts"],
        )


def aligned(size: int) -> npt.NDArray[np.uint8]:
    """Uninitialised bytes, aligned as the sections of model files are."""
    room = np.empty(size + ALIGNMENT, dtype=np.uint8)
    skipped = -room.ctypes.data % ALIGNMENT
    return room[skipped : skipped + size]


def _vector(sections: Mapping[str, npt.NDArray[Any]], name: str, dtype: type[np.generic]) -> npt.NDArray[Any]:
    array = sections[name]
    if array.dtype != dtype or array.ndim != 1:
        raise ValueError(f"section {name} has type {array.dtype} and {array.ndim} dimensions")
    return array
