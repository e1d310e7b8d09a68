"""Files of decisions: JSON lines, CSV and Parquet, with the columns of predictions and some more."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import orjson

from ..data.compressed import packed_file
from ..decisions import DECISIONS, Decisions
from .predictions import load_pyarrow, output_kind
from .terminal import plain_json

_ROWS_A_WRITE = 4096
_MEASURES = ("probability", "total", "data", "knowledge", "variance")


@dataclass(frozen=True)
class DecidedInputs:
    """Decisions, and what the inputs are called.

    Attributes
    ----------
    decisions : Decisions
        What to do with each label.
    ids : sequence of str, or None
        The names of the inputs.
    """

    decisions: Decisions
    ids: Sequence[str] | None

    @property
    def of_inputs(self) -> dict[str, npt.NDArray[Any]]:
        """What is known of each input as a whole, by name; shape (n,)."""
        found = {
            name: getattr(self.decisions, name)
            for name in ("answered", "outsider", "p_value", "bound", "expected_cost")
        }
        return {name: values for name, values in found.items() if values is not None}


def write_decisions(path: str, decided: DecidedInputs, overwrite: bool) -> None:
    """Write decisions so that the file is whole or not there.

    JSON lines have one object an input. CSV and Parquet are tables with one row a label: ``row`` (the number
    of the input, from 0), ``id`` (where inputs have one), ``rank`` (from 1), ``label``, ``decision``,
    ``probability`` to ``variance``, and ``input_answered`` to ``input_expected_cost``.

    Parameters
    ----------
    path : str
        Ends in .jsonl (also with .gz, .xz, .zst), .csv or .parquet.
    decided : DecidedInputs
        What to write.
    overwrite : bool
        Whether an existing file is replaced.
    """
    kind = output_kind(path)
    with packed_file(path, overwrite) as file:
        if kind == "jsonl":
            for block in json_lines(decided):
                file.write(block)
        elif kind == "csv":
            _write_csv(file, decided)
        else:
            _write_parquet(file, decided)


def print_json_lines(decided: DecidedInputs) -> None:
    """Write JSON lines to stdout; on a terminal, control characters are escaped."""
    terminal = sys.stdout.isatty()
    for block in json_lines(decided):
        text = block.decode("utf-8")
        sys.stdout.write(plain_json(text) if terminal else text)
    sys.stdout.flush()


def json_lines(decided: DecidedInputs) -> Iterator[bytes]:
    """Yield blocks of lines ``{"labels": [{"label": ..., "decision": ...}, ...], "input": {...}}``."""
    option = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    found, of_inputs = decided.decisions, decided.of_inputs
    names = ("label", "decision", *_MEASURES)
    for start in range(0, len(found), _ROWS_A_WRITE):
        lines = []
        for row in range(start, min(start + _ROWS_A_WRITE, len(found))):
            own = slice(found.indptr[row], found.indptr[row + 1])
            columns = [
                found.labels[own].tolist(),
                [DECISIONS[code] for code in found.decision[own].tolist()],
                # NumPy's floats as they are: orjson writes the fewest digits that give the same 32-bit float.
                *(getattr(found, measure)[own] for measure in _MEASURES),
            ]
            record: dict[str, Any] = {} if decided.ids is None else {"id": decided.ids[row]}
            record["labels"] = [
                dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)
            ]
            record["input"] = {name: _plain(values[row]) for name, values in of_inputs.items()}
            lines.append(orjson.dumps(record, option=option))
        yield b"".join(lines)


def _plain(value: Any) -> Any:
    return bool(value) if isinstance(value, np.bool_) else value


def _row_of(found: Decisions) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(len(found)), np.diff(found.indptr))


def _rank_of(found: Decisions) -> npt.NDArray[np.int64]:
    return np.asarray(np.arange(1, len(found.labels) + 1) - found.indptr[_row_of(found)])


def _write_csv(file: IO[bytes], decided: DecidedInputs) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    found, ids, of_inputs = decided.decisions, decided.ids, decided.of_inputs
    name = [] if ids is None else ["id"]
    writer.writerow(
        ["row", *name, "rank", "label", "decision", *_MEASURES, *(f"input_{part}" for part in of_inputs)]
    )
    places = zip(_row_of(found).tolist(), _rank_of(found).tolist(), found.labels.tolist(), strict=True)
    for place, (row, rank, label) in enumerate(places):
        name = [] if ids is None else [ids[row]]
        of_label = [str(getattr(found, measure)[place]) for measure in _MEASURES]
        of_input = [str(values[row]) for values in of_inputs.values()]
        writer.writerow([row, *name, rank, label, DECISIONS[found.decision[place]], *of_label, *of_input])
    text.flush()
    text.detach()  # the file is not ours to close


def _write_parquet(file: IO[bytes], decided: DecidedInputs) -> None:
    arrow = load_pyarrow()
    found, rows = decided.decisions, _row_of(decided.decisions)
    numbers = np.issubdtype(found.labels.dtype, np.integer)
    columns = {"row": arrow.array(rows, arrow.int64())}
    if decided.ids is not None:
        columns["id"] = arrow.array([decided.ids[row] for row in rows.tolist()], arrow.string())
    columns["rank"] = arrow.array(_rank_of(found), arrow.int32())
    columns["label"] = arrow.array(found.labels, arrow.int64() if numbers else arrow.string())
    columns["decision"] = arrow.array([DECISIONS[code] for code in found.decision.tolist()], arrow.string())
    for measure in _MEASURES:
        columns[measure] = arrow.array(getattr(found, measure), arrow.float32())
    for name, values in decided.of_inputs.items():
        columns[f"input_{name}"] = arrow.array(values[rows])
    arrow.parquet.write_table(arrow.table(columns), file)
