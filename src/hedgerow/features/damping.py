"""Dampens features that are counts, so that one word that is repeated often does not drown the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native

__all__ = ["Damping"]


@dataclass(frozen=True, eq=False)
class Damping:
    """Values become their square roots, times a weight that is larger for features that few inputs have.

    Of tf-idf without a logarithm, which is tf times idf, this makes about the square root of tf, times idf.

    Attributes
    ----------
    weights : float32 array, shape (features,)
        The square root of ln((1 + inputs) / (1 + inputs with the feature)) + 1.
    """

    weights: npt.NDArray[np.float32]

    @classmethod
    def of(cls, rows: _native.Rows) -> Damping:
        """The weights for inputs like these.

        Examples
        --------
        >>> from hedgerow.inputs.matrices import as_rows
        >>> rows = as_rows(np.array([[4.0, 0.0], [9.0, 1.0]]))
        >>> damping = Damping.of(rows)
        >>> damping.weights.round(2)
        array([1.  , 1.19], dtype=float32)
        >>> damping.apply(rows).arrays()[2].round(2)
        array([2.  , 3.  , 1.19], dtype=float32)
        """
        indptr, indices, values, columns = rows.arrays()
        there = indices if values is None else indices[values != 0]
        having = np.bincount(there, minlength=columns)
        return cls(np.sqrt(np.log(len(indptr) / (1.0 + having)) + 1.0).astype(np.float32))

    def apply(self, rows: _native.Rows) -> _native.Rows:
        """The same inputs with other values; what is below 0 stays there."""
        indptr, indices, values, columns = rows.arrays()
        if values is None:
            return _native.Rows(indptr, indices, self.weights[indices], columns)
        damped = np.sqrt(np.abs(values))
        damped *= self.weights[indices]
        return _native.Rows(indptr, indices, np.copysign(damped, values), columns)

    @classmethod
    def from_section(cls, weights: npt.NDArray[Any], columns: int) -> Damping:
        """The weights of a model file, checked."""
        if weights.dtype != np.float32 or weights.shape != (columns,):
            raise ValueError("the weights of the features have the wrong type or number")
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise ValueError("the weights of the features are not finite numbers above 0")
        return cls(np.asarray(weights))
