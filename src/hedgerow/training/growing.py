"""Grows the label tree of a member from the inputs that it sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from hedgerow.inputs.matrices import as_rows
from hedgerow.progress import Stage
from hedgerow.storage.scratch import Scratch
from hedgerow.training.data import Costs, TrainingData
from hedgerow.training.settings import TreeSettings
from hedgerow.trees.label_tree import LabelTree, aggregate_features, aggregate_to_files, grow_over

__all__ = ["Resources", "grow_tree"]


@dataclass(frozen=True)
class Resources:
    """What a step of a fit may use: threads (0: all processors), and files for large arrays."""

    threads: int = 0
    scratch: Scratch | None = None


def grow_tree(
    data: TrainingData,
    label_features: Any,
    costs: Costs,
    settings: TreeSettings,
    seed: int,
    resources: Resources,
    progress: Stage | None = None,
) -> LabelTree:
    """Cluster the labels of the inputs that have a cost, by `label_features` or by the inputs themselves."""
    threads, scratch = resources.threads, resources.scratch
    Y = data.indicator
    taught = Y if costs is None else Y[costs > 0]
    used = np.flatnonzero(np.bincount(taught.indices, minlength=Y.shape[1])).astype(np.int32)
    if not used.size:
        raise ValueError("no input with a weight above 0 has a label, so there is nothing to learn")
    if label_features is None:
        of_inputs = (data.X, Y, used, data.width, costs, settings.normalize, threads)
        alive = progress and (lambda _: progress(0.0))
        if scratch is None:
            vectors = as_rows(aggregate_features(*of_inputs, alive), "label_features", threads=threads)
        else:
            vectors = aggregate_to_files(*of_inputs, alive, scratch)
    else:
        as_rows(label_features, "label_features", threads=threads)
        given = sp.csr_array(label_features)
        if given.shape[0] != Y.shape[1]:
            raise ValueError(f"label_features has {given.shape[0]} rows, but Y has {Y.shape[1]} columns")
        vectors = as_rows(given[used], "label_features", threads=threads)
    return grow_over(
        vectors,
        used,
        branching=settings.branching,
        leaf_size=settings.leaf_size,
        seed=seed,
        threads=threads,
        progress=progress,
        scratch=scratch,
    )
