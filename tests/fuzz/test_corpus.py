"""What the fuzzers found, run once more: through Python, and so without clang.

The harnesses in C++ call the engine; here the same inputs come in by the door that users take.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import fuzz_jsonl
import fuzz_model_file
import fuzz_records
import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from corpus import TARGETS, inputs
from trust_counts import Count

from hedgerow import _native
from hedgerow.data import DataError, Part, read_xmc_text, write_xmc_text
from hedgerow.inputs.matrices import as_rows


class InputReader:
    """Takes an input apart from its front, as fuzz_target.h does."""

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def number(self, dtype: str) -> int:
        size = np.dtype(dtype).itemsize
        part, self.rest = self.rest[:size], self.rest[size:]
        return int(np.frombuffer(part.ljust(size, b"\0"), dtype)[0])

    def numbers(self, dtype: str, count: int) -> npt.NDArray[np.generic]:
        size = np.dtype(dtype).itemsize
        count = min(count, len(self.rest) // size)
        part, self.rest = self.rest[: count * size], self.rest[count * size :]
        return np.frombuffer(part, dtype)


def run_xmc_text(data: bytes, folder: Path) -> None:
    """Refused, or read the same at any number of threads and after it was written."""
    path, again = folder / "data.txt", folder / "again.txt"
    path.write_bytes(data)

    def outcome(path: Path, threads: int) -> Part | str:
        try:
            return read_xmc_text(path, threads=threads)
        except DataError as error:
            return str(error)

    one, two = outcome(path, 1), outcome(path, 2)
    if isinstance(one, str) or isinstance(two, str):
        assert one == two
        return
    write_xmc_text(again, one.X, one.Y)
    for other in (two, read_xmc_text(again)):
        for mine, theirs in ((one.X, other.X), (one.Y, other.Y)):
            assert mine.shape == theirs.shape
            for array in ("indptr", "indices", "data"):
                np.testing.assert_array_equal(getattr(mine, array), getattr(theirs, array))


def run_sparse_rows(data: bytes, folder: Path) -> None:
    """Refused if there is anything wrong but the order, else taken."""
    reader = InputReader(data)
    reader.number("u1")
    rows, entries, columns = reader.number("u1"), reader.number("<u2"), reader.number("<i4")
    indptr = reader.numbers("<i8", rows + 1)
    indices = reader.numbers("<i4", entries)
    values = reader.numbers("<f4", len(indices))
    if len(indptr) != rows + 1 or len(values) != len(indices) or columns < 0:
        return
    matrix = sp.csr_array((rows, columns), dtype=np.float32)
    # What scipy lets others do, after its own checks.
    matrix.indptr, matrix.indices, matrix.data = indptr, indices, values
    if is_sound(rows, columns, indptr, indices, values):
        found = as_rows(matrix, threads=1)
        np.testing.assert_array_equal(found.hashes(1), found.hashes(2))
    else:
        with pytest.raises(ValueError, match="X"):
            as_rows(matrix, threads=1)


def is_sound(rows: int, columns: int, indptr: npt.NDArray, indices: npt.NDArray, values: npt.NDArray) -> bool:
    """Whether this is a matrix with a row and a column, which may be unsorted."""
    if not rows or not columns or indptr[0] != 0 or (np.diff(indptr) < 0).any() or indptr[-1] > len(indices):
        return False
    for begin, end in pairwise(indptr.tolist()):
        row = indices[begin:end]
        if len(set(row.tolist())) < len(row) or not np.isfinite(values[begin:end]).all():
            return False
        if row.size and not 0 <= row.min() <= row.max() < columns:
            return False
    return True


def run_model_structure(data: bytes, folder: Path) -> None:
    """Refused, or searched."""
    reader = InputReader(data)
    depth, members, parts = reader.number("u1") % 9, reader.number("u1"), reader.number("u1")
    transform = ("l3-hinge", "sigmoid")[reader.number("u1") % 2]
    features = reader.number("<u4")
    begins = [reader.numbers("<i4", reader.number("<u2")) for _ in range(depth)]
    labels = reader.numbers("<i4", reader.number("<u2"))
    table = reader.numbers("<u8", 6 * reader.number("<u2"))
    room = np.empty(len(reader.rest) + 64, np.uint8)
    weights = room[-room.ctypes.data % 64 :][: len(reader.rest)]
    weights[:] = np.frombuffer(reader.rest, np.uint8)
    if labels.size and labels.max() >= 1 << 12:
        return
    try:
        model = _native.TreeModel.open(
            begins, labels, features, transform, members, parts,
            table[: len(table) // 6 * 6].reshape(-1, 6), weights, True, 1,
        )  # fmt: skip
    except ValueError:
        return
    few = min(features, 200)
    X = sp.csr_array(
        (np.ones(few, np.float32), np.arange(features - few, features), [0, few]), shape=(1, features)
    )
    forest = _native.Forest([model], 1 << 12, 0.0, 0, 0)
    found = forest.uncertain(as_rows(X), 1, 2, 0, "exact", np.inf, 0.0, True, 1, None).labels
    assert np.isin(found, labels).all()


RUN: dict[str, Callable[[bytes, Path], None]] = {
    "xmc_text": run_xmc_text,
    "sparse_rows": run_sparse_rows,
    "model_structure": run_model_structure,
    "jsonl": fuzz_jsonl.run,
    "model_file": fuzz_model_file.run,
    "records": fuzz_records.run,
}


@pytest.mark.parametrize("target", TARGETS)
def test_every_input_of_the_corpus_is_refused_or_understood(
    target: str, tmp_path: Path, count: Count
) -> None:
    found = inputs(target)
    for name, data in found.items():
        try:
            RUN[target](data, tmp_path)
        except Exception as error:
            raise AssertionError(f"{target}: {name} ends with {type(error).__name__}") from error
    assert found
    count("inputs that fuzzing found", len(found))
