"""What a fit on a cluster costs: a model of its time, memory, bytes and dollars.

`python -m bench.scale` measures its constants; `docs/make_scale.py` puts it on paper. Blocks are those that
`hedgerow.training.blocks` cuts, of trees whose nodes have work as measured trees have it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.training.blocks import block_work, cut
from hedgerow.training.memory import FitSize

BRANCHING, LEAF = 8, 100
LANES = 16


@dataclass(frozen=True)
class Shape:
    """What is known of a data set: inputs, features, labels, and how many of them an input has."""

    name: str
    rows: int
    features: int
    labels: int
    features_each: float
    labels_each: float

    @property
    def label_entries(self) -> float:
        return self.rows * self.labels_each

    @property
    def data_bytes(self) -> float:
        return self.rows * (8 * self.features_each + 4 * self.labels_each + 16)

    @property
    def layers(self) -> list[int]:
        """Nodes of each layer of the tree."""
        count = 0
        while self.labels > LEAF * BRANCHING**count:
            count += 1
        return [BRANCHING**layer for layer in range(count + 1)]


@dataclass(frozen=True)
class Nodes:
    """An assumption about the machines, not a fact: change it and make the page anew."""

    processors: int = 16
    memory: float = 64e9
    network: float = 1.25e9  # bytes a second
    disk: float = 0.5e9
    dollars_an_hour: float = 0.80


@dataclass(frozen=True)
class Constants:
    """Measured, in seconds of one processor unless told.

    Attributes
    ----------
    work : float
        A unit of work: a feature of an input, in a panel of children.
    look : float
        To look through a label or an input, for each block.
    aggregate, cluster : float
        A feature of an input of a label; an entry of a label's vector, for each layer of the tree.
    start : float
        To send a task and get its result.
    store : float
        To place a byte in the object store.
    label_bytes, label_power : float
        Bytes of weights of a label, for each feature of an input, where one input has the label; with n of
        them it is n to this power times as much.
    share : list of (float, float)
        At which relative depth inputs have spread over which share of the nodes that they reach at most.
    skew : float
        Deviation of the logarithm of work between the nodes of the last layer.
    merge : float
        Entries of the labels' vectors: those of a label's inputs, to the power of minus this.
    """

    work: float
    look: float
    aggregate: float
    cluster: float
    start: float
    store: float
    label_bytes: float
    label_power: float
    share: list[tuple[float, float]]
    skew: float
    merge: float


@dataclass(frozen=True)
class Cost:
    """Of a fit."""

    seconds: float
    processor_seconds: float
    longest: float
    growing: float
    writing: float
    moved: float
    model_bytes: float
    node_memory: float
    dollars: float


def node_work(shape: Shape, constants: Constants) -> list[np.ndarray]:
    """Work of the nodes of each layer: the mean of measured trees, spread as there."""
    draw = np.random.default_rng(0)
    depths, shares = zip(*constants.share, strict=True)
    sizes = shape.layers
    layers = []
    for layer, nodes in enumerate(sizes):
        depth = layer / max(1, len(sizes) - 1)
        reached = 1 + (shape.labels_each - 1) * float(np.interp(depth, depths, shares))
        children = BRANCHING if layer + 1 < len(sizes) else shape.labels / nodes
        total = shape.rows * reached * (shape.features_each + 16) * np.ceil(children / LANES)
        spread = np.exp(constants.skew * depth * draw.standard_normal(nodes))
        layers.append(total * spread / spread.sum())
    return layers


def vector_entries(shape: Shape, constants: Constants) -> float:
    """Entries of the vectors that labels are clustered by."""
    each = max(1.0, shape.label_entries / shape.labels)
    whole = shape.label_entries * shape.features_each
    return float(min(whole * each**-constants.merge, shape.labels * shape.features))


def weight_bytes(shape: Shape, constants: Constants) -> float:
    """Of a member."""
    each = max(1.0, shape.label_entries / shape.labels)
    return float(shape.labels * shape.features_each * constants.label_bytes * each**constants.label_power)


def growing_seconds(shape: Shape, constants: Constants) -> float:
    whole = shape.label_entries * shape.features_each
    layers = len(shape.layers) - 1
    return constants.aggregate * whole + constants.cluster * vector_entries(shape, constants) * layers


def fit_cost(shape: Shape, constants: Constants, nodes: Nodes, count: int, members: int) -> Cost:
    """A fit on so many nodes: trees are grown, then all blocks are done, the longest first."""
    processors = count * nodes.processors
    work = node_work(shape, constants)
    total = sum(float(each.sum()) for each in work)
    target = block_work(total, int(shape.label_entries), shape.rows, processors)
    fixed = constants.look * (shape.label_entries + shape.rows) + constants.start
    blocks = sorted(
        (
            float(each[block.first : block.last].sum()) * constants.work + fixed
            for layer, each in enumerate(work)
            for block in cut(each, layer, target)
        ),
        reverse=True,
    )
    growing = growing_seconds(shape, constants)
    sending = constants.store * shape.data_bytes + np.ceil(np.log2(max(1, count))) * (
        shape.data_bytes / nodes.network
    )
    # One tree is grown by the threads of a machine; of several, each by a processor.
    together = members > 1
    free = [sending] * processors
    heapq.heapify(free)
    grown = []
    for _ in range(members):
        if together:
            ends = heapq.heappop(free) + growing
            heapq.heappush(free, ends)
        else:
            ends = sending + growing / nodes.processors
        grown.append(ends)
    for ready in sorted(grown):
        for seconds in blocks:
            heapq.heappush(free, max(heapq.heappop(free), ready) + seconds)
    model = weight_bytes(shape, constants) * members
    moved = (count - 1) * shape.data_bytes + (model if count > 1 else 0.0)
    # Blocks are written while others are trained; members and the model come after.
    coming = model / min(nodes.network, nodes.disk)
    writing = 2 * model / nodes.disk
    ended = max(max(free), sending + coming) + writing
    everything = members * (sum(blocks) + growing)
    return Cost(
        seconds=ended,
        processor_seconds=everything,
        longest=blocks[0],
        growing=growing,
        writing=writing,
        moved=moved,
        model_bytes=model,
        node_memory=node_memory(shape, constants, nodes, count, members),
        dollars=ended / 3600 * count * nodes.dollars_an_hour,
    )


def node_memory(shape: Shape, constants: Constants, nodes: Nodes, count: int, members: int) -> float:
    """Of the fullest node: the data once, and what its processes hold."""
    size = FitSize(
        shape.rows, shape.features, shape.labels, int(shape.label_entries), BRANCHING, matched=0, wrong=0
    )
    vectors = 8 * vector_entries(shape, constants)
    grows = size.to_grow(1) + 3 * vectors  # made, brought together, copied to be clustered
    at_once = min(nodes.processors, -(-members // count))
    training = nodes.processors * size.to_train(1, 1) + 8 * shape.rows * shape.features_each
    return shape.data_bytes + max(at_once * grows, training)


def constants_from(result: dict[str, Any]) -> Constants:
    """What `bench.scale` measured, as means over its runs; the last is held out."""
    runs = result["runs"][:-1]

    def rate(amount: str, seconds: str) -> float:
        return sum(run[seconds] for run in runs) / sum(run[amount] for run in runs)

    depths = np.linspace(0, 1, 5)
    power, scale = np.polyfit(
        [np.log(run["labels_each"] * run["rows"] / run["labels"]) for run in runs],
        [np.log(run["weight_bytes"] / run["labels"] / run["features_each"]) for run in runs],
        1,
    )
    shares = np.mean([np.interp(depths, *zip(*run["share"], strict=True)) for run in runs], axis=0)
    return Constants(
        work=rate("work", "train_seconds"),
        # What of it grows with the data cannot be told on sets this small: at most this much.
        look=min(run["look_seconds"] / run["looked"] for run in runs),
        aggregate=rate("whole_vectors", "aggregate_seconds"),
        cluster=rate("clustered", "cluster_seconds"),
        start=result["cluster"]["task_seconds"],
        store=result["cluster"]["put_seconds_a_byte"],
        label_bytes=float(np.exp(scale)),
        label_power=float(power),
        share=[(float(depth), float(share)) for depth, share in zip(depths, shares, strict=True)],
        skew=float(np.mean([run["skew"] for run in runs])),
        merge=float(np.mean([run["merge"] for run in runs])),
    )
