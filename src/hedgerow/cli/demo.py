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
    console.print(Text("✓", style="green") + cell(" a tag that the package's maintainers gave it", "dim"))
    scores = "   ".join(f"P@{k} {100 * value:.1f} %" for k, value in result.precision.items())
    console.print(
        cell("\nHow many of the first k tags are right, over all unseen texts:  ") + cell(scores, "bold")
    )
    console.print(
        cell("\nTry next, with your own texts (one JSON object a line: ")
        + cell('{"text": ..., "labels": [...]}', "bold")
        + cell("):\n")
        + cell("  hedgerow fit train.jsonl my.hedgerow\n", "cyan")
        + cell("  hedgerow predict my.hedgerow new.jsonl --k 5\n", "cyan")
        + cell("  hedgerow inspect my.hedgerow", "cyan")
    )


def _panel(example: Example, width: int) -> Panel:
    table = Table.grid(padding=(0, 1))
    for prediction in example.predictions:
        filled = round(_BAR * prediction.probability)
        table.add_row(
            Text("✓" if prediction.right else " ", style="green"),
            Text("█" * filled, style="green" if prediction.right else "yellow")
            + Text("░" * (_BAR - filled), style="dim"),
            cell(f"{100 * prediction.probability:5.1f} %"),
            cell(prediction.label),
        )
    excerpt = Text(plain(shortened(example.text, 2 * max(20, width - 4))), style="italic")
    parts: list[Text | Table] = [excerpt, table]
    if example.missed:
        parts.append(cell(f"not among them: {', '.join(example.missed)}", "dim"))
    return Panel(Group(*parts), title=cell(example.id, "bold"), title_align="left")
