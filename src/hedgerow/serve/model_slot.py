"""The model that answers, and how another takes its place while requests are under way."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from xxhash import xxh3_64

from hedgerow.estimators.loading import load
from hedgerow.model import Model
from hedgerow.storage.container import ModelFileError

from .errors import ApiError
from .limits import Limits
from .prediction import Inputs, Wanted, predict
from .verdicts import curves, mildest

__all__ = ["ModelSlot", "ReloadRunning", "ServedModel", "load_model"]

_PIECE = 1 << 22


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model that answers requests. Two of the same file are equal in nothing but their id.

    Attributes
    ----------
    model : Model
        The model.
    id : str
        A hash of the model file.
    """

    model: Model
    id: str

    @cached_property
    def reads_texts(self) -> bool:
        """Whether inputs are texts, not features."""
        return self.model.reader.kind != "features"

    @cached_property
    def known(self) -> int:
        """How many labels can be asked for."""
        return self.model.known

    @cached_property
    def members(self) -> int:
        """How many members vote."""
        return self.model.members

    @cached_property
    def detects_ood(self) -> bool:
        """Whether it can tell out-of-distribution inputs."""
        return self.model.ood is not None

    @cached_property
    def calibrated(self) -> bool:
        """Whether a probability of 0.8 means four times out of five."""
        return self.model.calibrated

    @cached_property
    def tolerance(self) -> float | None:
        """How far to search: guarantees hold for the search that they were learned with."""
        policy = self.model.policy
        return None if policy is None else policy.search.tolerance

    def finds(self, k: int) -> bool:
        """Whether the search finds k labels of any input as it is."""
        known = self._found.get(k)
        if known is None:
            known = self._found[k] = self.model.finds(k)
        return known

    @cached_property
    def _found(self) -> dict[int, bool]:
        return {}

    @cached_property
    def curves(self) -> dict[str, Any] | None:
        """The thresholds of decisions at every risk."""
        return curves(self.model)

    @cached_property
    def labels(self) -> list[str | int]:
        """All labels."""
        return self.model.classes.tolist()  # type: ignore[no-any-return]

    @cached_property
    def counts(self) -> list[int] | None:
        """How often each label occurred in training."""
        counts = self.model.label_counts
        return None if counts is None else counts.tolist()

    @cached_property
    def column(self) -> dict[str | int, int]:
        """The column of each label."""
        return {label: number for number, label in enumerate(self.labels)}

    @cached_property
    def folded(self) -> list[str]:
        """The labels without the difference of capital and small letters, for search."""
        return [str(label).casefold() for label in self.labels]

    @cached_property
    def by_frequency(self) -> list[int]:
        """Columns of the labels, the frequent ones first; of equals, the first in the alphabet."""
        counts = self.counts or [0] * len(self.labels)
        return sorted(range(len(self.labels)), key=lambda number: (-counts[number], self.folded[number]))

    def search(self, query: str) -> list[int]:
        """Columns of the labels that hold the query; those that begin with it first, then frequent ones."""
        wanted = query.casefold()
        begin: list[int] = []
        within: list[int] = []
        for number in self.by_frequency:
            name = self.folded[number]
            if name.startswith(wanted):
                begin.append(number)
            elif wanted in name:
                within.append(number)
        return begin + within


def load_model(path: str | os.PathLike[str], threads: int) -> ServedModel:
    """Open a model file, check all of it, and let it answer once.

    Parameters
    ----------
    path : path-like
        The file.
    threads : int
        Threads of one prediction.

    Returns
    -------
    ServedModel

    Raises
    ------
    ModelFileError, OSError
        If it is no sound model file, or the model in it cannot answer.
    """
    digest = xxh3_64()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    served = ServedModel(load(path).set_params(n_jobs=threads).source, digest.hexdigest())
    try:
        _answer_once(served)
    except Exception as error:
        raise ModelFileError(f"{path}: the model in it cannot answer: {error}") from error
    return served


def _answer_once(served: ServedModel) -> None:
    """Do what a request can ask for. The first time is slow: pages come from disk, and tables are made."""
    inputs = _any_input(served)
    predict(served, inputs, Wanted(k=1, votes=True))
    if served.curves is not None:
        with contextlib.suppress(ApiError):  # that there are too many labels is an answer, too
            predict(served, inputs, Wanted(k=1, sorting=mildest(served.model)), Limits.labels)


def _any_input(served: ServedModel) -> Inputs:
    if served.reads_texts:
        return ["a text"]
    return sp.csr_array(np.eye(1, served.model.reader.width, dtype=np.float32))


class ReloadRunning(RuntimeError):  # noqa: N818 - the name says the cause
    """The model file is being loaded already."""


@dataclass
class ModelSlot:
    """Holds the model that answers new requests.

    A request keeps the model that it began with, so that a change drops none and mixes no two models in one
    answer. The old model goes when the last request that uses it ends.

    Attributes
    ----------
    path : Path
        The model file.
    current : ServedModel
        Who answers now.
    threads : int
        Threads of one prediction.
    loader : callable
        Opens the file.
    """

    path: Path
    current: ServedModel
    threads: int = 1
    loader: Callable[[Path, int], ServedModel] = load_model
    _loading: bool = field(default=False, init=False)

    async def reload(self, executor: Executor) -> tuple[ServedModel, ServedModel]:
        """Load the file anew beside the current model, and let it answer from then on.

        Parameters
        ----------
        executor : Executor
            Where it is loaded.

        Returns
        -------
        ServedModel, ServedModel
            The one before and the new one; the same where the file has not changed.

        Raises
        ------
        ReloadRunning
            If another reload has not ended yet.
        ModelFileError, OSError
            If the file is not sound; then all stays as it was.
        """
        if self._loading:
            raise ReloadRunning("the model file is being loaded already; wait for that to end")
        self._loading = True
        try:
            before = self.current
            loop = asyncio.get_running_loop()
            new: Any = await loop.run_in_executor(executor, self.loader, self.path, self.threads)
            if new.id != before.id:
                self.current = new
            return before, self.current
        finally:
            self._loading = False
