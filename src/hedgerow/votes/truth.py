"""Votes next to the truth: what is right, and how well uncertainty finds what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow import _native
from hedgerow.inputs.matrices import as_truth
from hedgerow.inputs.threads import threads_for
from hedgerow.votes.measures import Measures
from hedgerow.votes.votes import Votes, check_votes

__all__ = ["SCORES", "Assessment", "assess"]

SCORES = tuple(part.name for part in fields(Measures))


@dataclass(frozen=True, eq=False)
class Assessment:
    """How good the votes on some inputs are. Labels are column numbers of the truth.

    Attributes
    ----------
    auroc : array, shape (n, 5)
        How well each of `SCORES` (probability, total, data, knowledge, variance) separates the wrong labels
        of an input from the right ones: area under the ROC curve. NaN where no label is wrong, or every one.
        Energy rises with the probability, so its area is that of the probability.
    aupr : array, shape (n, 5)
        The same as average precision.
    inputs : Measures
        Sums over the candidates of each input, shape (n,); that of the probability is the expected number of
        labels.
    labels : int32 array, shape (n, k)
        The most probable labels, best first and of equals the lower; -1 where there are too few candidates.
    best : Measures
        Their measures, shape (n, k); 0 where there is no label.
    truth : csr_array of int8, shape (n, n_labels)
        The true labels, sorted.
    true : Measures
        The measures of the true labels in the order of ``truth.indices``; 0 if not a candidate.
    rank : int32 array
        The place of the true labels in the ranking of the candidates, from 1; 0 if not a candidate.
    """

    auroc: npt.NDArray[np.float64]
    aupr: npt.NDArray[np.float64]
    inputs: Measures
    labels: npt.NDArray[np.int32]
    best: Measures
    truth: sp.csr_array
    true: Measures
    rank: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.labels)

    def mean_auroc(self) -> dict[str, float]:
        """Mean of `auroc` over the inputs that have something wrong, by score; NaN where none has."""
        return _means(self.auroc)

    def mean_aupr(self) -> dict[str, float]:
        """Mean of `aupr` over the inputs that have something wrong, by score; NaN where none has."""
        return _means(self.aupr)

    def right(self) -> npt.NDArray[np.bool_]:
        """Which of `labels` are true, shape (n, k)."""
        right = np.zeros(self.labels.shape, dtype=bool)
        rows = np.repeat(np.arange(len(self)), np.diff(self.truth.indptr))
        high = (self.rank > 0) & (self.rank <= self.labels.shape[1])
        right[rows[high], self.rank[high] - 1] = True
        return right

    @staticmethod
    def concatenate(parts: Sequence[Assessment]) -> Assessment:
        """The assessments of several batches, one after the other.

        Parameters
        ----------
        parts : sequence of Assessment
            With the same k and the same number of labels.

        Returns
        -------
        Assessment
        """
        if not parts:
            raise ValueError("there is nothing to concatenate")
        for number, part in enumerate(parts):
            for what, own, first in (
                ("k", part.labels.shape[1], parts[0].labels.shape[1]),
                ("n_labels", part.truth.shape[1], parts[0].truth.shape[1]),
            ):
                if own != first:
                    raise ValueError(f"parts[{number}] has {what} {own}, but parts[0] has {first}")

        def joined(name: str) -> npt.NDArray[Any]:
            return np.concatenate([getattr(part, name) for part in parts])

        def measures(name: str) -> Measures:
            return Measures(
                *(np.concatenate([getattr(getattr(part, name), score) for part in parts]) for score in SCORES)
            )

        ends = np.cumsum([0, *(part.truth.nnz for part in parts)])
        indptr = np.concatenate(
            [[0], *(part.truth.indptr[1:] + begin for part, begin in zip(parts, ends, strict=False))]
        )
        indices = np.concatenate([part.truth.indices for part in parts])
        return Assessment(
            joined("auroc"),
            joined("aupr"),
            measures("inputs"),
            joined("labels"),
            measures("best"),
            _indicator(indptr, indices, (len(indptr) - 1, parts[0].truth.shape[1])),
            measures("true"),
            joined("rank"),
        )


def assess(votes: Votes, Y: Any, *, k: int = 5, n_jobs: int | None = None) -> Assessment:
    """Compare votes with the truth in one pass; for many inputs, batch by batch.

    Of an input with m true labels, the m most probable candidates are predicted; a label is wrong if it is
    either predicted or true, but not both. A score is good if it is high for the wrong labels, among all
    labels there are. Labels that are not candidates share the score 0.

    Parameters
    ----------
    votes : Votes
        What the members say.
    Y : sparse indicator matrix, shape (len(votes), votes.n_labels or more)
        The truth: what is stored and not zero is a label. Further columns are labels without votes.
    k : int
        How many of the most probable labels to give for each input.
    n_jobs : int or None
        Threads; None and -1 are all processors, -2 all but one. Results do not depend on it.

    Returns
    -------
    Assessment

    Examples
    --------
    Labels 0 and 3 are true and 0 and 1 are predicted, so 1 and 3 are wrong. The members disagree about 1:

    >>> from scipy.sparse import csr_array
    >>> votes = Votes([0, 3], [0, 1, 2], [[0.9, 0.9], [0.9, 0.3], [0.2, 0.2]], 5)
    >>> found = assess(votes, csr_array([[1, 0, 0, 1, 0]]), k=2)
    >>> found.labels, found.rank
    (array([[0, 1]], dtype=int32), array([1, 0], dtype=int32))
    >>> dict(zip(SCORES, found.auroc[0].round(3).tolist()))
    {'probability': 0.417, 'total': 0.583, 'data': 0.417, 'knowledge': 0.75, 'variance': 0.75}
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k < 2**31:
        raise ValueError(f"k is {k!r}; it must be a positive integer")
    check_votes(votes)
    truth = as_truth(Y, len(votes), votes.n_labels)
    found = _native.assess(
        votes.indptr,
        votes.labels,
        votes.probs,
        votes.marks(),
        truth.shape[1],
        np.asarray(truth.indptr, dtype=np.int64),
        np.asarray(truth.indices, dtype=np.int32),
        int(k),
        threads_for(n_jobs),
    )
    return Assessment(
        found.auroc,
        found.aupr,
        Measures(*(np.ascontiguousarray(found.sums[:, i]) for i in range(len(SCORES)))),
        found.labels,
        _measures(found.best),
        truth,
        _measures(found.true_labels),
        found.rank,
    )


def _measures(found: _native.RankedMeasures | _native.TrueMeasures) -> Measures:
    return Measures(*(getattr(found, score) for score in SCORES))


def _means(areas: npt.NDArray[np.float64]) -> dict[str, float]:
    some = areas[~np.isnan(areas).any(axis=1)]
    means = some.mean(axis=0) if len(some) else np.full(areas.shape[1], np.nan)
    return dict(zip(SCORES, means.tolist(), strict=True))


def _indicator(indptr: npt.NDArray[Any], indices: npt.NDArray[Any], shape: tuple[int, int]) -> sp.csr_array:
    matrix = sp.csr_array((np.ones(len(indices), dtype=np.int8), indices, indptr), shape=shape)
    matrix.indptr, matrix.indices = indptr.astype(np.int64), indices.astype(np.int32)
    return matrix
