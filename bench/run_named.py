"""Hedgerow under a named setting of the frontier: `python -m bench.run_named FOLDER paper`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench import measure, ranked
from bench.datasets import Split, load
from bench.frontier_plan import OURS, TEN
from hedgerow import HedgerowClassifier, preset_parameters


class Named:
    layouts = ("",)

    def __init__(self, setting: str, seed: int = 0) -> None:
        self.settings: dict[str, Any] = OURS[setting]
        self._seed = seed

    def read(self, folder: Path) -> Split:
        return load(folder, "trn")

    def fit(self, data: Split, model_folder: Path) -> HedgerowClassifier:
        own = dict(self.settings)
        preset = own.pop("preset")
        ensemble = {name: own[name] for name in TEN if name in own}
        chosen = preset_parameters(preset, data.X, data.Y, **ensemble)
        model = HedgerowClassifier(n_jobs=measure.THREADS, random_state=self._seed, **chosen | own)
        return model.fit(data.X, data.Y)

    def save(self, model: HedgerowClassifier, model_folder: Path) -> None:
        model.save(model_folder)

    def load(self, model_folder: Path, layout: str, threads: int) -> HedgerowClassifier:
        return HedgerowClassifier.load(model_folder).set_params(n_jobs=threads)

    def predict(self, model: HedgerowClassifier, X: sp.csr_matrix) -> Any:
        return model.top(X, k=min(measure.TOP, len(model.classes_)))

    def scored(self, model: HedgerowClassifier, X: sp.csr_matrix) -> ranked.Scored:
        votes = model.predict_votes(X)
        return ranked.Scored(votes.indptr, votes.labels, votes.probs)

    def labels(self, predicted: Any) -> np.ndarray:
        return predicted.labels


if __name__ == "__main__":
    measure.main(Named, tuple(OURS))
