"""How the training of a tree is cut into blocks, and how the blocks are joined.

A tree is trained node by node, and what a node learns depends on nothing but its inputs and the seed. So
neighbouring nodes of a layer, a *block*, can be trained anywhere, at any time, and their weights are the
bytes that they have in a tree trained in one piece. Only a matcher (``negatives="tfn+man"``) needs the layers
above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native
from hedgerow.storage.container import Chunked
from hedgerow.storage.scratch import Scratch, spilling
from hedgerow.trees.label_tree import LabelTree
from hedgerow.trees.tree_model import TRANSFORMS, Section, TreeClassifier, aligned

__all__ = [
    "Block",
    "TrainedBlock",
    "TreeTask",
    "above",
    "as_matched",
    "block_work",
    "cut",
    "gaps",
    "join",
    "joined_sections",
    "match",
]

# In the unit of `TreeTask.work`, a feature of an input in a panel of children, which takes 45 to 60 ns: a
# block looks through the labels of all inputs, at 1 to 2.3 ns for each label and each input, and some
# milliseconds go by until another machine has begun.
_COST_OF_LOOK = 0.04
_COST_OF_START = 100_000.0
_LARGEST_OVERHEAD = 0.05
# Blocks for each processor: with several, those that finish early help the others.
_BLOCKS_EACH = 8


@dataclass(frozen=True, order=True)
class Block:
    """Nodes `first` to ``last - 1`` of a layer; layer 0 is that of the root."""

    layer: int
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class TrainedBlock:
    """The weights of a block.

    The table, shape (nodes, 6), has the shapes of the nodes' chunks, which follow one another in `weights`;
    `kept` is the number of weights.
    """

    block: Block
    table: npt.NDArray[np.uint64]
    weights: npt.NDArray[np.uint8]
    kept: int


@dataclass(frozen=True, eq=False)
class TreeTask:
    """A tree to train, block by block.

    `negatives` are labels that are wrong for an input but hard to distinguish from its own, and `settings`
    are those of the engine's `train` without threads and progress.
    """

    X: _native.Rows
    Y: _native.Rows
    tree: LabelTree
    costs: npt.NDArray[np.float32] | None
    negatives: _native.Rows | None
    settings: dict[str, Any]

    def work(self, layer: int, matched: _native.Rows | None) -> npt.NDArray[np.float64]:
        """How much there is to do for each node of a layer."""
        work: npt.NDArray[np.float64] = _native.layer_work(
            self.X, self.Y, list(self.tree.begins), self.tree.labels, self.negatives, matched, layer
        )
        return work

    def train(
        self,
        block: Block,
        matched: _native.Rows | None,
        threads: int,
        progress: Callable[[float], None] | None = None,
        scratch: Scratch | None = None,
    ) -> TrainedBlock:
        """Train the nodes of a block; a matcher brings the inputs that `match` found, too."""
        trained = _native.train_block(
            self.X,
            self.Y,
            list(self.tree.begins),
            self.tree.labels,
            self.costs,
            self.negatives,
            matched,
            layer=block.layer,
            first=block.first,
            last=block.last,
            threads=threads,
            progress=progress,
            **spilling(scratch),
            **self.settings,
        )
        return TrainedBlock(block, trained.table, trained.bytes, trained.weights)


def cut(work: npt.ArrayLike, layer: int, target: float, within: tuple[int, int] | None = None) -> list[Block]:
    """Cut a layer, or the nodes within a range, into blocks of about the same work.

    A block has at most the `target`, but for a single node that has more.

    Examples
    --------
    >>> cut([5, 1, 1, 1, 9, 1], 2, target=4)
    [Block(layer=2, first=0, last=1), Block(layer=2, first=1, last=4), Block(layer=2, first=4, last=5),
     Block(layer=2, first=5, last=6)]
    """
    each = np.asarray(work, dtype=np.float64)
    first, end = within or (0, len(each))
    blocks = []
    while first < end:
        last, total = first + 1, each[first]
        while last < end and total + each[last] <= target:
            total += each[last]
            last += 1
        blocks.append(Block(layer, first, last))
        first = last
    return blocks


def block_work(total: float, labels: int, inputs: int, processors: int) -> float:
    """How much work to put into a block: enough that its overhead is small, little enough to share out."""
    fixed = _COST_OF_START + _COST_OF_LOOK * (labels + inputs)
    return max(total / (_BLOCKS_EACH * processors), fixed / _LARGEST_OVERHEAD)


def gaps(done: Iterable[Block], layer: int, nodes: int) -> list[tuple[int, int]]:
    """The nodes of a layer that no block covers, as ranges.

    Examples
    --------
    >>> gaps([Block(1, 2, 4), Block(1, 6, 8)], 1, 8)
    [(0, 2), (4, 6)]
    """
    missing, at = [], 0
    for block in sorted(block for block in done if block.layer == layer):
        if block.first > at:
            missing.append((at, block.first))
        at = max(at, block.last)
    if at < nodes:
        missing.append((at, nodes))
    return missing


def above(
    tree: LabelTree, layer: int, blocks: Sequence[TrainedBlock], features: int, loss: str, normalize: bool
) -> TreeClassifier:
    """The layers above one as a classifier of its own: its labels are the nodes of the layer."""
    nodes = np.arange(tree.layer_sizes[layer], dtype=np.int32)
    return join(LabelTree(tree.begins[:layer], nodes), blocks, features, loss, normalize)


def match(classifier: TreeClassifier, X: _native.Rows, beam: int, threads: int) -> npt.NDArray[np.int32]:
    """The nodes that a beam finds for each row in the layer below what `above` gave; -1 fills rows up."""
    depth, count = classifier.tree.depth, len(classifier.tree.labels)
    best = classifier.native.best_nodes(X, depth, min(beam, count), beam, classifier.normalize, threads)
    return best.nodes


def as_matched(found: Sequence[npt.NDArray[np.int32]], nodes: int) -> _native.Rows:
    """What `match` found for consecutive rows, as lists for the engine."""
    counts = np.concatenate([(part >= 0).sum(axis=1) for part in found])
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = np.concatenate([part[part >= 0] for part in found])
    return _native.Rows(indptr, np.ascontiguousarray(indices, dtype=np.int32), None, nodes)


def joined_table(blocks: Sequence[TrainedBlock], tree: LabelTree) -> npt.NDArray[np.uint64]:
    """The table of a whole tree's chunks, from blocks in order; every node must be in just one of them."""
    expected = [(layer, node) for layer in range(tree.depth) for node in (0, tree.layer_sizes[layer])]
    ends = [
        (trained.block.layer, end) for trained in blocks for end in (trained.block.first, trained.block.last)
    ]
    if _without_pairs(ends) != expected:
        raise ValueError("the blocks do not make up the tree: nodes are missing, repeated or out of order")
    table = np.concatenate([trained.table for trained in blocks])
    table[:, 0] = np.concatenate([[0], np.cumsum(table[:-1, 1], dtype=np.uint64)])
    return table


