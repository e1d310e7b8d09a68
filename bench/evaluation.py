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
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from bench import machine
from hedgerow import Votes
from hedgerow.evaluation.tasks import evaluate
from hedgerow.inputs.matrices import as_truth
from hedgerow.inputs.search import SearchSettings
from hedgerow.votes.source import Answer

RESULTS = Path(__file__).parent / "results"
CANDIDATES, MEMBERS, TRUE = 3000, 10, 5


class MadeUpVotes:
    """Votes at random on labels that depend on the input, always as quickly: a `VoteSource`."""

    members = known = MEMBERS
    transform = "l3-hinge"
    search = SearchSettings()
    threads = 2
    calibrated = False
    ood = policy = None
    n_samples = 500_000

    def __init__(self, labels: int) -> None:
        random = np.random.default_rng(0)
        self.labels = labels
        self.classes = np.arange(labels)
        self.label_counts = random.integers(1, 20, labels)
        self.steps = np.cumsum(random.integers(1, labels // CANDIDATES, CANDIDATES)).astype(np.int32)
        self._probs = random.random((4096 * CANDIDATES, MEMBERS), dtype=np.float32) ** 8

    def inputs(self, X: Any) -> Any:
        return X

    def check(self, inputs: Any) -> None:
        pass

    def inputs_and_truth(self, X: Any, Y: Any) -> tuple[Any, sp.csr_array]:
        return X, as_truth(Y, X.shape[0], self.labels)

    def hashes(self, inputs: Any) -> Any:
        return inputs.indices.astype(np.uint64)

    def seen(self, hashes: Any) -> Any:
        return np.zeros(len(hashes), dtype=bool)

    def answer(self, inputs: Any, **_: Any) -> Answer:
        n = inputs.shape[0]
        labels = (self.steps[None, :] + (inputs.indices[:, None] % (self.labels - self.steps[-1]))).ravel()
        indptr = np.arange(0, n * CANDIDATES + 1, CANDIDATES)
        return Answer(Votes(indptr, labels.astype(np.int32), self._probs[: n * CANDIDATES], self.labels))


class MadeUpModel(BaseEstimator):
    """What `evaluate` takes."""

    def __init__(self, labels: int) -> None:
        self.labels = labels
        self.source = MadeUpVotes(labels)

    def describe(self) -> dict[str, Any]:
        return {"labels": self.labels, "members": MEMBERS, "parameters": {}}


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
    columns = model.source.steps[places] + (X.indices[:, None] % (labels - model.source.steps[-1]))
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
