"""Who votes, as readers of votes see it: judges, detectors, decisions and evaluation take nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.inputs.search import SearchSettings
from hedgerow.inputs.training_record import Hashes
from hedgerow.votes.signals import Detector, Signals
from hedgerow.votes.votes import Votes

__all__ = ["Answer", "VoteSource"]


@dataclass(frozen=True, eq=False)
class Answer:
    """What one search says of a batch of inputs.

    Attributes
    ----------
    votes : Votes
        What the members say, calibrated where the model is.
    ranking : float32 array, shape (entries,), or None
        What labels are ranked by where it is not the mean of the votes: calibration may make some equal.
    signals : Signals or None
        What shows how far the inputs are from the training data, where asked for.
    """

    votes: Votes
    ranking: npt.NDArray[np.float32] | None = None
    signals: Signals | None = None


class VoteSource(Protocol):
    """A fitted model, to those who read its votes.

    Attributes
    ----------
    classes : array, shape (n_labels,)
        Names of the labels, or columns of Y.
    label_counts : int64 array, shape (n_labels,), or None
        How many training inputs have each label; None where that is not known.
    n_samples : int or None
        Number of training inputs.
    members : int
        How many members vote.
    known : int
        How many labels can be predicted.
    transform : str
        How scores become probabilities.
    search : SearchSettings
        How candidates are found.
    threads : int
        For whatever is computed; 0 is all processors.
    calibrated : bool
        Whether votes are calibrated.
    ood : Detector or None
        What detects out-of-distribution inputs.
    """

    @property
    def classes(self) -> npt.NDArray[Any]: ...  # noqa: D102
    @property
    def label_counts(self) -> npt.NDArray[np.int64] | None: ...  # noqa: D102
    @property
    def n_samples(self) -> int | None: ...  # noqa: D102
    @property
    def members(self) -> int: ...  # noqa: D102
    @property
    def known(self) -> int: ...  # noqa: D102
    @property
    def transform(self) -> str: ...  # noqa: D102
    @property
    def search(self) -> SearchSettings: ...  # noqa: D102
    @property
    def threads(self) -> int: ...  # noqa: D102
    @property
    def calibrated(self) -> bool: ...  # noqa: D102
    @property
    def ood(self) -> Detector | None: ...  # noqa: D102

    def inputs(self, X: Any) -> Any:
        """The inputs in a form that can be counted and cut."""

    def inputs_and_truth(self, X: Any, Y: Any) -> tuple[Any, sp.csr_array]:
        """The same, and their labels in the columns of the model; labels it does not know come after those."""

    def hashes(self, inputs: Any) -> Hashes:
        """A 64-bit hash of each input."""

    def seen(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Which inputs the model was trained on; none where it does not remember."""

    def label_depths(self) -> npt.NDArray[np.float64]:
        """How deep each label lies in the trees, the mean over the members."""

    def answer(
        self, inputs: Any, *, tolerance: float | None = None, k: int = 1, signals: bool = False
    ) -> Answer:
        """One search: what the members say of at least k labels of each input."""

    def signals(self, inputs: Any) -> Signals:
        """What shows how far inputs are from the training data."""

    def uncalibrated(self) -> VoteSource:
        """The same without its calibration."""

    def unseen_by_members(
        self,
        hashes: Hashes,
        truth: sp.csr_array,
        costs: npt.NDArray[np.float32] | None,
        rows: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Which members were not trained on each of these rows of the training data, shape (rows, members)."""
