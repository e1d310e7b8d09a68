"""Files of predictions: JSON lines, CSV and Parquet."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import orjson

from ..data.compressed import SUFFIXES, packed_file
from ..estimator import TopLabels
from ..uncertain_labels import UncertainLabels
from .failures import ExitCode, Failure
from .terminal import plain_json

_JSON_LINES = (".jsonl", ".ndjson")
_ROWS_A_WRITE = 4096


@dataclass(frozen=True)
class Predictions:
    """The best labels of a batch, as the columns that every format writes.

    Attributes
    ----------
    best : TopLabels or UncertainLabels
        Labels in rank order, with or without doubts.
    ids : sequence of str, or None
        The names of the inputs.
    """

    best: TopLabels | UncertainLabels
    ids: Sequence[str] | None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def labels(self) -> npt.NDArray[Any]:
        """Names or numbers, shape (n, k)."""
        return self.best.labels

    @property
    def of_labels(self) -> dict[str, npt.NDArray[np.float32]]:
        """What is known of each label, by name: its probability and its doubts; shape (n, k)."""
        columns = vars(self.best)
        return {name: columns[name] for name in columns if name not in ("labels", "instance")}

    @property
    def of_inputs(self) -> dict[str, npt.NDArray[np.float32]]:
        """What is known of each input as a whole, by name; shape (n,). Nothing without doubts."""
        return dict(vars(self.best.instance)) if isinstance(self.best, UncertainLabels) else {}


def check_output(path: str) -> None:
    """Refuse now a format that could not be written later.

    Parameters
    ----------
    path : str
        The file; its ending tells the format.
    """
    if output_kind(path) == "parquet":
        load_pyarrow()


def write_predictions(path: str, predictions: Predictions, overwrite: bool) -> None:
    """Write predictions so that the file is whole or not there.

    JSON lines have one object an input. CSV and Parquet are tables with one row a label: ``row`` (the number
    of the input, from 0), ``id`` (where inputs have one), ``rank`` (from 1), ``label``, ``probability``; with
    doubts also ``total``, ``data``, ``knowledge``, ``variance`` and ``input_expected`` to ``input_missed``.

    Parameters
    ----------
    path : str
        Ends in .jsonl (also with .gz, .xz, .zst), .csv or .parquet.
    predictions : Predictions
        What to write.
    overwrite : bool
        Whether an existing file is replaced.
    """
    kind = output_kind(path)
    with packed_file(path, overwrite) as file:
        if kind == "jsonl":
            for block in json_lines(predictions):
                file.write(block)
        elif kind == "csv":
            _write_csv(file, predictions)
        else:
            _write_parquet(file, predictions)


def print_predictions(predictions: Predictions) -> None:
    """Write JSON lines to stdout; on a terminal, control characters are escaped."""
    terminal = sys.stdout.isatty()
    for block in json_lines(predictions):
        text = block.decode("utf-8")
        sys.stdout.write(plain_json(text) if terminal else text)
    sys.stdout.flush()


def json_lines(predictions: Predictions) -> Iterator[bytes]:
    """Yield blocks of lines ``{"id": ..., "labels": [{"label": ..., "probability": ...}, ...]}``.

    With doubts, labels have more fields, and each line an object ``"input"``.
    """
    option = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    of_labels, of_inputs = predictions.of_labels, predictions.of_inputs
    fields = ("label", *of_labels)
    for start in range(0, len(predictions), _ROWS_A_WRITE):
        lines = []
        rows = slice(start, start + _ROWS_A_WRITE)
        # NumPy's floats as they are: orjson writes the fewest digits that give the same 32-bit float.
        columns = [predictions.labels[rows].tolist(), *(values[rows] for values in of_labels.values())]
        for row, ranked in enumerate(zip(*columns, strict=True), start):
            record: dict[str, Any] = {} if predictions.ids is None else {"id": predictions.ids[row]}
            record["labels"] = [
                dict(zip(fields, values, strict=False)) for values in zip(*ranked, strict=True)
            ]
            if of_inputs:
                record["input"] = {name: values[row] for name, values in of_inputs.items()}
            lines.append(orjson.dumps(record, option=option))
        yield b"".join(lines)


def output_kind(path: str) -> str:
    """The format that the ending of a file names."""
    name = os.path.basename(path)
    stem, packing = os.path.splitext(name)
    if name.endswith(_JSON_LINES) or (packing in SUFFIXES and stem.endswith(_JSON_LINES)):
        return "jsonl"
    if name.endswith(".csv"):
        return "csv"
    if name.endswith(".parquet"):
        return "parquet"
    raise Failure(
        ExitCode.USAGE,
        f"--out {path}: the ending tells the format; use .jsonl (also .jsonl.gz, .jsonl.xz, .jsonl.zst),"
        " .csv or .parquet",
    )


def _write_csv(file: IO[bytes], predictions: Predictions) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    ids, of_labels, of_inputs = predictions.ids, predictions.of_labels, predictions.of_inputs
    name = [] if ids is None else ["id"]
    writer.writerow(
        ["row", *name, "rank", "label", *of_labels, *(f"input_{measure}" for measure in of_inputs)]
    )
    for row, labels in enumerate(predictions.labels.tolist()):
        name = [] if ids is None else [ids[row]]
        of_input = [str(values[row]) for values in of_inputs.values()]
        for place, label in enumerate(labels):
            of_label = [str(values[row, place]) for values in of_labels.values()]
            writer.writerow([row, *name, place + 1, label, *of_label, *of_input])
    text.flush()
    text.detach()  # the file is not ours to close


def load_pyarrow() -> Any:
    """What writes Parquet, where it is installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Failure(
            ExitCode.USAGE, "Parquet needs pyarrow; install it with: pip install 'hedgerow[parquet]'"
        ) from None
    return pyarrow


def _write_parquet(file: IO[bytes], predictions: Predictions) -> None:
    arrow = load_pyarrow()
    n, k = predictions.labels.shape
    numbers = np.issubdtype(predictions.labels.dtype, np.integer)
    columns = {"row": arrow.array(np.repeat(np.arange(n), k), arrow.int64())}
    if predictions.ids is not None:
        columns["id"] = arrow.array([name for name in predictions.ids for _ in range(k)], arrow.string())
    columns["rank"] = arrow.array(np.tile(np.arange(1, k + 1), n), arrow.int32())
    columns["label"] = arrow.array(predictions.labels.ravel(), arrow.int64() if numbers else arrow.string())
    for name, values in predictions.of_labels.items():
        columns[name] = arrow.array(values.ravel(), arrow.float32())
    for name, values in predictions.of_inputs.items():
        columns[f"input_{name}"] = arrow.array(np.repeat(values, k), arrow.float32())
    arrow.parquet.write_table(arrow.table(columns), file)
