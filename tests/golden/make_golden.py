"""Make the model files of this format version, with what they predict: `python tests/golden/make_golden.py`.

Run it once for each format version, before its first release, and never again: the files are what later
releases must be able to read. It refuses to replace a file.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from hedgerow import HedgerowClassifier
from hedgerow.storage.container import FORMAT_VERSION

sys.path.insert(0, str(Path(__file__).parent.parent))
from whole_model import some_texts, thinned, whole_model

GOLDEN = Path(__file__).parent
WIDTH, LABELS = 12, 9


def some_rows(rows: int, seed: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Features, and labels that follow from them."""
    random = np.random.default_rng(seed)
    X = sp.random_array((rows, WIDTH), density=0.5, rng=random, format="csr", dtype=np.float32)
    Y = sp.csr_array((X @ random.normal(size=(WIDTH, LABELS)) > 0.7).astype(np.int8))
    return X, Y


def feature_model(**options: Any) -> HedgerowClassifier:
    return HedgerowClassifier(n_jobs=1, random_state=0, **options).fit(*some_rows(80, 0))


def text_model() -> Any:
    model = whole_model()
    model.model_ = replace(model.model_, policy=thinned(model.policy_))
    return model


MODELS = {
    "single": lambda: feature_model(leaf_size=3),
    "logistic": lambda: feature_model(loss="logistic", C=10.0, normalize=False, leaf_size=3),
    "dropout": lambda: feature_model(method="mc-dropout", members=3),
    "shared-tree": lambda: feature_model(method="bagging", members=4, trees=2, leaf_size=3),
    "boosted-bagging": lambda: feature_model(method="boosted-bagging", members=2, leaf_size=3),
    "text": text_model,
}


def inputs_for(name: str) -> Any:
    return some_texts(8, 99)[0] if name == "text" else some_rows(8, 99)[0]


def predicted(name: str, model: Any) -> dict[str, Any]:
    """What is stored beside a model file, and asked of every release."""
    X = inputs_for(name)
    found = model.predict_uncertain(X, k=3)
    arrays: dict[str, Any] = {
        "labels": found.labels.astype(str),
        "probability": found.probability,
        "total": found.total,
        "knowledge": found.knowledge,
        "votes": model.predict_votes(X).probs,
    }
    if hasattr(model, "ood_detector_"):
        arrays["unfamiliarity"] = model.ood_scores(X).score
    if hasattr(model, "policy_"):
        arrays["decision"] = decided(model, X)
    return arrays


def decided(model: Any, X: Any) -> Any:
    """What policies of all releases can decide: what is accepted, and of the best five what is not."""
    return model.decide(X, wrong_at_most=0.3, wrong_of="inputs").decision


if __name__ == "__main__":
    folder = GOLDEN / f"format-{FORMAT_VERSION}"
    folder.mkdir()
    for name, make in MODELS.items():
        model = make()
        model.save(folder / f"{name}.hedgerow")
        np.savez_compressed(folder / f"{name}.npz", **predicted(name, model))
