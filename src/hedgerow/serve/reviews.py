"""What people reviewed in a queue, as records to learn from."""

from __future__ import annotations

import os
from collections.abc import Iterable

from hedgerow.comparison.learning import Reviewed

from .queue_store import QueueStore, ReviewedText

__all__ = ["as_records", "read_reviewed"]


def as_records(texts: Iterable[ReviewedText]) -> Reviewed:
    """Records of reviewed texts; one without an id gets that of its number in the queue."""
    last = {text.text_id or f"review-{text.id}": text for text in texts}  # the last review of an id counts
    return Reviewed([one.text for one in last.values()], [one.labels for one in last.values()], list(last))


def read_reviewed(queue: str | os.PathLike[str]) -> Reviewed:
    """The same of the file of a queue; QueueError where it cannot be used."""
    store = QueueStore(queue)
    try:
        return as_records(store.reviewed())
    finally:
        store.close()
