"""Passes of an encoder on a GPU, recorded once for each shape: a replay is one launch, not hundreds."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Compute = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_WARM_UPS = 2


@dataclass(frozen=True, eq=False)
class _Recording:
    """A pass, and the memory that it reads and writes."""

    graph: Any
    ids: torch.Tensor
    mask: torch.Tensor
    found: torch.Tensor


class _Recorder(ABC):
    """What `compute`, from tokens to embeddings, launches on the GPU is recorded once for each shape.

    Where nothing can be recorded (no GPU, or an encoder that asks the GPU for a value in between), `works` is
    False; HEDGEROW_RECORD=0 in the environment makes it so. A recording reads the weights where they are:
    they may change, but not move. One thread at a time may use it.
    """

    def __init__(self, compute: Compute) -> None:
        self.compute = compute
        self.works = os.environ.get("HEDGEROW_RECORD", "1") != "0"
        self._recordings: dict[tuple[int, ...], Any] = {}
        self._pool: Any = None

    def record(self, ids: torch.Tensor, mask: torch.Tensor) -> bool:
        """Record the shape of `ids`, which are on the GPU, if it is new; says whether it is recorded."""
        self.works = self.works and ids.is_cuda
        if self.works and tuple(ids.shape) not in self._recordings:
            try:
                with torch.cuda.device(ids.device):
                    self._recordings[tuple(ids.shape)] = self._made(ids, mask)
            except RuntimeError:  # memory, or a launch that cannot be recorded
                self.give_up()
                _renew_generator(ids.device)
        return self.works

    def give_up(self) -> None:
        """Forget all recordings, with the memory that they hold, and make no more."""
        self._recordings.clear()
        self._pool, self.works = None, False

    @abstractmethod
    def _made(self, ids: torch.Tensor, mask: torch.Tensor) -> Any: ...


class RecordedPasses(_Recorder):
    """Embeddings without gradients."""

    def replay(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The embeddings of a batch of a shape that was recorded."""
        recording = self._recordings[tuple(ids.shape)]
        with torch.cuda.device(ids.device):
            recording.ids.copy_(ids, non_blocking=True)
            recording.mask.copy_(mask, non_blocking=True)
            recording.graph.replay()
            return recording.found.clone()  # the next replay overwrites it

    def _made(self, ids: torch.Tensor, mask: torch.Tensor) -> _Recording:
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        own_ids, own_mask = ids.clone(), mask.clone()
        _warm_up(lambda: self.compute(own_ids, own_mask))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            found = self.compute(own_ids, own_mask)
        return _Recording(graph, own_ids, own_mask, found)


@dataclass(frozen=True, eq=False)
class _Lesson:
    """The way from tokens to embeddings and back, and the memory that both read and write."""

    there: Any
    back: Any
    ids: torch.Tensor
    mask: torch.Tensor
    found: torch.Tensor
    given: torch.Tensor


class RecordedGradients(_Recorder):
    """Embeddings, and the gradients that `parameters` get from theirs.

    Whoever asks for embeddings asks for their gradients next, and for no other embeddings in between: all
    shapes share the memory of what is computed on the way.
    """

    def __init__(self, compute: Compute, parameters: Sequence[torch.Tensor]) -> None:
        super().__init__(compute)
        self._parameters = list(parameters)
        self._all_gradients = torch.empty(0)
        self._gradients: list[torch.Tensor | None] = []  # parts of the above

    def give_up(self) -> None:
        """Forget all recordings, with the memory that they hold, and make no more."""
        super().give_up()
        self._all_gradients, self._gradients = torch.empty(0), []

    def embeddings(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The embeddings of a batch of a shape that was recorded; the next call overwrites them."""
        lesson = self._recordings[tuple(ids.shape)]
        with torch.cuda.device(ids.device):
            lesson.ids.copy_(ids, non_blocking=True)
            lesson.mask.copy_(mask, non_blocking=True)
            lesson.there.replay()
        return lesson.found.detach().requires_grad_()

    def learn(self, ids: torch.Tensor, gradient: torch.Tensor) -> None:
        """Give the parameters their gradients, from that of the embeddings of `ids`."""
        lesson = self._recordings[tuple(ids.shape)]
        with torch.cuda.device(ids.device):
            lesson.given.copy_(gradient)
            lesson.back.replay()
        for parameter, found in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = found

    def _made(self, ids: torch.Tensor, mask: torch.Tensor) -> _Lesson:
        own_ids, own_mask = ids.clone(), mask.clone()

        def back(found: torch.Tensor, given: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            return tuple(torch.autograd.grad(found, self._parameters, given, allow_unused=True))

        def both() -> tuple[torch.Tensor | None, ...]:
            found = self.compute(own_ids, own_mask)
            return back(found, torch.zeros_like(found))

        known = _warm_up(both)
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
            self._all_gradients, self._gradients = _side_by_side(known)
        del known
        options = {"pool": self._pool, "capture_error_mode": "thread_local"}  # batches are made meanwhile
        there, returning = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(there, **options):
            found = self.compute(own_ids, own_mask)
        given = torch.zeros_like(found)
        with torch.cuda.graph(returning, **options):
            new = [of.flatten() for of in back(found, given) if of is not None]
            torch.cat(new, out=self._all_gradients)  # one launch, where a copy of each would be hundreds
        return _Lesson(there, returning, own_ids, own_mask, found.detach(), given)


def _side_by_side(
    gradients: Sequence[torch.Tensor | None],
) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    """Memory for all gradients in one tensor, and the part of each, which has its shape."""
    there = [of for of in gradients if of is not None]
    whole = torch.cat([torch.zeros_like(of).flatten() for of in there])
    parts = iter(whole.split([of.numel() for of in there]))
    return whole, [None if of is None else next(parts).view(of.shape) for of in gradients]


def _renew_generator(device: torch.device) -> None:
    """After a recording that failed, the generator of a GPU still waits for its end; give it a fresh one."""
    place = torch.cuda.current_device() if device.index is None else device.index
    generator = torch.cuda.default_generators[place]
    fresh = torch.Generator(device)
    fresh.manual_seed(generator.initial_seed())
    generator.graphsafe_set_state(fresh.graphsafe_get_state())


def _warm_up(launch: Callable[[], Any]) -> Any:
    """Launch some times aside, as what is recorded must not be the first time; returns what came last."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(_WARM_UPS):
            found = launch()
    torch.cuda.current_stream().wait_stream(aside)
    return found
