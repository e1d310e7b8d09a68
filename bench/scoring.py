"""A million rows scored on a cluster, with a kill in the middle: `python -m bench.scoring`.

Two nodes of one processor each score files of short texts, half of them JSON lines and half Parquet, with a
small model. When half of the files are done, the command is killed; then it is given again. Every row must
have its prediction once, under its own name. Writes `results/scoring.json` and `results/scoring.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.plan import RESULTS
from hedgerow import HedgerowTextClassifier
from hedgerow.data.sample import load_sample

COMMAND = """
import sys
import ray
from hedgerow.cli import main

address, *arguments = sys.argv[1:]
ray.init(address=address, log_to_driver=False, logging_level="ERROR")
sys.exit(main(arguments))
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--folder", type=Path, default=None, help="where the files go (default: temporary)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        result = measure(Path(place), arguments.rows, arguments.files)
    (RESULTS / "scoring.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "scoring.md").write_text(table(result))
    print(table(result))


def measure(place: Path, rows: int, files: int) -> dict[str, Any]:
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    sample = load_sample()
    model = HedgerowTextClassifier(method="bagging", members=2, random_state=0)
    model.fit(sample.train_texts, sample.train_labels).save(place / "model")
    write_inputs(place / "in", sample.train_texts, rows, files)
    store = 200_000_000
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": store, "include_dashboard": False},
    )
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=store)
    try:
        asked = ["predict", str(place / "model"), str(place / "in"), "--out", str(place / "out"), "--k", "1"]
        command = [sys.executable, "-c", COMMAND, cluster.address, *asked, "--cluster", "auto"]
        begin = time.perf_counter()
        with subprocess.Popen(command) as first:
            while len(list(place.glob("out/part-*"))) < files // 2:
                if first.poll() is not None:
                    raise RuntimeError("the command ended before it was killed")
                time.sleep(0.2)
            first.send_signal(signal.SIGKILL)
        killed = time.perf_counter() - begin
        before = len(list(place.glob("out/part-*")))
        begin = time.perf_counter()
        subprocess.run(command, check=True)
        resumed = time.perf_counter() - begin
    finally:
        cluster.shutdown()
    lost, doubled = compare(place, rows)
    return {
        "rows": rows,
        "files": files,
        "seconds_until_kill": killed,
        "files_before": before,
        "seconds_after": resumed,
        "lost": lost,
        "doubled": doubled,
    }


def write_inputs(folder: Path, texts: list[str], rows: int, files: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    short = [" ".join(text.split()[:12]) for text in texts]
    for number, part in enumerate(np.array_split(np.arange(rows), files)):
        records = [{"id": str(row), "text": short[row % len(short)]} for row in part.tolist()]
        if number % 2:
            pq.write_table(pa.Table.from_pylist(records), folder / f"part-{number:03d}.parquet")
        else:
            lines = "".join(json.dumps(record) + "\n" for record in records)
            (folder / f"part-{number:03d}.jsonl").write_text(lines)


def compare(place: Path, rows: int) -> tuple[int, int]:
    """How many rows have no prediction, and how many have more than one."""
    import pyarrow.parquet as pq

    counts = np.zeros(rows, dtype=np.int64)
    for path in sorted(place.glob("out/part-*")):
        if path.suffix == ".parquet":
            ids = pq.read_table(path, columns=["id"])["id"].to_pylist()
        else:
            with path.open() as lines:
                ids = [json.loads(line)["id"] for line in lines]
        np.add.at(counts, np.array(ids, dtype=np.int64), 1)
    return int((counts == 0).sum()), int((counts > 1).sum())


def table(result: dict[str, Any]) -> str:
    return (
        f"# {result['rows']:,} rows on two nodes, killed in the middle\n\n"
        "| files | until the kill | files done | after it | rows lost | rows doubled |\n"
        "|---|---|---|---|---|---|\n"
        f"| {result['files']} | {result['seconds_until_kill']:.0f} s | {result['files_before']} |"
        f" {result['seconds_after']:.0f} s | {result['lost']} | {result['doubled']} |\n"
    )


if __name__ == "__main__":
    main()
