"""Omikuji with one tree, or as Bonsai: `python -m bench.run_omikuji FOLDER paper`.

This calls the library's C interface where the Python one would parse text inside the fit, or spend more time
on Python lists than on the model.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import omikuji
import scipy.sparse as sp
from omikuji import ffi, lib

from bench import measure, ranked

SETTINGS = ("paper", "default", "bonsai")


class Omikuji:
    layouts = ("densified 0.1",)  # what its own command line does before it predicts

    def __init__(self, setting: str, seed: int = 0) -> None:
        """Make the system; omikuji takes no seed, so every fit draws another tree."""
        self._parameters = omikuji.Model.default_hyper_param()
        if setting == "bonsai":  # as omikuji's documentation and Annif have it, with the default three trees
            self._parameters.cluster_k = 100
            self._parameters.cluster_balanced = False
            self._parameters.max_depth = 3
        else:
            self._parameters.n_trees = 1
        if setting == "paper":
            self._parameters.cluster_k = 8
            self._parameters.linear_weight_threshold = 1e-3
        names = (name for name, _ in ffi.typeof(self._parameters).fields)
        self.settings: dict[str, Any] = {name: getattr(self._parameters, name) for name in names}

    def read(self, folder: Path) -> Any:
        self._pool = _thread_pool(measure.THREADS)
        path = str(folder / "train.txt").encode()
        data = lib.load_omikuji_data_set(ffi.new("char[]", path), self._pool)
        if data == ffi.NULL:
            raise RuntimeError(f"omikuji cannot read {folder / 'train.txt'}")
        return ffi.gc(data, lib.free_omikuji_data_set)

    def fit(self, data: Any, model_folder: Path) -> omikuji.Model:
        model = lib.train_omikuji_model(data, self._parameters, self._pool)
        if model == ffi.NULL:
            raise RuntimeError("omikuji could not train")
        return omikuji.Model(model)

    def save(self, model: omikuji.Model, model_folder: Path) -> None:
        model.save(str(model_folder))

    def load(self, model_folder: Path, layout: str, threads: int) -> omikuji.Model:
        model = omikuji.Model.load(str(model_folder))
        model.densify_weights(n_threads=threads)
        self._pool = _thread_pool(threads)
        self._callers = ThreadPoolExecutor(threads)
        return model

    def predict(self, model: omikuji.Model, X: sp.csr_matrix) -> np.ndarray:
        labels, _, found = self._best(model, X, measure.TOP)
        labels[np.arange(measure.TOP) >= found[:, None]] = -1
        return labels

    def scored(self, model: omikuji.Model, X: sp.csr_matrix) -> ranked.Scored:
        labels, scores, found = self._best(model, X, ranked.SCORED)
        kept = np.arange(ranked.SCORED) < found[:, None]
        indptr = np.concatenate([[0], np.cumsum(found)])
        width = int(labels.max()) + 1
        return ranked.from_matrix(sp.csr_matrix((scores[kept], labels[kept], indptr), (X.shape[0], width)))

    def _best(
        self, model: omikuji.Model, X: sp.csr_matrix, count: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Labels and scores (n, count), and how many of them there are."""
        indices, values = X.indices.astype(np.uint32), X.data
        top = np.zeros((X.shape[0], count), dtype=np.uint32)
        scores = np.zeros((X.shape[0], count), dtype=np.float32)
        found = np.zeros(X.shape[0], dtype=np.int64)

        def predict_row(row: int) -> None:
            start, end = X.indptr[row], X.indptr[row + 1]
            found[row] = lib.omikuji_predict(
                model._model_ptr,
                measure.BEAM,
                end - start,
                ffi.from_buffer("uint32_t[]", indices[start:end]),
                ffi.from_buffer("float[]", values[start:end]),
                count,
                ffi.from_buffer("uint32_t[]", top[row]),
                ffi.from_buffer("float[]", scores[row]),
                self._pool,
            )

        if X.shape[0] == 1:
            predict_row(0)
        else:
            list(self._callers.map(predict_row, range(X.shape[0])))
        return top.astype(np.int64), scores, found

    def labels(self, predicted: np.ndarray) -> np.ndarray:
        return predicted


def _thread_pool(threads: int) -> Any:
    return ffi.gc(lib.init_omikuji_thread_pool(threads), lib.free_omikuji_thread_pool)


if __name__ == "__main__":
    measure.main(Omikuji, SETTINGS)
