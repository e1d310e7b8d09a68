"""The XMC repository's text format: a header `n d L`, then `l1,l2 f:v f:v` for every row."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_svmlight_file


def read(path: Path) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Read an xz-compressed file into features (n, d) and labels (n, L); rows without labels stay."""
    with lzma.open(path, "rb") as lines:
        rows, features, labels = (int(field) for field in lines.readline().split())
        X, label_lists = load_svmlight_file(
            lines, n_features=features, dtype=np.float32, multilabel=True, zero_based=True
        )
    if X.shape[0] != rows:
        raise ValueError(f"{path} announces {rows} rows and has {X.shape[0]}")
    columns = [np.asarray(row, dtype=np.int32) for row in label_lists]
    return X, indicator(columns, labels)


def write(path: Path, X: sp.csr_matrix, Y: sp.csr_matrix) -> None:
    """Write features (n, d) and labels (n, L) with all the digits of their float32 values."""
    with path.open("wb") as file:
        file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n".encode())
        dump_svmlight_file(X, Y, file, multilabel=True, zero_based=True)


def indicator(columns: list[np.ndarray], labels: int) -> sp.csr_matrix:
    """Turn one array of label columns a row into a 0/1 matrix of shape (rows, labels)."""
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in columns])]).astype(np.int32)
    indices = np.concatenate([*columns, np.empty(0, dtype=np.int32)]).astype(np.int32)
    Y = sp.csr_matrix(
        (np.ones(len(indices), dtype=np.float32), indices, indptr), shape=(len(columns), labels)
    )
    Y.sum_duplicates()
    Y.data[:] = 1
    return Y
