"""Inputs as users have them: rows of a matrix, or texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def count(inputs: Any) -> int:
    """How many inputs there are."""
    if not hasattr(inputs, "shape"):
        return len(inputs)
    if not inputs.shape:
        raise TypeError(f"X is {inputs!r:.60}; give a matrix of shape (n, d)")
    return int(inputs.shape[0])


def take(inputs: Any, rows: npt.NDArray[np.integer[Any]]) -> Any:
    """Some of the inputs, by number.

    Examples
    --------
    >>> take(["yew", "elm", "oak"], np.array([2, 0]))
    ['oak', 'yew']
    """
    if hasattr(inputs, "iloc"):  # of pandas, where plain brackets choose columns or look up an index
        return inputs.iloc[rows]
    return inputs[rows] if hasattr(inputs, "shape") else [inputs[row] for row in rows.tolist()]
