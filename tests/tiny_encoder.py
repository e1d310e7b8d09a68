"""A transformer small enough for tests: two layers, random weights, a vocabulary of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

KINDS = {
    "hawthorn": "a thorny shrub with white flowers and red berries",
    "blackthorn": "a thorny shrub with dark bark and blue sloes",
    "holly": "an evergreen tree with spiny leaves and red berries",
    "yew": "an evergreen tree with soft needles",
    "hedgehog": "a small animal that sleeps in leaves and eats snails",
    "wren": "a small bird that nests in ivy and eats spiders",
    "beech": "a tall tree with smooth bark and copper leaves",
    "bramble": "a thorny plant with black berries and long canes",
}
EXTRA = ("seen", "in", "spring", "autumn", "near", "the", "hedge", "old", "young", "wood", "field", "very")


def texts_and_labels(count: int = 96) -> tuple[list[str], list[list[str]]]:
    """Texts of different lengths, each with the label of its kind and one of its season."""
    texts, labels = [], []
    for number in range(count):
        name = list(KINDS)[number % len(KINDS)]
        season = ("spring", "autumn")[number // len(KINDS) % 2]
        more = " ".join(EXTRA[(number + step) % len(EXTRA)] for step in range(number % 7))
        texts.append(f"{KINDS[name]} seen in {season} {more}".strip())
        labels.append([name, season])
    return texts, labels


def make_tiny_encoder(folder: Path, seed: int = 0, dropout: float = 0.1) -> Path:
    """Write an encoder as `save_pretrained` does, and return its folder."""
    # Not above: every test file shares this fixture through conftest.py, and few have torch.
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = sorted({word for text in KINDS.values() for word in text.split()} | set(EXTRA))
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, "##s", "##y"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        BertModel(config).save_pretrained(folder)
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny encoder."""
    return make_tiny_encoder(tmp_path_factory.mktemp("encoders") / "tiny")
