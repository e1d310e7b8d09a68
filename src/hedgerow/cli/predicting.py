"""Reading inputs and predicting their labels, for one file or for many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .allowed import Allowed
from .failures import ExitCode, Failure, failing_as
from .inputs import OpenModel, Selection
from .label_files import LabelTable
from .terminal import Report


@dataclass(frozen=True)
class Question:
    """What to predict for each input, of which data, how to search, for which labels, and their language."""

    k: int
    part: str | None
    search: dict[str, Any]
    uncertainty: bool
    tolerance: float | None
    allowed: Allowed
    lang: str | None
    quality: float | None  # the confidence of its intervals


def predict_part(
    model: OpenModel,
    data: Path | Sequence[Path],
    question: Question,
    threads: int,
    report: Report,
    may_be_empty: bool = False,
) -> LabelTable:
    """Read inputs and predict their labels, with uncertainty or without."""
    classifier = model.classifier
    labels = question.allowed.labels_for(classifier)
    naming = model.naming(question.lang)
    rows = Selection(data, question.part, threads=threads)
    part, inputs = model.read_inputs(rows, report, may_be_empty)
    empty = part.n == 0
    if empty:  # ask about something else, to know the columns
        inputs = [""] if model.reads_texts else sp.csr_array((1, classifier.n_features_in_), dtype=np.float32)
    with failing_as(ExitCode.DATA, ValueError, TypeError):
        # All labels where there are fewer than k, rather than an error about the default.
        k = min(question.k, question.allowed.most(classifier))
        if question.uncertainty:
            best: Any = classifier.predict_uncertain(
                inputs, k, tolerance=question.tolerance, **labels, progress=report
            )
        else:
            best = classifier.top(inputs, k, **labels, progress=report)
    table = LabelTable.of_predictions(best, None if empty else part.ids).named(naming)
    if question.quality is not None:
        if labels["only"] is not None or labels["exclude"] is not None:
            raise Failure(
                ExitCode.USAGE,
                "--quality is about the best of all labels; leave out --only..., --exclude... or --quality",
            )
        with failing_as(ExitCode.MODEL, ValueError):
            found = classifier.expected_quality(inputs, confidence=question.quality, progress=report)
        table = replace(table, of_inputs=table.of_inputs | found.columns())
    return table.emptied() if empty else table
