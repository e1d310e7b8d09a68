"""What the processors of a cluster do: plain functions, which know nothing of Ray."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow import _native
from hedgerow.progress import Stage
from hedgerow.storage.scratch import Scratch
from hedgerow.training.blocks import Block, TrainedBlock, TreeTask, match
from hedgerow.training.data import TrainingData
from hedgerow.training.growing import Resources, grow_tree
from hedgerow.training.ray.crew import ClusterError
from hedgerow.training.settings import TreeSettings
from hedgerow.trees.label_tree import LabelTree
from hedgerow.trees.tree_model import TreeClassifier

__all__ = ["Engine", "SharedData", "grow", "match_rows", "top_rows", "train", "work"]

Arrays = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float32] | None, int]


@dataclass(frozen=True)
class Engine:
    """Version and kernels, which must be the same on all nodes for the same bits."""

    version: str
    simd: str

    @classmethod
    def here(cls) -> Engine:
        """That of this process."""
        return cls(metadata.version("hedgerow"), _native.simd_level())

    def check(self) -> None:
        """Raise ClusterError where this process cannot compute the same bits."""
        # The first call picks the kernels: a newer processor can do what an older one does.
        os.environ.setdefault("HEDGEROW_SIMD", self.simd)
        here = Engine.here()
        if here.version != self.version:
            raise ClusterError(
                f"node {platform.node()} has hedgerow {here.version}, but the fit was started with"
                f" {self.version}; install the same version on all nodes"
            )
        if here.simd != self.simd:
            raise ClusterError(
                f"node {platform.node()} computes with {here.simd}, but the fit was started with {self.simd},"
                f" and their last bits may differ; start the fit with HEDGEROW_SIMD={here.simd}"
            )


@dataclass(frozen=True, eq=False)
class SharedData:
    """Inputs and labels as CSR arrays with their number of columns, which the processes of a node share."""

    X: Arrays
    Y: Arrays

    @classmethod
    def of(cls, data: TrainingData) -> SharedData:
        """The arrays that training data consist of, not copied."""
        return cls(data.X.arrays(), data.Y.arrays())

    def inputs(self) -> _native.Rows:
        """The inputs."""
        return _native.Rows(*self.X)

    def inputs_between(self, begin: int, end: int) -> _native.Rows:
        """Some of the inputs."""
        indptr, indices, values, columns = self.X
        part = slice(indptr[begin], indptr[end])
        some = None if values is None else values[part]
        return _native.Rows(indptr[begin : end + 1] - indptr[begin], indices[part], some, columns)

    def labels(self) -> _native.Rows:
        """The labels."""
        return _native.Rows(*self.Y)


def grow(
    engine: Engine,
    data: SharedData,
    costs: npt.NDArray[np.float32] | None,
    label_features: Any,
    settings: TreeSettings,
    seed: int,
) -> LabelTree:
    """Grow a label tree."""
    engine.check()
    indptr, indices, _, columns = data.Y
    indicator = sp.csr_array(
        (np.ones(len(indices), dtype=np.int8), indices, indptr), shape=(len(indptr) - 1, columns)
    )
    training = TrainingData(data.inputs(), data.labels(), indicator, data.X[3], None)
    return grow_tree(training, label_features, costs, settings, seed, Resources(threads=1))


def work(
    engine: Engine | None,
    data: SharedData,
    tree: LabelTree,
    negatives: Arrays | None,
    matched: Arrays | None,
    layers: list[int],
) -> list[npt.NDArray[np.float64]]:
    """How much there is to do for each node of some layers."""
    _check(engine)
    task = TreeTask(data.inputs(), data.labels(), tree, None, _rows(negatives), {})
    return [task.work(layer, _rows(matched)) for layer in layers]


@dataclass(frozen=True, eq=False)
class Solving:
    """How a block is trained: the engine's settings, and what a task may use."""

    engine: Engine | None
    settings: dict[str, Any]
    scratch: Scratch | None
    threads: int
    watch: Stage | None


def train(
    data: SharedData,
    tree: LabelTree,
    costs: npt.NDArray[np.float32] | None,
    negatives: Arrays | None,
    matched: Arrays | None,
    solving: Solving,
    block: Block,
) -> TrainedBlock:
    """Train a block."""
    _check(solving.engine)
    task = TreeTask(data.inputs(), data.labels(), tree, costs, _rows(negatives), solving.settings)
    return task.train(block, _rows(matched), solving.threads, solving.watch, solving.scratch)


def match_rows(
    engine: Engine | None,
    data: SharedData,
    above: TreeClassifier,
    beam: int,
    threads: int,
    between: tuple[int, int],
) -> npt.NDArray[np.int32]:
    """The nodes that a beam finds below some layers, for some of the inputs."""
    _check(engine)
    return match(above, data.inputs_between(*between), beam, threads)


def top_rows(
    engine: Engine | None,
    data: SharedData,
    member: TreeClassifier,
    k: int,
    beam: int,
    threads: int,
    between: tuple[int, int],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """The best k labels of some of the inputs."""
    _check(engine)
    return member.top(data.inputs_between(*between), k, beam, False, threads)


def _check(engine: Engine | None) -> None:
    """Check the engine, unless this is the process that started the fit."""
    if engine is not None:
        engine.check()


def _rows(arrays: Arrays | None) -> _native.Rows | None:
    return None if arrays is None else _native.Rows(*arrays)
