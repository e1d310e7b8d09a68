"""How good the best labels are. Inputs without true labels are left out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.inputs.matrices import as_truth
from hedgerow.inputs.parameters import ParameterError

Labels = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float64]

_MEASURES = ("precision", "recall", "ndcg")


def precision_at(labels: Labels, Y: Any, k: int) -> float:
    """P@k: the share of right labels among the best k, over inputs that have labels.

    Parameters
    ----------
    labels : int array, shape (n, >= k)
        Columns of Y, best first, none twice for an input; -1 where there is none.
    Y : sparse indicator matrix, shape (n, L)
        The truth.
    k : int
        How many labels count.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> precision_at(np.array([[2, 0], [1, 0]]), csr_array([[0, 0, 1], [1, 0, 0]]), 1)
    0.5
    """
    _, _, hits = _labelled(labels, Y, k)
    return float(hits.mean())


def recall_at(labels: Labels, Y: Any, k: int) -> float:
    """R@k: the share of an input's true labels that are among the best k, mean over inputs that have labels.

    Parameters
    ----------
    labels, Y, k
        As of `precision_at`.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> recall_at(np.array([[2, 0], [1, 0]]), csr_array([[1, 1, 1], [1, 0, 0]]), 2)
    0.8333333333333333
    """
    truth, _, hits = _labelled(labels, Y, k)
    return float(_recall(truth, hits).mean())


def ndcg_at(labels: Labels, Y: Any, k: int) -> float:
    """nDCG@k: right labels discounted by the logarithm of their rank, as a share of the best possible.

    Mean over inputs that have labels.

    Parameters
    ----------
    labels, Y, k
        As of `precision_at`.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> round(ndcg_at(np.array([[1, 0], [1, 0]]), csr_array([[1, 1], [1, 0]]), 2), 4)
    0.8155
    """
    truth, _, hits = _labelled(labels, Y, k)
    return float(_ndcg(truth, hits).mean())


@dataclass(frozen=True)
class RankingMeasure:
    """A measure of rankings by its name, such as "ndcg@5", for each input by itself.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> measure = RankingMeasure.parse("precision@2")
    >>> measure.of_inputs(np.array([[0, 1], [1, 0]]), csr_array([[1, 0], [1, 1]]))
    array([0.5, 1. ])
    """

    name: str
    k: int

    @classmethod
    def parse(cls, text: str) -> RankingMeasure:
        """Read a name and the number of labels that count."""
        found = re.fullmatch(r"([a-z]+)@([1-9][0-9]?|100)", text) if isinstance(text, str) else None
        if found is None or found[1] not in _MEASURES:
            raise ParameterError(
                f"by is {text!r:.60}; it must be {', '.join(_MEASURES[:-1])} or {_MEASURES[-1]}, with the"
                " number of labels that count, from 1 to 100, such as 'ndcg@5'"
            )
        return cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return f"{self.name}@{self.k}"

    def of_inputs(self, labels: Labels, Y: Any) -> Floats:
        """The measure of each input that has labels; arguments as of `precision_at`."""
        truth, _, hits = _labelled(labels, Y, self.k)
        if self.name == "precision":
            return np.asarray(hits.mean(axis=1), dtype=np.float64)
        return _recall(truth, hits) if self.name == "recall" else _ndcg(truth, hits)


def _recall(truth: sp.csr_array, hits: npt.NDArray[np.bool_]) -> Floats:
    return np.asarray(hits.sum(axis=1) / np.diff(truth.indptr), dtype=np.float64)


def _ndcg(truth: sp.csr_array, hits: npt.NDArray[np.bool_]) -> Floats:
    k = hits.shape[1]
    discounts = 1 / np.log2(np.arange(2, k + 2))
    best = np.cumsum(discounts)[np.minimum(np.diff(truth.indptr), k) - 1]
    return np.asarray((hits @ discounts) / best, dtype=np.float64)


def propensities(counts: npt.ArrayLike, n: int, a: float = 0.55, b: float = 1.5) -> Floats:
    """The probability that a true label is in the data, by its frequency (Jain et al., 2016).

    Rare labels are missing most often. The defaults are those for most data sets; Wikipedia's are a=0.5 and
    b=0.4, Amazon's a=0.6 and b=2.6.

    Parameters
    ----------
    counts : array, shape (L,)
        Training inputs that have each label.
    n : int
        Training inputs.
    a, b : float
        Parameters of the model.

    Returns
    -------
    array, shape (L,)
        1 / (1 + C (count + b) ** -a) with C = (ln n - 1) (b + 1) ** a.

    Examples
    --------
    >>> propensities([1, 100], 10_000).round(3)
    array([0.109, 0.483])
    """
    number = _counts(counts)
    if n < 3:
        raise ValueError(f"n is {n}; propensities need at least 3 training inputs")
    if a < 0 or b < 0:
        raise ValueError(f"a and b must not be negative; they are {a} and {b}")
    scale = (np.log(n) - 1) * (b + 1) ** a
    with np.errstate(divide="ignore"):  # a label that never occurs, where b is 0
        return np.asarray(1 / (1 + scale * (number + b) ** -a), dtype=np.float64)


def psp_at(labels: Labels, Y: Any, propensity: npt.ArrayLike, k: int) -> float:
    """PSP@k: precision with right labels weighted by 1 / propensity, as a share of the best possible.

    As the extreme classification repository has it: the sum over all inputs of what was found, divided by the
    sum of what the best ranking would have found.

    Parameters
    ----------
    labels, Y, k
        As of `precision_at`.
    propensity : array, shape (L,)
        What `propensities` gives.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> psp_at(np.array([[0], [1]]), csr_array([[1, 1], [0, 1]]), [0.5, 0.25], 1)
    0.75
    """
    truth, chosen, hits = _labelled(labels, Y, k)
    values = np.asarray(propensity, dtype=np.float64)
    if values.shape != (truth.shape[1],):
        raise ValueError(f"propensity has shape {values.shape}; it must be {(truth.shape[1],)}")
    if not ((values > 0) & (values <= 1)).all():
        at = int(np.flatnonzero(~((values > 0) & (values <= 1)))[0])
        raise ValueError(f"the propensity of label {at} is {values[at]}; it must be above 0 and at most 1")
    gain = 1 / values
    found = float(np.sum(np.where(hits, gain[chosen], 0.0)))
    # The true labels of every input, the rarest first.
    rows = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr))
    order = np.lexsort((-gain[truth.indices], rows))
    place = np.arange(len(order)) - truth.indptr[rows]
    return found / float(np.sum(gain[truth.indices][order][place < k]))


def macro_f1_at(labels: Labels, Y: Any, k: int) -> float:
    """F1 of the best k labels as the prediction, for each label by itself, then the mean over labels.

    Over inputs that have labels. The mean is over the labels that there are at least once in the truth or in
    the prediction; what is never true nor predicted has no F1.

    Parameters
    ----------
    labels, Y, k
        As of `precision_at`.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> macro_f1_at(np.array([[0], [1]]), csr_array([[1, 1, 0, 0], [0, 1, 0, 0]]), 1)
    0.8333333333333333
    """
    truth, chosen, hits = _labelled(labels, Y, k)
    count = truth.shape[1]
    right = np.bincount(chosen[hits], minlength=count)
    sizes = np.bincount(chosen[chosen >= 0], minlength=count) + np.bincount(truth.indices, minlength=count)
    met = sizes > 0
    return float(np.mean(2 * right[met] / sizes[met]))


@dataclass(frozen=True, eq=False)
class FrequencyCoverage:
    """How many of the true labels were found, by how frequent they are in training; the rarest group first.

    Attributes
    ----------
    lowest, highest : int array, shape (groups,)
        The fewest and the most training inputs that a label of the group has.
    labels : int array, shape (groups,)
        Labels in the group.
    occurrences : int array, shape (groups,)
        How often they are true.
    share : array, shape (groups,)
        The share of these occurrences that is among the best k labels of its input.
    """

    lowest: npt.NDArray[np.int64]
    highest: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    occurrences: npt.NDArray[np.int64]
    share: Floats


def coverage_by_decile(labels: Labels, Y: Any, counts: npt.ArrayLike, k: int) -> FrequencyCoverage:
    """The share of true labels among the best k, for rare to frequent labels.

    The labels that occur in the truth are sorted by their number of training inputs (of equals, the lower
    label first) and cut into ten groups with equally many labels, give or take one; fewer than ten labels are
    a group each. So every group holds as many kinds of labels as the others, and the last most of the
    occurrences.

    Parameters
    ----------
    labels, Y, k
        As of `precision_at`.
    counts : array, shape (L,)
        Training inputs that have each label.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> found = coverage_by_decile(np.array([[0], [0]]), csr_array([[1, 1], [1, 0]]), [7, 2], 1)
    >>> found.lowest, found.occurrences, found.share
    (array([2, 7]), array([1, 2]), array([0., 1.]))
    """
    truth, chosen, hits = _labelled(labels, Y, k)
    number = _counts(counts)
    if number.shape != (truth.shape[1],):
        raise ValueError(f"counts has shape {number.shape}; it must be {(truth.shape[1],)}")
    true = np.bincount(truth.indices, minlength=truth.shape[1])
    found = np.bincount(chosen[hits], minlength=truth.shape[1])
    there = np.flatnonzero(true)
    ordered = there[np.argsort(number[there], kind="stable")]
    groups = np.array_split(ordered, min(10, len(ordered)))

    def sums(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        return np.array([values[group].sum() for group in groups], dtype=np.int64)

    return FrequencyCoverage(
        np.array([number[group[0]] for group in groups], dtype=np.int64),
        np.array([number[group[-1]] for group in groups], dtype=np.int64),
        np.array([len(group) for group in groups], dtype=np.int64),
        sums(true),
        sums(found) / sums(true),
    )


def _labelled(
    labels: Labels, Y: Any, k: int
) -> tuple[sp.csr_array, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The truth, the best k labels and which of them are right, of the inputs that have labels."""
    best = np.asarray(labels)
    if best.ndim != 2 or best.dtype.kind not in "iu":
        raise ValueError(
            f"labels has shape {best.shape} and dtype {best.dtype}; it must hold column numbers (n, k)"
        )
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k is {k!r}; it must be a positive integer")
    if best.shape[1] < k:
        raise ValueError(f"labels has {best.shape[1]} columns; k={k} needs {k}")
    columns = np.shape(Y)[1] if len(np.shape(Y)) == 2 else 0
    truth = as_truth(Y, len(best), columns)
    chosen = best[:, :k].astype(np.int64)
    outside = (chosen < -1) | (chosen >= columns)
    if outside.any():
        row, place = np.argwhere(outside)[0].tolist()
        raise ValueError(f"labels[{row}, {place}] is {best[row, place]}, but Y has {columns} columns")
    rows = np.flatnonzero(np.diff(truth.indptr))
    if not rows.size:
        raise ValueError(
            "no input has a true label, so there is nothing to compare with; give inputs with labels"
        )
    chosen = chosen[rows]
    # Rows without labels have no entries, so the others keep theirs.
    indptr = np.concatenate([[0], truth.indptr[1:][rows]])
    kept = sp.csr_array((truth.data, truth.indices, indptr), shape=(len(rows), columns))
    # Entries numbered row by row: sorted, so that each can be looked up.
    entries = np.repeat(np.arange(len(rows)), np.diff(indptr)) * columns + truth.indices
    asked = np.arange(len(rows))[:, None] * columns + chosen
    places = np.minimum(np.searchsorted(entries, asked), len(entries) - 1)
    return kept, chosen, (entries[places] == asked) & (chosen >= 0)


def _counts(counts: npt.ArrayLike) -> npt.NDArray[np.int64]:
    values = np.asarray(counts)
    sound = values.ndim == 1 and values.dtype.kind in "iuf" and np.isfinite(values).all()
    if not sound or (values < 0).any() or (values % 1 != 0).any():
        raise ValueError("counts must be a vector of whole numbers, none negative")
    return values.astype(np.int64)
