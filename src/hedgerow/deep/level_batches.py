"""The batches of one level, made in advance while earlier ones are learned from."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hedgerow.deep.candidate_scores import gather_candidates
from hedgerow.deep.embedding import Reader
from hedgerow.deep.levels import Level, Targets
from hedgerow.deep.team import Team
from hedgerow.deep.tokens import Tokens

# Texts are sorted by length within this many batches: alike enough, and still in a random order.
_BATCHES_PER_POOL = 50
_AHEAD = 4  # batches that are made in advance
# On a GPU, batches are as wide as a multiple of this: every width is recorded once.
_WIDTH_STEP = 32


@dataclass(frozen=True, eq=False)
class TuningData:
    """What an encoder is fine-tuned on.

    `first` is what the encoder makes of the texts before it is changed, shape (texts, width), if known.
    """

    texts: Tokens
    targets: Targets
    first: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False)
class Batch:
    """Texts of a step as tokens, and their candidates as of `CandidateBatch`: the share of this process."""

    ids: torch.Tensor
    mask: torch.Tensor
    places: torch.Tensor
    valid: torch.Tensor
    right: torch.Tensor
    nodes: torch.Tensor
    candidates: int  # of all processes
    own_candidates: int
    tokens: int

    def to(self, device: torch.device) -> Batch:
        """The same on a device; nothing waits for it."""
        tensors = {name: of for name, of in vars(self).items() if isinstance(of, torch.Tensor)}
        return replace(self, **{name: of.to(device, non_blocking=True) for name, of in tensors.items()})


class LevelBatches:
    """Batches of `size` texts for the steps of a level; `seed` chooses their order.

    `waited` counts the seconds in which a step waited for its batch.
    """

    def __init__(
        self, data: TuningData, level: Level, reader: Reader, team: Team, size: int, seed: tuple[int, int]
    ) -> None:
        self.texts, self.costs, self.level = data.texts, data.targets.costs, level
        self.reader, self.team, self.size, self.seed = reader, team, size, seed
        self.waited = 0.0

    def prepared(self, begin: int, steps: int) -> Iterator[tuple[int, Batch]]:
        """The steps from `begin` to `steps` - 1 and their batches."""
        rows = self._rows(begin, steps)
        with ThreadPoolExecutor(1) as pool:
            coming = deque(pool.submit(self._batch, chosen) for chosen in islice(rows, _AHEAD))
            for step in range(begin, steps):
                start = time.perf_counter()
                batch = coming.popleft().result()
                self.waited += time.perf_counter() - start
                following = next(rows, None)
                if following is not None:
                    coming.append(pool.submit(self._batch, following))
                yield step, batch

    def _rows(self, begin: int, steps: int) -> Iterator[npt.NDArray[np.int64]]:
        """The texts of each step."""
        lengths = self.texts.lengths
        if self.costs is None:
            yield from steps_of(lengths, self.size, self.seed, steps, begin)
            return
        each = max(1, -(-len(lengths) // self.size))
        for number in range(begin // each, -(-steps // each)):
            rows = texts_of_pass(self.costs, (*self.seed, number))
            first, last = max(begin, number * each), min(steps, (number + 1) * each)
            yield from (rows[batch] for batch in steps_of(lengths[rows], self.size, self.seed, last, first))

    def _batch(self, rows: npt.NDArray[np.int64]) -> Batch:
        """Everything that a step needs, in memory that a GPU can read by itself."""
        own = slice(self.team.rank, None, self.team.size)
        candidates = gather_candidates(self.level.candidates, rows)
        width = 0
        if self.team.device.type == "cuda":
            longest = int(self.texts.lengths[rows[own]].max(initial=1))
            width = min(-(-longest // _WIDTH_STEP) * _WIDTH_STEP, self.reader.max_length)
        ids, mask = self.texts.padded(rows[own], self.reader.pad, width)
        return Batch(
            ids=self._shared(ids),
            mask=self._shared(mask),
            places=self._shared(candidates.places[own]),
            valid=self._shared(candidates.valid[own]),
            right=self._shared(candidates.right[own]),
            nodes=self._shared(candidates.nodes),
            candidates=candidates.count,
            own_candidates=int(candidates.valid[own].sum()),
            tokens=int(self.texts.lengths[rows].sum()),
        )

    def _shared(self, array: npt.NDArray[Any]) -> torch.Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor.pin_memory() if self.team.device.type == "cuda" else tensor


def texts_of_pass(costs: npt.NDArray[np.float32], seed: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """As many texts as there are costs, ascending; each as often as its share says, rounded up or down.

    Examples
    --------
    >>> texts_of_pass(np.array([1, 0, 2, 1], dtype=np.float32), (0,))
    array([0, 2, 2, 3])
    """
    ends = np.cumsum(costs, dtype=np.float64)
    ends *= len(costs) / ends[-1]
    # Evenly spaced from a random start, so that by chance alone no text comes more often than another.
    places = np.arange(len(costs)) + np.random.default_rng((*seed, len(costs))).random()
    found = np.searchsorted(ends, places, side="right")
    return np.asarray(np.minimum(found, np.flatnonzero(costs)[-1]), dtype=np.int64)


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
