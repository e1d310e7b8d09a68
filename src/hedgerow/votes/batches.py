"""Votes on many inputs, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hedgerow.inputs.rows import count
from hedgerow.votes.votes import Votes

if TYPE_CHECKING:
    from hedgerow.estimators.features import HedgerowClassifier

__all__ = ["vote_batches"]

_VOTE_BYTES = 1 << 26  # a batch of votes is about this large
_ROWS = 1024


def vote_batches(
    model: HedgerowClassifier,
    X: Any,
    what: str,
    *,
    tolerance: float | None = None,
    progress: Callable[[float, str], None] | None = None,
) -> Iterator[tuple[slice, Votes]]:
    """Predict in batches whose votes are about as large as they may be.

    Parameters
    ----------
    model : HedgerowClassifier
        A fitted model.
    X : inputs
        As the model takes them, so that slices can be taken.
    what : str
        What is being done, for `progress`.
    tolerance : float, optional
        As of `HedgerowClassifier.predict_votes`.
    progress : callable(share, what), optional
        Called after each batch.

    Yields
    ------
    slice, Votes
        The rows, and the votes on them.
    """
    options: dict[str, Any] = {} if tolerance is None else {"tolerance": tolerance}
    begin, size, rows = 0, 16, count(X)
    while begin < rows:
        batch = slice(begin, min(begin + size, rows))
        votes = model.predict_votes(X[batch], **options)
        yield batch, votes
        size = max(1, min(_ROWS, int((batch.stop - begin) * _VOTE_BYTES / max(1, votes.probs.nbytes))))
        begin = batch.stop
        if progress:
            progress(begin / rows, what)
