"""What one model says of every row, in terms that another model's answers can be set against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.comparison.label_union import LabelUnion
from hedgerow.decisions.kept import GuaranteeTally, KeptGuarantee
from hedgerow.model import Model
from hedgerow.progress import Stage
from hedgerow.votes.batches import answer_batches
from hedgerow.votes.truth import SCORES, assess

__all__ = ["LISTED", "GuaranteeRows", "Measured", "measure"]

LISTED = 10  # best labels of each row

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GuaranteeRows:
    """A guarantee, whether it was kept here, and of each row how many labels are given and how many right.

    There are no rows where the guarantee is refused.
    """

    kept: KeptGuarantee
    given: Floats | None
    right: Floats | None


@dataclass(frozen=True, eq=False)
class Measured:
    """The best labels of each row, as places in the union of labels, best first; -1 where there is none."""

    labels: npt.NDArray[np.int64]
    probability: Floats
    right: npt.NDArray[np.bool_]
    true: npt.NDArray[np.int64]  # number of true labels of each row
    auroc: Floats  # of total uncertainty, finding wrong labels; NaN where nothing is wrong
    guarantees: tuple[GuaranteeRows, ...]


def measure(
    model: Model,
    inputs: Any,
    labels: tuple[sp.csr_array, npt.NDArray[Any]],
    union: LabelUnion,
    progress: Stage | None = None,
) -> Measured:
    """Predict all rows and compare with the true labels, given with the names of their columns."""
    places = union.places(model.classes)
    truth = union.truth(*labels, places)
    tally = GuaranteeTally(model.policy, model.search, model.label_counts)
    best, probability, right, auroc, number = [], [], [], [], []
    for rows, answer in answer_batches(model, inputs, progress=progress):
        found = assess(answer.votes, truth[rows], k=LISTED, n_jobs=model.threads or None)
        tally.add(answer, found.truth)
        best.append(np.where(found.labels >= 0, places[found.labels], -1))
        probability.append(found.best.probability.astype(np.float64))
        right.append(found.right())
        auroc.append(found.auroc[:, SCORES.index("total")])
        number.append(np.diff(found.truth.indptr))
    return Measured(
        np.concatenate(best),
        np.concatenate(probability),
        np.concatenate(right),
        np.concatenate(number).astype(np.int64),
        np.concatenate(auroc),
        tuple(
            GuaranteeRows(kept, *((None, None) if counts is None else (counts[:, 1], counts[:, 2])))
            for kept, counts in zip(tally.finish(), tally.counts(), strict=True)
        ),
    )
