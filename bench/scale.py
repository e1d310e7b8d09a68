"""Measures the constants of `bench.scale_model`: `python -m bench.scale`.

Trees of several sizes are grown and trained block by block on one processor, and seconds are those of the
processor, so that others on the machine matter little. The last size is held out: the page tells how far the
model is off there. Then a small local cluster tells what tasks and the object store cost. Writes
`results/scale.json`; `python docs/make_scale.py` makes the page of it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench import datasets
from bench.plan import RESULTS
from hedgerow.inputs.matrices import as_indicator, as_rows
from hedgerow.training.blocks import TreeTask, block_work, cut
from hedgerow.trees.label_tree import LabelTree, aggregate_features

GENERATED = ((5_000, 10_000), (20_000, 20_000), (50_000, 40_000))
HELD_OUT = (100_000, 60_000)
SETTINGS: dict[str, Any] = {
    "negative_share": 1.0,
    "loss": "squared_hinge",
    "C": 1.0,
    "positive_cost": 1.0,
    "negative_cost": 1.0,
    "bias": 1.0,
    "tolerance": 0.1,
    "max_passes": 100,
    "weight_threshold": 0.05,
    "matcher_beam": 0,
    "normalise": True,
    "seed": 0,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    arguments = parser.parse_args()
    sets = [("debian-depends", datasets.prepare("debian-depends", arguments.data, arguments.cache))]
    for labels, rows in (*GENERATED, HELD_OUT):
        folder = datasets.prepare_generated(labels, rows, arguments.cache)
        sets.append((f"generated, {labels:,} labels, {rows:,} rows", folder))
    runs = []
    for name, folder in sets:
        train = datasets.load(folder, "trn")
        runs.append({"name": name, **measure(train.X, train.Y)})
        print(json.dumps(runs[-1]), flush=True)
    result = {"runs": runs, "cluster": measure_cluster()}
    (RESULTS / "scale.json").write_text(json.dumps(result, indent=1) + "\n")


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    value = function()
    return time.process_time() - begin, value


def measure(X: sp.csr_array, Y: sp.csr_array) -> dict[str, Any]:
    rows = as_rows(X)
    matrix, labels = as_indicator(Y, X.shape[0])
    used = np.flatnonzero(np.bincount(matrix.indices, minlength=Y.shape[1])).astype(np.int32)
    aggregated, vectors = timed(lambda: aggregate_features(rows, matrix, used, X.shape[1], None, True, 1))
    clustered, tree = timed(lambda: LabelTree.grow(vectors, used, threads=1))
    task = TreeTask(rows, labels, tree, None, None, SETTINGS)
    work = [task.work(layer, None) for layer in range(tree.depth)]
    total = sum(float(each.sum()) for each in work)
    looked = matrix.nnz + X.shape[0]
    target = block_work(total, matrix.nnz, X.shape[0], 4)
    smallest = int(np.argmin(work[-1]))
    lone = next(b for b in cut(work[-1], tree.depth - 1, 0.0) if b.first == smallest)
    look = min(timed(lambda: task.train(lone, None, 1))[0] for _ in range(25))
    seconds, kept, blocks = 0.0, 0, 0
    for layer, each in enumerate(work):
        for block in cut(each, layer, target):
            took, trained = timed(lambda block=block: task.train(block, None, 1))
            seconds, kept, blocks = seconds + took, kept + trained.weights.nbytes, blocks + 1
    each_features, each_labels = X.nnz / X.shape[0], matrix.nnz / X.shape[0]
    whole = float(np.diff(X.indptr) @ np.diff(matrix.indptr))
    per_label = matrix.nnz / len(used)
    share = []
    for layer, sizes in enumerate(work):
        children = np.diff(tree.begins[layer])
        panels = float(np.ceil(children / 16).mean())
        reached = sizes.sum() / (X.shape[0] * (each_features + 16) * panels)
        share.append([layer / max(1, tree.depth - 1), (reached - 1) / max(1e-9, each_labels - 1)])
    leaves = work[-1][work[-1] > 0]
    return {
        "rows": X.shape[0],
        "features": X.shape[1],
        "labels": len(used),
        "features_each": each_features,
        "labels_each": each_labels,
        "whole_vectors": whole,
        "aggregate_seconds": aggregated,
        "clustered": vectors.nnz * (tree.depth - 1),
        "cluster_seconds": clustered,
        "merge": float(np.log(whole / vectors.nnz) / np.log(max(1.01, per_label))),
        "work": total,
        "looked": looked,
        "look_seconds": look,
        "blocks": blocks,
        "train_seconds": seconds - blocks * look,
        "weight_bytes": kept,
        "share": share,
        "skew": float(np.log(leaves).std()),
    }


def measure_cluster() -> dict[str, float]:
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    store, size = 700_000_000, 200_000_000
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": store, "include_dashboard": False},
    )
    cluster.add_node(num_cpus=1, object_store_memory=store)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        empty = ray.remote(lambda: None)
        read = ray.remote(lambda array: array.nbytes)
        ray.get(empty.remote())
        begin = time.perf_counter()
        ray.get([empty.remote() for _ in range(500)])
        task = (time.perf_counter() - begin) / 500
        array = np.ones(size, dtype=np.uint8)
        begin = time.perf_counter()
        reference = ray.put(array)
        put = (time.perf_counter() - begin) / size
        begin = time.perf_counter()
        ray.get(read.remote(reference))
        fetch = (time.perf_counter() - begin) / size
    finally:
        ray.shutdown()
        cluster.shutdown()
    return {"task_seconds": task, "put_seconds_a_byte": put, "fetch_seconds_a_byte": fetch}


if __name__ == "__main__":
    main()
