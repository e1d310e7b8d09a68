"""What the judge costs when it predicts, and what else it could see: `python -m bench.judge`.

Models of the preset balanced, a single one and ten bagged members, fitted to 85 % of the training rows and
asked about others of them; test rows are not read. The cost of each step is processor time of one thread.
Rank and spread of the members are tried as further evidence of the judge's polynomial, which half of these
others teaches and the other half judges, in turns. Writes `results/judge.json` and `results/judge.md`, which
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
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from bench import datasets, machine
from bench.plan import PYTHONS, RESULTS
from hedgerow import HedgerowClassifier, preset_parameters
from hedgerow.judge.judge_fitting import ranking_quality
from hedgerow.judge.judging import surprise, terms

TEN: dict[str, Any] = {"method": "bagging", "members": 10}
MODELS: dict[str, dict[str, Any]] = {"single": {"method": "single"}, "ten bagged": TEN}
NAMES = ("eurlex-4k", "tibkat-en", "debian-depends")
ASKED, BEST, REPEATS = 2000, 100, 5
Floats = np.ndarray


def measured(name: str, folder: Path, kind: str, seed: int, rows: int | None) -> dict[str, Any]:
    """Fit one model, then measure steps and evidence on rows that it has not seen."""
    X, Y = datasets.load(folder, "trn")
    order = np.random.default_rng([7, seed]).permutation(X.shape[0])[:rows]
    cut = int(0.85 * len(order))
    learn, ask = order[:cut], order[cut:][:ASKED]
    own = MODELS[kind]
    chosen = preset_parameters("balanced", X[learn], Y[learn], **own)
    model = HedgerowClassifier(random_state=seed, n_jobs=-1, **(own | chosen)).fit(X[learn], Y[learn])
    result: dict[str, Any] = {"dataset": name, "model": kind, "seed": seed, "rows": len(learn)}
    if model.source.judge is None:
        return result | {"judge": False}
    return result | {"judge": True} | steps_and_evidence(model, X[ask], Y[ask])


def steps_and_evidence(model: HedgerowClassifier, X: sp.csr_matrix, Y: sp.csr_matrix) -> dict[str, Any]:
    source = replace(model.source, threads=1)
    rows = source.reader.read(X, 1).rows
    searched, found = timed(lambda: source.forest.votes(rows, 5, source.finding, 1))
    scored, scores = timed(lambda: source.scorers.score(rows, found.indptr, found.labels, 1))
    judged, _ = timed(lambda: source.judge.apply(found.labels, found.probs, scores, 1))
    each = 1e6 / X.shape[0]
    cost = {"search": searched * each, "scorers": scored * each, "judge": judged * each}
    evidence = source.judge.evidence(found.labels, found.probs, scores)
    return {
        "microseconds": cost,
        "candidates": len(found.labels) / X.shape[0],
        "evidence": compared(evidence, found, sp.csr_array(Y)),
    }


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """The least processor seconds of this thread, of several rounds."""
    taken = []
    for _ in range(REPEATS):
        begin = time.thread_time()
        result = work()
        taken.append(time.thread_time() - begin)
    return min(taken), result


def compared(evidence: Floats, found: Any, truth: sp.csr_array) -> dict[str, dict[str, float]]:
    """nDCG@5 and P@1 of polynomials that see what the judge sees, and rank or spread of the members, too."""
    inputs = np.repeat(np.arange(truth.shape[0]), np.diff(found.indptr))
    order = np.lexsort((evidence[:, 0], inputs))
    place = np.empty(len(order))
    place[order] = np.arange(len(order)) - np.repeat(found.indptr[:-1], np.diff(found.indptr))
    kept = place < BEST
    true = np.asarray(truth[inputs[kept], found.labels[kept]]).ravel() != 0
    inputs, rank = inputs[kept], np.log1p(place[kept])
    spread = surprise(found.probs[kept]).std(axis=1)
    seen, last = evidence[kept, :-1], evidence[kept, -1]
    more = {"as it is": [], "rank": [rank]}
    if found.probs.shape[1] > 1:
        more |= {"spread": [spread], "rank and spread": [rank, spread]}
    return {name: crossed(np.column_stack([seen, *own, last]), true, inputs) for name, own in more.items()}


def crossed(evidence: Floats, true: np.ndarray, inputs: np.ndarray) -> dict[str, float]:
    features, figures = terms(evidence)[:, 1:], []
    for half in (0, 1):
        teach = inputs % 2 == half
        fitted = LogisticRegression(C=1.0, max_iter=3000, solver="newton-cholesky")
        log_odds = fitted.fit(features[teach], true[teach]).decision_function(features[~teach])
        own, given = true[~teach], inputs[~teach]
        figures.append((ranking_quality(log_odds, own, given), precision_at_1(log_odds, own, given)))
    ndcg, precision = 100 * np.mean(figures, axis=0)
    return {"ndcg@5": float(ndcg), "p@1": float(precision)}


def precision_at_1(scores: Floats, true: np.ndarray, inputs: np.ndarray) -> float:
    """How often the best candidate is true, over inputs that have a true one."""
    order = np.lexsort((-scores, inputs))
    begins = np.flatnonzero(np.diff(inputs[order], prepend=-1))
    found = np.add.reduceat(true[order].astype(int), begins) > 0
    return float(true[order][begins][found].mean())


def markdown(about: dict[str, Any], runs: list[dict[str, Any]]) -> str:
    lines = [
        f"**Machine**: {about['cpu']}, {about['cores']} cores, {about['memory_bytes'] / 2**30:.0f} GiB,"
        f" {about['date']}; one thread, processor time per input, preset balanced.",
        "",
        "| data, model | candidates | search µs | scorers µs | judge µs | scorers / search | judge / search |",
        "|---|---|---|---|---|---|---|",
    ]
    cases = list(dict.fromkeys((run["dataset"], run["model"]) for run in runs if run["judge"]))
    for case in cases:
        own = [run for run in runs if (run["dataset"], run["model"]) == case and run["judge"]]
        search, scorers, judge = (
            np.mean([run["microseconds"][step] for run in own]) for step in ("search", "scorers", "judge")
        )
        candidates = np.mean([run["candidates"] for run in own])
        lines.append(
            f"| {', '.join(case)} | {candidates:,.0f} | {search:.0f} | {scorers:.0f} | {judge:.0f}"
            f" | {scorers / search:.2f} | {judge / search:.2f} |"
        )
    lines += ["", "| data, model, what the judge sees | nDCG@5 | P@1 | seeds |", "|---|---|---|---|"]
    for case in cases:
        own = [run for run in runs if (run["dataset"], run["model"]) == case and run["judge"]]
        for name in own[0]["evidence"]:
            figures = [[run["evidence"][name][key] for run in own] for key in ("ndcg@5", "p@1")]
            shown = " | ".join(f"{np.mean(values):.2f}" for values in figures)
            lines.append(f"| {', '.join(case)}, {name} | {shown} | {len(own)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="at most so many training rows")
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    asked = parser.parse_args()
    runs = []
    for name in asked.datasets:
        folder = datasets.prepare(name, asked.data, asked.cache)
        for kind in MODELS:
            for seed in range(asked.seeds):
                runs.append(measured(name, folder, kind, seed, asked.rows))
                print(json.dumps(runs[-1]), flush=True)
    about = machine.describe(PYTHONS)
    (RESULTS / "judge.json").write_text(json.dumps({"machine": about, "runs": runs}, indent=1) + "\n")
    (RESULTS / "judge.md").write_text(markdown(about, runs))
    print(markdown(about, runs))


if __name__ == "__main__":
    main()
