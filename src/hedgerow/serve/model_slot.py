"""The model that answers, and how another takes its place while requests are under way."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from xxhash import xxh3_64

from hedgerow.decisions.goals import Goal
from hedgerow.estimators.loading import load
from hedgerow.storage.container import ModelFileError

from .errors import ApiError
from .limits import Limits
from .prediction import Inputs, Wanted, predict
from .served_model import ServedModel

_PIECE = 1 << 22


def load_model(path: str | os.PathLike[str], threads: int) -> ServedModel:
    """Open a model file, check all of it, and let it answer once with N threads per prediction.

    Raises ModelFileError or OSError if it is not a sound model file, or the model in it cannot answer.
    """
    id = file_id(path)
    served = ServedModel(load(path).set_params(n_jobs=threads).source, id)
    try:
        _answer_once(served)
    except Exception as error:
        raise ModelFileError(f"{path}: the model in it cannot answer: {error}") from error
    return served


def file_id(path: str | os.PathLike[str]) -> str:
    """The id of a model: a hash of its file."""
    digest = xxh3_64()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def load_prepared(path: str | os.PathLike[str], threads: int) -> ServedModel:
    """The same, with the tables that searches by names need; they may take seconds to make."""
    served = load_model(path, threads)
    served.prepare_search()
    return served


def _answer_once(served: ServedModel) -> None:
    """Do what a request can ask for. The first time is slow: pages come from disk, and tables are made."""
    inputs: Inputs = ["a text"]
    if not served.reads_texts:
        inputs = sp.csr_array(np.eye(1, served.model.reader.width, dtype=np.float32))
    predict(served, inputs, Wanted(k=1, votes=True))
    if served.choices is not None:
        with contextlib.suppress(ApiError):  # that there are too many labels is an answer, too
            predict(served, inputs, Wanted(k=1, sorting=served.sorting(Goal())), Limits.labels)


class ReloadRunning(RuntimeError):  # noqa: N818 - the name says the cause
    """The model file is being loaded already."""


@dataclass
class ModelSlot:
    """Holds the model that answers new requests.

    A request keeps the model that it began with, so that a change drops none and mixes no two models in one
    answer. The old model goes when the last request that uses it ends.
    """

    path: Path
    current: ServedModel
    threads: int = 1
    loader: Callable[[Path, int], ServedModel] = load_prepared
    _loading: bool = field(default=False, init=False)

    async def reload(self, executor: Executor) -> tuple[ServedModel, ServedModel]:
        """Load the file again beside the current model, and let it answer from then on.

        Returns the model before and the one now: the same where the file has not changed. If the file is not
        sound, all stays as it was.
        """
        return await self.change(executor, lambda current: self.loader(self.path, self.threads))

    async def change(
        self, executor: Executor, choose: Callable[[ServedModel], ServedModel]
    ) -> tuple[ServedModel, ServedModel]:
        """Let the model answer that `choose` gives for the current one, which goes on answering until then.

        Returns the model before and the one now.
        """
        if self._loading:
            raise ReloadRunning("the model file is being loaded already; wait for that to end")
        self._loading = True
        try:
            before = self.current
            loop = asyncio.get_running_loop()
            new: Any = await loop.run_in_executor(executor, choose, before)
            if new.id != before.id:
                self.current = new
            return before, self.current
        finally:
            self._loading = False
