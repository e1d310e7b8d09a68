"""What uncertainty says of the use of more training data: models of a quarter of the sample, and of all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from hedgerow import HedgerowTextClassifier, label_uncertainty
from hedgerow.data.sample import load_sample

LISTED = 20

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Candidates:
    """The best labels of texts under a model of a quarter, and how much their log loss falls with all."""

    probability: Floats
    knowledge: Floats
    data: Floats
    examples: Floats
    gain: Floats


@pytest.fixture(scope="module")
def candidates() -> Candidates:
    sample = load_sample()
    order = np.random.default_rng(0).permutation(len(sample.train_texts))
    models = []
    for part in (order[: len(order) // 4].tolist(), order.tolist()):
        texts = [sample.train_texts[row] for row in part]
        labels = [sample.train_labels[row] for row in part]
        model = HedgerowTextClassifier(method="bagging", members=5, random_state=0).fit(texts, labels)
        models.append(model.calibrate_out_of_bag(texts, labels))
    few, whole = models
    votes, later = (
        few.predict_votes(sample.test_texts),
        whole.predict_votes(sample.test_texts).mean().toarray(),
    )
    measures = label_uncertainty(votes)
    place = np.searchsorted(whole.classes_.astype(str), few.classes_.astype(str))
    rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
    best = np.zeros(len(rows), dtype=bool)
    for begin, end in zip(votes.indptr[:-1].tolist(), votes.indptr[1:].tolist(), strict=True):
        best[begin + np.argsort(-measures.probability[begin:end], kind="stable")[:LISTED]] = True
    rows, labels_ = rows[best], votes.labels[best]
    right = np.array(
        [few.classes_[label] in sample.test_labels[row] for row, label in zip(rows, labels_, strict=True)]
    )

    def loss(p: Floats) -> Floats:
        inside = np.clip(p, 1e-4, 1 - 1e-4)
        return -np.where(right, np.log(inside), np.log1p(-inside))

    probability = measures.probability[best].astype(np.float64)
    after = later[rows, place[labels_]].astype(np.float64)
    assert few.label_counts_ is not None
    return Candidates(
        probability,
        measures.knowledge[best].astype(np.float64),
        measures.data[best].astype(np.float64),
        few.label_counts_[labels_].astype(np.float64),
        loss(probability) - loss(after),
    )


def gains(of: Candidates, by: Floats, *, same_probability: bool = False) -> tuple[float, float, float]:
    """Mean gain of the thirds that are low, in the middle and high; among labels as probable, if wanted."""
    levels = 20 if same_probability else 1
    level = np.argsort(np.argsort(of.probability, kind="stable"), kind="stable") * levels // len(by)
    third = np.zeros(len(by), dtype=np.int64)
    for one in range(levels):
        here = np.flatnonzero(level == one)
        third[here] = np.argsort(np.argsort(by[here], kind="stable"), kind="stable") * 3 // len(here)
    low, middle, high = (float(of.gain[third == part].mean()) for part in range(3))
    return low, middle, high


@pytest.mark.parametrize("kind", ["knowledge", "data"])
def test_more_data_then_labels_of_high_uncertainty_of_either_kind_gain_more(
    candidates: Candidates, kind: str
) -> None:
    low, _, high = gains(candidates, getattr(candidates, kind))
    assert high > 1.5 * low > 0


def test_more_data_then_labels_with_few_examples_gain_more_than_others_as_uncertain(
    candidates: Candidates,
) -> None:
    few, _, many = gains(candidates, candidates.examples, same_probability=True)
    assert few > 1.5 * many > 0


def test_more_data_then_labels_on_which_members_agree_gain_too(candidates: Candidates) -> None:
    """So nothing may say that more data would not help where uncertainty is data uncertainty."""
    share = candidates.knowledge / np.maximum(candidates.knowledge + candidates.data, 1e-12)
    agreed, _, disputed = gains(candidates, share, same_probability=True)
    assert agreed > 0.5 * disputed > 0
