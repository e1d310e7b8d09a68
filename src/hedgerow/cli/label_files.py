"""Files of labels, predicted or decided: JSON lines, CSV and Parquet."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import orjson

from hedgerow.data.compressed import packed_file
from hedgerow.decisions.results import BroaderAnswers, Decisions
from hedgerow.decisions.rules import DECISIONS
from hedgerow.estimators.fitted import TopLabels
from hedgerow.vocabulary.naming import Naming
from hedgerow.votes.predictions import UncertainLabels

from .targets import load_pyarrow, table_format
from .terminal import print_json_lines

_ROWS_A_WRITE = 4096
_MEASURES = ("probability", "total", "data", "knowledge", "variance")


@dataclass(frozen=True)
class LabelTable:
    """Labels of inputs in rank order, as the columns that every format writes.

    The labels of input `i` are the entries ``indptr[i]`` to ``indptr[i + 1] - 1``. `of_labels` has
    columns with a value per label, `of_inputs` with one per input.
    """

    indptr: npt.NDArray[np.int64]
    labels: npt.NDArray[Any]
    of_labels: dict[str, npt.NDArray[Any]]
    of_inputs: dict[str, npt.NDArray[Any]]
    ids: Sequence[str | None] | None

    @classmethod
    def of_predictions(
        cls, best: TopLabels | UncertainLabels, ids: Sequence[str | None] | None
    ) -> LabelTable:
        """The best labels, with or without uncertainty."""
        n, k = best.labels.shape
        columns = {
            name: values.ravel() for name, values in vars(best).items() if name not in ("labels", "instance")
        }
        of_inputs = dict(vars(best.instance)) if isinstance(best, UncertainLabels) else {}
        return cls(np.arange(n + 1) * k, best.labels.ravel(), columns, of_inputs, ids)

    @classmethod
    def of_decisions(cls, found: Decisions, ids: Sequence[str | None] | None) -> LabelTable:
        """What to do with each label."""
        columns: dict[str, Any] = {"decision": np.array(DECISIONS, dtype=object)[found.decision]}
        columns |= {name: vars(found)[name] for name in _MEASURES}
        parts = ("answered", "is_ood", "p_value", "bound", "expected_cost")
        of_inputs = {name: of for name in parts if (of := vars(found)[name]) is not None}
        if found.quality is not None:
            of_inputs |= found.quality.columns()
        if found.broader is None:
            return cls(found.indptr, found.labels, columns, of_inputs, ids)
        return cls(*_with_broader(found, found.broader, columns), of_inputs, ids)

    def named(self, naming: Naming | None) -> LabelTable:
        """The same with a name behind each label, where labels have names."""
        if naming is None:
            return self
        return replace(self, of_labels={"name": naming(self.labels), **self.of_labels})

    def emptied(self) -> LabelTable:
        """The same columns, and no inputs."""
        of_labels, of_inputs = (
            {name: values[:0] for name, values in of.items()} for of in (self.of_labels, self.of_inputs)
        )
        return LabelTable(self.indptr[:1], self.labels[:0], of_labels, of_inputs, None)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def row(self) -> npt.NDArray[np.int64]:
        """The input of each label."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    @property
    def rank(self) -> npt.NDArray[np.int64]:
        """The place of each label, from 1."""
        return np.asarray(np.arange(1, len(self.labels) + 1) - self.indptr[self.row])


def _with_broader(
    found: Decisions, broader: BroaderAnswers, columns: dict[str, Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any], dict[str, npt.NDArray[Any]]]:
    """The labels of each input and then its broader terms; ids are texts, so labels become texts as well."""
    sizes = [np.diff(part.indptr) for part in (found, broader)]
    row = np.concatenate([np.repeat(np.arange(len(found)), size) for size in sizes])
    order = np.argsort(row, kind="stable")
    labels = np.array([str(label) for label in (*found.labels, *broader.terms)], dtype=object)
    of_terms: dict[str, Any] = {name: vars(broader)[name] for name in _MEASURES}
    of_terms["decision"] = np.full(len(broader.terms), "broader", dtype=object)
    both = {name: np.concatenate([of, of_terms[name]])[order] for name, of in columns.items()}
    return np.concatenate([[0], np.cumsum(sizes[0] + sizes[1])]), labels[order], both


