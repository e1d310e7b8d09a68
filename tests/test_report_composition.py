"""Which inputs a report shows, and what it says of them."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow import HedgerowTextClassifier
from hedgerow.data.sample import load_sample
from hedgerow.estimators.held_out import learn_from_held_out
from hedgerow.evaluation.tasks import evaluate
from hedgerow.report.composition import EvaluatedData, compose
from hedgerow.report.content import Content


@pytest.fixture(scope="module")
def model() -> HedgerowTextClassifier:
    sample = load_sample()
    model = HedgerowTextClassifier(method="bagging", members=3, random_state=0)
    model.fit(sample.train_texts[:1500], sample.train_labels[:1500])
    return model.calibrate(sample.train_texts[1500:2500], sample.train_labels[1500:2500])


@pytest.fixture(scope="module")
def content(model: HedgerowTextClassifier) -> Content:
    sample = load_sample()
    texts = sample.test_texts[:300]
    known = set(model.classes_.tolist())
    labels = [[label for label in own if label in known] for own in sample.test_labels[:300]]
    found = evaluate(model, texts, labels)
    ids = [str(row) for row in range(300)]
    return compose(model, EvaluatedData(texts, texts, ids), found, "Title")


def test_most_uncertain_inputs_then_they_are_those_whose_best_label_is_least_probable(
    model: HedgerowTextClassifier, content: Content
) -> None:
    best = model.predict_uncertain(load_sample().test_texts[:300], 1).probability[:, 0]
    shown = [int(example.id) for example in content.uncertain]
    assert len(shown) == 15
    np.testing.assert_allclose(best[shown], np.sort(best)[:15], atol=1e-6)


def test_most_uncertain_inputs_then_none_has_a_label_that_is_surely_right(
    model: HedgerowTextClassifier, content: Content
) -> None:
    found = model.predict_uncertain(load_sample().test_texts[:300], 1)
    sums = np.argsort(-found.instance.total, kind="stable")[:15]
    # By the sum over all labels there would be some.
    assert found.probability[sums, 0].max() > 0.9
    assert max(example.predicted[0].probability for example in content.uncertain) < 0.8


def test_uncertain_input_then_the_measures_are_those_of_its_best_five_labels(
    model: HedgerowTextClassifier, content: Content
) -> None:
    example = content.uncertain[0]
    best = model.predict_uncertain([example.text], 5)
    np.testing.assert_allclose(example.total, best.total.sum(), rtol=1e-4)
    np.testing.assert_allclose(example.knowledge, best.knowledge.sum(), rtol=1e-4)
    share = 100 * best.knowledge.sum() / best.total.sum()
    assert f"Of its uncertainty about the best five, {share:.0f} % is knowledge uncertainty." in example.why
    assert example.why.startswith("The best label has a probability of ")


def test_model_that_has_learned_expected_quality_then_each_example_says_what_was_expected() -> None:
    sample = load_sample()
    model = HedgerowTextClassifier(method="bagging", members=3, random_state=0)
    model.fit(sample.train_texts[:600], sample.train_labels[:600])
    learn_from_held_out(model, sample.test_texts[100:500], sample.test_labels[100:500])
    known = set(model.classes_.tolist())
    texts, labels = sample.test_texts[:40], [[*known.intersection(own)] for own in sample.test_labels[:40]]
    found = compose(model, EvaluatedData(texts, texts), evaluate(model, texts, labels), "Title")
    for example in (*found.uncertain, *found.wrong):
        words = model.expected_quality([example.text]).words(0)
        assert words.startswith("Of the best five labels, about ")
        assert example.why.endswith(f"Expected before the truth was known: {words.lower()}")


def test_model_that_has_not_learned_expected_quality_then_no_example_speaks_of_it(content: Content) -> None:
    assert not any("Expected before" in example.why for example in (*content.uncertain, *content.wrong))
