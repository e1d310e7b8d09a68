"""Predictions with their uncertainty."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native
from hedgerow.inputs.threads import threads_for
from hedgerow.storage.atomic_file import atomic_file
from hedgerow.votes.votes import Votes, arrow_table

__all__ = ["InputUncertainty", "UncertainLabels"]

Floats = npt.NDArray[np.float32]

_MEASURES = ("probability", "total", "data", "knowledge", "variance")


@dataclass(frozen=True, eq=False)
class InputUncertainty:
    """The uncertainty of each input as a whole: sums over all candidate labels. Arrays of shape (n,).

    Where only some labels may be answered, sums and error bounds are over these.

    Attributes
    ----------
    expected : float32 array
        Expected number of labels.
    total, data, knowledge, variance : float32 array
        Sums of the labels' measures. Mind the direction: an out-of-distribution input gets low probabilities
        for all labels, and so *low* sums.
    bound : float32 array
        How far the mean probability of any label may be from the one that a search through all labels gives.
    missed : float32 array
        How far `total` may be from the one that a search through all labels gives.
    """

    expected: Floats
    total: Floats
    data: Floats
    knowledge: Floats
    variance: Floats
    bound: Floats
    missed: Floats


@dataclass(frozen=True, eq=False)
class UncertainLabels:
    """The best labels of each input, best first, with their measures of uncertainty. Arrays of shape (n, k).

    Attributes
    ----------
    labels : array
        Labels as in `classes_`: names, or columns of Y.
    probability : float32 array
        Mean probability over the members.
    total : float32 array
        Total uncertainty: the entropy of that mean.
    data : float32 array
        Data uncertainty: the members' mean entropy: how unsure each is by itself.
    knowledge : float32 array
        Knowledge uncertainty, total - data: how much the members disagree. Of a single model, it is 0, but
        for labels that no training input has: of these it is the total.
    variance : float32 array
        Variance of the members' probabilities.
    instance : InputUncertainty
        The same for each input as a whole.
    """

    labels: npt.NDArray[Any]
    probability: Floats
    total: Floats
    data: Floats
    knowledge: Floats
    variance: Floats
    instance: InputUncertainty

    @classmethod
    def from_search(cls, found: _native.FoundLabels, classes: npt.NDArray[Any]) -> UncertainLabels:
        """Name the labels that a search found."""
        return cls(
            labels=classes[found.labels],
            **{name: getattr(found, name) for name in _MEASURES},
            instance=InputUncertainty(
                **{part.name: getattr(found.inputs, part.name) for part in fields(InputUncertainty)}
            ),
        )

    @classmethod
    def from_votes(
        cls, votes: Votes, k: int, *, ranked_by: Floats | None = None, n_jobs: int | None = None
    ) -> UncertainLabels:
        """Read the best labels and all measures from votes.

        Parameters
        ----------
        votes : Votes
            At least k candidates for each input.
        k : int
            Labels per input.
        ranked_by : float32 array, shape (entries,), optional
            What the best labels are chosen by; the mean probability, if not given.
        n_jobs : int or None
            Threads; None and -1 are all processors, -2 all but one. Results do not depend on it.

        Returns
        -------
        UncertainLabels
        """
        if len(votes) and k > np.diff(votes.indptr).min():
            raise ValueError(f"k is {k}, but an input has only {np.diff(votes.indptr).min()} candidates")
        if ranked_by is not None:
            ranked_by = np.ascontiguousarray(ranked_by, dtype=np.float32)
        found = _native.best_labels(
            votes.indptr, votes.labels, votes.probs, votes.marks(), ranked_by, k, threads_for(n_jobs)
        )
        expected, total, data, knowledge, variance = np.ascontiguousarray(found.sums.T, dtype=np.float32)
        unknown = np.full(len(votes), np.nan, dtype=np.float32)
        return cls(
            labels=found.labels if votes.classes is None else votes.classes[found.labels],
            **{name: getattr(found.measures, name) for name in _MEASURES},
            instance=InputUncertainty(
                expected,
                total,
                data,
                knowledge,
                variance,
                unknown if votes.bound is None else votes.bound,
                unknown if votes.missed is None else votes.missed,
            ),
        )

    @staticmethod
    def concatenate(parts: Sequence[UncertainLabels]) -> UncertainLabels:
        """Those of several batches, one after the other."""
        if not parts:
            raise ValueError("there is nothing to concatenate")
        instance = InputUncertainty(
            **{
                part.name: np.concatenate([getattr(of.instance, part.name) for of in parts])
                for part in fields(InputUncertainty)
            }
        )
        of_labels = {
            part.name: np.concatenate([getattr(of, part.name) for of in parts])
            for part in fields(UncertainLabels)
            if part.name != "instance"
        }
        return UncertainLabels(**of_labels, instance=instance)

    def __len__(self) -> int:
        return len(self.labels)

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with a row for each label: input, rank, label and the measures of both."""
        n, k = self.labels.shape
        columns: dict[str, Any] = {
            "input": np.repeat(np.arange(n), k),
            "rank": np.tile(np.arange(1, k + 1), n),
            "label": self.labels.ravel(),
        }
        for name in _MEASURES:
            columns[name] = getattr(self, name).ravel()
        for name, values in vars(self.instance).items():
            columns[f"input_{name}"] = np.repeat(values, k)
        return arrow_table(columns)

    def to_frame(self) -> Any:
        """A `pandas.DataFrame` with the columns of `to_arrow`."""
        return self.to_arrow().to_pandas()

    def to_parquet(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the columns of `to_arrow` to a Parquet file, whole or not at all.

        Parameters
        ----------
        path : path-like
            The file.
        overwrite : bool
            Replace an existing file.
        """
        table = self.to_arrow()
        from pyarrow import parquet

        with atomic_file(path, overwrite=overwrite) as file:
            parquet.write_table(table, file)
