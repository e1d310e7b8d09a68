"""Ratios on a machine whose speed changes: `python -m bench.paired`.

A shared machine is faster at one minute than at the next, and a ratio of times taken an hour apart says
little. Here PECOS and Hedgerow predict in turns, round after round, each in a process of its own that stays
loaded; the ratio is taken within each round. Writes `results/raw/*.paired.json`, `results/paired.json` and
`results/paired.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets, machine, measure
from bench.plan import PYTHONS, RAW, RESULTS, ROOT, Run, store

NAMES = ("eurlex-4k", "tibkat-en", "debian-depends")
ROUNDS = 5
GOOD_BEAMS = {
    "eurlex-4k": 15,
    "tibkat-en": 10,
    "debian-depends": 10,
}  # where bench.ensembles has measured none


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    arguments = parser.parse_args()
    for name in arguments.datasets:
        folder = datasets.prepare(name, arguments.data, arguments.cache).resolve()
        result = pair(name, folder, arguments.rounds)
        store(RAW / f"{name}.paired.json", result)
    found = {
        name: json.loads(path.read_text()) for name in NAMES if (path := RAW / f"{name}.paired.json").exists()
    }
    described = machine.describe(PYTHONS)
    (RESULTS / "paired.json").write_text(json.dumps({"machine": described} | found, indent=1) + "\n")
    (RESULTS / "paired.md").write_text(markdown(found))


def contenders(name: str) -> dict[str, tuple[str, str, str]]:
    """System, setting and layout of everyone who takes part."""
    layout = (Run(name, "pecos", "tfn").result() or {}).get("batch_layout", "HASH_CHUNKED")
    measured = RAW / f"{name}.ensembles.cost.json"
    beam = json.loads(measured.read_text())["beam"] if measured.exists() else GOOD_BEAMS[name]
    return {
        "pecos": ("pecos", "tfn", layout),
        "paper": ("hedgerow", "paper-tfn", ""),
        "default": ("hedgerow", "default-tfn", ""),
        "ensemble": ("ensemble", "bagging", str(beam)),
        "ensemble at beam 50": ("ensemble", "bagging", "50"),
    }


def pair(name: str, folder: Path, rounds: int) -> dict[str, Any]:
    """Fit everyone once, then let them predict in turns."""
    measure.WORK.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=measure.WORK))
    fits: dict[str, Any] = {}
    models: dict[tuple[str, str], Path] = {}
    try:
        taking_part = contenders(name)
        for who, (system, setting, _) in taking_part.items():
            if (system, setting) in models:
                continue
            models[system, setting] = work / who / "model"
            models[system, setting].parent.mkdir()
            command = program(system, folder, setting, models[system, setting], "")
            subprocess.run([*command, "--step", "fit"], cwd=ROOT, check=True, stdout=sys.stderr)
            fits[who] = json.loads(measure.result_file(models[system, setting]).read_text())
            print(name, who, fits[who], flush=True)
        taken: list[dict[str, Any]] = []
        with contextlib.ExitStack() as open_ones:
            servers = {
                who: open_ones.enter_context(
                    serving(program(system, folder, setting, models[system, setting], layout))
                )
                for who, (system, setting, layout) in taking_part.items()
            }
            for _ in range(rounds):
                taken.append({who: ask(server) for who, server in servers.items()})
                print(name, taken[-1], flush=True)
        return {"contenders": taking_part, "fits": fits, "rounds": taken}
    finally:
        shutil.rmtree(work)


def program(system: str, folder: Path, setting: str, model: Path, layout: str) -> list[str]:
    python = PYTHONS["peers" if system == "pecos" else "hedgerow"]
    return [
        *(str(python), "-m", f"bench.run_{system}", str(folder), setting),
        *("--model", str(model), "--layout", layout),
    ]


@contextlib.contextmanager
def serving(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that predicts when it is told to."""
    server = subprocess.Popen(
        [*command, "--step", "serve"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        if server.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{' '.join(command)} did not start")
        yield server
    finally:
        assert server.stdin is not None
        server.stdin.close()
        server.wait(60)


def ask(server: subprocess.Popen[str]) -> dict[str, float]:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write("go\n")
    server.stdin.flush()
    answer: dict[str, float] = json.loads(server.stdout.readline())
    return answer


ROWS = (
    # title, contender, figure, goal: PECOS's time over ours, at least
    ("fit, one model", "paper", "fit", 5.0),
    ("batch, paper's threshold", "paper", "batch", 4.0),
    ("batch, default threshold", "default", "batch", 8.0),
    ("one input, p50, paper's threshold", "paper", "p50", 5.0),
    ("one input, p99, paper's threshold", "paper", "p99", 5.0),
    ("one input, p50, default threshold", "default", "p50", 5.0),
    ("one input, p99, default threshold", "default", "p99", 5.0),
    ("one input, threads share it, p50, paper's threshold", "paper", "p50 shared", 5.0),
    ("one input, threads share it, p99, paper's threshold", "paper", "p99 shared", 5.0),
    ("one input, threads share it, p50, default threshold", "default", "p50 shared", 5.0),
    ("one input, threads share it, p99, default threshold", "default", "p99 shared", 5.0),
    ("fit, ten bagged members", "ensemble", "fit", 1.0),
    ("batch, ten members with uncertainty, smallest good beam", "ensemble", "batch", 1.0),
    ("batch, ten members with uncertainty, beam 50", "ensemble at beam 50", "batch", 1.0),
    ("one input, ten members with uncertainty, p50", "ensemble", "p50", 1.0),
)


def markdown(found: dict[str, Any]) -> str:
    """PECOS's time over ours: the median of the rounds, and their range."""
    lines = [
        "# In turns with PECOS",
        "",
        f"PECOS's time over Hedgerow's, {measure.THREADS} threads (1 for single inputs, unless they share"
        " it): median and range of the rounds. In each, everyone predicts the whole test set and then"
        " single inputs, by turns on one thread and on both. Fits were made once each. Bold: at least the"
        " goal. The smallest good beam is that of the table on ensembles.",
        "",
        "| what | goal | " + " | ".join(found) + " |",
        "|---|---|" + "---|" * len(found),
    ]
    for title, who, figure, goal in ROWS:
        cells = []
        for result in found.values():
            if figure == "fit":
                ratios = [result["fits"]["pecos"]["fit_seconds"] / result["fits"][who]["fit_seconds"]]
            elif figure not in result["rounds"][0]["pecos"]:  # of an earlier run
                ratios = [np.nan]
            else:
                ratios = [taken["pecos"][figure] / taken[who][figure] for taken in result["rounds"]]
            middle = float(np.median(ratios))
            text = "n/a" if np.isnan(middle) else f"{middle:.1f}" if middle >= 2 else f"{middle:.2f}"
            cell = f"**{text}**" if middle >= goal else text
            if len(ratios) > 1:
                cell += f" ({min(ratios):.1f} to {max(ratios):.1f})"
            cells.append(cell)
        lines.append(f"| {title} | ≥ {goal:g} | " + " | ".join(cells) + " |")
    milliseconds = [
        f"{1e3 * np.median([taken['ensemble']['p50'] for taken in result['rounds']]):.2f} ms on {name}"
        for name, result in found.items()
    ]
    lines += [
        "",
        "One input with the uncertainties of ten members, median: " + ", ".join(milliseconds) + ".",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
