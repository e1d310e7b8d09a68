"""napkinXC's probabilistic label tree: `python -m bench.run_napkinxc FOLDER paper`.

Its fit writes the model to disk as it goes, so the time of the fit includes that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from napkinxc.models import PLT

from bench import measure
from bench.datasets import Split, load

SETTINGS = ("paper", "default")


class NapkinXC:
    layouts = ("map",)  # its default

    def __init__(self, setting: str, seed: int = 0) -> None:
        self.settings: dict[str, Any] = {"tree_type": "hierarchicalKmeans", "max_leaves": 100, "seed": seed}
        if setting == "paper":
            self.settings |= {
                "arity": 8,
                "loss": "l2",
                "liblinear_c": 1.0,
                "weights_threshold": 1e-3,
                "tree_search_type": "beam",
                "beam_search_width": measure.BEAM,
            }
        else:
            self.settings |= {
                "arity": 2,
                "loss": "log",
                "liblinear_c": 10.0,
                "weights_threshold": 0.1,
                "tree_search_type": "exact",
            }

    def read(self, folder: Path) -> Split:
        return load(folder, "trn")

    def fit(self, data: Split, model_folder: Path) -> PLT:
        model_folder.mkdir()
        model = self._model(model_folder, measure.THREADS)
        model.fit(data.X, data.Y)
        return model

    def save(self, model: PLT, model_folder: Path) -> None:
        """Nothing is left to save."""

    def load(self, model_folder: Path, layout: str, threads: int) -> PLT:
        model = self._model(model_folder, threads)
        model.load()
        return model

    def predict(self, model: PLT, X: sp.csr_matrix) -> list[list[int]]:
        return model.predict(X, top_k=measure.TOP)

    def labels(self, predicted: list[list[int]]) -> np.ndarray:
        top = np.full((len(predicted), measure.TOP), -1, dtype=np.int64)
        for row, labels in enumerate(predicted):
            kept = labels[: measure.TOP]  # a beam search hands back every label it scored
            top[row, : len(kept)] = kept
        return top

    def _model(self, model_folder: Path, threads: int) -> PLT:
        return PLT(str(model_folder), threads=threads, **self.settings)


if __name__ == "__main__":
    measure.main(NapkinXC, SETTINGS)
