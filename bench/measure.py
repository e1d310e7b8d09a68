"""Measure one system under one setting on one data set.

The `run_*` programs print the result as one JSON line. Fitting, batch prediction and prediction of one input
at a time each run in a fresh process, so that what one leaves in memory or in a thread pool does not help or
hurt the next. A process that dies, runs out of memory or out of time is a result too: it is reported under
`died`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from bench import memory, ranked
from bench.datasets import load

BEAM = 50
TOP = 100
THREADS = 2
REPEATS = 3
REPEAT_SECONDS = 60.0  # no further repeat of a batch after this long
SINGLE_ROWS = 1000
SERVED_ROWS = 600
WORK = Path(__file__).parent / "work"


class System(Protocol):
    """A library under one setting. What `load` returns is handed back to `predict`."""

    settings: dict[str, Any]
    layouts: tuple[str, ...]  # ways to hold a model for serving; the fastest one counts

    def read(self, folder: Path) -> Any: ...
    def fit(self, data: Any, model_folder: Path) -> Any: ...
    def save(self, model: Any, model_folder: Path) -> None: ...
    def load(self, model_folder: Path, layout: str, threads: int) -> Any: ...
    def predict(self, model: Any, X: sp.csr_matrix) -> Any: ...
    def labels(self, predicted: Any) -> np.ndarray: ...


def fit(system: System, folder: Path, model_folder: Path) -> dict[str, Any]:
    """Time and weigh one fit; the data are in memory before the clock starts."""
    data = system.read(folder)
    base = memory.start_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    model = system.fit(data, model_folder)
    result = {
        "fit_seconds": time.perf_counter() - wall,
        "fit_cpu_seconds": time.process_time() - cpu,
        "fit_peak_bytes": memory.peak_bytes() - base,
    }
    system.save(model, model_folder)
    result["model_disk_bytes"] = _disk_bytes(model_folder)
    return result


def _disk_bytes(path: Path) -> int:
    """Size of a model that is one file or a folder of files."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def predict_batch(system: System, folder: Path, model_folder: Path, layout: str) -> dict[str, Any]:
    """Predict all test rows at once on `THREADS` threads; the best of `REPEATS` counts."""
    X, Y = load(folder, "tst")
    base = memory.start_peak()
    model = system.load(model_folder, layout, THREADS)
    result: dict[str, Any] = {"model_memory_bytes": memory.resident_bytes() - base}
    walls: list[float] = []
    cpus: list[float] = []
    while len(walls) < REPEATS and sum(walls) < REPEAT_SECONDS:
        wall, cpu = time.perf_counter(), time.process_time()
        predicted = system.predict(model, X)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    result["predict_peak_bytes"] = memory.peak_bytes() - base
    result["batch_seconds_per_row"] = min(walls) / X.shape[0]
    result["batch_cpu_seconds_per_row"] = min(cpus) / X.shape[0]
    result["batch_repeats"] = len(walls)
    return result | precision(system.labels(predicted), Y)


def predict_single(system: System, folder: Path, model_folder: Path, layout: str) -> dict[str, Any]:
    """Predict rows one at a time on one thread."""
    X = load(folder, "tst").X
    sample = np.linspace(0, X.shape[0] - 1, min(SINGLE_ROWS, X.shape[0])).astype(int)
    rows = [X[row] for row in sample]
    model = system.load(model_folder, layout, 1)
    for row in rows[:10]:
        system.predict(model, row)
    seconds = np.empty(len(rows))
    for position, row in enumerate(rows):
        start = time.perf_counter()
        system.predict(model, row)
        seconds[position] = time.perf_counter() - start
    return {
        "single_p50_seconds": float(np.percentile(seconds, 50)),
        "single_p99_seconds": float(np.percentile(seconds, 99)),
        "single_rows": len(rows),
    }


def precision(predicted: np.ndarray, Y: sp.csr_matrix) -> dict[str, float]:
    """P@1, P@3 and P@5 in percent over rows that have labels; `predicted` (n, >=5) is padded with -1."""
    labelled = np.flatnonzero(np.diff(Y.indptr))
    top = predicted[labelled, :5]
    hit = np.asarray(Y[labelled[:, None], np.maximum(top, 0)].todense()).astype(bool) & (top >= 0)
    return {f"p@{k}": float(100 * hit[:, :k].mean()) for k in (1, 3, 5)}


