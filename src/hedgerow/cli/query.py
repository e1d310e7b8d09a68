"""``hedgerow query``."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import IO, Any

import orjson
from rich.console import Console
from rich.table import Table

from hedgerow.active_learning import Queries, check_members, query
from hedgerow.data import Part
from hedgerow.data.compressed import packed_file
from hedgerow.estimators.loading import load
from hedgerow.storage.container import ModelFileError

from .failures import ExitCode, failing_as
from .fit import check_new_file
from .inputs import read_inputs
from .label_files import check_output
from .terminal import cell, print_json, progress_bar, shortened

_WIDE = 120


def run_query(
    model: Path,
    data: Path,
    n: int,
    pairs: bool,
    diversity: float,
    out: str | None,
    part_name: str | None,
    threads: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Load, read, choose, and write or print."""
    if out is not None:
        check_new_file(out, overwrite)
        check_output(out)
    with failing_as(ExitCode.MODEL, ModelFileError):
        classifier = load(model)
    with failing_as(ExitCode.MODEL, ValueError):
        check_members(classifier)
    classifier.set_params(n_jobs=threads or -1)
    with progress_bar() as report:
        part, inputs = read_inputs(model, classifier, data, part_name, threads, report)
        with failing_as(ExitCode.DATA, ValueError, TypeError):
            chosen = query(classifier, inputs, n, pairs, diversity, progress=report)
    records = _records(chosen, part.ids)
    if out is not None:
        with failing_as(ExitCode.WRITE):
            _write(out, records, overwrite)
    if as_json:
        print_json({"rows": part.n, "queries": records})
    elif out is None:
        _print(Console(highlight=False), records, part)


def _records(chosen: Queries, ids: list[str] | None) -> list[dict[str, Any]]:
    records = []
    for place, row in enumerate(chosen.rows.tolist()):
        record: dict[str, Any] = {"row": row}
        if ids is not None:
            record["id"] = ids[row]
        if chosen.labels is not None:
            record["label"] = chosen.labels.tolist()[place]
        records.append(
            {**record, "score": float(chosen.score[place]), "knowledge": float(chosen.knowledge[place])}
        )
    return records


def _write(path: str, records: list[dict[str, Any]], overwrite: bool) -> None:
    with packed_file(path, overwrite) as file:
        if path.endswith(".csv"):
            _write_csv(file, records)
        elif path.endswith(".parquet"):
            import pyarrow
            from pyarrow import parquet

            parquet.write_table(pyarrow.Table.from_pylist(records), file)
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
    console.print(
        cell(f"Ask about these {what} first; the members disagree most on them, among {part.n:,} inputs:"),
        soft_wrap=True,
    )
    # Excerpts take what room the rest leaves; beside labels that is enough on a wide terminal only.
    texts = None if pairs and console.width < _WIDE else part.texts
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
            *([cell(record["label"])] if pairs else []),
            cell(f"{record['knowledge']:.3f}"),
            cell(f"{record['score']:.3f}"),
            *([] if texts is None else [cell(shortened(texts[row], console.width), "dim")]),
        )
    console.print(table)
