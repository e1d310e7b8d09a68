"""Requests that come at the same time are predicted together: one call of the engine serves many."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import scipy.sparse as sp

from .errors import overloaded
from .prediction import Inputs, Wanted
from .served_model import ServedModel

Result = dict[str, Any]
Predict = Callable[[ServedModel, Inputs, Wanted], list[Result]]


@dataclass(eq=False)
class _Job:
    served: ServedModel
    inputs: Inputs
    count: int
    wanted: Wanted
    answer: asyncio.Future[list[Result]] = field(repr=False)

    def joins(self, other: _Job) -> bool:
        return self.served is other.served and self.wanted == other.wanted and not self.wanted.apart


class Batcher:
    """Gathers inputs while the engine is busy, and for a moment when it is not.

    An idle engine begins at once with what there is, so a lone client waits for nothing. If the batch before
    held several requests, more are likely to come: then it waits up to `linger` seconds for company.

    `executor` has one thread, for the engine has threads of its own. A batch has at most `most` inputs, or
    is one request that has more; at most `waiting` inputs wait, and more are refused at once. `observe` is
    called with the number of inputs of every batch.
    """

    def __init__(
        self,
        predict: Predict,
        executor: Executor,
        most: int = 64,
        linger: float = 0.001,
        waiting: int = 1024,
        observe: Callable[[int], None] = lambda inputs: None,
    ) -> None:
        self._predict = predict
        self._executor = executor
        self._most = most
        self._linger = linger
        self._limit = waiting
        self._observe = observe
        self._jobs: deque[_Job] = deque()
        self._running = False
        self._company = False
        self._timer: asyncio.TimerHandle | None = None
        self.waiting = 0

    async def predict(self, served: ServedModel, inputs: Inputs, count: int, wanted: Wanted) -> list[Result]:
        """Predict `count` inputs that were checked already, together with whoever wants the same now."""
        # A lone request that is larger than the limit would be refused for ever.
        if self.waiting and self.waiting + count > self._limit:
            raise overloaded(f"{self.waiting} inputs wait already, and at most {self._limit} may")
        job = _Job(served, inputs, count, wanted, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self.waiting += count
        self._wake()
        return await job.answer

    def _wake(self) -> None:
        if self._running or not self._jobs:
            return
        if self._company and self._linger and self.waiting < self._most:
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(self._linger, self._start)
            return
        self._start()

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = self._take()
        if not batch:
            return
        self._running = True
        self._company = len(batch) > 1
        loop = asyncio.get_running_loop()
        loop.run_in_executor(self._executor, self._run, batch).add_done_callback(
            lambda done: self._finish(batch, done)
        )

    def _take(self) -> list[_Job]:
        """The first job and those after it that can join it, in their order."""
        batch: list[_Job] = []
        others: deque[_Job] = deque()
        inputs = 0
        while self._jobs and inputs < self._most:
            job = self._jobs.popleft()
            if job.answer.done():  # its client has gone, or waited too long
                self.waiting -= job.count
            elif batch and (not job.joins(batch[0]) or inputs + job.count > self._most):
                others.append(job)
            else:
                batch.append(job)
                inputs += job.count
        self._jobs.extendleft(reversed(others))
        self.waiting -= inputs
        return batch

    def _run(self, batch: list[_Job]) -> list[list[Result] | Exception]:
        first = batch[0]
        try:
            if len(batch) == 1:
                return [self._predict(first.served, first.inputs, first.wanted)]
            found = self._predict(first.served, _joined([job.inputs for job in batch]), first.wanted)
        except Exception as error:
            if len(batch) == 1:
                return [error]
            # One of them fails for all: predict each on its own.
            return [answer for job in batch for answer in self._run([job])]
        answers: list[list[Result] | Exception] = []
        begin = 0
        for job in batch:
            answers.append(found[begin : begin + job.count])
            begin += job.count
        return answers

    def _finish(self, batch: list[_Job], done: asyncio.Future[list[list[Result] | Exception]]) -> None:
        self._running = False
        self._observe(sum(job.count for job in batch))
        failure = asyncio.CancelledError() if done.cancelled() else done.exception()
        answers: list[Any] = [failure] * len(batch) if failure is not None else done.result()
        for job, answer in zip(batch, answers, strict=True):
            if job.answer.done():
                continue
            if isinstance(answer, BaseException):
                job.answer.set_exception(answer)
            else:
                job.answer.set_result(answer)
        self._wake()


def _joined(parts: list[Inputs]) -> Inputs:
    if sp.issparse(parts[0]):
        return sp.vstack(parts, format="csr")
    return [text for part in parts for text in part]
