"""What settings of trees and of members do to accuracy and cost: `python -m bench.explore`.

One setting is changed at a time. Models learn from 85 % of the training rows and are judged on the others,
the last; no test row is read. Finished runs are kept under `results/raw`. Writes `results/explore.json` and
`results/explore.md`, which docs/results/explore.md shows.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from bench import datasets, machine, measure, records
from bench.ensembles import aurocs
from bench.frontier import f1_at
from bench.plan import PYTHONS, RAW, RESULTS, store
from hedgerow import HedgerowClassifier
from hedgerow.evaluation import ndcg_at, precision_at

NAMES = ("eurlex-4k", "tibkat-en", "debian-tags", "debian-depends")
SHARE = 0.85  # of the training rows that models learn from
JUDGED = 3000  # of the other rows, at most
AUROC_ROWS = 500
ONE_TREE: dict[str, dict[str, Any]] = {
    "8-means, leaves of 100 (paper)": {},
    "100-means, leaves of 100": {"branching": 100},
    "16-means, leaves of 500": {"branching": 16, "leaf_size": 500},
    "16-means, leaves of 2,500": {"branching": 16, "leaf_size": 2500},
    "tolerance 0.3": {"tolerance": 0.3},
    "tolerance 1.0": {"tolerance": 1.0},
    "C 0.5": {"C": 0.5},
    "C 2": {"C": 2.0},
    "right labels count twice": {"positive_cost": 2.0},
    "weights below 0.01 dropped": {"weight_threshold": 0.01},
    "weights below 0.1 dropped": {"weight_threshold": 0.1},
    "logistic loss": {"loss": "logistic"},
    "negatives of the matcher, too (tfn+man)": {"negatives": "tfn+man"},
    "100-means, leaves of 400, dampened": {"branching": 100, "leaf_size": 400, "dampen": True},
}
MEMBERS: dict[str, dict[str, Any]] = {
    f"{method}, tolerance {tolerance:g}": {"method": method, "tolerance": tolerance}
    for method in ("bagging", "boosting", "boosted-bagging")
    for tolerance in (0.1, 0.3, 1.0, 2.0)
} | {
    "bagging, tolerance 1, two passes": {"method": "bagging", "tolerance": 1.0, "max_passes": 2},
    "bagging, tolerance 1, two trees for all": {"method": "bagging", "tolerance": 1.0, "trees": 2},
    "bagging, tolerance 1, weights below 0.1 dropped": {
        "method": "bagging",
        "tolerance": 1.0,
        "weight_threshold": 0.1,
    },
    "bagging, tolerance 1, a wide judge beside": {
        "method": "bagging",
        "tolerance": 1.0,
        "judge": True,
        "wide": 900,
    },
}
COLUMNS = (
    ("CPU s", "fit_cpu_seconds", ".1f"),
    ("P@1", "p@1", ".1f"),
    ("P@5", "p@5", ".1f"),
    ("F1@5", "f1@5", ".1f"),
    ("nDCG@20", "ndcg@20", ".1f"),
    ("AUROC TU", "total", ".1f"),
    ("AUROC PV", "variance", ".1f"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    arguments = parser.parse_args()
    for dataset in arguments.datasets:
        whole = datasets.load(datasets.prepare(dataset, arguments.data, arguments.cache), "trn")
        for name, settings in (ONE_TREE | MEMBERS).items():
            kept = stored(dataset, name)
            if not kept.exists():
                store(kept, measured(whole, settings))
                print(dataset, name, kept.read_text(), flush=True)
    found = {
        dataset: {
            name: json.loads(stored(dataset, name).read_text())
            for name in ONE_TREE | MEMBERS
            if stored(dataset, name).exists()
        }
        for dataset in NAMES
    }
    described = {"machine": machine.describe(PYTHONS), "threads": measure.THREADS, "runs": found}
    (RESULTS / "explore.json").write_text(json.dumps(described, indent=1) + "\n")
    (RESULTS / "explore.md").write_text(markdown(described))


def stored(dataset: str, name: str) -> Path:
    return RAW / f"{dataset}.explore.{name.replace(' ', '-').replace('/', '-')}.json"


def measured(whole: datasets.Split, settings: dict[str, Any]) -> dict[str, Any]:
    """Fit on the first rows, and judge some of the others."""
    rows = int(SHARE * whole.X.shape[0])
    X, Y = whole.X[rows:][:JUDGED], sp.csr_matrix(whole.Y[rows:][:JUDGED])
    model = HedgerowClassifier(n_jobs=measure.THREADS, random_state=0).set_params(**settings)
    start = time.process_time()
    model.fit(whole.X[:rows], whole.Y[:rows])
    seconds = time.process_time() - start
    best = model.top(X, 20).labels
    found = {f"p@{k}": precision_at(best, Y, k) for k in (1, 5)}
    found |= {"ndcg@20": ndcg_at(best, Y, 20), "f1@5": f1_at(best, Y, 5)}
    areas = aurocs(model, X[:AUROC_ROWS], Y[:AUROC_ROWS])
    if "method" not in settings:
        del areas["variance"]
    return {
        "settings": settings,
        "fit_cpu_seconds": seconds,
        **{k: 100 * v for k, v in found.items()},
        **areas,
    }


def markdown(described: dict[str, Any]) -> str:
    lines = [records.about(described)]
    for dataset, runs in described["runs"].items():
        if not runs:
            continue
        lines += ["", f"## {dataset}"]
        for title, settings in (("one tree", ONE_TREE), ("ten members", MEMBERS)):
            own = {name: run for name, run in runs.items() if name in settings}
            lines += records.table(title, own, tuple(settings), COLUMNS)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
