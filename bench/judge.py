"""What a judge costs when it predicts: `python -m bench.judge`.

Models of the preset balanced, a single one and ten bagged members, fitted to 85 % of the training rows and
asked about others of them; test rows are not read. Search, scorers and judge run in turns, round after round,
on one thread; what a search does for the judge alone counts as the scorers'. A share is that of a round, and
the median of the rounds is shown. Writes `results/judge.json` and `results/judge.md`, which
docs/results/judge.md shows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets, machine
from bench.plan import PYTHONS, RESULTS
from hedgerow import HedgerowClassifier, preset_parameters

MODELS: dict[str, dict[str, Any]] = {
    "single": {"method": "single"},
    "ten bagged": {"method": "bagging", "members": 10},
}
NAMES = ("eurlex-4k", "debian-tags", "tibkat-en", "debian-depends")
ASKED, ROUNDS, GOAL = 2000, 11, 0.2
STEPS = ("search", "scorers", "judge")


def measured(name: str, folder: Path, kind: str, rounds: int) -> dict[str, Any]:
    """Fit one model, then let it judge rows that it has not seen."""
    X, Y = datasets.load(folder, "trn")
    order = np.random.default_rng(7).permutation(X.shape[0])
    cut = int(0.85 * len(order))
    learn, ask = order[:cut], order[cut:][:ASKED]
    own = MODELS[kind]
    chosen = preset_parameters("balanced", X[learn], Y[learn], **own)
    model = HedgerowClassifier(random_state=0, n_jobs=-1, **(own | chosen)).fit(X[learn], Y[learn])
    result: dict[str, Any] = {"dataset": name, "model": kind, "judge": model.source.judge is not None}
    return result | (costs(model, X[ask], rounds) if result["judge"] else {})


def costs(model: HedgerowClassifier, X: Any, rounds: int) -> dict[str, Any]:
    """Microseconds of each step for an input, and the share of the search that judging takes, by round."""
    source = replace(model.source, threads=1)
    assert source.judge is not None
    assert source.scorers is not None
    judge, scorers, forest = source.judge, source.scorers, source.forest
    rows = source.reader.read(X, 1).rows
    plain = replace(source.search, candidates=source.finding.candidates)
    taken, shares = [], []
    for _ in range(rounds + 1):
        search, found = timed(lambda: forest.votes(rows, 5, plain, 1))
        if source.finding != plain:
            judged, found = timed(lambda: forest.votes(rows, 5, source.finding, 1))
        else:
            judged = search
        given = (rows, found.indptr, found.labels, 1, found.classifiers)
        scored, scores = timed(lambda given=given: scorers.score(*given))
        said = (found.labels, found.probs, scores, 1)
        last, _ = timed(lambda said=said: judge.apply(*said))
        taken.append((search, judged - search + scored, last))
        shares.append((judged - search + scored + last) / search)
    # The first round pays for what is made when it is needed first.
    each = np.median(taken[1:], axis=0) / X.shape[0] * 1e6
    return {
        "candidates": len(found.labels) / X.shape[0],
        "microseconds": dict(zip(STEPS, each.tolist(), strict=True)),
        "shares": shares[1:],
    }


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of this thread."""
    begin = time.thread_time()
    result = work()
    return time.thread_time() - begin, result


def markdown(about: dict[str, Any], runs: list[dict[str, Any]]) -> str:
    lines = [
        f"**Machine**: {about['cpu']}, {about['cores']} cores, {about['memory_bytes'] / 2**30:.0f} GiB,"
        f" {about['date']}; one thread, processor time per input, preset balanced. Goal: at most"
        f" {100 * GOAL:.0f} % of the search.",
        "",
        "| data, model | candidates | search µs | scorers µs | judge µs | scorers and judge / search, % |",
        "|---|---|---|---|---|---|",
    ]
    for run in runs:
        case = f"{run['dataset']}, {run['model']}"
        if not run["judge"]:
            lines.append(f"| {case} | no judge: it did not rank better | | | | |")
            continue
        steps = " | ".join(f"{run['microseconds'][step]:.0f}" for step in STEPS)
        low, middle, high = 100 * np.quantile(run["shares"], (0, 0.5, 1))
        share = f"**{middle:.0f}**" if middle <= 100 * GOAL else f"{middle:.0f}"
        lines.append(f"| {case} | {run['candidates']:,.0f} | {steps} | {share} ({low:.0f} to {high:.0f}) |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    asked = parser.parse_args()
    stored = RESULTS / "judge.json"
    kept = json.loads(stored.read_text())["runs"] if stored.exists() else []
    runs = {(run["dataset"], run["model"]): run for run in kept}
    for name in asked.datasets:
        folder = datasets.prepare(name, asked.data, asked.cache)
        for kind in MODELS:
            runs[name, kind] = measured(name, folder, kind, asked.rounds)
            print(json.dumps(runs[name, kind]), flush=True)
    about = machine.describe(PYTHONS)
    ordered = [runs[name, kind] for name in NAMES for kind in MODELS if (name, kind) in runs]
    stored.write_text(json.dumps({"machine": about, "runs": ordered}, indent=1) + "\n")
    stored.with_suffix(".md").write_text(markdown(about, ordered))


if __name__ == "__main__":
    main()
