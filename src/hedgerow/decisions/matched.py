"""Candidates next to the true labels, entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.decisions.risk import GRID
from hedgerow.votes.votes import Votes

__all__ = ["Matched"]


class Matched:
    """Which candidates are true labels, and which true labels are candidates."""

    def __init__(self, votes: Votes, truth: sp.csr_array, known: npt.NDArray[np.bool_]) -> None:
        self.rows = len(votes)
        self.mean = votes.means()
        self.row = np.repeat(np.arange(self.rows), np.diff(votes.indptr))
        self.true_row = np.repeat(np.arange(self.rows), np.diff(truth.indptr))
        self.known = known[truth.indices]
        width = np.int64(truth.shape[1])
        entries = self.row * width + votes.labels
        wanted = self.true_row * width + truth.indices
        place = np.minimum(np.searchsorted(entries, wanted), max(0, len(entries) - 1))
        self.met = entries[place] == wanted if len(entries) else np.zeros(len(wanted), dtype=bool)
        self.true_mean = self.mean[place] if len(entries) else np.zeros(len(wanted), dtype=np.float32)
        self.right = np.zeros(len(entries), dtype=bool)
        self.right[place[self.met]] = True

    def reached(self, row: npt.NDArray[Any], values: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        """For each input and threshold, how many of the values are at least the threshold."""
        place = np.searchsorted(GRID, values, side="right") - 1
        counts = np.bincount(row * len(GRID) + place, minlength=self.rows * len(GRID))
        return np.cumsum(counts.reshape(self.rows, len(GRID))[:, ::-1], axis=1)[:, ::-1]
