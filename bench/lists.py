"""How many labels have to be looked at, so that few right ones are missed: `python -m bench.lists`.

For each data set and preset, the labels of a row that reach a threshold, where the threshold is set by
conformal risk control so that at most 10 or 20 % of the right labels that the model knows are missed. Rows
are cut in two at random many times: one half sets the threshold, the other tells how many labels reach it
and what is missed. What is compared with the threshold is chosen on rows cut off from training; the test
rows show what that brings. Models and what they said are kept; writes `results/lists.json` and
`results/lists.md`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets, machine
from bench.list_votes import Kept, kept_votes
from bench.plan import PYTHONS, RESULTS

NAMES = ("eurlex-4k", "debian-tags", "tibkat-en")
PRESETS = ("paper", "balanced")
SHARES = (0.1, 0.2)
CUTS = 50
GROUPS = 5
STEPS = 4000

Score = Callable[[Kept, Kept], np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=list(PRESETS))
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    arguments = parser.parse_args()
    path = RESULTS / "lists.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name in arguments.datasets:
        for preset in arguments.presets:
            kept = kept_votes(name, preset, arguments.data, arguments.cache)
            found[f"{name}, {preset}"] = {part: measured(kept["cut off"], of) for part, of in kept.items()}
    found["machine"] = machine.describe(PYTHONS)
    path.write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "lists.md").write_text(markdown(found))


def measured(first: Kept, kept: Kept) -> dict[str, Any]:
    """Labels to review by each score, and the share of right labels among the best few."""
    known = kept.known > 0
    best = {
        str(k): float((kept.right[known, :k].sum(axis=1) / kept.known[known]).mean())
        for k in (5, 10, 20, 100)
    }
    sizes = {title: over_cuts(score(first, kept), kept) for title, score in SCORES.items()}
    return {"rows": int(known.sum()), "best": best, "sizes": sizes}


def over_cuts(score: np.ndarray, kept: Kept) -> dict[str, dict[str, float]]:
    """Means over random halves: labels above the threshold of the other half, and what is missed there."""
    has = kept.known > 0
    score = np.where(kept.probability > 0, score, -np.inf)[has]
    steps = np.unique(np.quantile(score[np.isfinite(score)], np.linspace(0, 1, STEPS) ** 0.25))
    place = np.searchsorted(steps, score, side="right").astype(np.int16) - 1  # the highest step it reaches
    width = len(steps)
    own_row, rank = np.nonzero(kept.right[has] & (place >= 0))
    gains, gained_at = 1 / kept.known[has][own_row], place[own_row, rank]
    found: dict[str, dict[str, float]] = {}
    random = np.random.default_rng(0)
    halves = [random.permutation(len(score))[: len(score) // 2] for _ in range(CUTS)]
    for share in SHARES:
        listed, missed = [], []
        for half in halves:
            own = np.zeros(len(score), dtype=bool)
            own[half] = True
            inside, n = own[own_row], int(own.sum())
            gained = np.bincount(gained_at[inside], weights=gains[inside], minlength=width)[::-1].cumsum()[
                ::-1
            ]
            within = np.flatnonzero((n - gained + 1) / (n + 1) <= share)
            threshold = within[-1] if within.size else 0
            listed.append(float((place[~own] >= threshold).sum(axis=1).mean()))
            kept_gains = gains[~inside & (gained_at >= threshold)].sum()
            missed.append(float(1 - kept_gains / (len(score) - n)))
        found[f"{share:g}"] = {"listed": float(np.mean(listed)), "missed": float(np.mean(missed))}
    return found


def plain(_: Kept, kept: Kept) -> np.ndarray:
    return kept.probability.astype(np.float64)


def expected(kept: Kept) -> np.ndarray:
    return kept.probability.sum(axis=1, keepdims=True, dtype=np.float64)


def by_number(_: Kept, kept: Kept) -> np.ndarray:
    """A right label counts 1 / k where k are right: its expected weight, if k is Poisson."""
    mean = np.maximum(expected(kept), 1e-9)
    return kept.probability * (1 - np.exp(-mean)) / mean


def to_best(_: Kept, kept: Kept) -> np.ndarray:
    return kept.probability / np.maximum(kept.probability[:, :1], 1e-9)


def by_rank(_: Kept, kept: Kept) -> np.ndarray:
    return np.broadcast_to(-np.arange(kept.probability.shape[1], dtype=np.float64), kept.probability.shape)


def with_rank(_: Kept, kept: Kept) -> np.ndarray:
    return kept.probability / np.sqrt(1 + np.arange(kept.probability.shape[1]))


def mass(_: Kept, kept: Kept) -> np.ndarray:
    """The share of the expected labels that is not yet listed (adaptive sets)."""
    p = kept.probability.astype(np.float64)
    return 1 - (np.cumsum(p, axis=1) - p) / np.maximum(expected(kept), 1e-9)


def by_frequency(first: Kept, kept: Kept) -> np.ndarray:
    """Probabilities that were calibrated apart for rare and for frequent labels, on the cut-off rows."""
    from sklearn.isotonic import IsotonicRegression

    edges = np.quantile(first.counts[first.labels[first.right]], np.linspace(0, 1, GROUPS + 1)[1:-1])
    groups = [np.searchsorted(edges, of.counts[of.labels]) for of in (first, kept)]
    score = np.zeros(kept.probability.shape)
    for group in range(GROUPS):
        own = (groups[0] == group) & (first.probability > 0)
        if own.any():
            learned = IsotonicRegression(out_of_bounds="clip").fit(first.probability[own], first.right[own])
            there = groups[1] == group
            p = kept.probability[there]
            score[there] = learned.predict(p) + 1e-6 * p  # what became equal keeps its order
    return score


SCORES: dict[str, Score] = {
    "probability": plain,
    "probability, by expected number of labels": by_number,
    "probability, relative to the best": to_best,
    "probability by square root of rank": with_rank,
    "rank": by_rank,
    "cumulative probability": mass,
    "probability, calibrated by frequency": by_frequency,
}


def markdown(found: dict[str, Any]) -> str:
    """Tables for people."""
    sets = {name: of for name, of in found.items() if name != "machine"}
    lines = [
        "# Lists to review",
        "",
        f"Ten bagged members. Labels per input that reach the threshold with which at most 10 % (20 %) of an"
        f" input's right labels that the model knows are missed, mean over {CUTS} random halves. The cut-off"
        " rows are a tenth of the training rows, from which the models did not learn.",
        "",
    ]
    for part in ("cut off", "test"):
        title = "Rows cut off from training" if part == "cut off" else "Test rows"
        lines += [f"## {title}", "", "| score | " + " | ".join(sets) + " |", "|---|" + "---|" * len(sets)]
        for score in SCORES:
            cells = []
            for of in sets.values():
                sizes = of[part]["sizes"][score]
                cells.append(" / ".join(f"{sizes[f'{share:g}']['listed']:.1f}" for share in SHARES))
            lines.append(f"| {score} | " + " | ".join(cells) + " |")
        for k in ("5", "10", "20", "100"):
            cells = [f"{100 * of[part]['best'][k]:.1f} %" for of in sets.values()]
            lines.append(f"| right labels among the best {k} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
