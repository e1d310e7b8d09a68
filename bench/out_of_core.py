"""Fits within a memory budget beside an ordinary one: `python -m bench.out_of_core`.

The generated set with 200,000 labels is mapped from disk and fitted in processes of their own: without a
budget, within 6 GB, and within less than the ordinary fit takes. All files must be the same. Memory is
what the kernel counts, read a hundred times a second: what is no file (the budget is about this), and all.
Writes `results/out_of_core.json` and `results/out_of_core.md`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench import datasets
from bench.plan import RESULTS
from hedgerow.data import map_data

BUDGETS = (None, "6GB", "700MB")
PROGRAM = """
import json, sys, time
from pathlib import Path
from bench.out_of_core import Peaks
from hedgerow import HedgerowClassifier
from hedgerow.data import read_part

mapped, model, memory, threads = sys.argv[1:]
part = read_part(mapped, "train")
with Peaks() as peaks:
    begin = time.perf_counter()
    fitted = HedgerowClassifier(random_state=0, n_jobs=int(threads), memory=json.loads(memory))
    fitted.fit(part.X, part.Y)
    seconds = time.perf_counter() - begin
fitted.save(model)
print(json.dumps({"seconds": seconds, "anonymous": peaks.anonymous, "resident": peaks.resident}))
"""


class Peaks:
    """The most memory that this process has while the block runs."""

    def __enter__(self) -> Peaks:
        self.anonymous = self.resident = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            counters = dict(
                line.split(":", 1)
                for line in Path("/proc/self/status").read_text().splitlines()
                if "kB" in line
            )
            self.anonymous = max(self.anonymous, int(counters["RssAnon"].split()[0]) * 1024)
            self.resident = max(self.resident, int(counters["VmRSS"].split()[0]) * 1024)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labels", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    arguments = parser.parse_args()
    folder = datasets.prepare_generated(arguments.labels, arguments.rows, arguments.cache)
    runs = []
    with tempfile.TemporaryDirectory(dir=arguments.cache) as place:
        mapped, model = Path(place, "mapped"), Path(place, "model")
        map_data(folder, mapped)
        for budget in BUDGETS:
            command = [
                sys.executable,
                "-c",
                PROGRAM,
                mapped,
                model,
                json.dumps(budget),
                str(arguments.threads),
            ]
            begin = time.perf_counter()
            ended = subprocess.run(command, check=True, capture_output=True, text=True)
            digest = hashlib.sha256(model.read_bytes()).hexdigest()
            runs.append({"budget": budget, "file": digest, **json.loads(ended.stdout)})
            model.unlink()
            print(budget, runs[-1], f"{time.perf_counter() - begin:.0f} s", flush=True)
        size = sum(path.stat().st_size for path in mapped.glob("*.npy"))
    result = {"labels": arguments.labels, "rows": arguments.rows, "bytes_of_data": size, "runs": runs}
    (RESULTS / "out_of_core.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "out_of_core.md").write_text(table(result))
    print(table(result))


def table(result: dict[str, Any]) -> str:
    files = len({run["file"] for run in result["runs"]})
    lines = [
        f"# A memory budget, {result['labels']:,} labels, {result['rows']:,} rows",
        "",
        f"Data on disk: {result['bytes_of_data'] / 1e6:,.0f} MB. Distinct model files: {files}. Peaks of the"
        " whole process during the fit; mapped files are resident as long as nobody else needs the room.",
        "",
        "| budget | seconds | memory that is no file | resident |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {run['budget'] or 'none'} | {run['seconds']:.1f} | {run['anonymous'] / 1e6:,.0f} MB |"
        f" {run['resident'] / 1e6:,.0f} MB |"
        for run in result["runs"]
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
