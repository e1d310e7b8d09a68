"""A small model with its records, texts that people reviewed, and rows to judge on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from hedgerow import HedgerowTextClassifier
from hedgerow.data.sample import load_sample
from hedgerow.records.file import beside
from hedgerow.serve.queue_store import QueueStore

TRAINED = 200
REVIEWS = 40


@dataclass(frozen=True)
class Desk:
    """The files of somebody who reviews: model, queue and rows to judge on."""

    model: Path
    queue: Path
    held: Path

    def review(
        self, texts: Sequence[str], labels: Sequence[Sequence[str]], ids: Sequence[str | None] | None = None
    ) -> list[int]:
        """Confirm labels of texts; gives their numbers in the queue."""
        store = QueueStore(self.queue)
        try:
            waiting = [(text, 0.0, {"labels": []}) for text in texts]
            numbers = store.add(waiting, "some model", ids)
            for number, own in zip(numbers, labels, strict=True):
                store.decide(number, "confirmed", own)
        finally:
            store.close()
        return numbers

    def review_more(self, count: int = REVIEWS) -> None:
        """Review texts that the model was not trained on, with their labels; every other has an id."""
        sample = load_sample()
        rows = slice(TRAINED, TRAINED + count)
        ids = [f"new-{i}" if i % 2 else None for i in range(count)]
        self.review(sample.train_texts[rows], sample.train_labels[rows], ids)

    def review_badly(self) -> None:
        """Give each text of the training the labels of another."""
        sample = load_sample()
        wrong = [["wrong", *sample.train_labels[(i + 67) % TRAINED]] for i in range(TRAINED)]
        self.review(sample.train_texts[:TRAINED], wrong, [f"t{i}" for i in range(TRAINED)])


@pytest.fixture(scope="session")
def recorded_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has its records beside it."""
    sample = load_sample()
    model = HedgerowTextClassifier(members=2, n_jobs=1, random_state=0)
    texts, labels = sample.train_texts[:TRAINED], sample.train_labels[:TRAINED]
    model.fit(texts, labels, ids=[f"t{i}" for i in range(TRAINED)], keep_records=True)
    path = tmp_path_factory.mktemp("recorded") / "tags.hedgerow"
    model.save(path)
    return path


@pytest.fixture
def desk(recorded_model: Path, tmp_path: Path) -> Desk:
    """A copy of the model, an empty queue and held-out rows, in a folder of their own."""
    folder = tmp_path / "desk"
    folder.mkdir()
    model = folder / "tags.hedgerow"
    for source, target in ((recorded_model, model), (beside(recorded_model), beside(model))):
        target.write_bytes(source.read_bytes())
    sample = load_sample()
    held = tmp_path / "held.jsonl"
    rows = zip(sample.test_texts[:150], sample.test_labels[:150], strict=True)
    held.write_bytes(b"".join(orjson.dumps({"text": text, "labels": own}) + b"\n" for text, own in rows))
    return Desk(model, Path(f"{model}.queue.sqlite"), held)
