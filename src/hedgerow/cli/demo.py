"""``hedgerow demo``."""

from __future__ import annotations

import math
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import hedgerow.cli.options as options
import hedgerow.cli.server_options as server_options
from hedgerow.serve.limits import Limits

from .options import refuse_without
from .serve import Place, check_extra, run_server
from .terminal import cell, plain, print_json, shortened, show_progress

if TYPE_CHECKING:
    from .demonstration import DemoResult, Example, Prediction

_BAR = 12
_COIN_TOSS = math.log(2)  # the highest entropy that a label can have
_DEGREES = ((5, "hardly", "dim"), (20, "little", ""), (40, "some", "yellow"), (math.inf, "much", "red"))
_RECORD = '{"text": ..., "labels": [...]}'
_NEXT = (
    "hedgerow fit train.jsonl my.hedgerow --method bagging",
    "hedgerow predict my.hedgerow new.jsonl --uncertainty",
    "hedgerow inspect my.hedgerow",
)


def demo(
    context: typer.Context,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the model, with its page and a review queue.")
    ] = False,
    host: server_options.Host = "127.0.0.1",
    port: server_options.Port = 8000,
    token_file: server_options.TokenFile = None,
    threads: options.Threads = 0,
    json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Train on a built-in sample and show predictions; takes seconds.

    \b
    Examples:
      hedgerow demo
      hedgerow demo --serve
    """  # noqa: D301
    if not serve:
        refuse_without(context, {"host", "port", "token_file"}, "--serve")
        from .demonstration import demonstrate

        with show_progress(verbose) as report:
            result = demonstrate(n_jobs=threads or -1, progress=report)
        if json:
            print_json(asdict(result))
        else:
            print_demo(Console(highlight=False), result)
        return
    check_extra()
    from .demonstration import prepare

    with tempfile.TemporaryDirectory(prefix="hedgerow-demo-") as folder:
        model = Path(folder) / "demo.hedgerow"
        with show_progress(verbose) as report:
            classifier, texts = prepare(n_jobs=threads or -1, progress=report)
        classifier.save(model)
        about = (
            f"Some texts wait for review. The model and its queue are in {folder}, which is deleted when the"
            " server stops."
        )
        run_server(model, Place(host, port, token_file), threads, Limits(), about=about, texts=texts)


def print_demo(console: Console, result: DemoResult) -> None:
    """Print the examples, the scores and what to try next."""
    console.print(
        cell(
            f"Learned {result.labels:,} tags of Debian packages from {result.train_rows:,} descriptions in "
            f"{result.fit_seconds:.1f} s; predicted {result.test_rows:,} unseen ones in "
            f"{result.predict_seconds:.2f} s. {result.members} members voted, each trained on its own sample "
            "of the descriptions."
        )
    )
    for example in result.examples:
        console.print(_panel(example, console.width))
    console.print(Text.assemble(("✓", "green"), (" a tag that the package has", "dim")))
    for name, meaning in (
        ("Uncertainty of 100 %:", "as good as tossing a coin."),
        ("Data (aleatoric):", "each member is unsure by itself."),
        ("Knowledge (epistemic):", "the members disagree."),
    ):
        console.print(Text.assemble(name, " ", (meaning, "dim")))
    console.print()
    scores = "   ".join(f"P@{k} {100 * value:.1f} %" for k, value in result.precision.items())
    console.print("Share of right tags among the first 1, 3 and 5, over all unseen texts:")
    console.print(cell(f"  {scores}", "bold"))
    console.print()
    console.print("Try next, with your own texts, one per line:", cell(_RECORD, "bold"))
    for command in _NEXT:
        console.print(cell(f"  {command}", "cyan"))


def _panel(example: Example, width: int) -> Panel:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("")
    table.add_column("probability", min_width=_BAR + 6)
    table.add_column("tag", min_width=23, overflow="fold")
    table.add_column("uncertainty:\ndata", min_width=13)
    table.add_column("uncertainty:\nknowledge", min_width=15)
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
            _degree(prediction.data),
            _degree(prediction.knowledge),
        )
    excerpt = Text(plain(shortened(example.text, 2 * max(20, width - 12))), style="italic")
    parts: list[Text | Table] = [excerpt, table, cell(_verdict(example.predictions), "bold")]
    if example.missed:
        parts.append(cell(f"Not among them: {', '.join(example.missed)}", "dim"))
    return Panel(Group(*parts), title=cell(example.id, "bold"), title_align="left")


def _degree(nats: float) -> Text:
    percent = round(100 * nats / _COIN_TOSS)
    word, style = next((word, style) for limit, word, style in _DEGREES if percent < limit)
    return Text(f"{word:6} {percent:3} %", style=style)


def _verdict(predictions: list[Prediction]) -> str:
    data = sum(prediction.data for prediction in predictions) / _COIN_TOSS
    knowledge = sum(prediction.knowledge for prediction in predictions) / _COIN_TOSS
    if not predictions or predictions[0].probability < 0.5:
        return "No tag is more likely right than wrong."
    if data + knowledge < len(predictions) / 3:
        return "The model is fairly sure."
    if knowledge < data / 3:
        return "Uncertain: some tags could be right or wrong."
    return "Uncertain, and the members disagree."
