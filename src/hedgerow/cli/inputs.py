"""Reading what a model predicts from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data import DataError, Part, read_part
from ..estimator import HedgerowClassifier
from ..text_estimator import HedgerowTextClassifier
from .failures import ExitCode, Failure, failing_as
from .terminal import Report


def read_inputs(
    model: Path,
    classifier: HedgerowClassifier,
    data: Path,
    part_name: str | None,
    threads: int,
    report: Report,
) -> tuple[Part, Any]:
    """Read what a model predicts from: a part of the data, and its texts or features."""
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
            ExitCode.DATA, f"{model} was trained on {wanted}, but {data} has only {found}; give it {wanted}"
        )
    return part, inputs
