"""Votes on a subset of labels, where what is said of a label depends on all candidates of its input."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.inputs.subset import LabelSubset
from hedgerow.votes.votes import Votes

__all__ = ["crossed_out", "filled", "together"]


def together(every: Votes, some: Votes) -> Votes:
    """The candidates of two searches; what both found has the votes of the second. Bounds hold no more.

    Examples
    --------
    >>> every = Votes([0, 2], [0, 2], [[0.5], [0.25]], 3)
    >>> both = together(every, Votes([0, 2], [1, 2], [[0.125], [0.75]], 3))
    >>> both.labels, both.probs.ravel()
    (array([0, 1, 2], dtype=int32), array([0.5  , 0.125, 0.75 ], dtype=float32))
    """
    first, second = _keys(every), _keys(some)
    kept = np.flatnonzero(~np.isin(first, second))
    keys = np.concatenate([first[kept], second])
    order = np.argsort(keys, kind="stable")
    return every.but(
        indptr=np.searchsorted(keys[order] >> 32, np.arange(len(every) + 1)),
        labels=np.concatenate([every.labels[kept], some.labels])[order],
        probs=np.concatenate([every.probs[kept], some.probs])[order],
        bound=None,
        missed=None,
    )


def crossed_out(votes: Votes, subset: LabelSubset) -> Votes:
    """The votes on labels of a subset."""
    allowed = np.zeros(votes.n_labels, dtype=bool)
    allowed[subset.columns] = True
    return votes.chosen(np.flatnonzero(allowed[votes.labels])).but(classes=votes.classes)


def filled(votes: Votes, k: int, others: npt.NDArray[np.int32]) -> Votes:
    """At least k candidates for each input: the first of `others` that are none yet get the probability 0.

    `others` has k labels or more, ascending, that are not candidates of inputs with fewer than k.

    Examples
    --------
    >>> votes = filled(Votes([0, 1, 3], [4, 0, 4], [[0.5], [0.25], [0.5]], 5), 2, np.array([2, 4]))
    >>> votes.indptr, votes.labels, votes.probs.ravel()
    (array([0, 2, 4]), array([2, 4, 0, 4], dtype=int32), array([0.  , 0.5 , 0.25, 0.5 ], dtype=float32))
    """
    poor = np.flatnonzero(np.diff(votes.indptr) < k)
    if not len(poor):
        return votes
    added = []
    for row in poor.tolist():
        own = votes.labels[votes.indptr[row] : votes.indptr[row + 1]]
        more = np.setdiff1d(others[: k + len(own)], own)[: k - len(own)]
        added.append(np.int64(row) << 32 | more.astype(np.int64))
    more = np.concatenate(added)
    nothing = np.zeros((len(more), votes.members), dtype=np.float32)
    labels = (more & 0xFFFFFFFF).astype(np.int32)
    indptr = np.searchsorted(more >> 32, np.arange(len(votes) + 1))
    return together(votes.but(indptr=indptr, labels=labels, probs=nothing), votes)


def _keys(votes: Votes) -> npt.NDArray[np.int64]:
    """Input and label of each candidate in one number."""
    return np.repeat(np.arange(len(votes), dtype=np.int64), np.diff(votes.indptr)) << 32 | votes.labels
