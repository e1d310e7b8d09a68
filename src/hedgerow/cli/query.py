"""``hedgerow query``."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import hedgerow.cli.options as options

from .failures import ExitCode, Failure, failing_as
from .options import expert_option, finite
from .targets import check_table, load_pyarrow
from .terminal import cell, print_json, say, shortened, show_progress

if TYPE_CHECKING:
    from hedgerow import Queries
    from hedgerow.data import Part
    from hedgerow.vocabulary.naming import Naming

    from .inputs import OpenModel

_WIDE = 120


def query(
    model: options.ModelFile,
    input: options.Inputs,
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many inputs to choose.")] = 10,
    k: Annotated[
        int, typer.Option("--k", "-k", min=0, help="Labels to suggest for each input; 0 for none.")
    ] = 5,
    pairs: Annotated[
        bool,
        typer.Option("--pairs", help="Choose pairs of an input and a label, to be answered by yes or no."),
    ] = False,
    out: options.LabelsOut = None,
    queue: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Put the texts into this review queue of hedgerow serve, whose page shows them. The"
            " server uses MODEL.queue.sqlite unless its --queue names another.",
        ),
    ] = None,
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
    its row (from 0), its id if there is one, for pairs the label and its name, its score, its knowledge
    uncertainty, its text, and as suggestions the labels that the model finds most probable.

    With --queue, the texts wait for a reviewer on the page of hedgerow serve, which may be running.

    Where inputs are like those of training, labels for these were measured to help a little more than labels
    for random ones. Where they are of another kind (see hedgerow drift), they did not help reliably more:
    choose at random there.

    \b
    Examples:
      hedgerow fit data/ tags.hedgerow --method bagging
      hedgerow query tags.hedgerow new.jsonl -n 20
      hedgerow query tags.hedgerow new.jsonl -n 50 --queue tags.hedgerow.queue.sqlite
      hedgerow query tags.hedgerow new.jsonl --pairs --out questions.csv
    """  # noqa: D301
    check_table(out, overwrite)
    if queue is not None:
        if pairs:
            raise Failure(ExitCode.USAGE, "--queue: whole texts wait for review; leave --pairs out")
        from .serve import check_extra

        check_extra()
    import hedgerow
    from hedgerow.active_learning import check_members

    from .inputs import Selection, open_model

    opened = open_model(model, threads)
    naming = opened.naming(lang)
    with failing_as(ExitCode.MODEL, ValueError):
        check_members(opened.classifier)
    if queue is not None and not opened.reads_texts:
        raise Failure(ExitCode.MODEL, f"--queue: {model} reads features, and only texts can be reviewed")
    with show_progress(verbose) as report:
        rows, inputs = opened.read_inputs(Selection(input, part, threads=threads), report)
        with failing_as(ExitCode.DATA, ValueError, TypeError):
            chosen = hedgerow.query(opened.classifier, inputs, n, pairs, diversity, progress=report)
        suggested = _suggestions(opened, inputs, chosen, k, naming)
    questions = _Questions(chosen, rows, suggested, naming)
    records = questions.records()
    if out is not None:
        with failing_as(ExitCode.WRITE):
            _write(out, records, overwrite)
    if queue is not None:
        waiting = _fill(queue, opened, rows, chosen.rows.tolist())
        if not json:
            say(f"{len(records):,} texts wait in {queue}; with those that waited before, {waiting:,}.")
            say(f"To review them: hedgerow serve {model} --queue {queue}", "dim")
    if json:
        print_json({"rows": rows.n, "queries": records})
    elif out is None and queue is None:
        _print(Console(highlight=False), records, rows)


@dataclass(frozen=True, eq=False)
class _Questions:
    """What was chosen, of which rows, and which labels the model suggests for each."""

    chosen: Queries
    part: Part
    suggested: list[list[dict[str, Any]]] | None
    naming: Naming | None

    def records(self) -> list[dict[str, Any]]:
        """An object for each question."""
        return [self._record(place, row) for place, row in enumerate(self.chosen.rows.tolist())]

    def _record(self, place: int, row: int) -> dict[str, Any]:
        chosen, part = self.chosen, self.part
        record: dict[str, Any] = {"row": row}
        if part.ids is not None:
            record["id"] = part.ids[row]
        if chosen.labels is not None:
            record["label"] = chosen.labels.tolist()[place]
            if self.naming is not None:
                record["name"] = self.naming.of(record["label"])
        record |= {"score": float(chosen.score[place]), "knowledge": float(chosen.knowledge[place])}
        if part.texts is not None:
            text = part.texts[row]
            # Texts by name stand beside the rest, as readers want them, unless a name is taken.
            beside = isinstance(text, dict) and not text.keys() & {*record, "suggestions"}
            record |= text if beside else {"text": text}
        if self.suggested is not None:
            record["suggestions"] = self.suggested[place]
        return record


def _suggestions(
    opened: OpenModel, inputs: Any, chosen: Queries, k: int, naming: Naming | None
) -> list[list[dict[str, Any]]] | None:
    """The most probable labels of each chosen input, with their names where these are known."""
    k = min(k, len(opened.classifier.classes_))
    if k == 0:
        return None
    rows = chosen.rows.tolist()
    best = opened.classifier.top([inputs[row] for row in rows] if opened.reads_texts else inputs[rows], k)
    return [
        [
            {"label": label, **({} if naming is None else {"name": naming.of(label)}), "probability": share}
            for label, share in zip(labels, shares, strict=True)
        ]
        for labels, shares in zip(best.labels.tolist(), best.probability.tolist(), strict=True)
    ]


def _fill(queue: Path, opened: OpenModel, part: Part, rows: list[int]) -> int:
    """Put texts with what the model says of them into a queue, all or none; return how many wait then."""
    from hedgerow.serve.filling import fill_queue
    from hedgerow.serve.model_slot import file_id
    from hedgerow.serve.queue_store import QueueError, QueueStore
    from hedgerow.serve.served_model import ServedModel

    served = ServedModel(opened.classifier.source, file_id(opened.path))
    texts, ids = part.texts or [], part.ids
    try:
        store = QueueStore(queue)
        try:
            fill_queue(store, served, [texts[row] for row in rows], ids and [ids[row] for row in rows])
            return store.counts().waiting
        finally:
            store.close()
    except QueueError as error:
        raise Failure(ExitCode.WRITE, str(error)) from error


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
    """Write a table; suggestions are lists of JSON in columns of their own."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    rows = [_flat(record) for record in records]
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    text.flush()
    text.detach()  # the file is not ours to close


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    import orjson

    suggested = record.get("suggestions")
    if suggested is None:
        return record
    parts = {"label": "suggestions", "name": "suggested_names", "probability": "suggested_probabilities"}
    lists = {
        title: orjson.dumps([one[part] for one in suggested]).decode()
        for part, title in parts.items()
        if part in suggested[0]
    }
    return {name: value for name, value in record.items() if name != "suggestions"} | lists


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
            cell(record.get("id") or f"row {row}", "bold"),
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