def _without_pairs(ends: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Drop places where a block ends and the next begins."""
    kept: list[tuple[int, int]] = []
    for end in ends:
        if kept and kept[-1] == end:
            kept.pop()
        else:
            kept.append(end)
    return kept


def join(
    tree: LabelTree, blocks: Sequence[TrainedBlock], features: int, loss: str, normalize: bool
) -> TreeClassifier:
    """Join all blocks of a tree, given in any order, in memory."""
    ordered = sorted(blocks, key=lambda trained: trained.block)
    table = joined_table(ordered, tree)
    weights = aligned(int(table[:, 1].sum()))
    np.concatenate([trained.weights for trained in ordered], out=weights)
    native = _native.TreeModel.open(
        list(tree.begins), tree.labels, features, TRANSFORMS[loss], 1, 1, table, weights, False, 1
    )
    kept = sum(trained.kept for trained in ordered)
    return TreeClassifier(tree, features, TRANSFORMS[loss], normalize, native, kept)


def joined_sections(prefix: str, tree: LabelTree, blocks: Sequence[TrainedBlock]) -> dict[str, Section]:
    """The arrays of a model file, as of `TreeClassifier.to_sections`; weights are streamed, not copied."""
    ordered = sorted(blocks, key=lambda trained: trained.block)
    table = joined_table(ordered, tree)
    sections: dict[str, Section] = {f"{prefix}.begins.{t}": begins for t, begins in enumerate(tree.begins)}
    sections[f"{prefix}.labels"] = tree.labels
    sections[f"{prefix}.chunks"] = table
    sections[f"{prefix}.weights"] = Chunked(
        np.uint8, (int(table[:, 1].sum()),), (trained.weights for trained in ordered)
    )
    return sections
