"""Items that are handed out to the processors of a cluster through Ray Data, one at a time."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["stream"]


def stream(
    make: Callable[..., Callable[[Any], Any]],
    arguments: tuple[Any, ...],
    items: Sequence[Any],
    processors: int,
) -> Iterator[Any]:
    """Let processes that are made once handle items; yields results as they are done, in any order.

    `make(*arguments)` is called once in each process and gives what handles an item. An item whose process or
    node is lost is handled again, so handling twice must do no harm.
    """
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False

    class Handler:
        def __init__(self) -> None:
            self._handle = make(*arguments)

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            return {"result": [pickle.dumps(self._handle(pickle.loads(item))) for item in batch["item"]]}

    # A block for each item: none waits behind another while a process is idle.
    packed = ray.data.from_items(
        [{"item": pickle.dumps(item)} for item in items], override_num_blocks=len(items)
    )
    pool = ray.data.ActorPoolStrategy(min_size=1, max_size=min(processors, len(items)))
    for row in packed.map_batches(Handler, batch_size=1, num_cpus=1, compute=pool).iter_rows():
        yield pickle.loads(row["result"])
