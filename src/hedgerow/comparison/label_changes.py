"""Which labels gained and which lost, with a test that minds how many labels were looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from hedgerow.comparison.label_union import LabelUnion
from hedgerow.comparison.measuring import Measured

__all__ = ["LABEL_TEST", "LabelChange", "benjamini_hochberg", "label_changes", "sign_test"]

LABEL_TEST = "exact sign test, Benjamini-Hochberg at a false discovery rate of 5 %"
_RATE = 0.05
_BEST = 5

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LabelChange:
    """How often one label was found: where it is true, among the best five labels.

    Attributes
    ----------
    label : str or int
        The label.
    true : int
        Rows that have it.
    gained, lost : int
        Of these, the rows in which only NEW, or only OLD, has it among its best five labels.
    p_value : float
        Of the sign test: as many rows as this on one side, or more, if both models were equally good.
    adjusted : float
        The same, corrected for all labels that were looked at (Benjamini-Hochberg).
    """

    label: Any
    true: int
    gained: int
    lost: int
    p_value: float
    adjusted: float

    @property
    def is_clear(self) -> bool:
        """Whether it changed beyond chance."""
        return self.adjusted <= _RATE


def label_changes(
    old: Measured, new: Measured, union: LabelUnion, true: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
) -> list[LabelChange]:
    """All labels about which the models differ, those that gained most first.

    `true` are the rows and the labels (places in the union) that are true.
    """
    size = len(union)
    truth = np.unique(true[0] * size + true[1])
    listed = [_entries(of, size) for of in (old, new)]
    # What is listed and not true needs no count of its own: in a list of five, it takes a place from others.
    found = [np.isin(truth, of, assume_unique=True) for of in listed]
    gains = np.bincount(truth[found[1] & ~found[0]] % size, minlength=size)
    losses = np.bincount(truth[found[0] & ~found[1]] % size, minlength=size)
    differing = np.flatnonzero(gains + losses)
    p_values = sign_test(gains[differing], losses[differing])
    adjusted = benjamini_hochberg(p_values)
    number = np.bincount(truth % size, minlength=size)
    net = gains[differing] - losses[differing]
    order = np.lexsort((differing, p_values, -net))
    return [
        LabelChange(
            union.ids[label],
            int(number[label]),
            int(gains[label]),
            int(losses[label]),
            float(p_values[place]),
            float(adjusted[place]),
        )
        for place, label in zip(order.tolist(), differing[order].tolist(), strict=True)
    ]


def _entries(measured: Measured, size: int) -> npt.NDArray[np.int64]:
    """Rows and labels that are among the best, numbered."""
    best = measured.labels[:, :_BEST]
    row, place = np.nonzero(best >= 0)
    return row.astype(np.int64) * size + best[row, place]


def sign_test(gains: npt.NDArray[np.int64], losses: npt.NDArray[np.int64]) -> Floats:
    """Two-sided p-values of as many gains and losses, if each were as likely as the other.

    Examples
    --------
    >>> sign_test(np.array([5, 2]), np.array([0, 2]))
    array([0.0625, 1.    ])
    """
    fewer = np.minimum(gains, losses)
    return np.asarray(np.minimum(1.0, 2 * stats.binom.cdf(fewer, gains + losses, 0.5)), dtype=np.float64)


def benjamini_hochberg(p_values: Floats) -> Floats:
    """P-values corrected for their number: of those at most 5 %, at most 5 % are expected to be chance.

    Examples
    --------
    >>> benjamini_hochberg(np.array([0.01, 0.04, 0.03, 0.5])).round(4)
    array([0.04  , 0.0533, 0.0533, 0.5   ])
    """
    number = len(p_values)
    order = np.argsort(p_values)
    scaled = p_values[order] * number / np.arange(1, number + 1)
    adjusted = np.empty(number)
    adjusted[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return np.minimum(adjusted, 1.0)
