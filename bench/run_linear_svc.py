"""One-versus-rest LinearSVC of scikit-learn: `python -m bench.run_linear_svc FOLDER default`.

Labels without a training row are left out: `OneVsRestClassifier` gives them the score 0, above most others.
One thread, so that all CPU time is that of this process: scikit-learn's jobs are processes. The dual solver,
because on 40 labels of eurlex-4k it took two thirds of the primal one's time.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from bench import measure, ranked
from bench.datasets import Split, load

SETTINGS = ("default",)


class Weights(NamedTuple):
    """A row of weights for each label that has a training row: dense float64, as scikit-learn holds them."""

    coefficients: np.ndarray
    intercepts: np.ndarray
    labels: np.ndarray


class OneVersusRest:
    layouts = ("",)

    def __init__(self, setting: str, seed: int = 0) -> None:
        self.settings: dict[str, Any] = {
            "loss": "squared_hinge",
            "C": 1.0,
            "dual": True,
            "random_state": seed,
        }

    def read(self, folder: Path) -> Split:
        X, Y = load(folder, "trn")
        return Split(X.astype(np.float64), Y)

    def fit(self, data: Split, model_folder: Path) -> Weights:
        seen = np.flatnonzero(data.Y.getnnz(axis=0))
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = OneVsRestClassifier(LinearSVC(**self.settings)).fit(data.X, data.Y[:, seen])
        return Weights(
            np.vstack([each.coef_ for each in model.estimators_]),
            np.concatenate([each.intercept_ for each in model.estimators_]),
            seen,
        )

    def save(self, model: Weights, model_folder: Path) -> None:
        with model_folder.open("wb") as file:
            np.savez(file, **model._asdict())

    def load(self, model_folder: Path, layout: str, threads: int) -> Weights:
        with np.load(model_folder) as stored:
            return Weights(*(stored[name] for name in Weights._fields))

    def predict(self, model: Weights, X: sp.csr_matrix) -> np.ndarray:
        margins = X @ model.coefficients.T + model.intercepts
        best = np.argsort(-margins, axis=1, kind="stable")[:, : measure.TOP]
        return model.labels[best]

    def scored(self, model: Weights, X: sp.csr_matrix) -> ranked.Scored:
        """Margins become probabilities as in PECOS and Hedgerow: the l3-hinge. scikit-learn has none."""
        margins = X @ model.coefficients.T + model.intercepts
        probability = np.exp(-(np.maximum(0.0, 1.0 - margins) ** 3))
        indptr = np.arange(X.shape[0] + 1) * len(model.labels)
        return ranked.Scored(indptr, np.tile(model.labels, X.shape[0]), probability.reshape(-1, 1))

    def labels(self, predicted: np.ndarray) -> np.ndarray:
        return predicted


if __name__ == "__main__":
    measure.main(OneVersusRest, SETTINGS)
