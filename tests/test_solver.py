"""The solver finds the optimum that scikit-learn's liblinear finds, lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dense_oracle import dense_rows, dense_weights, objective
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from hedgerow import HedgerowClassifier

pytestmark = pytest.mark.simd

TIGHT = {"tolerance": 1e-4, "max_passes": 20_000, "weight_threshold": 0.0, "n_jobs": 1, "random_state": 0}
LOSSES = ["squared_hinge", "logistic"]
# A weight is stored in bfloat16: 8 bits, rounded to nearest.
ROUNDING = 2.0**-8


def problem(
    seed: int, rows: int = 60, features: int = 25, labels: int = 5
) -> tuple[csr_array, npt.NDArray[np.int8]]:
    random = np.random.default_rng(seed)
    dense = (random.normal(size=(rows, features)) * (random.random((rows, features)) < 0.4)).astype(
        np.float32
    )
    Y = (random.random((rows, labels)) < 0.25).astype(np.int8)
    Y[random.integers(0, rows, labels), np.arange(labels)] = 1
    Y[np.arange(labels) % rows, np.arange(labels)] = 1
    return csr_array(dense), Y


def reference(
    X: npt.NDArray[np.float64], positive: npt.NDArray[Any], costs: npt.NDArray[np.float64], loss: str
) -> npt.NDArray[np.float64]:
    """The optimum by liblinear. X has the constant column; `costs` is the whole C of each row."""
    if loss == "squared_hinge":
        solver: Any = LinearSVC(
            loss=loss, dual=True, fit_intercept=False, C=1.0, tol=1e-8, max_iter=1_000_000
        )
    else:
        solver = LogisticRegression(
            solver="liblinear", fit_intercept=False, C=1.0, tol=1e-10, max_iter=100_000
        )
    fitted = solver.fit(X, np.where(positive, 1, -1), sample_weight=costs)
    return np.asarray(fitted.coef_[0], dtype=np.float64)


def with_constant(X: Any, bias: float, normalize: bool = True) -> npt.NDArray[np.float64]:
    rows = dense_rows(X, normalize)
    return np.hstack([rows, np.full((len(rows), 1), bias)])


def one_node(
    X: Any, Y: npt.NDArray[Any], **options: Any
) -> tuple[HedgerowClassifier, npt.NDArray[np.float64]]:
    """A model without a tree, and its weights by label, that of the constant feature last."""
    fit = {name: options.pop(name) for name in ("sample_weight",) if name in options}
    model = HedgerowClassifier(leaf_size=Y.shape[1], **{**TIGHT, **options}).fit(X, Y, **fit)
    assert model.tree_.depth == 1
    weights, bias = dense_weights(model.model_.forest.trees[0], 0, 0)
    whole = np.hstack([weights, (bias / model.bias if model.bias else bias)[:, None]])
    by_label = np.empty_like(whole)
    by_label[model.tree_.labels] = whole
    return model, by_label


def assert_same_weights(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> None:
    # The constant feature's weight is stored in float32.
    np.testing.assert_allclose(found[:-1], expected[:-1], rtol=ROUNDING, atol=2e-3)
    np.testing.assert_allclose(found[-1], expected[-1], rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("labels", [1, 2, 3, 7, 8, 9, 16, 17, 20, 33])
def test_weights_of_any_number_of_lanes_equal_those_of_liblinear(labels: int, loss: str) -> None:
    X, Y = problem(labels, labels=labels)
    _, weights = one_node(X, Y, loss=loss)
    full = with_constant(X, 1.0)
    for label in range(labels):
        assert_same_weights(weights[label], reference(full, Y[:, label], np.ones(len(full)), loss))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"C": 0.01}, id="small C"),
        pytest.param({"C": 10.0}, id="large C"),
        pytest.param({"positive_cost": 5.0}, id="positive_cost"),
        pytest.param({"negative_cost": 0.2, "C": 2.0}, id="negative_cost"),
        pytest.param({"bias": 0.0}, id="no bias"),
        pytest.param({"bias": 3.0}, id="large bias"),
        pytest.param({"normalize": False}, id="not normalized"),
    ],
)
def test_weights_with_other_parameters_equal_those_of_liblinear(options: dict[str, Any], loss: str) -> None:
    X, Y = problem(1)
    model, weights = one_node(X, Y, loss=loss, **options)
    full = with_constant(X, model.bias, model.normalize)
    for label in range(Y.shape[1]):
        costs = model.C * np.where(Y[:, label], model.positive_cost, model.negative_cost)
        expected = reference(full, Y[:, label], costs, loss)
        if model.bias == 0:
            expected[-1] = 0
        assert_same_weights(weights[label], expected)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_with_sample_weight_equal_those_of_liblinear(loss: str) -> None:
    X, Y = problem(2)
    costs = np.random.default_rng(0).uniform(0.1, 4, X.shape[0])
    _, weights = one_node(X, Y, loss=loss, sample_weight=costs, C=1.5, positive_cost=2.0)
    full = with_constant(X, 1.0)
    for label in range(Y.shape[1]):
        expected = reference(full, Y[:, label], 1.5 * costs * np.where(Y[:, label], 2.0, 1.0), loss)
        assert_same_weights(weights[label], expected)


@pytest.mark.parametrize("loss", LOSSES)
def test_sample_weight_of_zero_equals_leaving_the_row_out(loss: str) -> None:
    X, Y = problem(3)
    keep = np.ones(X.shape[0])
    keep[5:25] = 0
    Y[:5] = 1  # every label keeps an input
    _, weighted = one_node(X, Y, loss=loss, sample_weight=keep)
    _, without = one_node(csr_array(X[keep > 0]), Y[keep > 0], loss=loss)
    np.testing.assert_allclose(weighted, without, rtol=2 * ROUNDING, atol=2e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_sample_weight_of_two_equals_the_row_twice(loss: str) -> None:
    X, Y = problem(4)
    times = np.where(np.arange(X.shape[0]) % 3 == 0, 2, 1)
    _, weighted = one_node(X, Y, loss=loss, sample_weight=times)
    _, repeated = one_node(csr_array(X.toarray().repeat(times, axis=0)), Y.repeat(times, axis=0), loss=loss)
    np.testing.assert_allclose(weighted, repeated, rtol=2 * ROUNDING, atol=2e-3)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(3, 80),
    features=st.integers(1, 40),
    labels=st.integers(1, 20),
    loss=st.sampled_from(LOSSES),
    C=st.sampled_from([0.1, 1.0, 20.0]),
)
def test_objective_of_any_problem_is_not_worse_than_that_of_liblinear(
    seed: int, rows: int, features: int, labels: int, loss: str, C: float
) -> None:
    X, Y = problem(seed, rows, features, labels)
    _, weights = one_node(X, Y, loss=loss, C=C)
    full = with_constant(X, 1.0)
    for label in range(labels):
        signs = np.where(Y[:, label], 1.0, -1.0)
        if abs(signs.sum()) == rows:
            continue  # liblinear wants two classes
        costs = np.full(rows, C)
        best = objective(full, signs, costs, reference(full, Y[:, label], costs, loss), loss)
        assert objective(full, signs, costs, weights[label], loss) <= best * 1.001 + 1e-6


@pytest.mark.parametrize("loss", LOSSES)
def test_objective_at_the_default_tolerance_is_near_the_optimum(loss: str) -> None:
    X, Y = problem(6, rows=200, labels=20)
    _, weights = one_node(X, Y, loss=loss, tolerance=0.1, max_passes=100)
    full = with_constant(X, 1.0)
    for label in range(20):
        signs, costs = np.where(Y[:, label], 1.0, -1.0), np.ones(len(full))
        best = objective(full, signs, costs, reference(full, Y[:, label], costs, loss), loss)
        assert objective(full, signs, costs, weights[label], loss) <= best * 1.02


@pytest.mark.parametrize("loss", LOSSES)
def test_label_that_every_row_has_gets_a_high_probability(loss: str) -> None:
    X, Y = problem(7)
    Y[:, 0] = 1
    model, _ = one_node(X, Y, loss=loss, C=10.0)
    assert (model.top(X, k=1).labels[:, 0] == 0).mean() > 0.5
    assert model.predict_proba(X)[:, [0]].toarray().min() > 0.9


@pytest.mark.parametrize("threshold", [1e-3, 0.05, 0.2, 10.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_threshold_drops_exactly_the_weights_below_it(loss: str, threshold: float) -> None:
    X, Y = problem(8)
    _, every = one_node(X, Y, loss=loss)
    model, kept = one_node(X, Y, loss=loss, weight_threshold=threshold)
    size = np.abs(every[:, :-1])
    # What the solver compares is not rounded yet.
    clear = np.abs(size - threshold) > ROUNDING * threshold
    expected = np.where(size >= threshold, every[:, :-1], 0)
    np.testing.assert_array_equal(kept[:, :-1][clear], expected[clear])
    np.testing.assert_array_equal(kept[:, -1], every[:, -1])
    assert model.describe()["weights"] == np.count_nonzero(kept[:, :-1])


def test_other_seeds_give_the_same_optimum() -> None:
    X, Y = problem(9)
    _, first = one_node(X, Y, random_state=1)
    _, second = one_node(X, Y, random_state=2)
    np.testing.assert_allclose(first, second, rtol=2 * ROUNDING, atol=2e-3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [1e-300, 1e-30, 1e-6, 1e6, 1e30, 1e300])
def test_extreme_costs_give_finite_weights(C: float, loss: str) -> None:
    X, Y = problem(10)
    model, weights = one_node(X, Y, loss=loss, C=C, max_passes=100)
    assert np.isfinite(weights).all()
    assert np.isfinite(model.top(X, k=5).probability).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_tiny_sample_weight_counts_as_almost_nothing(loss: str) -> None:
    X, Y = problem(11)
    Y[:5] = 1
    costs = np.ones(X.shape[0])
    costs[5:25] = 1e-40
    _, tiny = one_node(X, Y, loss=loss, sample_weight=costs)
    _, none = one_node(X, Y, loss=loss, sample_weight=np.where(costs < 1, 0, 1))
    np.testing.assert_allclose(tiny, none, rtol=2 * ROUNDING, atol=2e-3)
