"""Texts as token numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Tokens:
    """Texts as numbers of tokens: those of text `i` are ``ids[indptr[i] : indptr[i + 1]]``."""

    indptr: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each text."""
        return np.diff(self.indptr)

    def padded(
        self, rows: npt.NDArray[np.integer[Any]], pad: int, width: int = 0
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Some texts as a matrix at least `width` wide, filled up with `pad`; and ones where text is."""
        lengths = self.lengths[rows]
        width = max(width, int(lengths.max(initial=1)))
        mask = np.arange(width) < lengths[:, None]
        ids = np.full(mask.shape, pad, dtype=np.int64)
        starts = np.cumsum(lengths) - lengths
        ids[mask] = self.ids[np.repeat(self.indptr[rows] - starts, lengths) + np.arange(int(lengths.sum()))]
        return ids, mask.astype(np.int64)
