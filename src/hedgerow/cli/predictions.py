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

from ..atomic_file import check_target
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
        Names or numbers in rank order. -1 or None fills rows that have fewer than k.
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

    def ranked(self, row: int) -> Iterator[tuple[Any, np.float32]]:
        """Yield the labels of one input with their probabilities, the best first."""
        for label, probability in zip(self.labels[row].tolist(), self.probability[row], strict=True):
            if label is not None and label != -1 and not np.isnan(probability):
                yield label, np.float32(probability)


def check_output(path: str, overwrite: bool) -> None:
    """Refuse now what could not be written later.

    Parameters
    ----------
    path : str
        The file; its ending tells the format.
    overwrite : bool
        Whether an existing file is replaced.
    """
    kind = _kind(path)
    if kind == "parquet":
        _pyarrow()
    check_target(path, overwrite)


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
        for row in range(start, min(start + _ROWS_A_WRITE, len(predictions))):
            record: dict[str, Any] = {} if predictions.ids is None else {"id": predictions.ids[row]}
            record["labels"] = [
                {"label": label, "probability": probability} for label, probability in predictions.ranked(row)
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


def _table(predictions: Predictions) -> Iterator[tuple[int, int, Any, np.float32]]:
    for row in range(len(predictions)):
        for rank, (label, probability) in enumerate(predictions.ranked(row), start=1):
            yield row, rank, label, probability


def _write_csv(file: IO[bytes], predictions: Predictions) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    ids = predictions.ids
    writer.writerow(["row", *([] if ids is None else ["id"]), "rank", "label", "probability"])
    for row, rank, label, probability in _table(predictions):
        writer.writerow([row, *([] if ids is None else [ids[row]]), rank, label, str(probability)])
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
    rows, ranks, labels, probabilities = ([], [], [], []) if not len(predictions) else _columns(predictions)
    numbers = np.issubdtype(predictions.labels.dtype, np.integer)
    columns = {"row": arrow.array(rows, arrow.int64())}
    if predictions.ids is not None:
        columns["id"] = arrow.array([predictions.ids[row] for row in rows], arrow.string())
    columns["rank"] = arrow.array(ranks, arrow.int32())
    columns["label"] = arrow.array(labels, arrow.int64() if numbers else arrow.string())
    columns["probability"] = arrow.array(probabilities, arrow.float32())
    arrow.parquet.write_table(arrow.table(columns), file)


def _columns(predictions: Predictions) -> tuple[list[int], list[int], list[Any], list[np.float32]]:
    rows, ranks, labels, probabilities = zip(*_table(predictions), strict=True)
    return list(rows), list(ranks), list(labels), list(probabilities)
