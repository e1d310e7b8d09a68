"""The tree over the labels."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow import _native
from hedgerow.inputs.matrices import as_rows, check_finite
from hedgerow.storage.scratch import Scratch, spilling

__all__ = ["LabelTree"]

Progress = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class LabelTree:
    """Labels clustered layer by layer; all labels are at the same depth.

    Attributes
    ----------
    begins : tuple of int32 arrays
        One array per layer, the root first. The children of node `i` of layer `t` are the nodes
        ``begins[t][i]`` to ``begins[t][i + 1] - 1`` of layer `t + 1`; the last layer's children are the
        labels.
    labels : int32 array, shape (n_labels,)
        The labels (columns of Y) in the order of the leaves.

    Examples
    --------
    A tree from given clusters: six labels in three clusters.

    >>> tree = LabelTree.from_clusters([[0, 0, 1, 1, 2, 2]])
    >>> tree.depth, tree.layer_sizes
    (2, (1, 3, 6))
    >>> tree.children(1, 2)
    array([4, 5], dtype=int32)
    """

    begins: tuple[npt.NDArray[np.int32], ...]
    labels: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        begins = tuple(_int32(f"begins[{layer}]", own) for layer, own in enumerate(self.begins))
        object.__setattr__(self, "begins", begins)
        object.__setattr__(self, "labels", _int32("labels", self.labels))
        _native.check_tree(list(self.begins), self.labels)

    @classmethod
    def from_clusters(
        cls, clusters: Sequence[npt.ArrayLike], labels: npt.ArrayLike | None = None
    ) -> LabelTree:
        """Build a tree from cluster numbers.

        Parameters
        ----------
        clusters : sequence of int arrays
            From the labels up: ``clusters[0][i]`` is the cluster of label ``labels[i]``, ``clusters[1][j]``
            the cluster of the cluster `j`, and so on. Numbers run from 0 without gaps. Above the last comes
            the root.
        labels : int array, optional
            The columns of Y that the tree covers; all of them, if not given.

        Returns
        -------
        LabelTree
        """
        if not clusters:
            raise ValueError("clusters is empty; give at least the cluster of each label, or use grow()")
        chain = [np.asarray(c) for c in clusters]
        for level, assigned in enumerate(chain):
            if assigned.ndim != 1 or assigned.size == 0 or assigned.dtype.kind not in "iu":
                raise ValueError(f"clusters[{level}] must be a vector of integers with at least one entry")
            count = int(assigned.max()) + 1
            if assigned.min() < 0 or len(np.unique(assigned)) != count:
                raise ValueError(f"clusters[{level}] must use every number from 0 to {count - 1}")
            if level + 1 < len(chain) and len(chain[level + 1]) != count:
                raise ValueError(
                    f"clusters[{level}] has {count} clusters, but clusters[{level + 1}] has"
                    f" {len(chain[level + 1])} entries"
                )
        own = np.arange(len(chain[0])) if labels is None else np.asarray(labels)
        if own.shape != chain[0].shape:
            raise ValueError(f"there are {own.size} labels, but clusters[0] has {chain[0].size} entries")
        # From the root down, sort each layer by its parents' place.
        begins = []
        place = np.zeros(1, dtype=np.int64)  # of the nodes of the layer above
        for assigned in [np.zeros(int(chain[-1].max()) + 1, dtype=np.int64), *reversed(chain)]:
            parents = place[assigned]
            order = np.argsort(parents, kind="stable")
            begins.append(np.concatenate([[0], np.cumsum(np.bincount(parents))]).astype(np.int32))
            place = np.empty(len(order), dtype=np.int64)
            place[order] = np.arange(len(order))
        return cls(tuple(begins), np.ascontiguousarray(own[np.argsort(place)], dtype=np.int32))

    @classmethod
    def grow(
        cls,
        label_features: Any,
        labels: npt.ArrayLike | None = None,
        *,
        branching: int = 8,
        leaf_size: int = 100,
        iterations: int = 20,
        seed: int = 0,
        threads: int = 0,
        progress: Progress | None = None,
    ) -> LabelTree:
        """Cluster labels by balanced spherical k-means, from the root down.

        Parameters
        ----------
        label_features : sparse matrix, shape (n_labels, d)
            A vector for each label, such as the sum of the inputs that have it.
        labels : int array, shape (n_labels,), optional
            Which label each row stands for; the row's number, if not given.
        branching : int
            Children of a node.
        leaf_size : int
            Most labels below the last node.
        iterations : int
            Most rounds of k-means at a node.
        seed : int
            The same seed gives the same tree at any number of threads.
        threads : int
            0 uses all processors.
        progress : callable, optional
            Called with the share of the work that is done.

        Returns
        -------
        LabelTree
        """
        rows = as_rows(label_features, "label_features", threads=threads)
        count = label_features.shape[0]
        own = (
            np.arange(count, dtype=np.int32)
            if labels is None
            else np.ascontiguousarray(labels, dtype=np.int32)
        )
        if own.shape != (count,):
            raise ValueError(f"label_features has {count} rows, but there are {own.size} labels")
        return grow_over(
            rows,
            own,
            branching=branching,
            leaf_size=leaf_size,
            iterations=iterations,
            seed=seed,
            threads=threads,
            progress=progress,
        )

    @property
    def depth(self) -> int:
        """Layers of classifiers on the way from the root to a label."""
        return len(self.begins)

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """Nodes in each layer, the root and the labels included."""
        return (*(len(b) - 1 for b in self.begins), len(self.labels))

    def leaves_for(self, k: int) -> int:
        """How many nodes of the last layer have k labels below them, whichever they are."""
        return int(np.searchsorted(self._smallest, k)) + 1

    @cached_property
    def _smallest(self) -> npt.NDArray[np.int64]:
        """How many labels the smallest N leaves have together, for all N."""
        return np.cumsum(np.sort(np.diff(self.begins[-1])))

    def children(self, layer: int, node: int) -> npt.NDArray[np.int32]:
        """Children of a node: nodes of the next layer, or labels if it is the last."""
        begin, end = self.begins[layer][node], self.begins[layer][node + 1]
        if layer == self.depth - 1:
            return self.labels[begin:end]
        return np.arange(begin, end, dtype=np.int32)

    def path(self, label: int) -> tuple[int, ...]:
        """The nodes from the first layer below the root down to the label's place."""
        found = np.flatnonzero(self.labels == label)
        if not found.size:
            raise KeyError(f"label {label} is not in the tree")
        nodes = [int(found[0])]
        for begins in reversed(self.begins[1:]):
            nodes.append(int(np.searchsorted(begins, nodes[-1], side="right")) - 1)
        return tuple(reversed(nodes))


