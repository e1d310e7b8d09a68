"""Hedgerow with the paper's weight threshold or its own: `python -m bench.run_hedgerow FOLDER paper-tfn`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench import measure
from bench.datasets import Split, load
from hedgerow import HedgerowClassifier

SETTINGS = ("paper-tfn", "paper-tfn+man", "default-tfn", "default-tfn+man")


class Hedgerow:
    layouts = ("",)

    def __init__(self, setting: str, seed: int = 0) -> None:
        threshold, negatives = setting.split("-")
        self.settings: dict[str, Any] = {
            "branching": 8,
            "leaf_size": 100,
            "loss": "squared_hinge",
            "C": 1.0,
            "negatives": negatives,
            "beam": measure.BEAM,
            "random_state": seed,
        }
        if threshold == "paper":
            self.settings["weight_threshold"] = 1e-3

    def read(self, folder: Path) -> Split:
        return load(folder, "trn")

    def fit(self, data: Split, model_folder: Path) -> HedgerowClassifier:
        return HedgerowClassifier(n_jobs=measure.THREADS, **self.settings).fit(data.X, data.Y)

    def save(self, model: HedgerowClassifier, model_folder: Path) -> None:
        model.save(model_folder)

    def load(self, model_folder: Path, layout: str, threads: int) -> HedgerowClassifier:
        return HedgerowClassifier.load(model_folder).set_params(n_jobs=threads)

    def predict(self, model: HedgerowClassifier, X: sp.csr_matrix) -> Any:
        return model.top(X, k=measure.TOP)

    def labels(self, predicted: Any) -> np.ndarray:
        return predicted.labels


if __name__ == "__main__":
    measure.main(Hedgerow, SETTINGS)
