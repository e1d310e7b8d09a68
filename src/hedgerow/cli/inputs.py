"""Reading what a model predicts from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hedgerow.data import DataError, Part, read_part
from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.text import HedgerowTextClassifier
from hedgerow.inputs.labels import align_labels

from .failures import ExitCode, Failure, failing_as
from .terminal import Report

_FIELDS_TOLD = 20


def read_inputs(
    model: Path,
    classifier: HedgerowClassifier,
    data: Path,
    part_name: str | None,
    threads: int,
    report: Report,
    labels_field: str | None = None,
    may_be_empty: bool = False,
) -> tuple[Part, Any]:
    """Read what a model predicts from: a part of the data, and its texts or features."""
    with failing_as(ExitCode.DATA, DataError):
        part = read_part(
            data,
            part_name or ("test" if data.is_dir() else None),
            labels_field=labels_field,
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
    if part.n == 0 and not may_be_empty:
        raise no_rows(data)
    check_part(data, part, part_name)
    return part, inputs


def check_part(data: Path, part: Part, part_name: str | None) -> None:
    """Refuse a part that was asked for and not looked for, as a file has no parts."""
    if part_name is not None and part.n and part.split is None and not data.is_dir():
        raise Failure(
            ExitCode.USAGE,
            f"--part {part_name}: {data} has no parts, which are told by a field 'split' of JSON records;"
            " leave it out",
        )


def no_rows(data: Path) -> Failure:
    """What to raise where there is nothing to work on."""
    return Failure(ExitCode.DATA, f"{data} has no rows; give data with at least one")


def no_labels(data: Path, part: Part, labels_field: str, use: str) -> Failure:
    """What to raise where labels are needed and there are none: where they were looked for."""
    told = f"{data} has no labels to {use}"
    if part.fields is None:
        return Failure(ExitCode.DATA, f"{told}; give data with labels")
    if labels_field in part.fields:
        return Failure(ExitCode.DATA, f"{told}: the field {labels_field!r} is empty in all records")
    found = ", ".join(part.fields[:_FIELDS_TOLD]) + (" and more" if len(part.fields) > _FIELDS_TOLD else "")
    return Failure(
        ExitCode.DATA,
        f"{told}: there is no field {labels_field!r}, but there are {found}; name one with --labels-field",
    )


def read_truth(
    model: Path,
    classifier: HedgerowClassifier,
    data: Path,
    part_name: str | None,
    labels_field: str,
    threads: int,
    report: Report,
) -> tuple[Part, Any, Any, list[Any]]:
    """Read what a model is judged by: a part of the data, its texts or features, its true labels, and the
    names of those that the model does not know.
    """
    part, inputs = read_inputs(model, classifier, data, part_name, threads, report, labels_field)
    if part.Y is None or part.Y.nnz == 0:
        raise no_labels(data, part, labels_field, "compare with")
    if part.X is not None and part.X.shape[1] > classifier.n_features_in_:
        raise Failure(
            ExitCode.DATA,
            f"{data} has {part.X.shape[1]} features, but {model} was trained on {classifier.n_features_in_};"
            " evaluate it on data that were made in the same way",
        )
    if part.label_names is None and classifier.classes_.dtype == object:
        raise Failure(
            ExitCode.DATA,
            f"{data} knows labels by number, but {model} by name, such as {classifier.classes_[0]!r}",
        )
    with failing_as(ExitCode.DATA, ValueError):
        truth, unknown = align_labels(part.Y, part.label_names, classifier.classes_)
    return part, inputs, truth, unknown


def read_ood(
    model: Path, classifier: HedgerowClassifier, sources: list[Path], threads: int, report: Report
) -> dict[str, Any]:
    """Read data that a model was not made for, by name."""
    ood: dict[str, Any] = {}
    for source in sources:
        _, inputs = read_inputs(model, classifier, source, None, threads, report)
        name = source.resolve().name.split(".")[0]
        if name in ood:
            raise Failure(ExitCode.USAGE, f"two data sets for --ood are called {name!r}; rename one of them")
        ood[name] = inputs
    return ood
