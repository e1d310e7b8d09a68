"""Trains a model and predicts with it, in ways that must not matter; prints one hash of each for every way.

Arguments: the seed; "hashes", or a folder into which to write what was predicted.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from whole_model import some_texts, whole_model

THREADS = (1, 2, 3, 4, 8)
BATCHES = (1, 7, None)  # None is all at once
ROWS = 60


def predicted(model: Any, texts: list[str]) -> dict[str, Any]:
    """Whatever a model says of texts: bare, calibrated and decided."""
    found: dict[str, Any] = {}
    for name, own in (("bare", model.uncalibrated()), ("calibrated", model)):
        top = own.predict_uncertain(texts, k=3)
        votes = own.predict_votes(texts)
        found |= {
            f"{name} labels": top.labels.astype(str),
            f"{name} probability": top.probability,
            f"{name} knowledge": top.knowledge,
            f"{name} candidates": votes.labels,
            f"{name} votes": votes.probs,
            f"{name} proba": own.predict_proba(texts, k=3).toarray(),
        }
    odd = model.ood_scores(texts)
    decided = model.decide(texts, wrong_at_most=0.2, missed_at_most=0.2)
    found |= {"score": odd.score, "p-value": odd.p_value, "decision": decided.decision}
    return found


def in_batches(model: Any, texts: list[str], size: int | None) -> dict[str, Any]:
    step = size or len(texts)
    parts = [predicted(model, texts[start : start + step]) for start in range(0, len(texts), step)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def main(seed: int, out: str) -> None:
    texts = some_texts(ROWS, seed + 50)[0]
    if out != "hashes":
        model = whole_model(seed)
        np.savez(Path(out), **in_batches(model, texts, None))
        return
    for threads in THREADS:
        model = whole_model(seed, n_jobs=threads)
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "m")
            file = hashlib.sha256((Path(folder) / "m").read_bytes()).hexdigest()
        for batch, n_jobs in itertools.product(BATCHES, {1, threads}):
            model.set_params(n_jobs=n_jobs)
            digest = hashlib.sha256()
            for name, array in sorted(in_batches(model, texts, batch).items()):
                digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
            print(json.dumps([threads, batch, n_jobs, file, digest.hexdigest()]))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
