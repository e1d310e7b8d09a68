"""``hedgerow demo``."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ..demo import DemoResult, Example, demonstrate
from .terminal import cell, plain, print_json, progress_bar, shortened

_BAR = 20
_RECORD = '{"text": ..., "labels": [...]}'
_NEXT = (
    "hedgerow fit train.jsonl my.hedgerow",
    "hedgerow predict my.hedgerow new.jsonl --k 5",
    "hedgerow inspect my.hedgerow",
)


def run_demo(threads: int, as_json: bool) -> None:
    """Train, predict and print."""
    with progress_bar() as report:
        result = demonstrate(n_jobs=threads or -1, progress=report)
    if as_json:
        print_json(asdict(result))
    else:
        print_demo(Console(highlight=False), result)


def print_demo(console: Console, result: DemoResult) -> None:
    """Print the examples, the scores and what to try next."""
    console.print(
        cell(
            f"Learned {result.labels:,} tags of Debian packages from {result.train_rows:,} descriptions in "
            f"{result.fit_seconds:.1f} s; predicted {result.test_rows:,} unseen ones in "
            f"{result.predict_seconds:.2f} s."
        )
    )
    for example in result.examples:
        console.print(_panel(example, console.width))
    console.print(Text.assemble(("✓", "green"), (" a tag that the package has", "dim")))
    console.print()
    scores = "   ".join(f"P@{k} {100 * value:.1f} %" for k, value in result.precision.items())
    console.print("Share of right tags among the first 1, 3 and 5, over all unseen texts:")
    console.print(cell(f"  {scores}", "bold"))
    console.print()
    console.print("Try next, with your own texts, one JSON object a line:", cell(_RECORD, "bold"))
    for command in _NEXT:
        console.print(cell(f"  {command}", "cyan"))


def _panel(example: Example, width: int) -> Panel:
    table = Table.grid(padding=(0, 1))
    for prediction in example.predictions:
        filled = round(_BAR * prediction.probability)
        table.add_row(
            Text("✓" if prediction.right else " ", style="green"),
            Text.assemble(
                ("█" * filled, "green" if prediction.right else "yellow"), ("░" * (_BAR - filled), "dim")
            ),
            cell(f"{100 * prediction.probability:5.1f} %"),
            cell(prediction.label),
        )
    excerpt = Text(plain(shortened(example.text, 2 * max(20, width - 12))), style="italic")
    parts: list[Text | Table] = [excerpt, table]
    if example.missed:
        parts.append(cell(f"not among them: {', '.join(example.missed)}", "dim"))
    return Panel(Group(*parts), title=cell(example.id, "bold"), title_align="left")
