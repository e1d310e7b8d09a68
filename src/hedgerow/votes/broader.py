"""From votes on labels to votes on broader terms: is any label at or below a term right?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.inputs.matrices import as_truth
from hedgerow.vocabulary.ancestry import Ancestry, relatives
from hedgerow.votes.votes import Votes

__all__ = ["Above", "broader_truth", "broader_votes", "check_ancestry", "known_labels"]

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Above:
    """The broader terms of the candidates of each input, and which candidates are at or below each.

    Attributes
    ----------
    indptr : int64 array, shape (n + 1,)
        The terms of input `i` are ``indptr[i]`` to ``indptr[i + 1] - 1``.
    terms : int32 array, shape (terms,)
        Entries of the hierarchy that have narrower ones, ascending for each input.
    of : int64 array, shape (pairs,)
        Places of candidates.
    to : int64 array, shape (pairs,)
        For each of them the place of a term at or above it.
    """

    indptr: Places
    terms: npt.NDArray[np.int32]
    of: Places
    to: Places

    @classmethod
    def candidates(cls, votes: Votes, ancestry: Ancestry) -> Above:
        """The terms at or above the candidates; labels are the first entries of the hierarchy."""
        check_ancestry(ancestry, votes.n_labels)
        up = ancestry.upwards
        rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
        of, terms = relatives(up, votes.labels)
        kept = ancestry.inner[terms]
        of, terms = of[kept], terms[kept]
        width = np.int64(max(1, ancestry.entries))
        keys, to = np.unique(rows[of] * width + terms, return_inverse=True)
        indptr = np.searchsorted(keys, np.arange(len(votes) + 1) * width)
        return cls(indptr.astype(np.int64), (keys % width).astype(np.int32), of, to.astype(np.int64))

    def highest(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """For each term the highest value of the candidates at or below it; values by candidate."""
        found = np.zeros((len(self.terms), *values.shape[1:]), dtype=np.float32)
        np.maximum.at(found, self.to, values[self.of])
        return found

    def highest_below(self, ancestry: Ancestry, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """For each term the highest value of the terms below it, 0 if there are none; values by term."""
        rows = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        of, above = relatives(ancestry.ancestors, self.terms)
        width = np.int64(max(1, ancestry.entries))
        # What is above a term here is above its candidates, and so among the terms of the input.
        to = np.searchsorted(rows * width + self.terms, rows[of] * width + above)
        found = np.zeros_like(values)
        np.maximum.at(found, to, values[of])
        return found


def broader_votes(votes: Votes, ancestry: Ancestry, above: Above | None = None) -> Votes:
    """The probability that at least one label at or below a broader term is right, for each member.

    All that is known of labels are their own probabilities. Whatever depends on what, the probability of a
    term is then between the highest and the sum of those at or below it. It is estimated as if labels were
    right independently of each other, 1 - prod(1 - p), which lies between the two, and is to be calibrated.

    Parameters
    ----------
    votes : Votes
        Votes on labels.
    ancestry : Ancestry
        Its first entries are the labels.
    above : Above, optional
        Of these candidates, where it was computed before.

    Returns
    -------
    Votes
        On the entries of the hierarchy that have narrower ones; `n_labels` counts all entries.

    Examples
    --------
    >>> yew_or_pine = Votes([0, 2], [0, 1], [[0.5], [0.6]], 2)
    >>> conifers = Ancestry(3, [0, 1], [2, 2])
    >>> found = broader_votes(yew_or_pine, conifers)
    >>> found.labels, found.probs
    (array([2], dtype=int32), array([[0.8]], dtype=float32))
    """
    above = above or Above.candidates(votes, ancestry)
    groups = sp.csr_array(
        (np.ones(len(above.of)), (above.to, above.of)), shape=(len(above.terms), len(votes.labels))
    )
    with np.errstate(divide="ignore"):  # a label that is surely right
        missing = groups @ np.log1p(-votes.probs.astype(np.float64))
    probs = np.maximum(-np.expm1(missing), above.highest(votes.probs)).astype(np.float32)
    return Votes(above.indptr, above.terms, np.clip(probs, 0, 1), ancestry.entries)


def broader_truth(truth: sp.csr_array, ancestry: Ancestry) -> sp.csr_array:
    """Which broader terms have a true label at or below them, shape (n, entries).

    Parameters
    ----------
    truth : sparse indicator matrix, shape (n, entries or fewer)
        True labels, as entries of the hierarchy.
    ancestry : Ancestry
        Its first entries are the labels.

    Returns
    -------
    csr_array of int8
        Only entries that have narrower ones.
    """
    check_ancestry(ancestry, truth.shape[1])
    found = as_truth(truth, truth.shape[0], 0)
    rows = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
    of, terms = relatives(ancestry.upwards, found.indices)
    kept = ancestry.inner[terms]
    shape = (found.shape[0], ancestry.entries)
    made = sp.csr_array((np.ones(int(kept.sum()), np.int8), (rows[of[kept]], terms[kept])), shape=shape)
    return as_truth(made, shape[0], shape[1])


def known_labels(truth: sp.csr_array, n_labels: int) -> sp.csr_array:
    """The truth without the columns of labels that the model does not know, which come last."""
    return truth if truth.shape[1] == n_labels else sp.csr_array(truth[:, :n_labels])


def check_ancestry(ancestry: object, labels: int) -> None:
    """Refuse what is no hierarchy, or one with fewer entries than there are labels."""
    if not isinstance(ancestry, Ancestry):
        raise TypeError(f"ancestry is a {type(ancestry).__name__}; give an Ancestry")
    if ancestry.entries < labels:
        raise ValueError(
            f"the hierarchy has {ancestry.entries} entries, but there are {labels} labels; its first entries"
            " must be the labels, as Ancestry.for_labels or above_labels gives it"
        )
