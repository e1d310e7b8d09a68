"""Minimal stand-ins for parts of the library, for tests of the command line alone.

They are used only where the installed package lacks the real thing.
"""

from __future__ import annotations

import json
import types
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from hedgerow.model_file import read_model, write_model


class HedgerowClassifier:
    """Predicts the most frequent labels for every input."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def set_params(self, **settings: Any) -> HedgerowClassifier:
        self.settings.update(settings)
        return self

    def fit(self, X: Any, Y: Any, progress: Any = None) -> HedgerowClassifier:
        if progress:
            progress(0.5, "training")
        if isinstance(Y, list):
            count = Counter(label for labels in Y for label in labels)
            names = [name for name, _ in sorted(count.items(), key=lambda item: (-item[1], item[0]))]
            self.classes_ = np.array(names, object)
        else:
            self.classes_ = np.argsort(-np.asarray(Y.sum(axis=0)), kind="stable")
        return self

    def top(self, X: Any, k: int, progress: Any = None) -> Any:
        n = len(X) if isinstance(X, list) else X.shape[0]
        k = min(k, len(self.classes_))
        shares = 1 / np.arange(2, k + 2, dtype=np.float32)
        return types.SimpleNamespace(
            labels=np.tile(self.classes_[:k], (n, 1)), probability=np.tile(shares, (n, 1))
        )

    def save(self, path: Path, overwrite: bool = False) -> None:
        header = {"text": isinstance(self, HedgerowTextClassifier), "classes": self.classes_.tolist()}
        write_model(path, {"counts": np.arange(len(self.classes_))}, header, overwrite)

    def describe(self) -> dict[str, Any]:
        return {
            "method": "single",
            "labels": len(self.classes_),
            "settings": {"C": 1.0},
            "layers": [{"nodes": 1}],
        }


class HedgerowTextClassifier(HedgerowClassifier):
    """The same for texts."""


def load(path: Path) -> HedgerowClassifier:
    header = read_model(path).header
    classifier = HedgerowTextClassifier() if header["text"] else HedgerowClassifier()
    dtype = object if header["text"] else np.int64
    classifier.classes_ = np.array(header["classes"], dtype)
    return classifier


class DataError(ValueError):
    """Data that cannot be read."""


@dataclass
class Part:
    """One part of a data set."""

    X: Any = None
    texts: Any = None
    Y: Any = None
    label_names: Any = None
    ids: Any = None


def read_part(
    path: Path, part: str | None = "train", *, labels_field: str | None = "labels", **_: Any
) -> Part:
    """Read JSON lines, or features without names from a .txt file."""
    if path.is_dir():
        path = path / f"{part}.jsonl"
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    if path.suffix == ".txt":
        rows, features, labels = map(int, path.read_text().split("\n")[0].split())
        return Part(X=csr_array((rows, features)), Y=csr_array(np.eye(rows, labels)))
    try:
        records = [json.loads(line) for line in path.read_text().splitlines()]
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error
    ids = [record["id"] for record in records] if records and "id" in records[0] else None
    texts = [record["text"] for record in records]
    if labels_field is None or not records or labels_field not in records[0]:
        return Part(texts=texts, ids=ids)
    names = sorted({label for record in records for label in record[labels_field]})
    indicator = np.array([[name in record[labels_field] for name in names] for record in records], np.float32)
    return Part(texts=texts, Y=csr_array(indicator), label_names=names, ids=ids)
