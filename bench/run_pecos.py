"""PECOS XR-Linear with the settings of the paper: `python -m bench.run_pecos FOLDER tfn`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear import XLinearModel

from bench import measure, ranked
from bench.datasets import Split, load

SETTINGS = ("tfn", "tfn+man")


class Pecos:
    # Which of these is fastest depends on the data, so all are measured. CSC is left out: PECOS documents it
    # as typically the slowest.
    layouts = ("BINARY_SEARCH_CHUNKED", "HASH_CHUNKED", "MMAP")

    def __init__(self, setting: str, seed: int = 0) -> None:
        self._seed = seed
        self.settings: dict[str, Any] = {
            "nr_splits": 8,
            "max_leaf_size": 100,
            "negative_sampling_scheme": setting,
            "threshold": 1e-3,
            "solver_type": "L2R_L2LOSS_SVC_DUAL",
            "Cp": 1.0,
            "Cn": 1.0,
            "bias": 1.0,
        }

    def read(self, folder: Path) -> Split:
        X, Y = load(folder, "trn")
        return Split(X, Y.tocsc())

    def fit(self, data: Split, model_folder: Path) -> XLinearModel:
        embedding = LabelEmbeddingFactory.create(data.Y, data.X, method="pifa", threads=measure.THREADS)
        tree = Indexer.gen(
            embedding,
            indexer_type="hierarchicalkmeans",
            nr_splits=self.settings["nr_splits"],
            max_leaf_size=self.settings["max_leaf_size"],
            threads=measure.THREADS,
            seed=self._seed,
        )
        # The beam is left to PECOS here. It sets how many hard negatives tfn+man mines: on eurlex-4k a beam
        # of 50 with the top 100 cost more CPU time than PECOS's own top 20 and gained no precision.
        return XLinearModel.train(data.X, data.Y, C=tree, threads=measure.THREADS, **self.settings)

    def save(self, model: XLinearModel, model_folder: Path) -> None:
        model.save(str(model_folder))
        XLinearModel.compile_mmap_model(str(model_folder), str(_mmap_folder(model_folder)))

    def load(self, model_folder: Path, layout: str, threads: int) -> XLinearModel:
        self._threads = threads
        if layout == "MMAP":
            return XLinearModel.load(str(_mmap_folder(model_folder)), is_predict_only=True)
        return XLinearModel.load(str(model_folder), is_predict_only=True, weight_matrix_type=layout)

    def predict(self, model: XLinearModel, X: sp.csr_matrix, top: int = measure.TOP) -> sp.csr_matrix:
        return model.predict(
            X,
            beam_size=measure.BEAM,
            only_topk=top,
            post_processor="l3-hinge",
            threads=self._threads,
        )

    def scored(self, model: XLinearModel, X: sp.csr_matrix) -> ranked.Scored:
        return ranked.from_matrix(self.predict(model, X, ranked.SCORED))

    def labels(self, predicted: sp.csr_matrix) -> np.ndarray:
        """Order the labels of every row by their score."""
        top = np.full((predicted.shape[0], measure.TOP), -1, dtype=np.int64)
        for row, (start, end) in enumerate(zip(predicted.indptr[:-1], predicted.indptr[1:], strict=True)):
            order = np.argsort(-predicted.data[start:end], kind="stable")
            top[row, : end - start] = predicted.indices[start:end][order]
        return top


def _mmap_folder(model_folder: Path) -> Path:
    return model_folder.with_name("mmap")


if __name__ == "__main__":
    measure.main(Pecos, SETTINGS)
