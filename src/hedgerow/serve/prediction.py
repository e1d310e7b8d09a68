"""What the model says of a batch, as answers hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.votes import Votes

from .model_slot import ServedModel

__all__ = ["Inputs", "Wanted", "predict"]

_MEASURES = ("probability", "total", "data", "knowledge", "variance")
_SUMS = ("expected", "total", "data", "knowledge", "variance")

Inputs = Any  # a list of texts, or a CSR matrix


@dataclass(frozen=True)
class Wanted:
    """What is asked of the model. Requests that want the same can share a batch.

    Attributes
    ----------
    k : int
        Labels for each input, if the model knows so many.
    uncertainty : bool
        Say also how sure the model is.
    votes : bool
        Say also what each member says.
    """

    k: int = 10
    uncertainty: bool = True
    votes: bool = False


def predict(served: ServedModel, inputs: Inputs, wanted: Wanted) -> list[dict[str, Any]]:
    """Predict a batch.

    Parameters
    ----------
    served : ServedModel
        Who is asked.
    inputs : list of str, or csr_array
        Texts or rows of features, as the model reads them.
    wanted : Wanted
        What to say of each.

    Returns
    -------
    list of dict
        For each input a ``Result`` as the schema of the API has it, with numbers of NumPy; the decisions are
        left to be filled in, and so is whether the p-value makes it an outsider.
    """
    model, k, tolerance = served.model, min(wanted.k, served.known), served.tolerance
    found = model.predict_uncertain(inputs, k, tolerance=tolerance)
    names = _MEASURES if wanted.uncertainty else _MEASURES[:1]
    columns = [getattr(found, name) for name in names]
    results: list[dict[str, Any]] = [
        {
            "labels": [
                {"label": label, **dict(zip(names, measures, strict=True))}
                for label, *measures in zip(labels, *(column[row] for column in columns), strict=True)
            ]
        }
        for row, labels in enumerate(found.labels.tolist())
    ]
    if wanted.uncertainty:
        odd = model.unfamiliarity(inputs) if served.familiar else None
        for row, result in enumerate(results):
            result["input"] = {name: getattr(found.instance, name)[row] for name in _SUMS}
            result["unfamiliarity"] = (
                None if odd is None else {"score": odd.score[row], "p_value": odd.p_value[row]}
            )
    if wanted.votes:
        _add_votes(results, model.predict_votes(inputs, tolerance=tolerance), found.labels, served)
    return results


def _add_votes(
    results: Sequence[dict[str, Any]], votes: Votes, labels: npt.NDArray[Any], served: ServedModel
) -> None:
    """Put what the members say beside each label of the results."""
    for row, result in enumerate(results):
        begin, end = votes.indptr[row : row + 2].tolist()
        candidates = votes.labels[begin:end]
        columns = [served.column[label] for label in labels[row].tolist()]
        places = np.searchsorted(candidates, columns).tolist()
        for one, column, place in zip(result["labels"], columns, places, strict=True):
            met = place < len(candidates) and candidates[place] == column
            one["votes"] = votes.probs[begin + place] if met else np.zeros(votes.members, np.float32)
