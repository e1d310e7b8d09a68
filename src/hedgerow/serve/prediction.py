"""What the model says of a batch, as answers hold it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.decisions.deciding import DECISIONS, REJECT
from hedgerow.votes.measures import Measures
from hedgerow.votes.truth import assess
from hedgerow.votes.votes import Votes

from .errors import ApiError
from .verdicts import Sorting

if TYPE_CHECKING:
    from .model_slot import ServedModel

__all__ = ["Inputs", "Wanted", "predict", "said_of"]

_MEASURES = ("probability", "total", "data", "knowledge", "variance")
_SUMS = ("expected", "total", "data", "knowledge", "variance")

Inputs = Any  # a list of texts, or a CSR matrix
Codes = npt.NDArray[np.int8]  # decisions on candidates
Kept = dict[int, int]  # columns of labels that are not rejected, ascending, and the decision on each


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
    sorting : Sorting or None
        Decide on the labels, and list all that are not rejected, whatever k is.
    """

    k: int = 10
    uncertainty: bool = True
    votes: bool = False
    sorting: Sorting | None = None


def predict(
    served: ServedModel, inputs: Inputs, wanted: Wanted, most: float = math.inf
) -> list[dict[str, Any]]:
    """Predict a batch.

    Parameters
    ----------
    served : ServedModel
        Who is asked.
    inputs : list of str, or csr_array
        Texts or rows of features, as the model reads them.
    wanted : Wanted
        What to say of each.
    most : float
        Refuse to list more labels than this that are not rejected.

    Returns
    -------
    list of dict
        For each input a ``Result`` as the schema of the API has it, with numbers of NumPy; whether the
        p-value makes it an out-of-distribution input is left to be filled in.
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
        odd = model.ood_scores(inputs) if served.familiar else None
        for row, result in enumerate(results):
            result["input"] = {name: getattr(found.instance, name)[row] for name in _SUMS}
            result["ood"] = None if odd is None else {"score": odd.score[row], "p_value": odd.p_value[row]}
    if wanted.votes or wanted.sorting is not None:
        votes = model.predict_votes(inputs, tolerance=tolerance)
        if wanted.sorting is not None:
            codes = wanted.sorting.rule.codes(votes, votes.mean().data)
            _check_number(codes, most)
            unlisted = _add_decisions(results, votes, codes, served)
            _add_labels(results, votes, unlisted, names, served)
        if wanted.votes:
            _add_votes(results, votes, served)
    return results


def said_of(served: ServedModel, text: str, label: str | int) -> tuple[np.float32, npt.NDArray[np.float32]]:
    """What `predict` says of one label of a text, wherever it would be listed: probability and votes.

    Parameters
    ----------
    served : ServedModel
        Who is asked.
    text : str
        The text.
    label : str or int
        A label of the model.

    Returns
    -------
    float32, float32 array of shape (members,)
        0 where the search does not find the label.
    """
    votes = served.model.predict_votes([text], tolerance=served.tolerance)
    column = served.column[label]
    return _measures(votes, [[column]], served).probability[0], _votes_on(votes, 0, [column])[0]


def _check_number(codes: Codes, most: float) -> None:
    number = np.count_nonzero(codes != REJECT)
    if number > most:
        raise ApiError(
            422,
            "too_many",
            f"{number} labels are to be accepted or reviewed, and no more than {most} are told at once; send"
            " fewer inputs, or allow for more mistakes",
            "decide",
        )


def _add_decisions(
    results: Sequence[dict[str, Any]], votes: Votes, codes: Codes, served: ServedModel
) -> list[Kept]:
    """Put the decision beside each label of the results, and tell what else is not rejected.

    What is no candidate is rejected, as the library does it: guarantees hold for the search behind the votes.
    """
    unlisted = []
    for row, result in enumerate(results):
        begin, end = votes.indptr[row : row + 2].tolist()
        places = begin + np.flatnonzero(codes[begin:end] != REJECT)
        kept = dict(zip(votes.labels[places].tolist(), codes[places].tolist(), strict=True))
        for one in result["labels"]:
            one["decision"] = DECISIONS[kept.pop(served.column[one["label"]], REJECT)]
        unlisted.append(kept)
    return unlisted


def _add_labels(
    results: Sequence[dict[str, Any]],
    votes: Votes,
    unlisted: Sequence[Kept],
    names: Sequence[str],
    served: ServedModel,
) -> None:
    """Append the labels that are not rejected and not listed yet, the most probable first."""
    if not any(unlisted):
        return
    measures = _measures(votes, unlisted, served)
    columns = [getattr(measures, name) for name in names]
    begin = 0
    for result, kept in zip(results, unlisted, strict=True):
        own = slice(begin, begin + len(kept))
        rows = list(zip(kept.items(), *(column[own] for column in columns), strict=True))
        for (number, code), *values in sorted(rows, key=lambda row: -row[1]):
            measured = dict(zip(names, values, strict=True))
            result["labels"].append({"label": served.labels[number], **measured, "decision": DECISIONS[code]})
        begin = own.stop


def _measures(votes: Votes, asked: Sequence[Sequence[int] | Kept], served: ServedModel) -> Measures:
    """The measures of some columns of each input, ascending, one after the other; 0 of no candidates."""
    columns = np.array([column for row in asked for column in row], dtype=np.int32)
    ends = np.cumsum([0, *map(len, asked)])
    shape = (len(votes), votes.n_labels)
    wanted = sp.csr_array((np.ones(len(columns), dtype=np.int8), columns, ends), shape=shape)
    # What is asked for takes the place of the truth, whose measures are told.
    return assess(votes, wanted, k=1, n_jobs=served.model.n_jobs).true


def _add_votes(results: Sequence[dict[str, Any]], votes: Votes, served: ServedModel) -> None:
    """Put what the members say beside each label of the results."""
    for row, result in enumerate(results):
        columns = [served.column[one["label"]] for one in result["labels"]]
        for one, said in zip(result["labels"], _votes_on(votes, row, columns), strict=True):
            one["votes"] = said


def _votes_on(votes: Votes, row: int, columns: Sequence[int]) -> list[npt.NDArray[np.float32]]:
    """What the members say of some labels of an input; 0 of those that are no candidates."""
    begin, end = votes.indptr[row : row + 2].tolist()
    candidates = votes.labels[begin:end]
    nothing = np.zeros(votes.members, np.float32)
    return [
        votes.probs[begin + place] if place < len(candidates) and candidates[place] == column else nothing
        for column, place in zip(columns, np.searchsorted(candidates, columns).tolist(), strict=True)
    ]
