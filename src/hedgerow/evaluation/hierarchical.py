"""How near predicted labels come to the true ones, where labels have broader terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.inputs.matrices import as_truth
from hedgerow.vocabulary.ancestry import Ancestry
from hedgerow.votes.broader import check_ancestry

__all__ = ["HierarchicalScores", "hierarchical_scores"]


@dataclass(frozen=True)
class HierarchicalScores:
    """What `hierarchical_scores` finds.

    Attributes
    ----------
    precision : float
        Mean over inputs with true labels for which something is predicted; NaN if there is none.
    recall, f1 : float
        Mean over inputs with true labels; an input for which nothing is predicted counts as 0.
    """

    precision: float
    recall: float
    f1: float


def hierarchical_scores(
    predicted: Any, Y: Any, ancestry: Ancestry, *, roots: bool = True
) -> HierarchicalScores:
    """Hierarchical precision, recall and F1 (Kiritchenko, Matwin and Famili, 2005), by input.

    The predicted and the true entries of an input are each extended by all that is broader. Precision is the
    share of the extended prediction that is in the extended truth, recall the share of the extended truth
    that is in the extended prediction, and F1 their harmonic mean. So a broader term of a true label is right
    but finds only a part, and a label beside it shares what is broader than both. All are means over inputs
    (the paper adds up sets over inputs before it divides).

    Parameters
    ----------
    predicted, Y : sparse indicator matrix, shape (n, entries or fewer)
        Entries of the hierarchy: labels, and maybe broader terms.
    ancestry : Ancestry
        Its first entries are the labels.
    roots : bool, default=True
        Count entries that have narrower ones and nothing broader. Where one root is above all others, it is
        in every set and lifts all figures: leave it out, as the paper does. An input whose true labels are
        all left out does not count.

    Returns
    -------
    HierarchicalScores

    Examples
    --------
    Yew and pine are conifers. For a yew, "pine" is half right:

    >>> from scipy.sparse import csr_array
    >>> from hedgerow.vocabulary.ancestry import Ancestry
    >>> yew, pine = csr_array([[1, 0, 0]]), csr_array([[0, 1, 0]])
    >>> hierarchical_scores(pine, yew, Ancestry(3, [0, 1], [2, 2]))
    HierarchicalScores(precision=0.5, recall=0.5, f1=0.5)
    """
    given, true = _extended(predicted, ancestry, roots), _extended(Y, ancestry, roots)
    if given.shape[0] != true.shape[0]:
        raise ValueError(f"predicted has {given.shape[0]} rows, but Y has {true.shape[0]}")
    of_truth = np.diff(true.indptr)
    rows = np.flatnonzero(of_truth)
    if not rows.size:
        raise ValueError(
            "no input has a true label, so there is nothing to compare with; give inputs with labels"
        )
    of_given, of_truth = np.diff(given.indptr)[rows], of_truth[rows]
    both = np.diff(given.multiply(true).tocsr().indptr)[rows]
    some = of_given > 0
    return HierarchicalScores(
        float((both[some] / of_given[some]).mean()) if some.any() else float("nan"),
        float((both / of_truth).mean()),
        float((2 * both / (of_given + of_truth)).mean()),
    )


def _extended(matrix: Any, ancestry: Ancestry, roots: bool) -> sp.csr_array:
    """Each row with all that is broader than its entries; ones of int32."""
    own = as_truth(matrix, np.shape(matrix)[0], 0)
    check_ancestry(ancestry, own.shape[1])
    wide = sp.csr_array(
        (np.ones(own.nnz, np.int32), own.indices, own.indptr), shape=(own.shape[0], ancestry.entries)
    )
    made = sp.csr_array(wide @ ancestry.upwards)
    kept: npt.NDArray[np.bool_] = np.ones(ancestry.entries, bool) if roots else ~ancestry.roots
    made.data = kept[made.indices].astype(np.int32)
    made.eliminate_zeros()
    return made