def main(make: Callable[[str, int], System], settings: tuple[str, ...]) -> None:
    """Run the command line of a `run_*` program: `make` builds the system of a named setting and a seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="a folder made by bench.datasets")
    parser.add_argument("setting", choices=settings)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranked", type=Path, help="only fit, and write the answers to this npz file")
    add_limits(parser)
    parser.add_argument("--step", choices=("fit", "batch", "single", "serve", "rank"), help=argparse.SUPPRESS)
    parser.add_argument("--layout", help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    system = make(arguments.setting, arguments.seed)
    if arguments.step == "serve":
        serve(system, make(arguments.setting, arguments.seed), arguments)
    elif arguments.step:
        _step(system, arguments)
    elif arguments.ranked:
        print(json.dumps(_fit_and_rank(system, arguments)))
    else:
        print(json.dumps(_all_steps(system, arguments)))


def serve(system: System, single: System, arguments: argparse.Namespace) -> None:
    """Stay loaded; for every line from stdin predict a batch and single inputs, and print their times."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print to stdout; that is now for answers only
    X = load(arguments.folder, "tst").X
    rows = [X[row] for row in np.linspace(0, X.shape[0] - 1, min(SERVED_ROWS, X.shape[0])).astype(int)]
    batch_model = system.load(arguments.model, arguments.layout, THREADS)
    single_model = single.load(arguments.model, arguments.layout, 1)
    system.predict(batch_model, X[:100])
    for row in rows[:10]:
        single.predict(single_model, row)
    # Rows go to one and the other by turns, and no row to both: the second would find it in the cache.
    ways = {"": (single, single_model), " shared": (system, batch_model)}
    print("ready", file=channel, flush=True)
    for number, _ in enumerate(sys.stdin):
        start = time.perf_counter()
        system.predict(batch_model, X)
        answer = {"batch": (time.perf_counter() - start) / X.shape[0]}
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for place, row in enumerate(rows):
            way = list(ways)[(place + number) % 2]
            by, model = ways[way]
            start = time.perf_counter()
            by.predict(model, row)
            seconds[way].append(time.perf_counter() - start)
        for way, taken in seconds.items():
            answer |= {f"p{q}{way}": float(np.percentile(taken, q)) for q in (50, 99)}
        print(json.dumps(answer), file=channel, flush=True)


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add the options for what a step may use."""
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds a step (default: %(default)s)")
    parser.add_argument("--memory", type=float, default=20.0, help="gigabytes a step (default: %(default)s)")


def _step(system: System, arguments: argparse.Namespace) -> None:
    memory.cap(arguments.memory)
    if arguments.step == "fit":
        result = fit(system, arguments.folder, arguments.model)
    elif arguments.step == "batch":
        result = predict_batch(system, arguments.folder, arguments.model, arguments.layout)
    elif arguments.step == "rank":
        model = system.load(arguments.model, arguments.layout, THREADS)
        ranked.save(arguments.ranked, ranked.rank(system, model, load(arguments.folder, "tst").X))
        result = {}
    else:
        result = predict_single(system, arguments.folder, arguments.model, arguments.layout)
    result_file(arguments.model).write_text(json.dumps(result))


def _all_steps(system: System, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run every step in its own process and merge what they found."""
    start = time.perf_counter()
    busy = os.getloadavg()[0]  # above 0, others were at work and the wall times are too high
    WORK.mkdir(exist_ok=True)
    model_folder = Path(tempfile.mkdtemp(dir=WORK)) / "model"
    result: dict[str, Any] = {"settings": system.settings, "threads": THREADS, "beam": BEAM, "top": TOP}
    layouts: dict[str, dict[str, Any]] = {}
    deaths: list[str] = []
    try:
        result |= _run_step(arguments, model_folder, "fit", "")
        for layout in system.layouts:
            try:
                batch = _run_step(arguments, model_folder, "batch", layout)
                layouts[layout] = batch | _run_step(arguments, model_folder, "single", layout)
            except StepDiedError as death:
                deaths.append(str(death))
    except StepDiedError as death:
        deaths.append(str(death))
    finally:
        shutil.rmtree(model_folder.parent)
    if layouts:
        result |= _best_layout(layouts)
    if deaths:
        result["died"] = "; ".join(deaths)
    return result | {"total_seconds": time.perf_counter() - start, "load_before": busy}


def _fit_and_rank(system: System, arguments: argparse.Namespace) -> dict[str, Any]:
    """Fit, and write the answers to the test rows; both in a process of their own."""
    busy = os.getloadavg()[0]
    WORK.mkdir(exist_ok=True)
    model_folder = Path(tempfile.mkdtemp(dir=WORK)) / "model"
    result: dict[str, Any] = {"settings": system.settings, "threads": THREADS, "load_before": busy}
    try:
        result |= _run_step(arguments, model_folder, "fit", "")
        _run_step(arguments, model_folder, "rank", system.layouts[0])
    except StepDiedError as death:
        result["died"] = str(death)
    finally:
        shutil.rmtree(model_folder.parent)
    return result


def _best_layout(layouts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Take the fastest layout for batches and for single inputs, and the smallest for memory."""
    batch = min(layouts, key=lambda name: layouts[name]["batch_seconds_per_row"])
    single = min(layouts, key=lambda name: layouts[name]["single_p50_seconds"])
    best = layouts[batch] | {
        name: layouts[single][name] for name in ("single_p50_seconds", "single_p99_seconds")
    }
    for name in ("model_memory_bytes", "predict_peak_bytes"):
        best[name] = min(layout[name] for layout in layouts.values())
    return best | {"batch_layout": batch, "single_layout": single, "layouts": layouts}


class StepDiedError(RuntimeError):
    """A step ended without a result."""


def _run_step(arguments: argparse.Namespace, model_folder: Path, step: str, layout: str) -> dict[str, Any]:
    program = f"bench.{Path(sys.argv[0]).stem}"
    command = [sys.executable, "-m", program, str(arguments.folder), arguments.setting, "--step", step]
    command += ["--model", str(model_folder), "--layout", layout, "--memory", str(arguments.memory)]
    command += ["--seed", str(arguments.seed)]
    if arguments.ranked:
        command += ["--ranked", str(arguments.ranked)]
    try:
        # Libraries print to stdout; ours is for the one JSON line.
        ended = subprocess.run(command, stdout=sys.stderr, timeout=arguments.timeout)
    except subprocess.TimeoutExpired:
        raise StepDiedError(
            f"{step} {layout}".strip() + f": no end after {arguments.timeout:.0f} s"
        ) from None
    if ended.returncode:
        raise StepDiedError(f"{step} {layout}".strip() + f": exit status {ended.returncode}")
    return json.loads(result_file(model_folder).read_text())


def result_file(model_folder: Path) -> Path:
    return model_folder.with_name("step.json")
