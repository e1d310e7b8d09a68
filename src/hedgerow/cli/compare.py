"""``hedgerow compare``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

import hedgerow.cli.options as options

from .comparison_options import Accuracy, Deciding, Margin
from .failures import ExitCode, failing_as
from .targets import check_new_file
from .terminal import cell, figures_table, print_json, say, show_progress

if TYPE_CHECKING:
    from hedgerow.comparison.results import Comparison, Difference, GuaranteeDifference

_NAMES = {
    "ece@5": "calibration error@5",
    "log_loss@5": "log loss@5",
    "auroc_total": "AUROC of total uncertainty",
}
_STYLES = {"better": "bold green", "no worse": "bold green", "worse": "bold red", "undecided": "bold yellow"}
_LABELS = 10


def compare(
    old: Annotated[Path, typer.Argument(help="The model file in use.", metavar="OLD")],
    new: Annotated[Path, typer.Argument(help="The model file that may replace it.", metavar="NEW")],
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Data with labels that neither model learned from: files, or folders (their test part).",
            metavar="DATA",
        ),
    ],
    by: Deciding = Accuracy.ndcg_5,
    margin: Margin = 0.5,
    group_field: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also compare by this field of records, such as a language."),
    ] = None,
    fail_if_worse: Annotated[
        bool,
        typer.Option(
            "--fail-if-worse",
            help="End with exit status 9 if NEW is worse, and 10 if that is undecided.",
        ),
    ] = False,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write all figures to this file; - prints them.")
    ] = None,
    part: options.PartName = None,
    labels_field: options.LabelsField = "labels",
    seed: options.Seed = 0,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    verbose: options.Verbose = False,
) -> None:
    """Compare NEW with OLD on the same labelled rows, and say whether it is better.

    Each difference has the interval that holds 95 % of the draws of a paired bootstrap. Rows that a model
    remembers from its training are left out. The models may know different labels: what one does not know
    counts as missed.

    The verdict is "better" (the interval is above 0), "no worse" (its lower end is not below the margin),
    "worse", or "undecided", with about how many rows would be needed.

    \b
    Examples:
      hedgerow compare old.hedgerow new.hedgerow test.jsonl
      hedgerow compare old.hedgerow new.hedgerow test.jsonl --margin 1 --group-field lang --fail-if-worse
    """  # noqa: D301
    if json not in (None, "-"):
        check_new_file(str(json), overwrite)
    import orjson

    from hedgerow.comparison.comparing import compare_models
    from hedgerow.comparison.held_rows import RowsWanted, read_rows
    from hedgerow.comparison.results import ComparisonSettings
    from hedgerow.data import DataError
    from hedgerow.storage.atomic_file import atomic_file

    from .inputs import open_model

    models = [open_model(path, threads).classifier.source for path in (old, new)]
    wanted = RowsWanted(tuple(data), part, labels_field, group_field, threads)
    with show_progress(verbose) as report, failing_as(ExitCode.DATA, DataError, ValueError, TypeError):
        rows = read_rows(wanted, models[0], models[1], report)
        settings = ComparisonSettings(by.value, margin, seed=seed)
        found = compare_models(models[0], models[1], rows, settings, report)
    if json == "-":
        print_json(found.to_dict())
    else:
        if json is not None:
            with failing_as(ExitCode.WRITE), atomic_file(json, overwrite=overwrite) as file:
                file.write(orjson.dumps(found.to_dict(), option=orjson.OPT_INDENT_2) + b"\n")
        _print(found)
    if fail_if_worse and (code := _exit_code(found.verdict.word)):
        raise typer.Exit(code)


def _exit_code(word: str) -> int:
    return {"worse": int(ExitCode.WORSE), "undecided": int(ExitCode.UNDECIDED)}.get(word, 0)


def _print(found: Comparison) -> None:
    console = Console(highlight=False)
    verdict = found.verdict
    words = (
        f"{verdict.words[0].upper()}{verdict.words[1:]}"
        if verdict.word == "undecided"
        else f"NEW is {verdict.words}"
    )
    say(f"{words}.", _STYLES[verdict.word])
    only = f"only OLD knows {found.only_old:,} and only NEW {found.only_new:,}"
    say(f"{found.rows:,} rows; both models know {found.shared:,} labels, {only}.", "dim")
    for remark in found.remarks:
        say(remark, "yellow")
    table = figures_table("Figures, %", ["OLD", "NEW", "NEW - OLD", "95 % interval"])
    for of in found.differences:
        table.add_row(cell(_NAMES.get(of.name, of.name)), *_cells(of))
    console.print(table)
    _print_guarantees(console, found)
    if found.groups:
        table = figures_table(
            f"{found.settings.by} by group, %", ["rows", "OLD", "NEW", "NEW - OLD", "95 % interval"]
        )
        for group in found.groups:
            figures = [_percent(group.old), _percent(group.new), _points(group.difference)]
            low, high = group.low, group.high
            interval = "" if low is None or high is None else _interval(low, high)
            style = "" if low is None or high is None else _style(low, high, True)
            row = [f"{group.rows:,}", *figures, interval]
            table.add_row(cell(group.group), *(cell(of, style) for of in row))
        console.print(table)
    _print_labels(console, found)


def _cells(of: Difference) -> list[Text]:
    style = _style(of.low, of.high, of.higher_is_better)
    if math.isnan(of.difference):
        return [cell("not defined", "dim")]
    if not of.is_share:
        figures = [
            f"{of.old:.4f}",
            f"{of.new:.4f}",
            f"{of.difference:+.4f}",
            f"{of.low:+.4f} to {of.high:+.4f}",
        ]
    else:
        figures = [_percent(of.old), _percent(of.new), _points(of.difference), _interval(of.low, of.high)]
    return [cell(figure, style) for figure in figures]


def _style(low: float, high: float, higher_is_better: bool) -> str:
    """Green where NEW is clearly better, red where it is clearly worse."""
    if low > 0 or high < 0:
        return "green" if (low > 0) == higher_is_better else "red"
    return ""


def _print_guarantees(console: Console, found: Comparison) -> None:
    if not found.guarantees:
        return
    columns = ["OLD", "kept", "NEW", "kept", "NEW - OLD", "95 % interval"]
    table = figures_table("What is guaranteed, %", columns)
    for of in found.guarantees:
        table.add_row(cell(of.title), *_guarantee_cells(of))
    console.print(table)


def _guarantee_cells(of: GuaranteeDifference) -> list[Text]:
    kept = [
        cell("refused", "dim") if own is None else cell("yes" if own else "no", "" if own else "red")
        for own in (of.old_kept, of.new_kept)
    ]
    interval = of.interval
    if interval is None or math.isnan(interval.difference):
        return [cell(""), kept[0], cell(""), kept[1], cell(""), cell("")]
    style = _style(interval.low, interval.high, of.kind == "review")
    return [
        cell(_percent(interval.old)),
        kept[0],
        cell(_percent(interval.new)),
        kept[1],
        cell(_points(interval.difference), style),
        cell(_interval(interval.low, interval.high), style),
    ]


def _print_labels(console: Console, found: Comparison) -> None:
    from hedgerow.comparison.label_changes import LABEL_TEST

    clear = [label for label in found.labels if label.is_clear]
    if not clear:
        say(f"No label gained or lost beyond chance ({LABEL_TEST}).", "dim")
        return
    gained = [label for label in clear if label.gained > label.lost]
    lost = [label for label in reversed(clear) if label.gained < label.lost]
    for what, labels in (("gained", gained), ("lost", lost)):
        if not labels:
            continue
        shown = f", {_LABELS} of them" if len(labels) > _LABELS else ""
        table = figures_table(
            f"{len(labels):,} labels {what} beyond chance{shown}",
            ["rows", "found by NEW only", "by OLD only", "p, adjusted"],
        )
        for label in labels[:_LABELS]:
            figures = (f"{label.true:,}", f"{label.gained:,}", f"{label.lost:,}", f"{label.adjusted:.2g}")
            table.add_row(cell(label.label), *map(cell, figures))
        console.print(table)
    say(f"Found: among the best five labels of a row that has it; {LABEL_TEST}.", "dim")


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _points(share: float) -> str:
    return f"{100 * share:+.2f}"


def _interval(low: float, high: float) -> str:
    return f"{_points(low)} to {_points(high)}"
