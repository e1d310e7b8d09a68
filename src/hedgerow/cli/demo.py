"""``hedgerow demo``."""

from __future__ import annotations

import math
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from hedgerow.cli.demonstration import DemoResult, Example, Prediction, demonstrate, prepare

from .serve import Place, check_extra, run_serve
from .terminal import cell, plain, print_json, progress_bar, shortened

_BAR = 12
_COIN_TOSS = math.log(2)  # the entropy of a label that is there or not by chance: no doubt can be larger
_DEGREES = ((5, "hardly", "dim"), (20, "little", ""), (40, "some", "yellow"), (math.inf, "much", "red"))
_RECORD = '{"text": ..., "labels": [...]}'
_NEXT = (
    "hedgerow fit train.jsonl my.hedgerow --method bagging",
    "hedgerow predict my.hedgerow new.jsonl --uncertainty",
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


def serve_demo(threads: int, place: Place) -> None:
    """Train, calibrate on held-out texts, and serve from a folder that goes when the server stops."""
    check_extra()
    from hedgerow.serve.limits import Limits

    with tempfile.TemporaryDirectory(prefix="hedgerow-demo-") as folder:
        model = Path(folder) / "demo.hedgerow"
        with progress_bar() as report:
            classifier, texts = prepare(n_jobs=threads or -1, progress=report)
        classifier.save(model)
        about = (
            f"Some texts wait for review. The model and its queue are in {folder}, and go when the server"
            " stops."
        )
        run_serve(model, place, None, threads, Limits(), about, texts)


def print_demo(console: Console, result: DemoResult) -> None:
    """Print the examples, the scores and what to try next."""
    console.print(
        cell(
            f"Learned {result.labels:,} tags of Debian packages from {result.train_rows:,} descriptions in "
            f"{result.fit_seconds:.1f} s; predicted {result.test_rows:,} unseen ones in "
            f"{result.predict_seconds:.2f} s. {result.members} members voted, each taught by its own sample "
            "of the descriptions."
        )
    )
    for example in result.examples:
        console.print(_panel(example, console.width))
    console.print(Text.assemble(("✓", "green"), (" a tag that the package has", "dim")))
    for name, meaning in (
        ("Doubt of 100 %:", "one could as well toss a coin."),
        ("Doubt from the data:", "like descriptions differ in the tag; more would not help."),
        ("Doubt from lack of knowledge:", "members disagree; more like it would help."),
    ):
        console.print(Text.assemble(name, " ", (meaning, "dim")))
    console.print()
    scores = "   ".join(f"P@{k} {100 * value:.1f} %" for k, value in result.precision.items())
    console.print("Share of right tags among the first 1, 3 and 5, over all unseen texts:")
    console.print(cell(f"  {scores}", "bold"))
    console.print()
    console.print("Try next, with your own texts, one a line:", cell(_RECORD, "bold"))
    for command in _NEXT:
        console.print(cell(f"  {command}", "cyan"))


def _panel(example: Example, width: int) -> Panel:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("")
    table.add_column("probability", min_width=_BAR + 6)
    table.add_column("tag", min_width=23, overflow="fold")
    table.add_column("doubt from\nthe data", min_width=13)
    table.add_column("doubt from lack\nof knowledge", min_width=15)
    for prediction in example.predictions:
        filled = round(_BAR * prediction.probability)
        table.add_row(
            Text("✓" if prediction.right else " ", style="green"),
            Text.assemble(
                ("█" * filled, "green" if prediction.right else "yellow"),
                ("░" * (_BAR - filled), "dim"),
                f" {100 * prediction.probability:3.0f} %",
            ),
            cell(prediction.label),
            _doubt(prediction.data),
            _doubt(prediction.knowledge),
        )
    excerpt = Text(plain(shortened(example.text, 2 * max(20, width - 12))), style="italic")
    parts: list[Text | Table] = [excerpt, table, cell(_verdict(example.predictions), "bold")]
    if example.missed:
        parts.append(cell(f"Not among them: {', '.join(example.missed)}", "dim"))
    return Panel(Group(*parts), title=cell(example.id, "bold"), title_align="left")


def _doubt(nats: float) -> Text:
    percent = round(100 * nats / _COIN_TOSS)
    word, style = next((word, style) for limit, word, style in _DEGREES if percent < limit)
    return Text(f"{word:6} {percent:3} %", style=style)


def _verdict(predictions: list[Prediction]) -> str:
    data = sum(prediction.data for prediction in predictions) / _COIN_TOSS
    knowledge = sum(prediction.knowledge for prediction in predictions) / _COIN_TOSS
    if data + knowledge < len(predictions) / 3:
        return "The model is fairly sure."
    if knowledge < data / 3:
        return "In doubt: the description does not tell."
    return "In doubt, also because it saw too few descriptions like this one."
