"""From reviewed records to a model that has learned them: update, compare, promote."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hedgerow.comparison.promotion import Judge, Promotion, promote
from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.loading import load
from hedgerow.estimators.updating import UpdateReport
from hedgerow.progress import Progress
from hedgerow.records.file import beside

__all__ = ["Lesson", "Reviewed", "learn_reviewed"]


@dataclass(frozen=True, eq=False)
class Reviewed:
    """Records that people reviewed: inputs as of `update`, their labels, and an id for each."""

    inputs: Sequence[Any]
    labels: Sequence[Sequence[Any]]
    ids: Sequence[str]


@dataclass(frozen=True)
class Lesson:
    """What came of reviewed records.

    Attributes
    ----------
    reviewed, known : int
        Records that were given, and those of them that the model had learned before.
    update : UpdateReport or None
        What the update did; None where there was nothing to learn.
    promotion : Promotion or None
        Whether the updated model took the place of the old one.
    candidate : str or None
        Where the updated model is, if it was refused.
    """

    reviewed: int
    known: int
    update: UpdateReport | None = None
    promotion: Promotion | None = None
    candidate: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and dictionaries."""
        return {
            "reviewed": self.reviewed,
            "known": self.known,
            "update": None if self.update is None else asdict(self.update),
            "promotion": None if self.promotion is None else self.promotion.to_dict(),
            "candidate": self.candidate,
        }


def learn_reviewed(
    model: str | os.PathLike[str],
    reviewed: Reviewed,
    judge: Judge,
    *,
    threads: int = 0,
    progress: Progress | None = None,
) -> Lesson:
    """Update a model file with reviewed records, and promote the result if it is good enough.

    The updated model is MODEL.learned until it is promoted. A kill at any moment leaves one of the two models
    whole in MODEL, and the same call goes on: what the model has learned already is left out.

    Parameters
    ----------
    model : path-like
        The model file.
    reviewed : Reviewed
        The records. One whose id is known corrects that record.
    judge : Judge
        What both models are compared on, and what is asked of the new one.
    threads : int
        0 is all processors.
    progress : callable(share, what), optional
        Called now and then.

    Returns
    -------
    Lesson
    """
    classifier: HedgerowClassifier = load(model)
    classifier.set_params(n_jobs=threads or -1)
    new = _not_known(classifier, reviewed)
    known = len(reviewed.ids) - len(new.ids)
    if not new.ids:
        return Lesson(len(reviewed.ids), known)
    report = classifier.update(new.inputs, new.labels, ids=list(new.ids), progress=progress)
    candidate = Path(f"{os.fspath(model)}.learned")
    classifier.save(candidate, overwrite=True)
    promotion = promote(model, candidate, judge, progress=progress)
    if promotion.promoted:
        for path in (candidate, beside(candidate)):
            path.unlink(missing_ok=True)
    kept = None if promotion.promoted else str(candidate)
    return Lesson(len(reviewed.ids), known, report, promotion, kept)


def _not_known(classifier: HedgerowClassifier, reviewed: Reviewed) -> Reviewed:
    """The records that the model has not learned with these labels and this text."""
    table = classifier.records()
    places = table.places()
    source = classifier.source
    hashes = source.hashes(source.inputs(reviewed.inputs)).tolist() if reviewed.ids else []
    new = []
    for number, id in enumerate(reviewed.ids):
        place = places.get(id)
        if place is not None and int(table.hashes[place]) == hashes[number]:
            had = {table.names[column] for column in table.labels[[place]].indices.tolist()}
            if had == set(reviewed.labels[number]):
                continue
        new.append(number)
    return Reviewed(
        [reviewed.inputs[number] for number in new],
        [reviewed.labels[number] for number in new],
        [reviewed.ids[number] for number in new],
    )
