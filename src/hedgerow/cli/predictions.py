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
from .failures import ExitCode, Failure
from .terminal import plain_json

_JSON_LINES = (".jsonl", ".ndjson")
_ROWS_A_WRITE = 4096


@dataclass(frozen=True)
class Predictions:
    """The best labels of a batch.

    Attributes
    ----------
    labels : ndarray, shape (n, k)
        Names or numbers in rank order.
    probability : ndarray of float, shape (n, k)
        Their probabilities.
    ids : sequence of str, or None
        The names of the inputs.
    """

    labels: npt.NDArray[Any]
    probability: npt.NDArray[np.float32]
    ids: Sequence[str] | None

    def __len__(self) -> int:
        return len(self.labels)


def check_output(path: str) -> None:
    """Refuse now a format that could not be written later.

    Parameters
    ----------
    path : str
        The file; its ending tells the format.
    """
    if _kind(path) == "parquet":
        _pyarrow()


def write_predictions(path: str, predictions: Predictions, overwrite: bool) -> None:
    """Write predictions so that the file is whole or not there.

    JSON lines have one object an input. CSV and Parquet are tables with one row a label: ``row`` (the number
    of the input, from 0), ``id`` (where inputs have one), ``rank`` (from 1), ``label``, ``probability``.

    Parameters
    ----------
    path : str
        Ends in .jsonl (also with .gz, .xz, .zst), .csv or .parquet.
    predictions : Predictions
        What to write.
    overwrite : bool
        Whether an existing file is replaced.
    """
    kind = _kind(path)
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
    """Yield blocks of lines ``{"id": ..., "labels": [{"label": ..., "probability": ...}, ...]}``."""
    option = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    for start in range(0, len(predictions), _ROWS_A_WRITE):
        lines = []
        rows = slice(start, start + _ROWS_A_WRITE)
        labels, probabilities = predictions.labels[rows].tolist(), predictions.probability[rows]
        for row, ranked in enumerate(zip(labels, probabilities, strict=True), start):
            record: dict[str, Any] = {} if predictions.ids is None else {"id": predictions.ids[row]}
            # NumPy's floats as they are: orjson writes the fewest digits that give the same 32-bit float.
            record["labels"] = [
                {"label": label, "probability": probability}
                for label, probability in zip(*ranked, strict=True)
            ]
            lines.append(orjson.dumps(record, option=option))
        yield b"".join(lines)


def _kind(path: str) -> str:
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
    ids = predictions.ids
    writer.writerow(["row", *([] if ids is None else ["id"]), "rank", "label", "probability"])
    for row, labels in enumerate(predictions.labels.tolist()):
        name = [] if ids is None else [ids[row]]
        for rank, label in enumerate(labels, 1):
            writer.writerow([row, *name, rank, label, str(predictions.probability[row, rank - 1])])
    text.flush()
    text.detach()  # the file is not ours to close


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Failure(
            ExitCode.USAGE, "Parquet needs pyarrow; install it with: pip install 'hedgerow[parquet]'"
        ) from None
    return pyarrow


def _write_parquet(file: IO[bytes], predictions: Predictions) -> None:
    arrow = _pyarrow()
    n, k = predictions.labels.shape
    numbers = np.issubdtype(predictions.labels.dtype, np.integer)
    columns = {"row": arrow.array(np.repeat(np.arange(n), k), arrow.int64())}
    if predictions.ids is not None:
        columns["id"] = arrow.array([name for name in predictions.ids for _ in range(k)], arrow.string())
    columns["rank"] = arrow.array(np.tile(np.arange(1, k + 1), n), arrow.int32())
    columns["label"] = arrow.array(predictions.labels.ravel(), arrow.int64() if numbers else arrow.string())
    columns["probability"] = arrow.array(predictions.probability.ravel(), arrow.float32())
    arrow.parquet.write_table(arrow.table(columns), file)
