"""A new model takes the place of the old one only if a comparison on held-out rows says so."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from hedgerow.comparison.comparing import compare_models
from hedgerow.comparison.held_rows import RowsWanted, read_rows
from hedgerow.comparison.model_files import ModelFiles
from hedgerow.comparison.results import Comparison, ComparisonSettings
from hedgerow.comparison.verdict import PROMOTE_IF
from hedgerow.estimators.loading import load
from hedgerow.inputs.parameters import ParameterError
from hedgerow.model import Model
from hedgerow.progress import Progress
from hedgerow.records.file import carry_records, settle_records

__all__ = ["PROMOTING", "Judge", "Judgement", "Promotion", "promote", "rollback"]

PROMOTING = "promoting"  # what `progress` of `promote` is told before files change


@dataclass(frozen=True)
class Judgement:
    """Whether a new model may take the place of the old one, why, and what the comparison found.

    There is no comparison where clients of the old model could not go on with the new one.
    """

    accepted: bool
    words: str
    comparison: Comparison | None = None


@dataclass(frozen=True)
class Judge:
    """Compares models on labelled rows that neither learned from, and asks for "better" or "no-worse"."""

    rows: RowsWanted
    target: str = "no-worse"
    settings: ComparisonSettings = field(default_factory=ComparisonSettings)

    def __post_init__(self) -> None:
        if self.target not in PROMOTE_IF:
            raise ParameterError(
                f"the target is {self.target!r:.60}; it must be one of {', '.join(PROMOTE_IF)}"
            )

    def judge(self, old: Model, new: Model, progress: Progress | None = None) -> Judgement:
        """Compare; raises DataError or ValueError where the rows cannot be read or compared on."""
        lacks = _what_is_lost(old, new)
        if lacks is not None:
            return Judgement(False, lacks)
        found = compare_models(old, new, read_rows(self.rows, old, new, progress), self.settings, progress)
        return Judgement(found.verdict.meets(self.target), found.verdict.words, found)


def _what_is_lost(old: Model, new: Model) -> str | None:
    """Why requests that the old model answers would be refused by the new one; None if none would be."""
    if (old.reader.kind == "features") != (new.reader.kind == "features"):
        kinds = ["features" if model.reader.kind == "features" else "texts" for model in (old, new)]
        return f"the old model reads {kinds[0]} and the new one {kinds[1]}"
    if missing := set(old.reader.text_fields or ()) - set(new.reader.text_fields or ()):
        return f"the new model does not read the field {min(missing)!r}, which the old one does"
    for what, lacks, has in (
        ("is calibrated", "is not", [model.calibrated for model in (old, new)]),
        ("has guarantees", "has none", [model.policy is not None for model in (old, new)]),
        ("detects OOD inputs", "does not", [model.ood is not None for model in (old, new)]),
    ):
        if has[0] and not has[1]:
            return f"the old model {what} and the new one {lacks}; run hedgerow calibrate on the new one"
    return None


@dataclass(frozen=True)
class Promotion:
    """Whether a new model took the place of the old one, and why.

    Attributes
    ----------
    promoted : bool
        Whether it did.
    words : str
        Why, or why not.
    comparison : Comparison or None
        What was found; None where clients of the old model could not go on with the new one.
    """

    promoted: bool
    words: str
    comparison: Comparison | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and dictionaries."""
        found = None if self.comparison is None else self.comparison.to_dict()
        return {"promoted": self.promoted, "words": self.words, "comparison": found}


def promote(
    model: str | os.PathLike[str],
    new: str | os.PathLike[str],
    judge: Judge,
    *,
    progress: Progress | None = None,
) -> Promotion:
    """Let a new model file take the place of another, if it is good enough; safe against a kill at any time.

    Its records (MODEL.data), if it has any, come along; those of the other are kept for a rollback.

    Parameters
    ----------
    model : path-like
        The model file in use. If the new one is promoted, this is it, and the old one is MODEL.previous.
    new : path-like
        The file of the new model. It stays as it is.
    judge : Judge
        What it is compared on, and what is asked of it.
    progress : callable(share, what), optional
        Called while models are compared, and before the new one takes its place.

    Returns
    -------
    Promotion
    """
    files = ModelFiles(model)
    files.clean_up()
    try:
        staged = files.stage(new)
        threads = judge.rows.threads or -1
        sources = [load(path).set_params(n_jobs=threads).source for path in (files.answering, staged)]
        found = judge.judge(sources[0], sources[1], progress)
        if found.accepted:
            if progress is not None:
                progress(0.0, PROMOTING)
            carry_records(new, model)
            files.install()
            settle_records(model, sources[1].identity)
        return Promotion(found.accepted, found.words, found.comparison)
    finally:
        files.discard()


def rollback(model: str | os.PathLike[str]) -> None:
    """Let the model that MODEL.previous holds take its place again; the newer one becomes MODEL.refused.

    Parameters
    ----------
    model : path-like
        The model file.

    Raises
    ------
    NoOtherModel
        If there is no previous model.
    """
    ModelFiles(model).roll_back(also_path=True)
