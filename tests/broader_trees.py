"""A small model that answers vague texts with broader terms, and its records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from vocabularies import made

from hedgerow import HedgerowTextClassifier, Vocabulary
from hedgerow.estimators.held_out import learn_from_held_out

TREES = ["yew", "pine", "oak", "elm"]
WIDER = {"yew": "conifer", "pine": "conifer", "oak": "broadleaf", "elm": "broadleaf"}


def tree_records(rows: int, seed: int) -> tuple[list[str], list[list[str]]]:
    """Texts that often say only which kind of tree they are about."""
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for row in range(rows):
        tree = TREES[random.integers(0, 4)]
        vague = random.random() < 0.5
        words = [WIDER[tree], "needle" if WIDER[tree] == "conifer" else "leaf"]
        words += [] if vague else [f"{tree}wood", f"{tree}bark"]
        texts.append(" ".join([*words, f"w{random.integers(0, 50)}", f"n{seed}x{row}"]))
        labels.append([tree])
    return texts, labels


def tree_vocabulary() -> Vocabulary:
    """The trees, their kinds, and plants above all of them."""
    entries = [{"id": tree, "names": [(tree, "en", True)], "broader": [kind]} for tree, kind in WIDER.items()]
    entries += [
        {"id": kind, "names": [(f"{kind}s", "en", True)], "broader": ["plant"]}
        for kind in sorted(set(WIDER.values()))
    ]
    return made(*entries, {"id": "plant", "names": [("plants", "en", True)]})


def tree_model() -> HedgerowTextClassifier:
    """Learned from records, with a policy for labels and for broader terms."""
    model = HedgerowTextClassifier(method="bagging", members=3, random_state=0, n_jobs=1)
    model.fit(*tree_records(400, 0)).set_vocabulary(tree_vocabulary())
    learn_from_held_out(model, *tree_records(1200, 1), least_depth=1)
    return model


def saved_tree_model(folder: Path) -> Path:
    """A file with the model."""
    path = folder / "trees.hedgerow"
    tree_model().save(path)
    return path


def a_vague_text(model: HedgerowTextClassifier) -> str:
    """A text that is answered with a broader term."""
    texts, _ = tree_records(40, 2)
    found = model.decide(texts, wrong_at_most=0.1, broader=True)
    return next(text for text, own in zip(texts, found, strict=True) if own.broader)
