"""What the model says of a batch, as answers hold it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.decisions.deciding import accepted_broader
from hedgerow.decisions.macro import Objective
from hedgerow.decisions.rules import DECISIONS, REJECT
from hedgerow.decisions.together import chosen_together
from hedgerow.inputs.subset import LabelSubset
from hedgerow.votes.predictions import UncertainLabels
from hedgerow.votes.source import Answer
from hedgerow.votes.votes import Votes

from .errors import ApiError
from .queue_store import TextInput
from .served_model import ServedModel
from .verdicts import Sorting

_MEASURES = ("probability", "total", "data", "knowledge", "variance")
_SUMS = ("expected", "total", "data", "knowledge", "variance")

Inputs = Any  # a list of texts or of texts by name, or a CSR matrix
Codes = npt.NDArray[np.int8]  # decisions on candidates


@dataclass(frozen=True)
class Wanted:
    """How many labels are asked for, and what about them. Requests that want the same can share a batch.

    With `sorting`, labels are decided on, and all that are not rejected are listed, whatever k is. With an
    `objective` they are, too, for all inputs together. With a `subset`, other labels are not looked for.
    """

    k: int = 10
    uncertainty: bool = True
    votes: bool = False
    sorting: Sorting | None = None
    subset: LabelSubset | None = None
    objective: Objective | None = None

    @property
    def apart(self) -> bool:
        """Whether what is said of an input depends on the others, so that no request may join another."""
        return self.objective is not None


def predict(
    served: ServedModel, inputs: Inputs, wanted: Wanted, most: float = math.inf, watch: bool = False
) -> list[dict[str, Any]]:
    """Predict a batch: read once, search once, and take all that is wanted from the one answer.

    Gives for each input a ``Result`` as the schema of the API has it, with numbers of NumPy; whether the
    p-value makes it OOD is left to be filled in. More than `most` labels that are not rejected are refused.
    With `watch`, the inputs count among those that the model was asked.
    """
    model, subset = served.model, wanted.subset
    k = min(wanted.k, model.known_of(subset))
    detector = model.ood if wanted.uncertainty else None
    # What is expected of answers is about all labels.
    forecasts = wanted.uncertainty and subset is None and model.forecasts
    read = model.inputs(inputs)
    # Guarantees hold for the search that they were learned with, which need not find k labels. What is
    # chosen together is chosen from the search for as many labels as that takes.
    least = 1 if wanted.objective is None else min(wanted.objective.k, model.known_of(subset))
    decides = wanted.sorting is not None or wanted.objective is not None
    apart = decides and not served.finds(max(k, least), subset)
    tolerance = served.tolerance if wanted.objective is None else None
    searched = least if apart else max(k, least)
    answer = model.answer(
        read,
        tolerance=tolerance,
        k=searched,
        signals=detector is not None or forecasts,
        subset=subset,
    )
    ranked = model.answer(read, tolerance=served.tolerance, k=k, subset=subset) if apart else answer
    best = _best(ranked.votes, k, ranked.ranking, model.threads)
    votes = answer.votes
    names = _MEASURES if wanted.uncertainty else _MEASURES[:1]
    listed = [list(row) for row in best.labels.tolist()]
    results: list[dict[str, Any]] = [
        {"labels": _entries(served, columns, names, [vars(best)[name][row] for name in names])}
        for row, columns in enumerate(listed)
    ]
    scores, codes = None, None
    if wanted.uncertainty:
        if detector is not None and answer.signals is not None:
            scores = detector.judge(answer.signals)
        for row, result in enumerate(results):
            result["input"] = {name: vars(best.instance)[name][row] for name in _SUMS}
            result["ood"] = (
                None if scores is None else {"score": scores.score[row], "p_value": scores.p_value[row]}
            )
        expected = model.expected(read, answer, searched) if forecasts else None
        for row, result in enumerate(results):
            result["quality"] = None
            if expected is not None:
                of_row = {name: values[row] for name, values in expected.columns().items()}
                result["quality"] = {"k": expected.k, "confidence": expected.confidence, **of_row}
    if wanted.objective is not None:
        codes = chosen_together(votes, wanted.objective)
    elif wanted.sorting is not None:
        codes = wanted.sorting.plan.rule.codes(votes, votes.means(), answer.ranking)
    if codes is not None:
        _check_number(codes, most)
        for row, result in enumerate(results):
            _add_decisions(served, answer, codes, row, (listed[row], result["labels"]), names)
        if wanted.sorting is not None and wanted.sorting.goal.broader:
            _add_broader(served, votes, wanted.sorting.plan.rule.accept_from, results, names)
    if wanted.votes:
        for row, result in enumerate(results):
            for one, place in zip(result["labels"], _places(votes, row, listed[row]), strict=True):
                one["votes"] = _said(votes, place)
    if watch:
        # Votes of a wider search, or on some labels only, cannot be compared with held-out ones.
        other_labels = subset is not None or not served.finds(searched)
        served.watched.add(answer, scores, codes, other_labels)
    return results


def said_of(
    served: ServedModel, text: TextInput, label: str | int
) -> tuple[np.float32, npt.NDArray[np.float32]]:
    """What `predict` says of one label of a text, wherever it would be listed: probability and votes.

    Both are 0 where the search does not find the label.
    """
    model = served.model
    votes = model.answer(model.inputs([text]), tolerance=served.tolerance).votes
    (place,) = _places(votes, 0, [served.column[label]])
    said = _said(votes, place)
    if place is None:
        return np.float32(0), said
    return _best(votes.chosen(np.array([place])), 1).probability[0, 0], said


def _best(
    votes: Votes, k: int, ranking: npt.NDArray[np.float32] | None = None, threads: int = 0
) -> UncertainLabels:
    """The best k labels, as columns, with their measures: always by the same arithmetic, to the last bit."""
    plain = votes.but(classes=None)
    return UncertainLabels.from_votes(plain, k, ranked_by=ranking, n_jobs=threads or None)


def _entries(
    served: ServedModel, columns: Sequence[int], names: Sequence[str], measures: Sequence[Any]
) -> list[dict[str, Any]]:
    return [
        {"label": served.labels[column], **dict(zip(names, values, strict=True))}
        for column, *values in zip(columns, *measures, strict=True)
    ]


def _check_number(codes: Codes, most: float) -> None:
    number = np.count_nonzero(codes != REJECT)
    if number > most:
        raise ApiError(
            422,
            "too_many",
            f"{number} labels are to be accepted or reviewed, and an answer lists at most {most}; send fewer"
            " inputs, allow more missed labels, or set review_at_most",
            "decide",
        )


def _add_decisions(
    served: ServedModel,
    answer: Answer,
    codes: Codes,
    row: int,
    found: tuple[list[int], list[dict[str, Any]]],
    names: Sequence[str],
) -> None:
    """Put the decision beside each listed label, and append what else is not rejected, most probable first.

    What is no candidate is rejected, as the library does it: guarantees hold for the search behind the votes.
    """
    votes, (listed, labels) = answer.votes, found
    begin, end = votes.indptr[row : row + 2].tolist()
    places = begin + np.flatnonzero(codes[begin:end] != REJECT)
    kept = dict(zip(votes.labels[places].tolist(), places.tolist(), strict=True))
    for column, one in zip(listed, labels, strict=True):
        place = kept.pop(column, None)
        one["decision"] = DECISIONS[REJECT if place is None else codes[place]]
    if not kept:
        return
    chosen = np.array(list(kept.values()))
    others = votes.chosen(chosen)
    ranking = None if answer.ranking is None else answer.ranking[chosen]
    rest = _best(others.but(indptr=np.array([0, len(kept)])), len(kept), ranking)
    columns = rest.labels[0].tolist()
    more = _entries(served, columns, names, [vars(rest)[name][0] for name in names])
    for one, column in zip(more, columns, strict=True):
        one["decision"] = DECISIONS[codes[kept[column]]]
    labels += more
    listed += columns


def _add_broader(
    served: ServedModel, votes: Votes, accept_from: float, results: list[dict[str, Any]], names: Sequence[str]
) -> None:
    """Put the broader terms that are accepted into each result, the most probable first."""
    found = accepted_broader(votes, served.model, accept_from)
    columns = [vars(found)[name] for name in names]
    for result, begin, end in zip(
        results, found.indptr[:-1].tolist(), found.indptr[1:].tolist(), strict=True
    ):
        result["broader"] = [
            {
                "label": found.terms[place],
                **{name: of[place] for name, of in zip(names, columns, strict=True)},
            }
            for place in range(begin, end)
        ]


def _places(votes: Votes, row: int, columns: Sequence[int]) -> list[int | None]:
    """Where labels of an input stand among the entries of the votes; None of those that are no candidates."""
    begin, end = votes.indptr[row : row + 2].tolist()
    candidates = votes.labels[begin:end]
    return [
        begin + place if place < len(candidates) and candidates[place] == column else None
        for column, place in zip(columns, np.searchsorted(candidates, columns).tolist(), strict=True)
    ]


def _said(votes: Votes, place: int | None) -> npt.NDArray[np.float32]:
    """What the members say of a candidate; 0 of what is none."""
    return np.zeros(votes.members, np.float32) if place is None else votes.probs[place]
