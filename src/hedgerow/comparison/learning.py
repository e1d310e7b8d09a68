"""From reviewed records to a model that has learned them: update, compare, promote."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hedgerow.comparison.learned_records import LearnedRecords, Reviewed
from hedgerow.comparison.model_files import ModelFiles, file_id
from hedgerow.comparison.promotion import PROMOTING, Judge, Promotion, promote
from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.loading import load
from hedgerow.estimators.updating import UpdateReport
from hedgerow.progress import Progress
from hedgerow.records.file import beside

__all__ = ["STAGES", "Lesson", "Reviewed", "learn_reviewed"]

STAGES = ("reading", "updating", "comparing", PROMOTING)


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
    entered: Callable[[str], object] | None = None,
) -> Lesson:
    """Update a model file with reviewed records, and promote the result if it is good enough.

    The updated model is MODEL.learned until it is promoted. A kill at any moment leaves one of the two models
    whole in MODEL, and the same call goes on: what the model has learned already is left out.

    Parameters
    ----------
    model : path-like
        The model file. Where a server refused or rolled back what it holds, the model that answers learns.
    reviewed : Reviewed
        The records. One whose id is known corrects that record.
    judge : Judge
        What both models are compared on, and what is asked of the new one.
    threads : int
        0 is all processors.
    progress : callable(share, what), optional
        Called now and then.
    entered : callable(stage), optional
        Called with each of `STAGES` when it begins.

    Returns
    -------
    Lesson
    """
    enter = entered or (lambda stage: None)
    enter("reading")
    candidate = Path(f"{os.fspath(model)}.learned")
    classifier: HedgerowClassifier = load(_learner(ModelFiles(model)))
    classifier.records_file_ = Path(model)
    classifier.set_params(n_jobs=threads or -1)
    places = LearnedRecords.of(classifier.records()).lacks(classifier.source, reviewed)
    known = len(reviewed.ids) - len(places)
    if not places:
        _remove(candidate)  # a process that was killed may have left it
        return Lesson(len(reviewed.ids), known)
    enter("updating")
    new = reviewed.some(places)
    report = classifier.update(new.inputs, new.labels, ids=list(new.ids), progress=progress)
    classifier.save(candidate, overwrite=True)
    enter("comparing")

    def watched(share: float, what: str) -> None:
        if what == PROMOTING:
            enter(what)
        if progress is not None:
            progress(share, what)

    promotion = promote(model, candidate, judge, progress=watched)
    if promotion.promoted:
        _remove(candidate)
    kept = None if promotion.promoted else str(candidate)
    return Lesson(len(reviewed.ids), known, report, promotion, kept)


def _learner(files: ModelFiles) -> Path:
    """MODEL, but the model that answers where MODEL is the one that was refused or rolled back."""
    pinned = files.accepted.exists() and files.refused.exists()
    return files.answering if pinned and file_id(files.refused) == file_id(files.path) else files.path


def _remove(candidate: Path) -> None:
    for path in (candidate, beside(candidate)):
        path.unlink(missing_ok=True)