def grow_over(
    label_features: _native.Rows,
    labels: npt.NDArray[np.int32],
    *,
    branching: int,
    leaf_size: int,
    seed: int,
    threads: int,
    progress: Progress | None,
    iterations: int = 20,
    scratch: Scratch | None = None,
) -> LabelTree:
    """As `LabelTree.grow`, for vectors that are checked; `scratch` takes copies too large for memory."""
    grown = _native.grow_tree(
        label_features,
        labels,
        int(branching),
        int(leaf_size),
        int(iterations),
        int(seed),
        threads,
        progress,
        **spilling(scratch),
    )
    return LabelTree(tuple(grown.begins), grown.labels)


def aggregate_features(
    X: _native.Rows,
    Y: sp.csr_array,
    labels: npt.NDArray[np.int32],
    columns: int,
    costs: npt.NDArray[np.float32] | None,
    normalize: bool,
    threads: int,
    progress: Progress | None = None,
) -> sp.csr_array:
    """PIFA, positive instance feature aggregation: a label is the normalised sum of its inputs.

    Inputs have weights (costs) and are scaled to length 1 before with `normalize`.
    """
    rows_of_label = _rows_of(labels, Y)
    sums = _native.aggregate_labels(X, rows_of_label, costs, normalize, threads, progress)
    return sp.csr_array((sums.values, sums.indices, sums.indptr), shape=(len(labels), columns))


