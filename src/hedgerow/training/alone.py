"""Threads of this process in place of a cluster: as many blocks at once as memory allows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from hedgerow.storage.scratch import Scratch
from hedgerow.training.memory import Allotment

__all__ = ["Alone"]

Result = TypeVar("Result")


class Alone:
    """Workers that are threads of this process; the folder is for arrays too large for memory."""

    spreads = False

    def __init__(self, allotment: Allotment, folder: str) -> None:
        self.processors = allotment.blocks
        self.threads = allotment.threads
        self.threads_each = allotment.threads // allotment.blocks
        self.most_work = allotment.block_work
        self.scratch = Scratch(folder, allotment.array_bytes)
        self._stopped = threading.Event()

    def watch(self, _: float) -> None:
        """Called by tasks some ten times a second: ends them when nobody waits for them any more."""
        if self._stopped.is_set():
            raise KeyboardInterrupt

    def put(self, value: Any) -> Any:
        """Tasks share the memory of this process, so the value itself."""
        return value

    def run(
        self, function: Callable[..., Result], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Result]]:
        """Call a function for each tuple of arguments; yields (number of the task, result) as they are done.

        Results do not pile up: a task begins when a thread is free.
        """
        if self.processors == 1:
            for number, arguments in enumerate(tasks):
                yield number, function(*arguments)
            return
        waiting = iter(enumerate(tasks))
        running: dict[Future[Result], int] = {}
        with ThreadPoolExecutor(self.processors) as pool:
            try:
                while True:
                    while len(running) < self.processors and (task := next(waiting, None)) is not None:
                        running[pool.submit(function, *task[1])] = task[0]
                    if not running:
                        return
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        yield running.pop(future), future.result()
            except BaseException:
                self._stopped.set()
                raise

    def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function once."""
        return function(*arguments)

    def together(self, function: Callable[[int], Result], numbers: Sequence[int]) -> list[Result]:
        """Call a function for each number, one after the other: each uses all threads."""
        return [function(number) for number in numbers]
