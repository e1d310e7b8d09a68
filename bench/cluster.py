"""Two nodes of a local Ray cluster beside two threads: `python -m bench.cluster`.

The same fit in turns, by two threads and by two nodes of one processor each, whose processes share nothing
but what Ray carries (a single tree is grown by two threads of the driver); then once more, and one of the
nodes is killed when 30 % is done. All files must be the same. Connecting to the cluster is not counted, as a
cluster is there before a fit. The driver's memory is what it holds at most that is no file, the data
included, in the first turn. Writes `results/cluster.json` and `results/cluster.md`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import datasets
from bench.out_of_core import Peaks
from bench.plan import RESULTS
from hedgerow import HedgerowClassifier

TURNS = 5


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="debian-depends")
    parser.add_argument("--method", default="single")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    arguments = parser.parse_args()
    train = datasets.load(datasets.prepare(arguments.dataset, arguments.data, arguments.cache), "trn")
    settings = {
        "method": arguments.method,
        "members": arguments.members,
        "random_state": 0,
        "n_jobs": 2,
    }
    result = measure(train, settings, arguments.turns) | {"dataset": arguments.dataset, "settings": settings}
    (RESULTS / "cluster.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "cluster.md").write_text(table(result))
    print(table(result))


def measure(train: Any, settings: dict[str, Any], turns: int) -> dict[str, Any]:
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    store = 600_000_000
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": store, "include_dashboard": False},
    )
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=store) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    threads, spread, files = [], [], set()
    peaks: dict[str, int] = {"threads": 0, "nodes": 0}
    try:
        for turn in range(turns + 1):
            for seconds, where, name in ((spread, "auto", "nodes"), (threads, None, "threads")):
                took, file, peak = fit(train, settings, where)
                files.add(file)
                if not turn:  # later ones keep room of those before them
                    peaks[name] = peak
                if turn:  # the first warms up: processes start, pages are read
                    seconds.append(took)
        alive = list(nodes)

        def lose(share: float, _: str) -> None:
            if share >= 0.3 and len(alive) == 2:
                cluster.remove_node(
                    alive.pop(), allow_graceful=False
                )  # silence tells Ray, after some seconds

        lost, file, _ = fit(train, settings, "auto", lose)
        files.add(file)
        if len(alive) == 2:
            raise RuntimeError("the fit ended before a node was killed")
    finally:
        ray.shutdown()
        cluster.shutdown()
    return {
        "threads": threads,
        "nodes": spread,
        "one_node_killed": lost,
        "distinct_files": len(files),
        "driver_bytes": peaks,
    }


def fit(
    train: Any, settings: dict[str, Any], cluster: str | None, progress: Any = None
) -> tuple[float, str, int]:
    begin = time.perf_counter()
    with Peaks() as peaks:
        model = HedgerowClassifier(**settings, cluster=cluster).fit(train.X, train.Y, progress=progress)
    took = time.perf_counter() - begin
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.hedgerow"
        model.save(path)
        return took, hashlib.sha256(path.read_bytes()).hexdigest(), peaks.anonymous


def row(name: str, seconds: list[float], memory: int) -> str:
    times = f"{statistics.median(seconds):.1f} | {min(seconds):.1f}"
    return f"| {name} | {times} | {memory / 1e6:.0f} MB |"


def table(result: dict[str, Any]) -> str:
    threads, nodes, lost = result["threads"], result["nodes"], result["one_node_killed"]
    memory = result["driver_bytes"]
    ratios = [there / here for there, here in zip(nodes, threads, strict=True)]
    lines = [
        f"# Two nodes beside two threads, {result['dataset']}, {result['settings']['method']}",
        "",
        f"{len(nodes)} fits each, in turns; distinct model files: {result['distinct_files']}. Two nodes to"
        f" two threads: {statistics.median(ratios):.2f} in the median of the turns ({min(ratios):.2f} to"
        f" {max(ratios):.2f}).",
        "",
        "| fit | median seconds | best | memory of the driver |",
        "|---|---|---|---|",
        row("two threads", threads, memory["threads"]),
        row("two nodes of one processor", nodes, memory["nodes"]),
        f"| two nodes, one killed at 30 % | {lost:.1f} | {lost:.1f} | |",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
