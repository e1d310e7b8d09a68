"""Accuracy over several seeds, beside the spread between them: `python -m bench.seeds`.

One tree is one draw: P@1 moves by half a point from seed to seed. Writes `results/seeds.json` and
`results/seeds.md`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from bench import datasets, machine, measure
from bench.plan import PYTHONS, RESULTS
from hedgerow import HedgerowClassifier

SEEDS = 5
NEGATIVES = ("tfn", "tfn+man")
THRESHOLDS = (1e-3, 0.05)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", choices=datasets.NAMES, default=["eurlex-4k"])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.datasets:
        folder = datasets.prepare(name, arguments.data, arguments.cache)
        train, test = datasets.load(folder, "trn"), datasets.load(folder, "tst")
        for negatives in NEGATIVES:
            for threshold in THRESHOLDS:
                found = []
                for seed in range(arguments.seeds):
                    model = HedgerowClassifier(
                        negatives=negatives, weight_threshold=threshold, random_state=seed
                    )
                    best = model.fit(train.X, train.Y).top(test.X, k=5).labels
                    found.append(list(measure.precision(best, test.Y).values()))
                row = {"dataset": name, "negatives": negatives, "weight_threshold": threshold}
                row |= {"precision": np.array(found).tolist()}
                rows.append(row)
                print(row, np.mean(found, axis=0), flush=True)
    result = {"machine": machine.describe(PYTHONS), "seeds": arguments.seeds, "rows": rows}
    (RESULTS / "seeds.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "seeds.md").write_text(markdown(rows, arguments.seeds))


def markdown(rows: list[dict[str, object]], seeds: int) -> str:
    """One row a setting: mean and standard deviation over the seeds."""
    lines = [
        f"Mean ± standard deviation over {seeds} seeds.",
        "",
        "| data | negatives | threshold | P@1 | P@3 | P@5 |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        found = np.array(row["precision"])
        cells = [f"{m:.2f} ± {s:.2f}" for m, s in zip(found.mean(0), found.std(0, ddof=1), strict=True)]
        threshold = row["weight_threshold"]
        lines.append(f"| {row['dataset']} | {row['negatives']} | {threshold} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
