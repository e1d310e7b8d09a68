"""One input in many trees: threads share them, and features that every input has are not looked up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from hedgerow import HedgerowClassifier, Votes
from hedgerow.trees.forest import Ensemble

WORDS, DENSE, LABELS = 60, 300, 300


@pytest.fixture(scope="module")
def data() -> tuple[sp.csr_array, sp.csr_array]:
    draw = np.random.default_rng(0)
    words = draw.random((600, WORDS)) * (draw.random((600, WORDS)) < 0.2)
    dense = draw.normal(size=(600, DENSE))
    X = sp.csr_array(np.hstack([words, dense / np.linalg.norm(dense, axis=1, keepdims=True)]))
    Y = sp.csr_array((draw.random((600, LABELS)) < 0.01).astype(np.int8))
    return X, Y


def fitted(data: tuple[sp.csr_array, sp.csr_array], method: str) -> HedgerowClassifier:
    model = HedgerowClassifier(method=method, members=6, leaf_size=8, weight_threshold=0.02, random_state=0)
    return model.fit(*data)


@pytest.fixture(scope="module")
def models(data: tuple[sp.csr_array, sp.csr_array]) -> dict[str, HedgerowClassifier]:
    return {method: fitted(data, method) for method in ("single", "bagging", "mc-dropout")}


def same(one: Votes, other: Votes) -> None:
    for name in ("indptr", "labels", "probs", "bound", "missed"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("missing", ["exact", "delta", "bound"])
@pytest.mark.parametrize("candidates", ["scored", 5])
def test_votes_on_one_row_when_threads_share_the_trees_are_those_of_one_thread(
    data: tuple[sp.csr_array, sp.csr_array],
    models: dict[str, HedgerowClassifier],
    missing: str,
    candidates: Any,
) -> None:
    model, X = models["bagging"], data[0][:12]
    model.set_params(missing=missing, candidates=candidates, beam=20)
    whole = model.set_params(n_jobs=1).predict_votes(X)
    for threads in (1, 2, 5):
        model.set_params(n_jobs=threads)
        alone = [model.predict_votes(X[row : row + 1]) for row in range(12)]
        same(Votes.concatenate(alone), whole)
    best = model.set_params(n_jobs=1).predict_uncertain(X, k=3)
    model.set_params(n_jobs=3)
    for row in range(12):
        one = model.predict_uncertain(X[row : row + 1], k=3)
        np.testing.assert_array_equal(one.labels[0], best.labels[row])
        np.testing.assert_array_equal(one.knowledge[0], best.knowledge[row])


@pytest.mark.parametrize("method", ["single", "bagging", "mc-dropout"])
def test_expected_features_change_no_bit_whether_a_row_has_them_or_not(
    data: tuple[sp.csr_array, sp.csr_array], models: dict[str, HedgerowClassifier], method: str
) -> None:
    rows = data[0][:40].toarray()
    rows[1, WORDS + 7] = 0  # nearly all
    rows[2, WORDS:] = 0
    rows[3, :WORDS] = 0
    rows[4, -1] = 0
    X = sp.csr_array(rows)
    model = models[method].set_params(missing="exact", candidates="scored", beam=10, n_jobs=1)
    told = fitted(data, method).set_params(missing="exact", candidates="scored", beam=10, n_jobs=1)
    for tree in told.model_.forest.trees:
        tree.native.expect(WORDS, WORDS, WORDS + DENSE, 2)
    same(told.predict_votes(X), model.predict_votes(X))
    for row in range(8):
        same(told.predict_votes(X[row : row + 1]), model.predict_votes(X[row : row + 1]))
        for exact in (False, True):
            one, other = (of.top(X[row : row + 1], k=4, exact=exact) for of in (told, model))
            np.testing.assert_array_equal(one.labels, other.labels)
            np.testing.assert_array_equal(one.probability, other.probability)


def test_trees_that_expect_different_features_still_vote_the_same(
    data: tuple[sp.csr_array, sp.csr_array], models: dict[str, HedgerowClassifier]
) -> None:
    model = models["bagging"].set_params(missing="exact", candidates="scored", beam=10, n_jobs=1)
    told = fitted(data, "bagging").set_params(missing="exact", candidates="scored", beam=10, n_jobs=1)
    for number, tree in enumerate(told.model_.forest.trees[:4]):
        first = WORDS + 10 * number
        tree.native.expect(first, first, WORDS + DENSE, 1)
    same(told.predict_votes(data[0][:80]), model.predict_votes(data[0][:80]))
    for row in range(6):
        same(told.predict_votes(data[0][row : row + 1]), model.predict_votes(data[0][row : row + 1]))


@pytest.mark.parametrize("missing", ["exact", "delta"])
def test_trees_with_features_of_their_own_vote_the_same_when_they_skip_those_of_others(
    data: tuple[sp.csr_array, sp.csr_array], missing: str
) -> None:
    each = DENSE // 6
    X, Y = data

    def built() -> HedgerowClassifier:
        trees = []
        for number in range(6):
            own = X.toarray()
            own[:, WORDS : WORDS + each * number] = own[:, WORDS + each * (number + 1) :] = 0
            alone = HedgerowClassifier(leaf_size=8, weight_threshold=0.02, random_state=number)
            trees.append(alone.fit(sp.csr_array(own), Y).model_.forest.trees[0])
        alone.model_ = replace(alone.model_, forest=Ensemble(trees, LABELS))
        return alone.set_params(missing=missing, candidates="scored", beam=10, n_jobs=2)

    model, told = built(), built()
    for number, tree in enumerate(told.model_.forest.trees):
        first = WORDS + each * number
        tree.native.expect(WORDS, first, first + each, 1)
    rows = X[:80].toarray()
    rows[1, WORDS + 7] = 0
    rows[2, WORDS:] = 0
    some = sp.csr_array(rows)
    same(told.predict_votes(some), model.predict_votes(some))
    for row in range(6):
        same(told.predict_votes(some[row : row + 1]), model.predict_votes(some[row : row + 1]))


def test_features_that_are_not_there_cannot_be_expected(models: dict[str, HedgerowClassifier]) -> None:
    tree = models["single"].model_.forest.trees[0].native
    last = WORDS + DENSE
    for shared, first, end in ((-1, 0, last), (0, 0, last + 1), (WORDS, WORDS - 1, last), (0, 9, 8)):
        with pytest.raises(ValueError, match="no such features"):
            tree.expect(shared, first, end, 1)
    with pytest.raises(ValueError, match="has weights, but is not expected"):
        tree.expect(WORDS, WORDS, WORDS + 1, 1)