def write_labels(path: str, table: LabelTable, overwrite: bool) -> None:
    """Write labels so that the file is whole or not there.

    JSON lines have one object per input. CSV and Parquet are tables with one row per label: ``row`` (the
    number of the input, from 0), ``id`` (if inputs have one), ``rank`` (from 1), ``label``, what is known of
    the label, and what is known of the input, as ``input_...``.
    """
    kind = table_format(path)
    with packed_file(path, overwrite) as file:
        if kind == "jsonl":
            for block in json_lines(table):
                file.write(block)
        elif kind == "csv":
            _write_csv(file, table)
        else:
            _write_parquet(file, table)


def print_labels(table: LabelTable) -> None:
    """Write JSON lines to stdout; on a terminal, control characters are escaped."""
    for block in json_lines(table):
        print_json_lines(block)
    sys.stdout.flush()


def json_lines(table: LabelTable) -> Iterator[bytes]:
    """Yield blocks of lines ``{"id": ..., "labels": [{"label": ..., ...}, ...], "input": {...}}``."""
    option = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    fields = ("label", *table.of_labels)
    for start in range(0, len(table), _ROWS_A_WRITE):
        lines = []
        for row in range(start, min(start + _ROWS_A_WRITE, len(table))):
            own = slice(table.indptr[row], table.indptr[row + 1])
            # NumPy's floats as they are: orjson writes the fewest digits that give the same 32-bit float.
            columns = [table.labels[own].tolist(), *(values[own] for values in table.of_labels.values())]
            record: dict[str, Any] = {} if table.ids is None else {"id": table.ids[row]}
            record["labels"] = [
                dict(zip(fields, values, strict=True)) for values in zip(*columns, strict=True)
            ]
            if table.of_inputs:
                record["input"] = {name: _plain(values[row]) for name, values in table.of_inputs.items()}
            lines.append(orjson.dumps(record, option=option))
        yield b"".join(lines)


def _plain(value: Any) -> Any:
    return bool(value) if isinstance(value, np.bool_) else value


def _write_csv(file: IO[bytes], table: LabelTable) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    ids, of_labels, of_inputs = table.ids, table.of_labels, table.of_inputs
    name = [] if ids is None else ["id"]
    writer.writerow(["row", *name, "rank", "label", *of_labels, *(f"input_{part}" for part in of_inputs)])
    places = zip(table.row.tolist(), table.rank.tolist(), table.labels.tolist(), strict=True)
    for place, (row, rank, label) in enumerate(places):
        name = [] if ids is None else [ids[row]]
        of_label = ["" if (one := values[place]) is None else str(one) for values in of_labels.values()]
        of_input = [str(values[row]) for values in of_inputs.values()]
        writer.writerow([row, *name, rank, label, *of_label, *of_input])
    text.flush()
    text.detach()  # the file is not ours to close


def _write_parquet(file: IO[bytes], table: LabelTable) -> None:
    arrow = load_pyarrow()
    rows = table.row
    columns = {"row": arrow.array(rows, arrow.int64())}
    if table.ids is not None:
        columns["id"] = arrow.array([table.ids[row] for row in rows.tolist()], arrow.string())
    columns["rank"] = arrow.array(table.rank, arrow.int32())
    numbers = np.issubdtype(table.labels.dtype, np.integer)
    columns["label"] = arrow.array(table.labels, arrow.int64() if numbers else arrow.string())
    for name, values in table.of_labels.items():
        columns[name] = arrow.array(values, arrow.string() if values.dtype == object else arrow.float32())
    for name, values in table.of_inputs.items():
        columns[f"input_{name}"] = arrow.array(values[rows])
    arrow.parquet.write_table(arrow.table(columns), file)
