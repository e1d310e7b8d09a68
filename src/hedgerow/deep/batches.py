"""Batches of texts of similar length, so that little is computed for padding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["bucketed_batches", "steps_of"]

# Texts are sorted by length within this many batches: alike enough, and still in a random order.
_BATCHES_PER_POOL = 50


def bucketed_batches(
    lengths: npt.NDArray[np.integer[Any]], size: int, seed: tuple[int, ...]
) -> list[npt.NDArray[np.int64]]:
    """Cut texts into batches in a random order, those of similar length together; one may have fewer texts.

    Examples
    --------
    >>> batches = bucketed_batches(np.array([9, 2, 8, 3]), 2, (0,))
    >>> sorted(sorted(batch.tolist()) for batch in batches)
    [[0, 2], [1, 3]]
    """
    if size < 1:
        raise ValueError(f"size is {size}; a batch has at least one text")
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(lengths))
    batches: list[npt.NDArray[np.int64]] = []
    for begin in range(0, len(order), size * _BATCHES_PER_POOL):
        pool = order[begin : begin + size * _BATCHES_PER_POOL]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += [pool[start : start + size] for start in range(0, len(pool), size)]
    return [batches[place] for place in draw.permutation(len(batches))]


def steps_of(
    lengths: npt.NDArray[np.integer[Any]], size: int, seed: tuple[int, ...], steps: int, begin: int = 0
) -> Iterator[npt.NDArray[np.int64]]:
    """Batches of one pass over the texts after the other, from step `begin` to `steps` - 1."""
    each = max(1, -(-len(lengths) // size))
    batches: list[npt.NDArray[np.int64]] = []
    for step in range(begin, steps):
        if not batches or step % each == 0:
            batches = bucketed_batches(lengths, size, (*seed, step // each))
        yield batches[step % each]
