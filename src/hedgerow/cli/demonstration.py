"""A first look: train on the embedded sample and predict texts that were held out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from hedgerow.data.sample import Sample, load_sample
from hedgerow.estimators.held_out import learn_from_held_out
from hedgerow.estimators.text import HedgerowTextClassifier
from hedgerow.progress import Progress
from hedgerow.votes.predictions import UncertainLabels

# One that the model is sure of, one whose members are unsure, and one on which they disagree.
SHOWN = ("armagetronad-dedicated", "kmouth", "coco-cs")
MEMBERS = 10
RANKS = (1, 3, 5)
REVIEWED = 40  # held-out texts that wait for a reviewer


@dataclass(frozen=True)
class Prediction:
    """A label, its probability, the two parts of its uncertainty in nats, and whether it is right."""

    label: str
    probability: float
    data: float
    knowledge: float
    right: bool


@dataclass(frozen=True)
class Example:
    """A held-out text with its predictions, the best first, and the true labels that are not among them."""

    id: str
    text: str
    predictions: list[Prediction]
    missed: list[str]


@dataclass(frozen=True)
class DemoResult:
    """Sizes, wall-clock times, the precision of the first 1, 3 and 5 labels, and a few held-out texts."""

    train_rows: int
    test_rows: int
    labels: int
    members: int
    fit_seconds: float
    predict_seconds: float
    precision: dict[int, float]
    examples: list[Example]


def _fitted(sample: Sample, n_jobs: int, progress: Progress | None) -> HedgerowTextClassifier:
    classifier = HedgerowTextClassifier(method="bagging", members=MEMBERS, n_jobs=n_jobs, random_state=0)
    return classifier.fit(sample.train_texts, sample.train_labels, progress=progress)


def demonstrate(n_jobs: int = -1, progress: Progress | None = None) -> DemoResult:
    """Train an ensemble on the embedded sample and predict its test part."""
    sample = load_sample()
    start = time.perf_counter()
    classifier = _fitted(sample, n_jobs, progress)
    fitted = time.perf_counter()
    best = classifier.predict_uncertain(sample.test_texts, max(RANKS))
    done = time.perf_counter()
    return DemoResult(
        train_rows=len(sample.train_texts),
        test_rows=len(sample.test_texts),
        labels=len(classifier.classes_),
        members=MEMBERS,
        fit_seconds=fitted - start,
        predict_seconds=done - fitted,
        precision={k: precision_at(best.labels, sample.test_labels, k) for k in RANKS},
        examples=[_example(sample, sample.test_ids.index(name), best) for name in SHOWN],
    )


def prepare(n_jobs: int = -1, progress: Progress | None = None) -> tuple[HedgerowTextClassifier, list[str]]:
    """Train an ensemble on the embedded sample and calibrate it; return it with held-out texts it never saw.

    Probabilities are calibrated out of bag, on the training texts; held-out texts fit OOD detection and
    set the thresholds of decisions.
    """
    sample = load_sample()
    classifier = _fitted(sample, n_jobs, progress)
    shown = {sample.test_ids.index(name) for name in SHOWN}
    others = [row for row in range(len(sample.test_texts)) if row not in shown]
    review, held_out = others[:REVIEWED], others[REVIEWED:]
    learn_from_held_out(
        classifier,
        [sample.test_texts[row] for row in held_out],
        [sample.test_labels[row] for row in held_out],
        training=(sample.train_texts, sample.train_labels),
        progress=progress,
    )
    return classifier, [sample.test_texts[row] for row in review]


def precision_at(labels: npt.NDArray[Any], truth: Sequence[Sequence[str]], k: int) -> float:
    """Return the share of right labels among the first `k`, mean over rows.

    Examples
    --------
    >>> import numpy as np
    >>> precision_at(np.array([["a", "b"], ["b", "c"]], object), [["a"], ["c", "b"]], 2)
    0.75
    """
    hits = sum(len(set(row[:k]) & set(right)) for row, right in zip(labels.tolist(), truth, strict=True))
    return hits / (k * len(truth))


def _example(sample: Sample, row: int, best: UncertainLabels) -> Example:
    right = sample.test_labels[row]
    columns = (best.labels, best.probability, best.data, best.knowledge)
    predictions = [
        Prediction(label, probability, data, knowledge, label in right)
        for label, probability, data, knowledge in zip(
            *(column[row].tolist() for column in columns), strict=True
        )
    ]
    found = {prediction.label for prediction in predictions}
    return Example(
        id=sample.test_ids[row],
        text=sample.test_texts[row],
        predictions=predictions,
        missed=[label for label in right if label not in found],
    )
