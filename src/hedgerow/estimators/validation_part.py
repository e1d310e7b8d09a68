"""Cuts a validation part from training data, so that settings can be compared without test data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.presets import measure_data
from hedgerow.estimators.text import HedgerowTextClassifier
from hedgerow.features.readers import checked_texts
from hedgerow.inputs.labels import encode_labels
from hedgerow.inputs.matrices import as_rows
from hedgerow.inputs.rows import take
from hedgerow.inputs.threads import threads_for
from hedgerow.inputs.training_record import Hashes, hash_data, hash_texts
from hedgerow.training.presets import DataSize

__all__ = ["NEEDED", "SplitData", "TooFewInputsError", "cut_validation"]

_SHARE, _MOST = 0.15, 5000
NEEDED = 20  # inputs with labels; of fewer, a difference says nothing
_DRAW = 0x74756E65


class TooFewInputsError(ValueError):
    """There are too few inputs with labels to compare settings on."""


@dataclass(frozen=True, eq=False)
class SplitData:
    """Training data in two parts, without an input that is in both; what it measures, and its fingerprint."""

    inputs: Any
    labels: sp.csr_array
    fitting: npt.NDArray[np.int64]
    validation: npt.NDArray[np.int64]
    size: DataSize
    fingerprint: str

    def fitting_part(self) -> tuple[Any, sp.csr_array]:
        """Inputs to learn from, and their labels."""
        return take(self.inputs, self.fitting), self.labels[self.fitting]

    def validation_part(self) -> tuple[Any, sp.csr_array]:
        """Inputs to compare settings on, and their labels."""
        return take(self.inputs, self.validation), self.labels[self.validation]

    @classmethod
    def of(cls, estimator: HedgerowClassifier, X: Any, Y: Any, seed: int) -> SplitData:
        """Split what an estimator would learn from."""
        threads = threads_for(estimator.n_jobs)
        inputs, hashes = _read(estimator, X, threads)
        labels = encode_labels(Y, len(hashes), None, threads).indicator
        labelled = np.diff(labels.indptr) > 0
        fitting, validation = cut_validation(hashes, seed)
        if labelled[validation].sum() < NEEDED or not labelled[fitting].any():
            raise TooFewInputsError(
                f"{int(labelled.sum())} inputs with labels are too few to compare settings: {_SHARE:.0%} of"
                f" the different ones are held out, and at least {NEEDED} of these must have labels; give"
                " more data, or fit without tuning"
            )
        texts = isinstance(estimator, HedgerowTextClassifier)
        size = measure_data(inputs if texts or sp.issparse(inputs) else np.asarray(inputs), labels)
        return cls(inputs, labels, fitting, validation, size, hash_data(hashes, labels))


def cut_validation(hashes: Hashes, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows to learn from, and 15 % of them, at most 5,000, to compare on. Equal inputs stay together.

    Examples
    --------
    >>> fitting, validation = cut_validation(np.arange(20, dtype=np.uint64) // 2, seed=0)
    >>> validation.tolist()
    [10, 11]
    """
    most = min(_MOST, int(_SHARE * len(hashes)))
    _, group, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    order = np.random.default_rng([seed, _DRAW]).permutation(len(sizes))
    order = order[sizes[order] <= most]  # an input that fills the part alone says nothing about others
    drawn = order[np.cumsum(sizes[order]) <= most]
    held_out = np.isin(group, drawn)
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _read(estimator: HedgerowClassifier, X: Any, threads: int) -> tuple[Any, Hashes]:
    """Inputs that can be cut, and their hashes."""
    if not isinstance(estimator, HedgerowTextClassifier):
        rows = as_rows(X, threads=threads)
        matrix: Any = X if hasattr(X, "shape") else np.asarray(X)
        if sp.issparse(matrix):
            matrix = sp.csr_array(cast(Any, matrix))  # other formats cannot be cut into rows
        return matrix, rows.hashes(threads)
    fields = estimator.fields_read()
    inputs: Any = checked_texts(X) if fields is None else fields.records(X)
    if not inputs:
        raise ValueError("there are no texts to compare settings on")
    hashes = hash_texts(inputs) if fields is None else fields.hashes(inputs)
    return inputs, hashes
