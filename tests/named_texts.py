"""Texts in which names of labels occur; many labels are so rare that no training text has them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow import Vocabulary

LABELS, ROWS, TESTED = 3000, 3000, 500
_OTHER = 1000  # words that are no names
_SYLLABLES = ["ba", "dor", "fel", "gim", "kan", "lus", "mer", "nop", "ras", "tiv", "vok", "zel", "quo", "xir"]


@dataclass(frozen=True)
class Named:
    """Training and test texts, and a vocabulary of all labels; `unseen` are those without a training text."""

    texts: list[str]
    labels: list[list[str]]
    test_texts: list[str]
    test_labels: list[list[str]]
    vocabulary: Vocabulary
    unseen: set[str]


def named_texts(seed: int) -> Named:
    """Most labels are named in their texts, and texts name other labels by chance, too."""
    draw = np.random.default_rng(seed)
    words = _words(draw, 2 * LABELS + _OTHER)
    # Every other name has two words, of which one stands for nothing by itself.
    names = [
        word if number % 2 else f"{word} {words[LABELS + number]}"
        for number, word in enumerate(words[:LABELS])
    ]
    other = words[2 * LABELS :]
    own = draw.integers(0, _OTHER, (LABELS, 5))
    share = 1 / np.arange(5, LABELS + 5)
    share /= share.sum()

    def make(rows: int) -> tuple[list[str], list[list[str]]]:
        texts, labels = [], []
        for _ in range(rows):
            chosen = draw.choice(LABELS, draw.integers(1, 4), replace=False, p=share).tolist()
            parts = [other[number] for number in draw.integers(0, _OTHER, 6).tolist()]
            for label in chosen:
                parts += [other[number] for number in draw.choice(own[label], 2).tolist()]
                if draw.random() < 0.7:
                    parts.append(names[label])
            if draw.random() < 0.4:
                parts.append(names[draw.integers(0, LABELS)])
            draw.shuffle(parts)
            texts.append(" ".join(parts))
            labels.append([f"x:{label}" for label in chosen])
        return texts, labels

    texts, labels = make(ROWS)
    test_texts, test_labels = make(TESTED)
    vocabulary = Vocabulary.from_names({f"x:{label}": name for label, name in enumerate(names)}, "en")
    seen = {label for row in labels for label in row}
    unseen = {f"x:{label}" for label in range(LABELS)} - seen
    return Named(texts, labels, test_texts, test_labels, vocabulary, unseen)


def _words(draw: np.random.Generator, count: int) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(draw.choice(_SYLLABLES, 4))] = None
    return list(words)
