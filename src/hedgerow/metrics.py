"""How well labels are ranked, and how well doubt finds the wrong ones; all of it sparse."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.votes import Votes

__all__ = ["misclassification_auroc", "precision_at"]

Array = npt.NDArray[np.floating[Any]]


def precision_at(labels: npt.NDArray[np.integer[Any]], Y: Any, k: int) -> float:
    """P@k: the share of right labels among the best k, over inputs that have labels.

    Parameters
    ----------
    labels : int array, shape (n, >= k)
        Columns of Y, best first.
    Y : sparse indicator matrix, shape (n, L)
        The truth.
    k : int
        How many labels count.

    Returns
    -------
    float

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> precision_at(np.array([[2, 0], [1, 0]]), csr_array([[0, 0, 1], [1, 0, 0]]), 1)
    0.5
    """
    truth = _truth(Y)
    if labels.shape[1] < k:
        raise ValueError(f"labels has {labels.shape[1]} columns; P@{k} needs {k}")
    labelled = np.flatnonzero(np.diff(truth.indptr))
    hits = cast(Any, truth)[labelled[:, None], labels[labelled, :k]]
    return float(np.mean(hits.toarray() != 0))


def misclassification_auroc(votes: Votes, scores: npt.ArrayLike, Y: Any) -> Array:
    """How well a score tells the wrong labels of an input from the right ones, over all labels there are.

    Of an input with m true labels, the m most probable ones are predicted; a label is wrong if it is either
    predicted or true, but not both. Labels that are no candidates have the score 0.

    Parameters
    ----------
    votes : Votes
        What the members say.
    scores : array
        The doubt about every candidate, not negative, in the order of ``votes.labels``.
    Y : sparse indicator matrix, shape (n, n_labels)
        The truth.

    Returns
    -------
    array, shape (n,)
        The area under the ROC curve of each input; NaN where no label is wrong, or every one.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != votes.labels.shape:
        raise ValueError(f"scores has shape {values.shape} for {len(votes.labels)} candidates")
    truth = _truth(Y)
    if truth.shape != (len(votes), votes.n_labels):
        raise ValueError(f"Y has shape {truth.shape}; it must be {(len(votes), votes.n_labels)}")
    means = votes.probs.mean(axis=1, dtype=np.float64)
    areas = np.full(len(votes), np.nan)
    for row in range(len(votes)):
        own = slice(votes.indptr[row], votes.indptr[row + 1])
        true = truth.indices[truth.indptr[row] : truth.indptr[row + 1]]
        candidates, doubts = votes.labels[own], values[own]
        wrong, outside = _wrong(candidates, means[own], true)
        others = votes.n_labels - len(candidates)  # labels of score 0 that are no candidates
        positives = int(wrong.sum()) + outside
        negatives = votes.n_labels - positives
        if not positives or not negatives:
            continue
        right = np.sort(doubts[~wrong])
        below = np.searchsorted(right, doubts[wrong], side="left")
        upto = np.searchsorted(right, doubts[wrong], side="right")
        above_zero = doubts[wrong] > 0
        right_outside = others - outside
        pairs = (below + upto).sum() / 2 + right_outside * (above_zero.sum() + (~above_zero).sum() / 2)
        zeros = np.searchsorted(right, 0.0, side="right")
        pairs += outside * (zeros / 2 + right_outside / 2)
        areas[row] = pairs / (positives * negatives)
    return areas


def _truth(Y: Any) -> sp.csr_array:
    truth = sp.csr_array(Y, copy=True)
    truth.sum_duplicates()
    truth.eliminate_zeros()
    return truth


def _wrong(
    candidates: npt.NDArray[np.int32], means: Array, true: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.bool_], int]:
    """Which candidates are wrong, and how many wrong labels there are that are no candidates."""
    is_true = np.isin(candidates, true)
    predicted = np.zeros(len(candidates), dtype=bool)
    # Candidates ascend, and the sort is stable: ties go to the lower label.
    predicted[np.argsort(-means, kind="stable")[: len(true)]] = True
    return is_true != predicted, len(true) - int(is_true.sum())
