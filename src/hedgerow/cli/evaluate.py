"""``hedgerow evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from hedgerow.estimators.loading import load
from hedgerow.evaluation.results import Evaluation
from hedgerow.evaluation.tasks import evaluate
from hedgerow.inputs.training_record import MOST_SEEN
from hedgerow.storage.atomic_file import atomic_file
from hedgerow.storage.container import ModelFileError

from .failures import ExitCode, failing_as
from .fit import check_new_file
from .inputs import read_ood, read_truth
from .terminal import cell, print_json, progress_bar

_MEASURES = {
    "variance": "variance",
    "total": "total uncertainty",
    "knowledge": "knowledge uncertainty",
    "data": "data uncertainty",
    "energy": "Energy",
}
_SCORES = {
    "ood": "ood",
    "variance": "variance",
    "total": "total uncertainty",
    "knowledge": "knowledge uncertainty",
    "joint_energy": "JointEnergy",
    "expected": "expected number of labels",
}


def run_evaluate(
    model: Path,
    data: Path,
    ood: list[Path],
    json_file: str | None,
    part_name: str | None,
    labels_field: str,
    threads: int,
    search: dict[str, Any],
    overwrite: bool,
) -> None:
    """Load, read, evaluate, and write or print."""
    if json_file not in (None, "-"):
        check_new_file(str(json_file), overwrite)
    with failing_as(ExitCode.MODEL, ModelFileError):
        classifier = load(model)
    classifier.set_params(**search, n_jobs=threads or -1)
    with progress_bar() as report:
        _, inputs, truth, _ = read_truth(model, classifier, data, part_name, labels_field, threads, report)
        read = read_ood(model, classifier, ood, threads, report)
        with failing_as(ExitCode.DATA, ValueError, TypeError):
            found = evaluate(classifier, inputs, truth, ood=read, progress=report)
    plain = found.to_dict()
    plain["settings"] |= {"model": str(model), "data": str(data), "ood": {Path(p).name: str(p) for p in ood}}
    if json_file == "-":
        print_json(plain)
        return
    if json_file is not None:
        with failing_as(ExitCode.WRITE), atomic_file(json_file, overwrite=overwrite) as file:
            file.write(orjson.dumps(plain, option=orjson.OPT_INDENT_2) + b"\n")
    _print(Console(highlight=False), found)


def _print(console: Console, found: Evaluation) -> None:
    settings = found.settings
    unknown = settings["unknown_labels"]
    console.print(
        cell(f"{settings['inputs']:,} inputs, {settings['true_labels']:,} true labels")
        + cell(f", of which the model does not know {unknown:,}" if unknown else "", "dim"),
        soft_wrap=True,
    )
    if (seen := settings["seen_in_training"]) > MOST_SEEN * settings["inputs"]:
        told = f"The model was trained on {seen:,} of these inputs, so this says little about others."
        console.print(cell(told, "yellow"), soft_wrap=True)
    ranking = found.ranking
    rows: list[tuple[str, dict[int, float] | None]] = [
        ("precision", ranking.precision),
        ("recall", ranking.recall),
        ("nDCG", ranking.ndcg),
        ("propensity-scored precision", ranking.psp),
        ("macro-F1", ranking.macro_f1),
        ("calibration error", {k: found.reliability[k].ece for k in found.reliability}),
    ]
    table = _table("How well it ranks, %", [f"@{k}" for k in ranking.precision])
    for name, values in rows:
        if values is not None:
            table.add_row(cell(name), *(cell(f"{100 * value:.2f}") for value in values.values()))
    console.print(table)
    table = _table("How well doubt finds wrong labels, %", ["AUROC", "AUPR", "AURC"])
    for measure, of in found.misclassification.items():
        figures = (of.auroc, of.aupr, of.risk_coverage.area)
        table.add_row(cell(_MEASURES[measure]), *(cell(f"{100 * value:.2f}") for value in figures))
    console.print(table)
    for name, scores in found.ood.items():
        title = f"How well it knows out-of-distribution inputs: {name}, %"
        table = _table(title, ["out-of-distribution inputs are", "AUROC", "AUPR", "FPR@95"])
        for score, title in _SCORES.items():
            if score in scores:
                of_score = scores[score]
                detection = of_score.detection
                shares = (detection.auroc, detection.aupr, detection.fpr95)
                table.add_row(
                    cell(title), cell(of_score.direction), *(cell(f"{100 * share:.2f}") for share in shares)
                )
        console.print(table)
    if found.decisions:
        _print_decisions(console, found)
    seconds = found.seconds
    part = 100 * seconds["judge"] / seconds["predict"]
    console.print(
        cell(f"Predicting took {seconds['predict']:.1f} s, judging {part:.0f} % of that.", "dim"),
        soft_wrap=True,
    )


def _print_decisions(console: Console, found: Evaluation) -> None:
    """What the policy guarantees beside what was achieved; a refusal in its own words."""
    names = ["missed", "wrong", "labels to accept", "to review", "flagged"]
    table = _table("What its policy guarantees, and what came of it", ["guaranteed, %", *names])
    for of in found.decisions:
        outcome = of.outcome
        figures = ["refused"]
        if outcome is not None:
            figures = [f"{100 * outcome.missed:.2f}", f"{100 * outcome.wrong:.2f}"]
            figures += [f"{outcome.accepted:.2f}", f"{outcome.reviewed:.2f}"]
            figures.append("" if of.flagged is None else f"{100 * of.flagged:.2f}")
        table.add_row(cell(""), cell(f"{100 * of.risk:g}"), *(cell(figure) for figure in figures))
    console.print(table)
    for of in found.decisions:
        if of.refused:
            console.print(cell(f"At {100 * of.risk:g} %: {of.refused}", "dim"), soft_wrap=True)


def _table(title: str, columns: list[str]) -> Table:
    table = Table(title=cell(title, "bold"), box=None, padding=(0, 1), title_justify="left")
    table.add_column("")
    for column in columns:
        table.add_column(cell(column, "dim"), justify="right")
    return table
