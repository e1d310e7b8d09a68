"""Damped features: counts of words whose repetitions must not drown the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import hedgerow
from hedgerow import HedgerowClassifier, explain, preset_parameters
from hedgerow.estimators.damping_trial import damping_helps
from hedgerow.features.damping import Damping
from hedgerow.features.tfidf import TfidfVectorizer
from hedgerow.inputs.matrices import as_rows

RNG = np.random.default_rng(0)


def topics(rows: int, repeats: float) -> tuple[sp.csr_array, sp.csr_array]:
    """Inputs with two of 20 topics, whose words say so, and a word of no meaning, repeated at random."""
    labels = np.array([RNG.choice(20, size=2, replace=False) for _ in range(rows)])
    dense = np.zeros((rows, 140))
    for row, own in enumerate(labels):
        for topic in own:
            dense[row, topic * 5 + RNG.choice(5, size=2, replace=False)] += 1
        dense[row, 100 + RNG.integers(0, 40, size=6)] += RNG.exponential(repeats, size=6) + 1
    truth = np.zeros((rows, 20))
    truth[np.arange(rows)[:, None], labels] = 1
    return sp.csr_array(dense.astype(np.float32)), sp.csr_array(truth)


@given(st.lists(st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=3), min_size=1, max_size=6))
def test_values_are_roots_times_the_weight_of_the_feature(rows: list[list[float]]) -> None:
    dense = np.array(rows, dtype=np.float32)
    given_rows = as_rows(sp.csr_array(dense), threads=1)
    damping = Damping.of(given_rows)
    having = (dense != 0).sum(axis=0)
    weights = np.sqrt(np.log((1 + len(dense)) / (1 + having)) + 1)
    indptr, indices, values, columns = damping.apply(given_rows).arrays()
    found = sp.csr_array((values, indices, indptr), shape=(len(dense), columns)).toarray()
    np.testing.assert_allclose(found, np.sign(dense) * np.sqrt(np.abs(dense)) * weights, rtol=1e-5, atol=1e-6)


def test_model_is_that_of_damped_features_and_predicts_from_plain_ones() -> None:
    X, Y = topics(300, 10)
    own = HedgerowClassifier(dampen=True, random_state=0).fit(X, Y)
    indptr, indices, values, _ = Damping.of(as_rows(X)).apply(as_rows(X)).arrays()
    damped = sp.csr_array((values, indices, indptr), shape=X.shape)
    by_hand = HedgerowClassifier(random_state=0).fit(damped, Y)
    found, wanted = own.top(X, k=5), by_hand.top(damped, k=5)
    np.testing.assert_array_equal(found.labels, wanted.labels)
    np.testing.assert_array_equal(found.probability, wanted.probability)


def test_saved_model_predicts_the_same_bits_and_explains_them(tmp_path: Path) -> None:
    X, Y = topics(300, 10)
    model = HedgerowClassifier(dampen=True, method="bagging", members=3, random_state=0).fit(X, Y)
    model.save(tmp_path / "m")
    loaded = hedgerow.load(tmp_path / "m")
    before, after = (of.predict_uncertain(X[:40], k=5) for of in (model, loaded))
    np.testing.assert_array_equal(before.labels, after.labels)
    np.testing.assert_array_equal(before.knowledge, after.knowledge)
    why = explain(loaded, X[:1], before.labels[0, 0])
    assert why.probability == pytest.approx(before.probability[0, 0], abs=1e-5)


def test_members_are_added_to_damped_features() -> None:
    X, Y = topics(300, 10)
    settings = {"dampen": True, "method": "bagging", "random_state": 0}
    whole = HedgerowClassifier(members=4, **settings).fit(X, Y)
    grown = HedgerowClassifier(members=2, **settings).fit(X, Y).add_members(X, Y, 2)
    np.testing.assert_array_equal(
        whole.predict_uncertain(X[:30], k=5).knowledge, grown.predict_uncertain(X[:30], k=5).knowledge
    )


@pytest.mark.parametrize("weights", [np.ones(3, np.float64), np.ones(2, np.float32), -np.ones(3, np.float32)])
def test_weights_of_a_file_are_checked(weights: np.ndarray) -> None:
    with pytest.raises(ValueError, match="weights of the features"):
        Damping.from_section(weights, 3)


def test_presets_dampen_where_it_helps_and_not_elsewhere() -> None:
    X, Y = topics(3000, 30)
    assert damping_helps(X, Y)
    assert preset_parameters("balanced", X, Y)["dampen"] is True
    assert "dampen" not in preset_parameters("fast", X, Y)
    assert not damping_helps(X.astype(bool).astype(np.float32), Y)


def test_trial_of_too_little_data_changes_nothing() -> None:
    X, Y = topics(3, 1)
    assert not damping_helps(X, Y)
    assert not damping_helps(X, sp.csr_array(Y.shape))


@pytest.mark.parametrize("elsewhere", [{"memory": "1GB"}, {"cluster": "local"}])
def test_what_needs_a_copy_is_refused_out_of_memory(elsewhere: dict[str, str]) -> None:
    X, Y = topics(30, 1)
    with pytest.raises(ValueError, match=r"dampen and (memory|cluster) cannot be combined"):
        HedgerowClassifier(dampen=True, **elsewhere).fit(X, Y)


def test_words_of_texts_are_damped_already() -> None:
    texts = ["thorn " * 50 + "shrub", "shrub tree"]
    rows = TfidfVectorizer(min_count=1, ngrams=(1, 1)).fit_transform(texts)
    assert rows[[0]].max() < 1
