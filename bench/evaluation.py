"""Memory of an evaluation the size of Amazon-670K: `python -m bench.evaluation`.

The votes are made up, so that only the evaluation is measured: 3,000 candidates and ten members for each
input.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench import machine
from hedgerow import Votes
from hedgerow.evaluation.tasks import evaluate

RESULTS = Path(__file__).parent / "results"
CANDIDATES, MEMBERS, TRUE = 3000, 10, 5


@dataclass
class MadeUpModel:
    """Votes at random on labels that depend on the input, always as quickly."""

    labels: int
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        random = np.random.default_rng(0)
        self.classes_ = np.arange(self.labels)
        self.label_counts_ = random.integers(1, 20, self.labels)
        self.n_samples_ = 500_000
        self._ensemble = SimpleNamespace(transform="l3-hinge", members=MEMBERS)
        self._steps = np.cumsum(random.integers(1, self.labels // CANDIDATES, CANDIDATES)).astype(np.int32)
        self._probs = random.random((4096 * CANDIDATES, MEMBERS), dtype=np.float32) ** 8

    def predict_votes(self, X: Any) -> Votes:
        n = X.shape[0]
        labels = (self._steps[None, :] + (X.indices[:, None] % (self.labels - self._steps[-1]))).ravel()
        indptr = np.arange(0, n * CANDIDATES + 1, CANDIDATES)
        return Votes(indptr, labels.astype(np.int32), self._probs[: n * CANDIDATES], self.labels)

    def describe(self) -> dict[str, Any]:
        return {"labels": self.labels, "members": MEMBERS, "parameters": {}}

    def _threads(self) -> int:
        return 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=int, default=700_000)
    parser.add_argument("--inputs", type=int, default=150_000)
    arguments = parser.parse_args()
    random = np.random.default_rng(1)
    n, labels = arguments.inputs, arguments.labels
    X = sp.csr_array(
        (np.ones(n), random.integers(0, labels, n).astype(np.int32), np.arange(n + 1)), shape=(n, labels)
    )
    model = MadeUpModel(labels)
    # Most true labels are candidates.
    places = np.sort(random.integers(0, CANDIDATES, (n, TRUE)), axis=1)
    columns = model._steps[places] + (X.indices[:, None] % (labels - model._steps[-1]))
    Y = sp.csr_array(
        (np.ones(n * TRUE, dtype=np.int8), columns.ravel(), np.arange(0, n * TRUE + 1, TRUE)),
        shape=(n, labels),
    )
    Y.sum_duplicates()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    found = evaluate(model, X, Y)  # type: ignore[arg-type]
    result = {
        "machine": machine.describe({"hedgerow": Path(sys.executable)}),
        "labels": labels,
        "inputs": n,
        "candidates": n * CANDIDATES,
        "seconds": time.perf_counter() - start,
        "seconds_judging": found.seconds["judge"],
        "peak_bytes_before": before * 1024,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    (RESULTS / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
