"""A fitted model as calibration, OOD detection, decisions and evaluation see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.inputs.search import SearchSettings
from hedgerow.inputs.subset import LabelSubset
from hedgerow.inputs.training_record import Hashes
from hedgerow.vocabulary.vocabulary import Vocabulary
from hedgerow.votes.signals import Detector, Signals
from hedgerow.votes.votes import Votes

__all__ = ["Answer", "VoteSource"]


@dataclass(frozen=True, eq=False)
class Answer:
    """What one search found for a batch of inputs: votes, calibrated where the model is.

    `ranking` orders the labels where the mean of the votes does not, as calibration may make some equal.
    """

    votes: Votes
    ranking: npt.NDArray[np.float32] | None = None
    signals: Signals | None = None


class VoteSource(Protocol):
    """A fitted model, for whatever reads its votes.

    `label_counts` is how many training inputs have each label, where that is known; `known` counts the labels
    that can be predicted; `threads` is 0 for all processors.
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
    def vocabulary(self) -> Vocabulary | None: ...  # noqa: D102
    @property
    def ood(self) -> Detector | None: ...  # noqa: D102

    def inputs(self, X: Any) -> Any:
        """The inputs in a form that can be counted and cut."""

    def check(self, inputs: Any) -> None:
        """Refuse inputs whose values cannot be read."""

    def inputs_and_truth(self, X: Any, Y: Any) -> tuple[Any, sp.csr_array]:
        """The same with their labels, in the columns of the model; labels it does not know come last."""

    def hashes(self, inputs: Any) -> Hashes:
        """A 64-bit hash of each input."""

    def seen(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Which inputs the model was trained on; none where it does not remember."""

    def label_depths(self) -> npt.NDArray[np.float64]:
        """The depth of each label in the trees, the mean over the members."""

    def answer(
        self,
        inputs: Any,
        *,
        tolerance: float | None = None,
        k: int = 1,
        signals: bool = False,
        subset: LabelSubset | None = None,
    ) -> Answer:
        """One search: the votes on at least k labels of each input; of a subset, if one is given."""

    def signals(self, inputs: Any) -> Signals:
        """What the OOD score is computed from."""

    def uncalibrated(self) -> VoteSource:
        """The same without its calibration."""

    def unseen_by_members(
        self,
        hashes: Hashes,
        truth: sp.csr_array,
        costs: npt.NDArray[np.float32] | None,
        rows: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Which members were not trained on each of these rows of the training data: (rows, members)."""
