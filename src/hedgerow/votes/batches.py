"""Answers on many inputs, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hedgerow.inputs.rows import count
from hedgerow.inputs.subset import LabelSubset
from hedgerow.progress import Stage
from hedgerow.votes.source import Answer, VoteSource

__all__ = ["answer_batches"]

_VOTE_BYTES = 1 << 26  # a batch of votes is about this large
_ROWS = 1024


def answer_batches(
    source: VoteSource,
    inputs: Any,
    *,
    tolerance: float | None = None,
    k: int = 1,
    signals: bool = False,
    subset: LabelSubset | None = None,
    progress: Stage | None = None,
) -> Iterator[tuple[slice, Answer]]:
    """Predict in batches whose votes are about as large as they may be; yields the rows and the answer.

    `inputs` is what `VoteSource.inputs` gave.
    """
    source.check(inputs)  # as a whole, so that errors name the right row
    begin, size, rows = 0, 16, count(inputs)
    while begin < rows:
        batch = slice(begin, min(begin + size, rows))
        answer = source.answer(inputs[batch], tolerance=tolerance, k=k, signals=signals, subset=subset)
        yield batch, answer
        taken = max(1, answer.votes.probs.nbytes)
        size = max(1, min(_ROWS, int((batch.stop - begin) * _VOTE_BYTES / taken)))
        begin = batch.stop
        if progress:
            progress(begin / rows)
