"""``hedgerow predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.fitted import TopLabels
from hedgerow.estimators.loading import load
from hedgerow.inputs.threads import threads_for
from hedgerow.storage.container import ModelFileError
from hedgerow.votes.predictions import UncertainLabels

from .failures import ExitCode, failing_as
from .fit import check_new_file
from .inputs import read_inputs
from .label_files import LabelTable, check_output, print_labels, write_labels
from .terminal import Report, progress_bar


def run_predict(
    model: Path,
    data: Path,
    k: int,
    out: str | None,
    part_name: str | None,
    threads: int,
    search: dict[str, Any],
    uncertainty: bool,
    tolerance: float | None,
    overwrite: bool,
) -> None:
    """Load, read, predict and write."""
    if out is not None:
        check_new_file(out, overwrite)
        check_output(out)
    with failing_as(ExitCode.MODEL, ModelFileError):
        classifier = load(model)
    classifier.set_params(**search, n_jobs=threads or -1)
    with progress_bar() as report:
        table = predict_part(model, classifier, data, part_name, k, uncertainty, tolerance, report)
    with failing_as(ExitCode.WRITE):
        if out is None:
            print_labels(table)
        else:
            write_labels(out, table, overwrite)


def predict_part(
    model: Path,
    classifier: HedgerowClassifier,
    data: Path,
    part_name: str | None,
    k: int,
    uncertainty: bool,
    tolerance: float | None,
    report: Report,
    may_be_empty: bool = False,
) -> LabelTable:
    """Read inputs and predict their labels, with doubts or without."""
    threads = threads_for(classifier.n_jobs)
    part, inputs = read_inputs(model, classifier, data, part_name, threads, report, may_be_empty=may_be_empty)
    texts, empty = isinstance(inputs, list), part.n == 0
    if empty:  # asks about something else, to know the columns
        inputs = [""] if texts else sp.csr_array((1, classifier.n_features_in_), dtype=np.float32)
    with failing_as(ExitCode.DATA, ValueError, TypeError):
        # All labels of a model that knows fewer than k, rather than an error about the default.
        k = min(k, classifier._ensemble.known)
        best: TopLabels | UncertainLabels
        if uncertainty:
            best = classifier.predict_uncertain(inputs, k, tolerance=tolerance, progress=report)
        else:
            best = classifier.top(inputs, k, progress=report)
    table = LabelTable.of_predictions(best, None if empty else part.ids)
    return table.emptied() if empty else table
