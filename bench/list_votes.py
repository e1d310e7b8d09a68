"""Votes that lists of labels are measured on: a model per data set and preset, asked once and kept.

A tenth of the training rows is cut off to choose by; the model learns from the others. Of the cut-off rows
and of the test rows, the best candidates are kept with their probability, and how many labels each row has.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets, measure
from hedgerow import HedgerowClassifier, load, preset_parameters
from hedgerow.inputs.matrices import as_truth

__all__ = ["Kept", "kept_votes"]

MEMBERS = 10
BEST = 2000
ROWS = 4000
BLOCK = 64
PARTS = ("cut off", "test")


@dataclass(frozen=True)
class Kept:
    """The best candidates of each row, best first, shape (n, BEST); places without one have probability 0.

    `known` counts the true labels of a row that occur in training, `true` all of them.
    """

    probability: np.ndarray
    right: np.ndarray
    labels: np.ndarray
    known: np.ndarray
    true: np.ndarray
    counts: np.ndarray
    seconds: float


def kept_votes(name: str, preset: str, data: Path, cache: Path) -> dict[str, Kept]:
    """What a model says of the cut-off and of the test rows of a data set."""
    folder = cache / "lists"
    path = folder / f"{name}.{preset}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(path, **_asked(name, preset, data, cache))
    stored = np.load(path)
    return {
        part: Kept(
            *(stored[f"{part}.{what}"] for what in ("probability", "right", "labels", "known", "true")),
            stored["counts"],
            float(stored["seconds"]),
        )
        for part in PARTS
    }


def _asked(name: str, preset: str, data: Path, cache: Path) -> dict[str, Any]:
    folder = datasets.prepare(name, data, cache)
    train, test = datasets.load(folder, "trn"), datasets.load(folder, "tst")
    order = np.random.default_rng(0).permutation(train.X.shape[0])
    off = min(ROWS, len(order) // 10)
    cut, own = np.sort(order[:off]), np.sort(order[off:])
    path = cache / "lists" / f"{name}.{preset}.hedgerow"
    if not path.exists():
        chosen = preset_parameters(preset, train.X[own], train.Y[own], method="bagging", members=MEMBERS)
        made = HedgerowClassifier(**chosen, random_state=0, n_jobs=measure.THREADS)
        made.fit(train.X[own], train.Y[own]).save(path)
    model = load(path, verify=False).set_params(n_jobs=measure.THREADS)
    rows = np.sort(np.random.default_rng(1).permutation(test.X.shape[0])[:ROWS])
    counts = model.label_counts_
    found: dict[str, Any] = {"counts": counts, "seconds": 0.0}
    for part, X, Y in (("cut off", train.X[cut], train.Y[cut]), ("test", test.X[rows], test.Y[rows])):
        truth = as_truth(Y, X.shape[0], len(model.classes_))
        kept: dict[str, list[np.ndarray]] = {"probability": [], "right": [], "labels": []}
        for begin in range(0, X.shape[0], BLOCK):
            _keep(kept, model.predict_votes(X[begin : begin + BLOCK]), truth[begin : begin + BLOCK])
        found |= {f"{part}.{what}": np.concatenate(of) for what, of in kept.items()}
        known = np.pad(counts > 0, (0, truth.shape[1] - len(counts)))[truth.indices]
        row = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr))
        found[f"{part}.true"] = np.diff(truth.indptr)
        found[f"{part}.known"] = np.bincount(row[known], minlength=truth.shape[0])
    return found


def _keep(kept: dict[str, list[np.ndarray]], votes: Any, truth: Any) -> None:
    n, mean = len(votes), votes.means()
    probability = np.zeros((n, BEST), dtype=np.float32)
    right, labels = np.zeros((n, BEST), dtype=bool), np.zeros((n, BEST), dtype=np.int32)
    for row in range(n):
        begin, end = votes.indptr[row : row + 2]
        best = np.lexsort((votes.labels[begin:end], -mean[begin:end]))[:BEST]
        names = votes.labels[begin:end][best]
        probability[row, : len(best)], labels[row, : len(best)] = mean[begin:end][best], names
        own = truth.indices[truth.indptr[row] : truth.indptr[row + 1]]
        right[row, : len(best)] = np.isin(names, own)
    for what, of in (("probability", probability), ("right", right), ("labels", labels)):
        kept[what].append(of)
