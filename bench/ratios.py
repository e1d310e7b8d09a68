"""Tests of "at most this share of all accepted labels is wrong", by simulation: `python -m bench.ratios`.

Inputs are given a random number of labels, and those of one input are wrong together more often than by
chance. How often each test, at a confidence of 90 %, shows a share that is lower than asked; at the share
asked for itself it may in one case of ten. Writes `results/ratios.json` and `results/ratios.md`.
"""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

import numpy as np

from bench import machine
from bench.plan import PYTHONS, RESULTS
from hedgerow.decisions.given import betting_p_values
from hedgerow.decisions.risk import hoeffding_bentkus

LEVEL, REPEATS, MEAN = 0.1, 200, 1.4
CASES = [
    (rows, asked, true, most)
    for rows in (600, 1300)
    for asked, true in ((0.1, 0.1), (0.1, 0.08), (0.1, 0.06), (0.2, 0.17))
    for most in (6, 12)
]


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    random = np.random.default_rng(0)
    found = [
        {"rows": rows, "asked": asked, "true": true, "most": most} | shown(random, rows, asked, true, most)
        for rows, asked, true, most in CASES
    ]
    (RESULTS / "ratios.json").write_text(
        json.dumps({"machine": machine.describe(PYTHONS), "cases": found}, indent=1) + "\n"
    )
    (RESULTS / "ratios.md").write_text(markdown(found))


def shown(random: np.random.Generator, rows: int, asked: float, true: float, most: int) -> dict[str, float]:
    """How often each test shows that the share is lower than asked."""
    won = {"Hoeffding-Bentkus": 0, "empirical Bernstein": 0, "betting": 0}
    for _ in range(REPEATS):
        given = np.minimum(random.negative_binomial(1.5, 1.5 / (1.5 + MEAN), rows), most)
        wrong = random.binomial(given, random.beta(true * 6, (1 - true) * 6, rows))
        gains = asked * given - wrong
        # Both between 0 and 1, with a mean of `asked` at the limit.
        won["Hoeffding-Bentkus"] += (
            float(hoeffding_bentkus(asked - gains.mean() / most, rows, asked)) <= LEVEL
        )
        error = math.sqrt(2 * gains.var(ddof=1) * math.log(2 / LEVEL) / rows)
        error += 7 * most * math.log(2 / LEVEL) / (3 * (rows - 1))
        won["empirical Bernstein"] += gains.mean() - error > 0
        values, counts = np.unique(gains, return_counts=True)
        ends = np.array([-(1 - asked) * most, asked * most])  # what could have been drawn
        p_value = betting_p_values(
            np.concatenate([counts, [0, 0]])[None], np.concatenate([values, ends]), asked, LEVEL
        )
        won["betting"] += float(p_value[0]) <= LEVEL
    return {name: number / REPEATS for name, number in won.items()}


def markdown(found: list[dict[str, Any]]) -> str:
    """A table for people."""
    names = list(found[0])[4:]
    lines = [
        "# Tests of the share of wrong labels",
        "",
        f"{REPEATS} simulated sets of held-out rows a line, {MEAN} accepted labels a row. How often each test"
        " shows that fewer are wrong than asked, in percent; where exactly as many are, it may in 10.",
        "",
        "| rows | asked | true | labels of a row, at most | " + " | ".join(names) + " |",
        "|---|---|---|---|" + "---|" * len(names),
    ]
    for one in found:
        cells = [
            f"{one['rows']:,}",
            f"{100 * one['asked']:g} %",
            f"{100 * one['true']:g} %",
            str(one["most"]),
        ]
        lines.append("| " + " | ".join([*cells, *(f"{100 * one[name]:.1f}" for name in names)]) + " |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
