"""Ten bagged members with uncertainty, at the beam that `--layout` names: `python -m bench.run_ensemble`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench import measure
from bench.datasets import Split, load
from hedgerow import HedgerowClassifier

SETTINGS = ("bagging",)


class Ensemble:
    layouts = ("50",)

    def __init__(self, setting: str, seed: int = 0) -> None:
        self.settings: dict[str, Any] = {
            "method": setting,
            "members": 10,
            "missing": "delta",
            "tolerance": 1.0,  # the mean forgives
            "random_state": seed,
        }

    def read(self, folder: Path) -> Split:
        return load(folder, "trn")

    def fit(self, data: Split, model_folder: Path) -> HedgerowClassifier:
        return HedgerowClassifier(n_jobs=measure.THREADS, **self.settings).fit(data.X, data.Y)

    def save(self, model: HedgerowClassifier, model_folder: Path) -> None:
        model.save(model_folder)

    def load(self, model_folder: Path, layout: str, threads: int) -> HedgerowClassifier:
        return HedgerowClassifier.load(model_folder).set_params(n_jobs=threads, beam=int(layout))

    def predict(self, model: HedgerowClassifier, X: sp.csr_matrix) -> Any:
        return model.predict_uncertain(X, k=5)

    def labels(self, predicted: Any) -> np.ndarray:
        return predicted.labels


if __name__ == "__main__":
    measure.main(Ensemble, SETTINGS)
