"""``hedgerow fit``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Console

from ..atomic_file import check_target
from ..data import DataError, Part, read_part
from ..estimator import HedgerowClassifier
from ..text_estimator import HedgerowTextClassifier
from .failures import ExitCode, Failure, failing_as, reason
from .terminal import cell, human_bytes, print_json, progress_bar


def run_fit(
    data: Path,
    model: Path,
    settings: dict[str, Any],
    threads: int,
    labels_field: str,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Read, train, save and tell; what would fail at the end fails at the start."""
    check_new_file(model, overwrite)
    start = time.perf_counter()
    with progress_bar() as report:
        with failing_as(ExitCode.DATA, DataError):
            part = read_part(
                data,
                "train",
                labels_field=labels_field,
                threads=threads,
                progress=lambda share: report(share, "reading"),
            )
        inputs, estimator = _choose(data, part)
        classifier = estimator(**settings, n_jobs=threads or -1)
        try:
            classifier.fit(inputs, part.Y, classes=part.label_names, progress=report)
        except (ValueError, TypeError) as error:
            # scikit-learn's class for parameters out of range; whatever else does not fit is in the data.
            wrong = type(error).__name__ == "InvalidParameterError"
            raise Failure(ExitCode.USAGE if wrong else ExitCode.DATA, reason(error)) from error
        report(0.0, "saving")
        with failing_as(ExitCode.WRITE):
            classifier.save(model, overwrite=overwrite)
    summary: dict[str, Any] = {
        "model": str(model),
        "bytes": model.stat().st_size,
        "rows": part.n,
        "labels": len(classifier.classes_),
        "seconds": round(time.perf_counter() - start, 3),
        "settings": settings,
    }
    if as_json:
        print_json(summary)
    else:
        console = Console(soft_wrap=True, highlight=False)
        console.print(
            cell(
                f"Saved {model} ({human_bytes(summary['bytes'])}): {summary['labels']:,} labels learned from"
            )
            + cell(f" {summary['rows']:,} rows in {summary['seconds']:.1f} s.")
        )
        console.print(cell(f"Next: hedgerow predict {model} INPUT, or hedgerow inspect {model}", "dim"))


def check_new_file(path: Path | str, overwrite: bool) -> None:
    """Refuse a target that cannot be written, before any long work."""
    try:
        check_target(path, overwrite)
    except FileExistsError as error:
        if overwrite:
            raise Failure(ExitCode.WRITE, reason(error)) from error
        raise Failure(
            ExitCode.WRITE, f"{path} exists already; choose another name, or replace it with --overwrite"
        ) from error
    except OSError as error:
        raise Failure(ExitCode.WRITE, reason(error)) from error


def _choose(data: Path, part: Part) -> tuple[Any, type[HedgerowClassifier]]:
    if part.Y is None:
        raise Failure(
            ExitCode.DATA, f"{data} has no labels to learn from; name their field with --labels-field"
        )
    if part.X is not None:
        return part.X, HedgerowClassifier
    if part.texts is not None:
        return part.texts, HedgerowTextClassifier
    raise Failure(ExitCode.DATA, f"{data} has neither texts nor features to learn from")
