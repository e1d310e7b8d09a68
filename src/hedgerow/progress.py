"""How long work reports how far it is. Any room may import this file; it imports none."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

__all__ = ["Progress", "Stage", "logged", "stage"]

_LOGGER = logging.getLogger("hedgerow")
_SECONDS_BETWEEN = 10.0

Progress = Callable[[float, str], None]
"""Takes the share of the work that is done, from 0 to 1, and what is being done."""

Stage = Callable[[float], None]
"""Takes the share that is done of one kind of work."""


def stage(progress: Progress | None, what: str) -> Stage | None:
    """The part of `progress` that reports one kind of work; None where nobody listens."""
    if progress is None:
        return None
    return lambda share: progress(share, what)


def logged(progress: Progress | None = None) -> Progress:
    """A `Progress` that also writes to the log ``hedgerow``: when the work changes, and every ten seconds.

    Where nobody listens to that log, its lines go to standard error.
    """
    if not _LOGGER.hasHandlers():
        _LOGGER.addHandler(logging.StreamHandler())
        _LOGGER.setLevel(logging.INFO)
    last_work, last_time = "", 0.0

    def report(share: float, what: str) -> None:
        nonlocal last_work, last_time
        now = time.monotonic()
        if what != last_work or now - last_time >= _SECONDS_BETWEEN or share >= 1:
            _LOGGER.info("%3.0f %% %s", 100 * share, what)
            last_work, last_time = what, now
        if progress is not None:
            progress(share, what)

    return report
