"""``hedgerow report``."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from hedgerow.evaluation.tasks import evaluate
from hedgerow.report import render
from hedgerow.report.composition import EvaluatedData, compose
from hedgerow.saving import load
from hedgerow.storage.atomic_file import atomic_file
from hedgerow.storage.container import ModelFileError

from .failures import ExitCode, failing_as
from .fit import check_new_file
from .inputs import read_ood, read_truth
from .terminal import cell, human_bytes, progress_bar


def run_report(
    model: Path,
    data: Path,
    out: Path,
    ood: list[Path],
    part_name: str | None,
    labels_field: str,
    threads: int,
    overwrite: bool,
) -> None:
    """Load, read, evaluate, compose and write."""
    check_new_file(out, overwrite)
    with failing_as(ExitCode.MODEL, ModelFileError):
        classifier = load(model)
    classifier.set_params(n_jobs=threads or -1)
    with progress_bar() as report:
        part, inputs, truth, unknown = read_truth(
            model, classifier, data, part_name, labels_field, threads, report
        )
        read = read_ood(model, classifier, ood, threads, report)
        with failing_as(ExitCode.DATA, ValueError, TypeError):
            found = evaluate(classifier, inputs, truth, ood=read, progress=report)
            report(0.0, "composing")
            content = compose(
                classifier,
                EvaluatedData(inputs, part.texts, part.ids, unknown),
                found,
                title=f"{model.stem} on {data.resolve().name}",
                subtitle=f"{classifier.method}, {found.settings['members']} members,"
                f" {found.settings['labels']:,} labels; {part.n:,} inputs",
            )
    page = render(content).encode()
    with failing_as(ExitCode.WRITE), atomic_file(out, overwrite=overwrite) as file:
        file.write(page)
    Console(highlight=False).print(
        cell(f"Written {out} ({human_bytes(len(page))}); open it in a browser."), soft_wrap=True
    )
