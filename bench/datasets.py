"""Prepare the data sets of the benchmark: one folder each, as PECOS npz files and as XMC-repository text.

python -m bench.datasets eurlex-4k tibkat-en
python -m bench.datasets amazon-shape-200k --labels 30000 --rows 20000
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer, normalize

from bench import xmc_text
from bench.generated import Shape, generate

CACHE = Path(__file__).parent / "cache"
SOURCE = Path(os.environ.get("HEDGEROW_DATA") or Path(__file__).parent.parent / ".." / "shared" / "data")
GENERATED = "amazon-shape-200k"
NAMES = ("eurlex-4k", "tibkat-en", "debian-depends", GENERATED)  # those of `python -m bench`
KNOWN = (*NAMES, "debian-tags")


class Split(NamedTuple):
    """Features (n, d) with rows of length 1, and 0/1 labels (n, L)."""

    X: sp.csr_matrix
    Y: sp.csr_matrix


def load(folder: Path, split: str) -> Split:
    """Read the `trn` or the `tst` matrices of a prepared folder."""
    return Split(*(sp.load_npz(folder / f"{name}.{split}.npz").tocsr() for name in "XY"))


def prepare(name: str, source: Path = SOURCE, cache: Path = CACHE) -> Path:
    """Return the prepared folder of a data set, after making it where it is not there yet."""
    folder = cache / name
    if not folder.exists():
        store(folder, *_matrices(name, source))
    return folder


def prepare_generated(labels: int, rows: int, cache: Path = CACHE) -> Path:
    """Prepare the generated data set with another number of labels and training rows."""
    folder = cache / f"amazon-shape-{labels}-labels-{rows}-rows"
    if not folder.exists():
        X, Y, X_test, Y_test = generate(Shape(labels=labels, train_rows=rows, test_rows=max(1, rows // 5)))
        store(folder, Split(X, Y), Split(X_test, Y_test))
    return folder


def _matrices(name: str, source: Path) -> tuple[Split, Split]:
    if name == "eurlex-4k":
        train, test = (xmc_text.read(source / name / f"{part}.txt.xz") for part in ("train", "test"))
        return Split(*train), Split(*test)
    if name == "tibkat-en":
        return _text_matrices(source / name / "records.jsonl.xz", "labels")
    if name == "debian-depends":
        return _text_matrices(source / "debian" / "packages.jsonl.xz", "depends")
    if name == "debian-tags":
        return _text_matrices(source / "debian" / "packages.jsonl.xz", "tags")
    if name == GENERATED:
        X, Y, X_test, Y_test = generate(Shape())
        return Split(X, Y), Split(X_test, Y_test)
    raise ValueError(f"unknown data set {name!r}: choose from {', '.join(KNOWN)}")


def _text_matrices(path: Path, label_field: str) -> tuple[Split, Split]:
    """Turn records with text into tf-idf of words and pairs of words; label columns cover both splits."""
    labelled = [record for record in records(path) if record.get(label_field)]
    train = [record for record in labelled if record["split"] == "train"]
    test = [record for record in labelled if record["split"] == "test"]
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2, dtype=np.float32)
    binarizer = MultiLabelBinarizer(sparse_output=True)
    binarizer.fit([record[label_field] for record in labelled])
    X = vectorizer.fit_transform(record["text"] for record in train)
    X_test = vectorizer.transform(record["text"] for record in test)
    Y, Y_test = (binarizer.transform([record[label_field] for record in part]) for part in (train, test))
    return Split(X, Y), Split(X_test, Y_test)


def records(path: Path) -> Iterator[dict]:
    """The records of a file of JSON lines."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def store(folder: Path, train: Split, test: Split) -> None:
    """Write both formats into a folder that appears only when it is complete."""
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for part, text_name, split in (("trn", "train.txt", train), ("tst", "test.txt", test)):
        X, Y = _canonical(normalize(split.X)), _canonical(split.Y)
        sp.save_npz(unfinished / f"X.{part}.npz", X, compressed=False)
        sp.save_npz(unfinished / f"Y.{part}.npz", Y, compressed=False)
        xmc_text.write(unfinished / text_name, X, Y)
    unfinished.rename(folder)


def _canonical(matrix: sp.spmatrix) -> sp.csr_matrix:
    """CSR in float32 with sorted int32 indices and no stored zeros: what every peer reads."""
    matrix = sp.csr_matrix(matrix, dtype=np.float32)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"data sets (default: {' '.join(NAMES)})")
    parser.add_argument(
        "--data", type=Path, default=SOURCE, help="folder of the source data (default: %(default)s)"
    )
    parser.add_argument(
        "--cache", type=Path, default=CACHE, help="where to put the result (default: %(default)s)"
    )
    parser.add_argument("--labels", type=int, help=f"labels of a {GENERATED} of another size")
    parser.add_argument("--rows", type=int, help=f"training rows of a {GENERATED} of another size")
    arguments = parser.parse_args()
    if arguments.labels or arguments.rows:
        shape = Shape()
        folders = [
            prepare_generated(
                arguments.labels or shape.labels, arguments.rows or shape.train_rows, arguments.cache
            )
        ]
    else:
        folders = [prepare(name, arguments.data, arguments.cache) for name in arguments.names or NAMES]
    for folder in folders:
        train, test = load(folder, "trn"), load(folder, "tst")
        print(
            f"{folder}: {train.X.shape[0]} + {test.X.shape[0]} rows, {train.X.shape[1]} features, "
            f"{train.Y.shape[1]} labels, {train.X.nnz / train.X.shape[0]:.1f} non-zeros and "
            f"{train.Y.nnz / train.Y.shape[0]:.2f} labels a row"
        )


if __name__ == "__main__":
    main()
