"""``hedgerow predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data import DataError, read_part
from ..estimator import TopLabels
from ..model_file import ModelFileError
from ..saved_model import load
from ..text_estimator import HedgerowTextClassifier
from ..uncertain_labels import UncertainLabels
from .failures import ExitCode, Failure, failing_as
from .fit import check_new_file
from .predictions import Predictions, check_output, print_predictions, write_predictions
from .terminal import progress_bar


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
        with failing_as(ExitCode.DATA, DataError):
            part = read_part(
                data,
                part_name or ("test" if data.is_dir() else None),
                labels_field=None,
                threads=threads,
                progress=lambda share: report(share, "reading"),
            )
        reads_text = isinstance(classifier, HedgerowTextClassifier)
        inputs = part.texts if reads_text else part.X
        if inputs is None:
            wanted, found = ("texts", "features") if reads_text else ("features", "texts")
            raise Failure(
                ExitCode.DATA,
                f"{model} was trained on {wanted}, but {data} has only {found}; give it {wanted}",
            )
        with failing_as(ExitCode.DATA, ValueError, TypeError):
            # All labels of a model that knows fewer than k, rather than an error about the default.
            k = min(k, classifier._ensemble.known)
            best: TopLabels | UncertainLabels
            if uncertainty:
                best = classifier.predict_uncertain(inputs, k, tolerance=tolerance, progress=report)
            else:
                best = classifier.top(inputs, k, progress=report)
    predictions = Predictions(best, part.ids)
    with failing_as(ExitCode.WRITE):
        if out is None:
            print_predictions(predictions)
        else:
            write_predictions(out, predictions, overwrite)
