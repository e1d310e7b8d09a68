"""``hedgerow fit``."""

from __future__ import annotations

import itertools
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ..atomic_file import check_target
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
    library = import_module("hedgerow")
    reader = import_module("hedgerow.data")
    start = time.perf_counter()
    with progress_bar() as report:
        with failing_as(ExitCode.DATA, reader.DataError):
            part = reader.read_part(
                data,
                "train",
                labels_field=labels_field,
                threads=threads,
                progress=lambda share: report(share, "reading"),
            )
        inputs, estimator = _choose(library, data, part)
        classifier = estimator(**settings, n_jobs=threads or -1)
        targets = label_lists(part)
        try:
            classifier.fit(inputs, targets, progress=report)
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
        "rows": len(targets) if isinstance(targets, list) else int(targets.shape[0]),
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


def label_lists(part: Any) -> Any:
    """Return the labels as `fit` takes them: lists of names where labels have names, else the matrix."""
    if part.label_names is None:
        return part.Y
    names = np.array(part.label_names, dtype=object)[part.Y.indices]
    bounds = part.Y.indptr.tolist()
    return [names[begin:end].tolist() for begin, end in itertools.pairwise(bounds)]


def _choose(library: Any, data: Path, part: Any) -> tuple[Any, Any]:
    if part.Y is None:
        raise Failure(
            ExitCode.DATA, f"{data} has no labels to learn from; name their field with --labels-field"
        )
    if part.X is not None:
        return part.X, library.HedgerowClassifier
    if part.texts is not None:
        return part.texts, library.HedgerowTextClassifier
    raise Failure(ExitCode.DATA, f"{data} has neither texts nor features to learn from")
