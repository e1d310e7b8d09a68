"""How close inputs are to the centroids of labels: cosines, from a tree that scores them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow import _native
from hedgerow.inputs.search import SearchSettings
from hedgerow.trees.forest import EVERYTHING, Ensemble
from hedgerow.trees.tree_model import TreeClassifier

__all__ = ["NEAREST", "nearest_cosines"]

Floats = npt.NDArray[np.float64]

NEAREST = 10  # labels


def nearest_cosines(centroids: TreeClassifier, labels: int, X: _native.Rows, threads: int) -> Floats:
    """Cosines of each row and the nearest labels, the highest first: shape (rows, at most `NEAREST`)."""
    everywhere = SearchSettings(beam=EVERYTHING)
    k = min(NEAREST, len(centroids.tree.labels))
    found = Ensemble([centroids], labels).top(X, k, everywhere, threads)[1]
    # Scores of the tree are probabilities exp(-(1 - cosine)**3).
    sure = np.maximum(found.astype(np.float64), np.finfo(np.float32).tiny)
    return np.asarray(1.0 - np.cbrt(-np.log(sure)))
