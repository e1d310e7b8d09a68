"""Passes of an encoder on a GPU, recorded once for each shape: a replay is one launch, not hundreds."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["RecordedPasses"]

Compute = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_WARM_UPS = 2


@dataclass(frozen=True, eq=False)
class _Recording:
    """A pass, and the memory that it reads and writes."""

    graph: Any
    ids: torch.Tensor
    mask: torch.Tensor
    found: torch.Tensor


class RecordedPasses:
    """Records what `compute` launches on the GPU for a shape, and replays it.

    Where nothing can be recorded (no GPU, or an encoder that asks the GPU for a value in between), `works` is
    False; HEDGEROW_RECORD=0 in the environment makes it so. A recording reads the weights where they are:
    they may change, but not move.

    Parameters
    ----------
    compute : callable(ids, mask)
        Tokens to embeddings, without gradients.
    """

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._recordings: dict[tuple[int, ...], _Recording] = {}
        self._pool: Any = None
        self._lock = threading.Lock()
        self.works = os.environ.get("HEDGEROW_RECORD", "1") != "0"

    def record(self, ids: torch.Tensor, mask: torch.Tensor) -> bool:
        """Record the shape of `ids`, which are on the GPU, if it is new; says whether it is recorded."""
        with self._lock:
            self.works = self.works and ids.is_cuda
            if self.works and tuple(ids.shape) not in self._recordings:
                try:
                    with torch.cuda.device(ids.device):
                        self._recordings[tuple(ids.shape)] = self._made(ids, mask)
                except RuntimeError:  # memory, or a launch that cannot be recorded
                    self.works = False
            return self.works

    def replay(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The embeddings of a batch of a shape that was recorded."""
        recording = self._recordings[tuple(ids.shape)]
        with self._lock, torch.cuda.device(ids.device):
            recording.ids.copy_(ids, non_blocking=True)
            recording.mask.copy_(mask, non_blocking=True)
            recording.graph.replay()
            return recording.found.clone()  # the next replay overwrites it

    def _made(self, ids: torch.Tensor, mask: torch.Tensor) -> _Recording:
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        own_ids, own_mask = ids.clone(), mask.clone()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UPS):
                self._compute(own_ids, own_mask)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            found = self._compute(own_ids, own_mask)
        return _Recording(graph, own_ids, own_mask, found)
