"""How long work reports how far it is. Any room may import this file; it imports none."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "Stage", "stage"]

Progress = Callable[[float, str], None]
"""Takes the share of the work that is done, from 0 to 1, and what is being done."""

Stage = Callable[[float], None]
"""Takes the share that is done of one kind of work."""


def stage(progress: Progress | None, what: str) -> Stage | None:
    """The part of `progress` that reports one kind of work; None where nobody listens."""
    if progress is None:
        return None
    return lambda share: progress(share, what)
