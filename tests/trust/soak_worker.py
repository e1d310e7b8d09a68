"""Trains, saves, loads, predicts and decides for ever: one line for each round, "ok" or what went wrong.

Arguments: a folder with `expected.json` and the two models it tells of; the file to save over. It may be
killed at any time.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from served_models import a_text_model

import hedgerow
from hedgerow.storage.container import ModelFileError

SMALL = 120  # texts that are trained on in each round


def digest(model: hedgerow.HedgerowTextClassifier, texts: list[str]) -> str:
    """All that a model says of some texts, in one hash."""
    found = model.predict_uncertain(texts, k=5)
    parts: list[Any] = [found.probability, found.total, found.knowledge, found.instance.total]
    if getattr(model, "policy_", None) is not None:
        decided = model.decide(texts, missed_at_most=0.2)
        parts += [decided.decision, decided.probability]
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()


def rounds(folder: Path, target: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text())
    texts = expected["texts"]
    for number in itertools.count():
        wrong = []
        name = ("one", "two")[number % 2]
        model = hedgerow.load(folder / f"{name}.hedgerow")
        model.save(target, overwrite=True)
        found = hedgerow.load(target)
        found.set_params(n_jobs=1 + number // 2 % 2)
        if digest(found, texts) != expected[name]:
            wrong.append(f"{name} answers otherwise")
        if number % 4 == 0:
            small = target.with_name(f"{target.name}.small")
            a_text_model(rows=SMALL).save(small, overwrite=True)
            if hashlib.sha256(small.read_bytes()).hexdigest() != expected["small"]:
                wrong.append("the same seed trained another model")
        wrong += refusals(found, target)
        print("; ".join(wrong) or "ok", flush=True)


def refusals(model: Any, target: Path) -> list[str]:
    """What should have been refused and was not."""
    wrong = []
    content = bytearray(target.read_bytes())
    content[len(content) // 2] ^= 1
    damaged = target.with_name(f"{target.name}.damaged")
    damaged.write_bytes(content)
    try:
        hedgerow.load(damaged)
        wrong.append("a damaged file was loaded")
    except ModelFileError:
        pass
    for call in (
        lambda: model.top(["a text"], k=-1),
        lambda: model.decide(["a text"], missed_at_most=math.nan),
    ):
        try:
            call()
            wrong.append("a bad argument was taken")
        except ValueError:
            pass
    return wrong


if __name__ == "__main__":
    rounds(Path(sys.argv[1]), Path(sys.argv[2]))
