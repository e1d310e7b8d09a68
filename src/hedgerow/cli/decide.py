"""``hedgerow decide``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hedgerow.decisions.results import Decisions
from hedgerow.decisions.wishes import Wish, rule_for
from hedgerow.estimators.loading import load
from hedgerow.storage.container import ModelFileError

from .failures import ExitCode, failing_as
from .fit import check_new_file
from .inputs import read_inputs
from .label_files import LabelTable, check_output, print_labels, write_labels
from .terminal import cell, progress_bar

_SHOWN = 20
_LABELS = 6


def run_decide(
    model: Path,
    data: Path,
    wish: Wish,
    false_alarm: float,
    k: int,
    out: str | None,
    part_name: str | None,
    threads: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Load, read, decide and write."""
    if out is not None:
        check_new_file(out, overwrite)
        check_output(out)
    with failing_as(ExitCode.MODEL, ModelFileError):
        classifier = load(model)
    classifier.set_params(n_jobs=threads or -1)
    with failing_as(ExitCode.MODEL, ValueError):
        # Before any data are read: what cannot be guaranteed at all.
        rule_for(wish, getattr(classifier, "policy_", None), classifier.label_counts_)
    with progress_bar() as report:
        part, inputs = read_inputs(model, classifier, data, part_name, threads, report)
        with failing_as(ExitCode.DATA, ValueError, TypeError):
            found = classifier.decide(inputs, **vars(wish), false_alarm=false_alarm, k=k, progress=report)
    table = LabelTable.of_decisions(found, part.ids)
    with failing_as(ExitCode.WRITE):
        if out is not None:
            write_labels(out, table, overwrite)
        elif as_json:
            print_labels(table)
    if out is not None or not as_json:
        _print(Console(highlight=False), found, part.ids, out)


def _print(console: Console, found: Decisions, ids: Sequence[str] | None, out: str | None) -> None:
    if out is None:
        console.print(_table(found, ids))
        if len(found) > _SHOWN:
            rest = len(found) - _SHOWN
            console.print(cell(f"… and {rest:,} more; --out FILE writes all, --json prints all", "dim"))
    if not len(found):
        return
    means = ", ".join(f"{found.count(name).mean():.1f} to {name}" for name in ("accept", "review"))
    console.print(cell(f"{len(found):,} inputs; labels of an input on average: {means}"), soft_wrap=True)
    if found.is_ood is not None:
        flagged = int(found.is_ood.sum())
        console.print(cell(f"{flagged:,} inputs are unlike those that the model knows"), soft_wrap=True)
    if not found.answered.all():
        withheld = int((~found.answered).sum())
        console.print(cell(f"{withheld:,} inputs are too doubtful to accept anything"), soft_wrap=True)
    if found.expected_cost is not None:
        cost = float(found.expected_cost.mean())
        console.print(cell(f"Expected cost of an input: {cost:.4g}"), soft_wrap=True)
    console.print(cell(found.guarantee, "dim"), soft_wrap=True)


def _table(found: Decisions, ids: Sequence[str] | None) -> Table:
    table = Table(box=None, padding=(0, 1))
    for name in ("input", "accept", "review", "is_ood"):
        table.add_column(cell(name, "dim"), overflow="fold")
    for row in range(min(_SHOWN, len(found))):
        of_input = found[row]
        flag = "" if not of_input.is_ood else f"yes, p = {of_input.p_value:.3f}"
        table.add_row(
            cell(row if ids is None else ids[row]),
            cell(_some(of_input.accept), "green"),
            cell(_some(of_input.review), "yellow"),
            cell(flag, "red"),
        )
    return table


def _some(labels: list[Any]) -> str:
    more = f" … {len(labels) - _LABELS} more" if len(labels) > _LABELS else ""
    return ", ".join(map(str, labels[:_LABELS])) + more
