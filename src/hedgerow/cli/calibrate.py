"""``hedgerow calibrate``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.held_out import Learned, learn_from_held_out
from hedgerow.estimators.loading import load
from hedgerow.storage.container import ModelFileError

from .failures import ExitCode, failing_as
from .fit import check_new_file
from .inputs import read_truth
from .terminal import cell, print_json, progress_bar

_RISKS = (0.05, 0.1, 0.2)


def run_calibrate(
    model: Path,
    data: Path,
    out: Path | None,
    options: dict[str, Any],
    out_of_bag: Path | None,
    part_name: str | None,
    labels_field: str,
    threads: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Load, read, learn and save."""
    if out is not None:
        check_new_file(out, overwrite)
    with failing_as(ExitCode.MODEL, ModelFileError):
        classifier = load(model)
    classifier.set_params(n_jobs=threads or -1)
    with progress_bar() as report:
        _, inputs, truth, _ = read_truth(model, classifier, data, part_name, labels_field, threads, report)
        training = None
        if out_of_bag is not None:
            part = "train" if out_of_bag.is_dir() else None
            _, *training = read_truth(model, classifier, out_of_bag, part, labels_field, threads, report)[:3]
        with failing_as(ExitCode.DATA, ValueError, TypeError):
            learned = learn_from_held_out(
                classifier,
                inputs,
                truth,
                training=None if training is None else (training[0], training[1]),
                progress=report,
                **options,
            )
    target = out or model
    with failing_as(ExitCode.WRITE):
        classifier.save(target, overwrite=out is None or overwrite)
    if as_json:
        print_json(
            {
                "model": str(target),
                **{
                    f"rows_{name}": value for name, value in asdict(learned).items() if isinstance(value, int)
                },
                "ece_before": {str(k): value for k, value in learned.before.items()},
                "ece_after": {str(k): value for k, value in learned.after.items()},
                "policy": classifier.policy_.describe(),
            }
        )
    else:
        _print(Console(highlight=False), classifier, learned, target)


def _print(console: Console, classifier: HedgerowClassifier, learned: Learned, target: Path) -> None:
    source = f"{learned.out_of_bag:,} training inputs, out of bag" if learned.out_of_bag else "the same"
    console.print(
        cell(
            f"{learned.first:,} inputs tell what is familiar, {source} how often probabilities come true,"
            f" and {learned.second:,} others what can be guaranteed."
        ),
        soft_wrap=True,
    )
    if left_out := classifier.policy_.left_out:
        console.print(
            cell(f"{left_out:,} of the latter are left out, as the model was trained on them."),
            soft_wrap=True,
        )
    table = Table(title=cell("Calibration error, %", "bold"), box=None, padding=(0, 1), title_justify="left")
    table.add_column("")
    for k in learned.before:
        table.add_column(cell(f"@{k}", "dim"), justify="right")
    for name, errors in (("before", learned.before), ("after", learned.after)):
        table.add_row(cell(name), *(cell(f"{100 * error:.2f}") for error in errors.values()))
    console.print(table)
    policy = classifier.policy_
    for risk in _RISKS:
        try:
            console.print(
                cell(f"At {100 * risk:g} %: ", "bold") + cell(policy.guarantee(risk)), soft_wrap=True
            )
        except ValueError as error:
            console.print(
                cell(f"At {100 * risk:g} %: ", "bold") + cell(f"not possible, {error}"), soft_wrap=True
            )
    for note in policy.notes:
        console.print(cell(note, "dim"), soft_wrap=True)
    console.print(cell(f"Written {target}"), soft_wrap=True)
