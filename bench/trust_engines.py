"""The engines that `bench.peer_trust` tries, each through the calls that its documentation shows.

A data folder is one of `bench.datasets`. Packages are imported on demand: they live in two environments.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from bench.datasets import load

TOP = 10
Answer = list[list[tuple[int, float]]]  # for each row its labels and their scores


class Engine(Protocol):
    """What every engine is asked to do. `fit` stores the model where `load` finds it."""

    def fit(self, data: Path, target: Path, threads: int) -> None: ...
    def save_over(self, new: Path, data: Path, target: Path) -> None: ...
    def load(self, target: Path) -> Any: ...
    def predict(self, model: Any, X: sp.csr_matrix, threads: int = 1) -> Answer: ...


class Hedgerow:
    def fit(self, data: Path, target: Path, threads: int) -> None:
        from hedgerow import HedgerowClassifier

        X, Y = load(data, "trn")
        HedgerowClassifier(n_jobs=threads, random_state=0).fit(X, Y).save(target, overwrite=True)

    def save_over(self, new: Path, data: Path, target: Path) -> None:
        self.load(new).save(target, overwrite=True)

    def load(self, target: Path) -> Any:
        import hedgerow

        return hedgerow.load(target)

    def predict(self, model: Any, X: sp.csr_matrix, threads: int = 1) -> Answer:
        best = model.set_params(n_jobs=threads).top(X, k=TOP)
        return _pairs(best.labels, best.probability)

    def load_texts(self, folder: Path) -> None:
        """Load a text model that a stranger made: every file may be whatever they like."""
        import hedgerow

        hedgerow.load(folder / "vectorizer.pkl")


class Pecos:
    predict_only = False

    def fit(self, data: Path, target: Path, threads: int) -> None:
        from pecos.xmc import Indexer, LabelEmbeddingFactory
        from pecos.xmc.xlinear import XLinearModel

        X, Y = load(data, "trn")
        embedding = LabelEmbeddingFactory.create(Y.tocsc(), X, method="pifa", threads=threads)
        tree = Indexer.gen(
            embedding,
            indexer_type="hierarchicalkmeans",
            nr_splits=8,
            max_leaf_size=20,
            seed=0,
            threads=threads,
        )
        XLinearModel.train(X, Y.tocsc(), C=tree, threads=threads).save(str(target))

    def save_over(self, new: Path, data: Path, target: Path) -> None:
        from pecos.xmc.xlinear import XLinearModel

        XLinearModel.load(str(new)).save(str(target))

    def load(self, target: Path) -> Any:
        from pecos.xmc.xlinear import XLinearModel

        return XLinearModel.load(str(target), is_predict_only=self.predict_only)

    def predict(self, model: Any, X: sp.csr_matrix, threads: int = 1) -> Answer:
        found = model.predict(X, only_topk=TOP, threads=threads)
        rows = [slice(*found.indptr[row : row + 2]) for row in range(found.shape[0])]
        return [
            sorted(zip(found.indices[row].tolist(), found.data[row].tolist(), strict=True)) for row in rows
        ]

    def load_texts(self, folder: Path) -> None:
        """Load a text model that a stranger made, as its documentation loads one."""
        from pecos.utils.featurization.text.preprocess import Preprocessor

        (folder / "config.json").write_text(json.dumps({"type": "sklearntfidf", "kwargs": {}}))
        Preprocessor.load(str(folder))


class PecosPredictOnly(Pecos):
    """The same, loaded by its C++ code, as it advises for serving."""

    predict_only = True


class Omikuji:
    def fit(self, data: Path, target: Path, threads: int) -> None:
        import omikuji

        model = omikuji.Model.train_on_data(str(data / "train.txt"), n_threads=threads)
        model.save(str(target))

    def save_over(self, new: Path, data: Path, target: Path) -> None:
        self.load(new).save(str(target))

    def load(self, target: Path) -> Any:
        import omikuji

        return omikuji.Model.load(str(target))

    def predict(self, model: Any, X: sp.csr_matrix, threads: int = 1) -> Answer:
        model.init_prediction_thread_pool(threads)
        rows = [slice(*X.indptr[row : row + 2]) for row in range(X.shape[0])]
        return [
            model.predict(list(zip(X.indices[row].tolist(), X.data[row].tolist(), strict=True)), top_k=TOP)
            for row in rows
        ]


class NapkinXC:
    """Its fit writes the model as it goes, so to train again in the same folder is to save over a model."""

    def fit(self, data: Path, target: Path, threads: int) -> None:
        X, Y = load(data, "trn")
        target.mkdir(exist_ok=True)
        self._model(target, threads).fit(X, Y)

    def save_over(self, new: Path, data: Path, target: Path) -> None:
        self.fit(data, target, 1)

    def load(self, target: Path) -> Any:
        model = self._model(target, 1)
        model.load()
        return model

    def predict(self, model: Any, X: sp.csr_matrix, threads: int = 1) -> Answer:
        model.set_params(threads=threads)
        return [[(int(label), float(p)) for label, p in row] for row in model.predict_proba(X, top_k=TOP)]

    def _model(self, target: Path, threads: int) -> Any:
        from napkinxc.models import PLT

        return PLT(str(target), seed=0, threads=threads)


ENGINES: dict[str, Engine] = {
    "hedgerow": Hedgerow(),
    "pecos": Pecos(),
    "pecos, predict only": PecosPredictOnly(),
    "omikuji": Omikuji(),
    "napkinxc": NapkinXC(),
}


def copy_model(source: Path, target: Path) -> None:
    """Put a model, which is a file or a folder, in the place of whatever is there."""
    if target.is_dir():
        shutil.rmtree(target)
    elif target.exists():
        target.unlink()
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def files_of(model: Path) -> list[Path]:
    """The files of a model, in a fixed order."""
    return sorted(path for path in model.rglob("*") if path.is_file()) if model.is_dir() else [model]


def _pairs(labels: np.ndarray, scores: np.ndarray) -> Answer:
    return [list(zip(*row, strict=True)) for row in zip(labels.tolist(), scores.tolist(), strict=True)]
