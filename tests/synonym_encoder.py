"""Texts that call labels otherwise than the vocabulary does, and an encoder that knows both words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from hedgerow import Vocabulary

LABELS, ROWS, TESTED = 500, 1600, 150
_FILLERS = 60


@dataclass(frozen=True)
class Synonyms:
    """Training and test texts, a vocabulary of all labels, and those without a training text."""

    texts: list[str]
    labels: list[list[str]]
    test_texts: list[str]
    test_labels: list[list[str]]
    vocabulary: Vocabulary
    unseen: set[str]


def synonym_texts(seed: int = 0) -> Synonyms:
    """Half of the labels of a text stand there by name, the others by a synonym of it."""
    draw = np.random.default_rng(seed)
    share = 1 / np.arange(5, LABELS + 5)
    share /= share.sum()

    def make(rows: int) -> tuple[list[str], list[list[str]]]:
        texts, labels = [], []
        for _ in range(rows):
            chosen = draw.choice(LABELS, 2, replace=False, p=share).tolist()
            words = [f"filler{_letters(number)}" for number in draw.integers(0, _FILLERS, 3).tolist()]
            words += [name(label) if draw.random() < 0.5 else synonym(label) for label in chosen]
            draw.shuffle(words)
            texts.append(" ".join(words))
            labels.append([f"x:{label}" for label in chosen])
        return texts, labels

    texts, labels = make(ROWS)
    test_texts, test_labels = make(TESTED)
    vocabulary = Vocabulary.from_names({f"x:{label}": name(label) for label in range(LABELS)}, "en")
    seen = {label for row in labels for label in row}
    unseen = {f"x:{label}" for label in range(LABELS)} - seen
    return Synonyms(texts, labels, test_texts, test_labels, vocabulary, unseen)


def name(label: int) -> str:
    """What the vocabulary calls a label."""
    return f"name{_letters(label)}"


def synonym(label: int) -> str:
    """What texts call it besides."""
    return f"word{_letters(label)}"


def make_synonym_encoder(folder: Path) -> Path:
    """An encoder that sees a name and its synonym as one word."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'hedgerow[deep]'")
    from transformers import BertConfig, BertModel, BertTokenizerFast

    names, words = ([of(label) for label in range(LABELS)] for of in (name, synonym))
    fillers = [f"filler{_letters(number)}" for number in range(_FILLERS)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *fillers, *names, *words]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model = BertModel(config)
        weights = model.embeddings.word_embeddings.weight
        model.embeddings.position_embeddings.weight.zero_()
        model.embeddings.token_type_embeddings.weight.zero_()
        first, half = 5 + _FILLERS, len(names)
        weights[:first] *= 0.1  # what all texts have says little
        weights[first + half :] = weights[first : first + half]
        model.save_pretrained(folder)
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def _letters(number: int) -> str:
    """A number in letters, so that no analyzer takes it apart."""
    return "".join("bdfgklmnrs"[int(digit)] for digit in f"{number:03d}")
