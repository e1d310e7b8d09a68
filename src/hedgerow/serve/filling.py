"""Texts on their way into the review queue: with what the model says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .prediction import Wanted, predict
from .queue_store import QueueStore, TextInput
from .served_model import ServedModel
from .verdicts import flag_ood

FALSE_ALARM = 0.05
# What a reviewer sees of each text.
REVIEWED = Wanted(k=20, uncertainty=True, votes=True)
_AT_ONCE = 256


def fill_queue(
    store: QueueStore,
    served: ServedModel,
    texts: Sequence[TextInput],
    text_ids: Sequence[str | None] | None = None,
) -> list[int]:
    """Predict texts and add all of them, or none; return their numbers."""
    results: list[dict[str, Any]] = []
    for start in range(0, len(texts), _AT_ONCE):
        results += predict(served, list(texts[start : start + _AT_ONCE]), REVIEWED)
    flag_ood(results, FALSE_ALARM)
    return store.add(queued(texts, results), served.id, text_ids)


def queued(
    texts: Sequence[TextInput], results: Sequence[dict[str, Any]]
) -> list[tuple[TextInput, float, dict[str, Any]]]:
    """Texts for the queue, each with the largest knowledge uncertainty of any of its labels.

    Where the members disagree most, a review teaches most. The sum over all labels would rank texts with many
    labels first.
    """
    return [
        (text, max(float(label["knowledge"]) for label in result["labels"]), result)
        for text, result in zip(texts, results, strict=True)
    ]