def aggregate_to_files(
    X: _native.Rows,
    Y: sp.csr_array,
    labels: npt.NDArray[np.int32],
    columns: int,
    costs: npt.NDArray[np.float32] | None,
    normalize: bool,
    threads: int,
    progress: Progress | None,
    scratch: Scratch,
) -> _native.Rows:
    """As `aggregate_features`, piece by piece into files, for vectors larger than memory."""
    rows_of_label = _rows_of(labels, Y)
    begins, rows, *_ = rows_of_label.arrays()
    ends = [np.zeros(1, dtype=np.int64)]
    with (
        tempfile.TemporaryFile(dir=scratch.folder) as indices,
        tempfile.TemporaryFile(dir=scratch.folder) as values,
    ):
        sizes = np.diff(X.arrays()[0]).astype(np.int32)
        for first, last in _pieces(begins, rows, sizes, scratch.most_bytes // _BYTES_OF_ENTRY):
            own = begins[first : last + 1]
            some = _native.Rows(own - own[0], rows[own[0] : own[-1]], None, Y.shape[0])
            sums = _native.aggregate_labels(X, some, costs, normalize, threads, progress)
            indices.write(sums.indices.data)
            values.write(sums.values.data)
            ends.append(sums.indptr[1:] + ends[-1][-1])
        mapped = (_mapped(indices, np.int32), _mapped(values, np.float32))
    vectors = _native.Rows(np.concatenate(ends), *mapped, columns)
    check_finite(vectors, "label_features", threads)
    return vectors


def _int32(name: str, values: npt.ArrayLike) -> npt.NDArray[np.int32]:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(
            f"{name} has shape {array.shape} and dtype {array.dtype}; it must be a vector of integers"
        )
    if array.size and not -(2**31) <= int(array.min()) <= int(array.max()) < 2**31:
        raise ValueError(f"{name} has values from {array.min()} to {array.max()}; they must fit in 32 bits")
    return np.ascontiguousarray(array, dtype=np.int32)


def _rows_of(labels: npt.NDArray[np.int32], Y: sp.csr_array) -> _native.Rows:
    """The inputs of each label."""
    by_label = sp.csc_array(Y)[:, labels] if len(labels) < Y.shape[1] else sp.csc_array(Y)
    return _native.Rows(
        by_label.indptr.astype(np.int64), by_label.indices.astype(np.int32, copy=False), None, Y.shape[0]
    )


# An index and a value, and both again while pieces are joined.
_BYTES_OF_ENTRY = 16
_ENTRIES_A_LOOK = 1 << 20


def _pieces(
    begins: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int32],
    sizes: npt.NDArray[np.int32],
    most: int,
) -> Iterator[tuple[int, int]]:
    """Cut labels into ranges whose vectors have at most `most` entries, or into single labels with more."""
    first, labels = 0, len(begins) - 1
    while first < labels:
        seen = int(np.searchsorted(begins, begins[first] + _ENTRIES_A_LOOK, side="right")) - 1
        last = min(labels, max(first + 1, seen))
        totals = np.cumsum(sizes[rows[begins[first] : begins[last]]], dtype=np.int64)
        entries = totals[begins[first + 1 : last + 1] - begins[first] - 1]
        fit = max(1, int(np.searchsorted(entries, most, side="right")))
        yield first, first + fit
        first += fit


def _mapped(file: IO[bytes], dtype: type[np.generic]) -> npt.NDArray[Any]:
    """The content of a file; the map stays valid after the file is closed and deleted."""
    file.flush()
    return np.memmap(file, dtype=dtype, mode="r") if file.tell() else np.empty(0, dtype=dtype)
