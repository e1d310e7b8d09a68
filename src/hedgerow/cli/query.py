"""``hedgerow query``."""

from __future__ import annotations

import csv
import io
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import hedgerow.cli.options as options

from .failures import ExitCode, failing_as
from .options import expert_option, finite
from .targets import check_table, load_pyarrow
from .terminal import cell, print_json, say, shortened, show_progress

if TYPE_CHECKING:
    from hedgerow import Queries
    from hedgerow.data import Part
    from hedgerow.vocabulary.naming import Naming

_WIDE = 120


def query(
    model: options.ModelFile,
    input: options.Inputs,
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many inputs to choose.")] = 10,
    pairs: Annotated[
        bool,
        typer.Option("--pairs", help="Choose pairs of an input and a label, to be answered by yes or no."),
    ] = False,
    out: options.LabelsOut = None,
    part: options.PartName = None,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    json: options.AsJson = False,
    lang: options.Lang = None,
    verbose: options.Verbose = False,
    diversity: Annotated[
        float,
        expert_option(
            min=0.0,
            max=1.0,
            callback=finite,
            help="From 0 (the most uncertain inputs, however alike) to 1 (no similar inputs).",
        ),
    ] = 1.0,
) -> None:
    """Choose the inputs that a human should label next (active learning).

    They are those on which the members of an ensemble disagree most and that differ from each other. Each has
    its row (from 0), its id if there is one, for pairs the label and its name, its score and its knowledge
    uncertainty.

    Where inputs are like those of training, labels for these were measured to help a little more than labels
    for random ones. Where they are of another kind (see hedgerow drift), they did not help reliably more:
    choose at random there.

    \b
    Examples:
      hedgerow fit data/ tags.hedgerow --method bagging
      hedgerow query tags.hedgerow new.jsonl -n 20
      hedgerow query tags.hedgerow new.jsonl --pairs --out questions.csv
    """  # noqa: D301
    check_table(out, overwrite)
    import hedgerow
    from hedgerow.active_learning import check_members

    from .inputs import Selection, open_model

    opened = open_model(model, threads)
    naming = opened.naming(lang)
    with failing_as(ExitCode.MODEL, ValueError):
        check_members(opened.classifier)
    with show_progress(verbose) as report:
        rows, inputs = opened.read_inputs(Selection(input, part, threads=threads), report)
        with failing_as(ExitCode.DATA, ValueError, TypeError):
            chosen = hedgerow.query(opened.classifier, inputs, n, pairs, diversity, progress=report)
    records = _records(chosen, rows.ids, naming)
    if out is not None:
        with failing_as(ExitCode.WRITE):
            _write(out, records, overwrite)
    if json:
        print_json({"rows": rows.n, "queries": records})
    elif out is None:
        _print(Console(highlight=False), records, rows)


def _records(chosen: Queries, ids: list[str] | None, naming: Naming | None) -> list[dict[str, Any]]:
    records = []
    for place, row in enumerate(chosen.rows.tolist()):
        record: dict[str, Any] = {"row": row}
        if ids is not None:
            record["id"] = ids[row]
        if chosen.labels is not None:
            record["label"] = chosen.labels.tolist()[place]
            if naming is not None:
                record["name"] = naming.of(record["label"])
        records.append(
            {**record, "score": float(chosen.score[place]), "knowledge": float(chosen.knowledge[place])}
        )
    return records


def _write(path: str, records: list[dict[str, Any]], overwrite: bool) -> None:
    import orjson

    from hedgerow.data.compressed import packed_file

    with packed_file(path, overwrite) as file:
        if path.endswith(".csv"):
            _write_csv(file, records)
        elif path.endswith(".parquet"):
            arrow = load_pyarrow()
            arrow.parquet.write_table(arrow.Table.from_pylist(records), file)
        else:
            file.writelines(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)


def _write_csv(file: IO[bytes], records: list[dict[str, Any]]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.DictWriter(text, list(records[0]))
    writer.writeheader()
    writer.writerows(records)
    text.flush()
    text.detach()  # the file is not ours to close


def _print(console: Console, records: list[dict[str, Any]], part: Part) -> None:
    pairs = "label" in records[0]
    what = "pairs of input and label" if pairs else "inputs"
    say(f"Label these {what} first: of {part.n:,} inputs, the members disagree most on them.")
    # Excerpts take what room the rest leaves; beside labels that is enough on a wide terminal only.
    texts = None if pairs and console.width < _WIDE else part.whole_texts
    table = Table(box=None, padding=(0, 1), expand=texts is not None)
    for title in ("", "input", *(["label"] if pairs else []), "knowledge", "score"):
        table.add_column(
            cell(title, "dim"), justify="left" if title in ("input", "label") else "right", no_wrap=True
        )
    if texts is not None:
        table.add_column(cell("text", "dim"), no_wrap=True, ratio=1)
    for number, record in enumerate(records, 1):
        row = record["row"]
        table.add_row(
            cell(number, "dim"),
            cell(record.get("id", f"row {row}"), "bold"),
            *([cell(_label(record))] if pairs else []),
            cell(f"{record['knowledge']:.3f}"),
            cell(f"{record['score']:.3f}"),
            *([] if texts is None else [cell(shortened(texts[row], console.width), "dim")]),
        )
    console.print(table)


def _label(record: dict[str, Any]) -> str:
    """The name with the label in parentheses, or the label alone."""
    label, name = str(record["label"]), record.get("name")
    return label if name in (None, label) else f"{name} ({label})"
