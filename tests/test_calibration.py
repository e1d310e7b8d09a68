"""Calibration: maps are what their definitions say, measures stay consistent, and bad data are refused."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit, logit
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import hedgerow
from hedgerow import (
    Calibration,
    HedgerowClassifier,
    HedgerowTextClassifier,
    Votes,
    instance_uncertainty,
    label_uncertainty,
)
from hedgerow.data.sample import load_sample
from hedgerow.evaluation import reliability
from hedgerow.judge.calibration import METHODS
from hedgerow.judge.maps import EDGES
from hedgerow.storage.container import Malformed, read_model, write_model
from hedgerow.training.data import drawn_for

SOME = settings(max_examples=25, deadline=None, derandomize=True)
KINDS = list(itertools.product(METHODS, ("all", "frequency"), ("mean", "members")))

Floats = npt.NDArray[np.float64]


def made_up(seed: int, rows: int = 400, labels: int = 12, members: int = 3) -> tuple[Votes, sp.csr_array]:
    """Members that scatter around a mean, which comes true as often as its square says."""
    draw = np.random.default_rng(seed)
    mean = draw.random((rows, labels)) ** 2
    probs = np.clip(mean[..., None] + 0.1 * draw.normal(size=(rows, labels, members)), 0, 1)
    truth = sp.csr_array(draw.random((rows, labels)) < probs.mean(axis=2) ** 2)
    indptr = np.arange(0, rows * labels + 1, labels)
    return Votes(indptr, np.tile(np.arange(labels), rows), probs.reshape(-1, members), labels), truth


def weights_of(p: Floats) -> Floats:
    """1 for the best five of each row, a twentieth for the others."""
    fifth = np.sort(p, axis=1)[:, -5:-4]
    return np.where(p >= fifth, 1.0, 0.05)


def map_of(calibration: Calibration, p: Floats, number: int = 0) -> Floats:
    """What a map makes of probabilities, in NumPy from its parameters."""
    if calibration.method == "isotonic":
        part = slice(*calibration.begins[number : number + 2].tolist())
        return np.interp(p, calibration.x[part], calibration.y[part])
    a, b, c = calibration.shape[number]
    inside = np.clip(p, 1e-300, 1 - 2.0**-25)
    return np.where(p > 0, expit(a * np.log(inside) - b * np.log1p(-inside) + c), 0.0)


@pytest.fixture(scope="module")
def data() -> tuple[sp.csr_array, sp.csr_array]:
    """Every row has the three labels that a linear model ranks highest."""
    draw = np.random.default_rng(3)
    X = draw.random((460, 40)) * (draw.random((460, 40)) < 0.3)
    X[:, 0] = 0.1 + draw.random(460)
    scores = X @ draw.normal(size=(40, 60))
    Y = scores >= np.sort(scores, axis=1)[:, -3:-2]
    return sp.csr_array(X.astype(np.float32)), sp.csr_array(Y.astype(np.int8))


@pytest.fixture(scope="module")
def model(data: tuple[sp.csr_array, sp.csr_array]) -> HedgerowClassifier:
    X, Y = data
    settings_ = {"members": 4, "random_state": 0, "leaf_size": 8, "branching": 3, "beam": 3}
    return HedgerowClassifier(method="bagging", **settings_).fit(X[:300], Y[:300])


def calibrated(model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array], **how: Any) -> Any:
    return model.uncalibrated().calibrate(data[0][300:], data[1][300:], **how)


# --- the maps -------------------------------------------------------------------------------------------


def test_isotonic_map_lies_on_the_blocks_of_scikit_learn() -> None:
    votes, truth = made_up(0)
    p = votes.mean().toarray().astype(np.float64)
    fitted = IsotonicRegression(y_min=0, y_max=1)
    fitted.fit(p.ravel(), truth.toarray().ravel(), sample_weight=weights_of(p).ravel())
    found = Calibration.learn(votes, truth)
    grid = np.linspace(0.05, 0.95, 200)
    # Straight between the centres of blocks, and bins of 1.5 % of the probability: not equal, but near.
    assert np.abs(map_of(found, grid) - fitted.predict(grid)).mean() < 0.02


@pytest.mark.parametrize("method", ["platt", "beta"])
def test_sigmoid_map_is_that_of_logistic_regression(method: str) -> None:
    votes, truth = made_up(1, rows=1500)
    p = np.clip(votes.mean().toarray().astype(np.float64), 2.0**-41, 1 - 2.0**-25)
    low, high = np.log(p).ravel(), -np.log1p(-p).ravel()
    features = np.column_stack([low, high] if method == "beta" else [low + high])
    peer = LogisticRegression(C=1e9, max_iter=1000, tol=1e-8)
    peer.fit(features, truth.toarray().ravel(), weights_of(p).ravel())
    expected = peer.predict_proba(features)[:, 1]
    found = map_of(Calibration.learn(votes, truth, method=method), p.ravel())
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_temperature_map_scales_logits_and_nothing_else() -> None:
    votes, truth = made_up(2)
    a, b, c = Calibration.learn(votes, truth, method="temperature").shape[0]
    assert (a, c) == (b, 0.0)


@pytest.mark.parametrize(("method", "by", "of"), KINDS)
def test_any_map_of_any_data_rises_strictly_from_0(method: str, by: str, of: str) -> None:
    for seed in range(3):
        votes, truth = made_up(seed, rows=60)
        found = Calibration.learn(votes, truth, method=method, by=by, of=of, label_values=np.arange(12))
        assert (found._tables[..., 0] == 0).all()
        assert (np.diff(found._tables) > 0).all()
        assert found._tables.max() <= 1


@pytest.mark.parametrize("truth", ["none of the first bins", "all of the last ones"])
def test_blocks_in_which_none_or_all_came_true_are_not_believed_to_the_end(truth: str) -> None:
    p = np.linspace(0.001, 0.999, 900).reshape(300, 3)
    votes = Votes(np.arange(0, 901, 3), np.tile([0, 1, 2], 300), p.reshape(-1, 1), 3)
    found = Calibration.learn(votes, sp.csr_array(p > 0.5))
    low, high = map_of(found, np.array([0.01, 0.99]))
    assert 0 < low < 0.01
    assert 0.99 < high < 1


def test_probabilities_too_high_are_mended() -> None:
    before, truth = made_up(4, rows=3000)
    other, came_true = made_up(5, rows=3000)
    after = Calibration.learn(before, truth).apply(other)
    right = came_true.toarray().ravel()
    assert reliability(other.mean().toarray().ravel(), right).ece > 0.1
    assert reliability(np.clip(after.mean().toarray(), 0, 1).ravel(), right).ece < 0.03


def test_groups_that_differ_get_maps_that_differ_and_small_ones_join_others() -> None:
    votes, truth = made_up(6, rows=1500)
    rare = truth.toarray()
    rare[:, :6] &= np.random.default_rng(0).random((1500, 6)) < 0.3
    found = Calibration.learn(votes, sp.csr_array(rare), by="frequency", label_values=np.arange(12))
    assert 2 <= found.groups <= 5
    assert (np.diff(found.group.astype(int)) >= 0).all()
    assert map_of(found, np.array([0.7]), 0)[0] < map_of(found, np.array([0.7]), found.groups - 1)[0] - 0.1
    few = Calibration.learn(votes[: 40 + 20], truth[:60], by="frequency", label_values=np.arange(12))
    assert few.groups < found.groups


def test_depth_of_a_single_tree_is_one_group(data: tuple[sp.csr_array, sp.csr_array]) -> None:
    X, Y = data
    model = HedgerowClassifier(random_state=0, leaf_size=8).fit(X[:300], Y[:300])
    by_depth = model.calibrate(X[300:], Y[300:], by="depth").calibration_
    assert by_depth.groups == 1
    np.testing.assert_array_equal(by_depth.y, model.calibrate(X[300:], Y[300:]).calibration_.y)


# --- what it does to votes ------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "by", "of"), KINDS)
def test_votes_move_as_the_formulas_say(method: str, by: str, of: str) -> None:
    votes, truth = made_up(7)
    how = {"method": method, "by": by, "of": of, "label_values": np.arange(12)}
    found = Calibration.learn(votes, truth, **how)
    p = votes.probs.astype(np.float64)
    group = found.group[votes.labels]
    expected = np.empty_like(p)
    for number in range(found.groups):
        here = group == number
        if of == "members":
            for member in range(votes.members):
                expected[here, member] = map_of(found, p[here, member], member * found.groups + number)
            continue
        mean = p[here].mean(axis=1, keepdims=True)
        g = map_of(found, mean, number)
        expected[here] = moved_in_odds(p[here], g)
    np.testing.assert_allclose(found.apply(votes).probs, expected, atol=6e-3)


def moved_in_odds(p: Floats, wanted: Floats) -> Floats:
    """Every row with its odds, of 2e-6 at least, multiplied by one factor so that the mean is as wanted."""
    own = logit(np.clip(p, 2e-6, 1 - 2.0**-20))
    shifts = np.array(
        [
            brentq(lambda shift, row=row, goal=goal: expit(row + shift).mean() - goal, -200, 200, xtol=1e-12)
            for row, goal in zip(own, np.clip(wanted.ravel(), 1e-30, 1 - 1e-12), strict=True)
        ]
    )
    return np.asarray(expit(own + shifts[:, None]))


def test_members_move_by_the_same_in_log_odds_to_the_mean_that_the_map_says() -> None:
    votes, truth = made_up(7)
    found = Calibration.learn(votes, truth)
    draw = np.random.default_rng(0)
    probs = expit(draw.normal(draw.normal(-3, 4, (500, 1)), 2, (500, 7))).astype(np.float32)
    asked = Votes(np.arange(0, 501, 10), np.tile(np.arange(10), 50), probs, 12)
    after = found.apply(asked).probs.astype(np.float64)
    # The engine reads maps at the edges of its bins.
    mean = probs.astype(np.float64).mean(axis=1)
    tables = np.interp(mean, EDGES, found._tables[0, 0])
    np.testing.assert_allclose(after.mean(axis=1), tables, rtol=2e-6)
    np.testing.assert_allclose(after, moved_in_odds(probs.astype(np.float64), tables), rtol=1e-4, atol=1e-6)


def test_disagreement_survives_where_a_linear_move_wipes_it_out() -> None:
    votes, truth = made_up(7)
    low = Calibration.learn(votes, truth, method="beta")
    risen = replace(low, shape=np.array([[1.0, 1.0, np.log(8.0)]]))
    disputed = Votes([0, 1], [0], [[0.001, 0.001, 0.001, 0.02]], 12)
    kept, lost = (label_uncertainty(one.apply(disputed)) for one in (risen, replace(risen, moves="linear")))
    np.testing.assert_allclose(kept.probability, lost.probability, rtol=1e-5)
    before = label_uncertainty(disputed)
    assert (kept.knowledge / kept.total)[0] > 0.8 * (before.knowledge / before.total)[0]
    assert (lost.knowledge / lost.total)[0] < 0.1 * (before.knowledge / before.total)[0]


@pytest.mark.parametrize(
    "votes",
    [
        [0, 0, 0],
        [1, 1, 1],
        [0, 0, 1],
        [0, 1, 1],
        [0, 1e-38, 1],
        [1e-38, 1e-38, 1e-45],
        [1 - 2.0**-24, 1, 1],
        [0.5, 0, 1],
        [-0.0, 0.3, 0.3],
    ],
)
@pytest.mark.parametrize("shift", [-9.0, -0.1, 0.0, 0.1, 9.0])
def test_certain_members_then_the_mean_is_still_what_the_map_says(votes: list[float], shift: float) -> None:
    learned, truth = made_up(0)
    found = replace(Calibration.learn(learned, truth, method="beta"), shape=np.array([[1.0, 1.0, shift]]))
    probs = np.array([votes], dtype=np.float32)
    after = found.apply(Votes([0, 1], [0], probs, 12)).probs[0].astype(np.float64)
    mean = np.float32(probs.astype(np.float64).mean())  # as the engine looks it up
    wanted = np.interp(mean, EDGES, found._tables[0, 0])
    assert ((after >= 0) & (after <= 1)).all()
    assert (np.diff(after[np.argsort(probs[0], kind="stable")]) >= 0).all()
    np.testing.assert_allclose(after.mean(), wanted, rtol=4e-6, atol=1e-37)


@pytest.mark.parametrize("members", [1, 2, 10])
def test_map_to_the_ends_then_all_members_are_certain(members: int) -> None:
    learned, truth = made_up(0)
    found = Calibration.learn(learned, truth)
    whole = replace(found, begins=np.array([0, 2]), x=np.array([0.0, 1.0]), y=np.array([0.0, 1.0]))
    for certain in (0.0, 1.0):
        probs = np.full((20, members), certain, dtype=np.float32)
        votes = Votes(np.arange(21), np.zeros(20, dtype=np.int32), probs, 12)
        np.testing.assert_array_equal(whole.apply(votes).probs, probs)


@pytest.mark.parametrize("members", [1, 3])
def test_calibration_of_an_earlier_version_then_members_move_as_they_did(members: int) -> None:
    votes, truth = made_up(7, members=members)
    found = Calibration.learn(votes, truth)
    header = found.to_header()
    assert header.pop("moves") == "log-odds"
    old = Calibration.from_sections(header, found.to_sections(), 12, members)
    assert old.moves == old.describe()["moves"] == "linear"
    assert old.to_header()["moves"] == "linear"
    p = votes.probs.astype(np.float64)
    mean = p.mean(axis=1, keepdims=True)
    g = map_of(found, mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        down, up = p * g / mean, 1 - (1 - p) * (1 - g) / (1 - mean)
    expected = np.where(mean == 0, 0, np.where(g <= mean, down, up))
    np.testing.assert_allclose(old.apply(votes).probs, expected, atol=6e-3)


def test_more_than_a_block_of_candidates_have_the_bits_of_each_alone() -> None:
    learned, truth = made_up(0, members=5)
    found = Calibration.learn(learned, truth)
    draw = np.random.default_rng(2)
    probs = (draw.random((20_000, 5)) ** draw.integers(1, 40, (20_000, 1))).astype(np.float32)
    votes = Votes(np.arange(0, 20_001, 10), np.tile(np.arange(10), 2000), probs, 12)
    whole = found.apply(votes, n_jobs=1).probs
    for threads in (2, 3):
        np.testing.assert_array_equal(found.apply(votes, n_jobs=threads).probs, whole)
    for size in (1, 7, 16, 333):
        parts = [found.apply(votes[begin : begin + size], n_jobs=1).probs for begin in range(0, 500, size)]
        joined = np.concatenate(parts)[:5000]
        np.testing.assert_array_equal(joined, whole[: len(joined)])


@SOME
@given(st.integers(0, 10**6), st.sampled_from(METHODS))
def test_mean_is_mapped_members_keep_their_order_and_measures_add_up(seed: int, method: str) -> None:
    votes, truth = made_up(seed % 7)
    found = Calibration.learn(votes, truth, method=method)
    draw = np.random.default_rng(seed)
    probs = draw.choice([0, 1e-30, 1e-6, 0.3, 0.999999, 1, *draw.random(3)], (200, 5)).astype(np.float32)
    asked = Votes(np.arange(0, 201, 10), np.tile(np.arange(10), 20), probs, 12)
    after = found.apply(asked)
    assert after.probs.min() >= 0
    assert after.probs.max() <= 1
    order = np.argsort(probs, axis=1, kind="stable")
    assert (np.diff(np.take_along_axis(after.probs, order, axis=1)) >= 0).all()
    means = probs.astype(np.float64).mean(axis=1)
    np.testing.assert_allclose(after.probs.mean(axis=1), map_of(found, means), atol=6e-3)
    measures = label_uncertainty(after)
    np.testing.assert_allclose(measures.total, measures.data + measures.knowledge)
    assert measures.knowledge.min() >= 0


@SOME
@given(st.integers(0, 10**6), st.sampled_from(KINDS))
def test_certificates_stay_valid(seed: int, kind: tuple[str, str, str]) -> None:
    votes, truth = made_up(seed % 5)
    method, by, of = kind
    found = Calibration.learn(votes, truth, method=method, by=by, of=of, label_values=np.arange(12))
    draw = np.random.default_rng(seed)
    whole = draw.random((50 * 12, 3)) ** draw.integers(1, 9)
    off = 10.0 ** draw.uniform(-9, 0, (50, 1, 1)) * draw.random((50, 12, 3))
    seen = np.maximum(whole.reshape(50, 12, 3) - off, 0).astype(np.float32)
    exact = whole.reshape(50, 12, 3).astype(np.float32)
    bound = (exact.astype(float) - seen).mean(axis=2).max(axis=1).astype(np.float32) * np.float32(1 + 1e-6)
    bound[0], seen[0] = 0, exact[0]

    def as_votes(probs: Any, bounds: Any) -> Votes:
        return Votes(
            np.arange(0, 601, 12), np.tile(np.arange(12), 50), probs.reshape(-1, 3), 12, bounds, bounds
        )

    after, truly = found.apply(as_votes(seen, bound)), found.apply(as_votes(exact, bound))
    assert after.bound is not None
    assert after.missed is not None
    apart = np.abs(truly.probs.mean(axis=1) - after.probs.mean(axis=1)).reshape(50, 12).max(axis=1)
    assert (apart <= after.bound + 1e-6).all()
    doubt = np.abs(instance_uncertainty(truly).total - instance_uncertainty(after).total)
    assert (doubt <= after.missed + 1e-5).all()
    assert after.bound[0] == after.missed[0] == 0


def test_learning_gives_the_same_bits_at_any_batch_size_and_number_of_threads() -> None:
    votes, truth = made_up(8)
    whole = Calibration.learn(votes, truth, n_jobs=1)
    for size, threads in ((7, 1), (64, 2), (400, 3)):
        parts = (votes[begin : begin + size] for begin in range(0, 400, size))
        again = Calibration.learn(parts, truth, n_jobs=threads)
        np.testing.assert_array_equal(again.x, whole.x)
        np.testing.assert_array_equal(again.y, whole.y)
        np.testing.assert_array_equal(
            again.apply(votes, n_jobs=threads).probs, whole.apply(votes, n_jobs=1).probs
        )


# --- the model ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "by", "of"), [*KINDS, ("isotonic", "depth", "mean")])
def test_everything_that_gives_probabilities_gives_the_same_calibrated_ones(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array], method: str, by: str, of: str
) -> None:
    X = data[0][300:]
    after = calibrated(model, data, method=method, by=by, of=of)
    votes, doubts, best = after.predict_votes(X), after.predict_uncertain(X, 5), after.top(X, 5)
    np.testing.assert_array_equal(votes.probs, after.calibration_.apply(model.predict_votes(X)).probs)
    np.testing.assert_array_equal(doubts.labels, best.labels)
    np.testing.assert_allclose(doubts.probability, best.probability, atol=1e-6)
    rows = np.arange(X.shape[0])[:, None]
    np.testing.assert_allclose(doubts.probability, votes.mean().toarray()[rows, doubts.labels], atol=1e-6)
    listed = after.predict_proba(X, k=5).toarray()
    np.testing.assert_allclose(listed[rows, best.labels], best.probability, atol=1e-6)
    sure = after.predict(X).toarray()
    np.testing.assert_array_equal(sure, after.predict_proba(X).toarray() >= 0.5)
    measures = label_uncertainty(votes)
    dense = sp.csr_array((measures.knowledge, votes.labels, votes.indptr), shape=(X.shape[0], votes.n_labels))
    np.testing.assert_allclose(doubts.knowledge, dense.toarray()[rows, doubts.labels], atol=1e-5)
    np.testing.assert_allclose(doubts.instance.total, instance_uncertainty(votes).total, rtol=1e-4)
    np.testing.assert_allclose(doubts.total, doubts.data + doubts.knowledge, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_global_map_leaves_labels_and_their_order_exactly_as_they_were(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array], method: str
) -> None:
    X = data[0]
    after = calibrated(model, data, method=method)
    np.testing.assert_array_equal(after.top(X, 10).labels, model.top(X, 10).labels)
    np.testing.assert_array_equal(
        after.predict_uncertain(X, 10).labels, model.predict_uncertain(X, 10).labels
    )
    np.testing.assert_array_equal(after.top(X, 3, exact=True).labels, model.top(X, 3, exact=True).labels)


@pytest.mark.parametrize("of", ["mean", "members"])
def test_calibrated_answers_have_the_same_bits_at_any_batch_size_and_number_of_threads(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array], of: str
) -> None:
    X = data[0][:50]
    after = calibrated(model, data, of=of)
    whole = after.set_params(n_jobs=1).predict_uncertain(X, 3)
    again = after.set_params(n_jobs=2).predict_uncertain(X, 3)
    parts = [after.predict_uncertain(X[row : row + 1], 3) for row in range(50)]
    for name in ("labels", "probability", "knowledge"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(again, name))
        np.testing.assert_array_equal(
            getattr(whole, name), np.concatenate([getattr(part, name) for part in parts])
        )
    np.testing.assert_array_equal(
        whole.instance.total, np.concatenate([part.instance.total for part in parts])
    )


def test_out_of_bag_asks_only_members_that_did_not_draw_the_input(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array]
) -> None:
    X, Y = data[0][:300], data[1][:300]
    unseen = np.empty((300, 4), dtype=bool)
    for member in range(4):
        draw = np.random.default_rng([0, member])
        draw.integers(2**62)
        unseen[:, member] = np.bincount(draw.integers(0, 300, 300), minlength=300) == 0
    votes = model.predict_votes(X)
    for of in ("mean", "members"):
        expected = Calibration.learn(votes, Y, of=of, allowed=unseen)
        found = model.uncalibrated().calibrate_out_of_bag(X, Y, of=of).calibration_
        np.testing.assert_array_equal(found.y, expected.y)
        # Two of four members is more than are expected to have missed an input.
        assert found.source == "out-of-bag"
        assert found.rows == ((unseen.sum(axis=1) >= 2).sum() if of == "mean" else 300)
    fewer = model.uncalibrated().calibrate_out_of_bag(X, Y, most=100).calibration_
    assert fewer.rows <= 100


def test_uncalibrated_copy_shares_the_members_and_leaves_the_model_calibrated(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array]
) -> None:
    after = calibrated(model, data)
    plain = after.uncalibrated()
    assert plain.model_.forest is after.model_.forest
    assert hasattr(after, "calibration_")
    assert not hasattr(plain, "calibration_")
    np.testing.assert_array_equal(plain.predict_votes(data[0]).probs, model.predict_votes(data[0]).probs)


def test_fitting_anew_and_adding_members_forget_the_calibration(
    data: tuple[sp.csr_array, sp.csr_array],
) -> None:
    X, Y = data
    model = HedgerowClassifier(method="bagging", members=2, random_state=0).fit(X[:300], Y[:300])
    model.calibrate(X[300:], Y[300:])
    model.add_members(X[:300], Y[:300], 1)
    assert not hasattr(model, "calibration_")
    model.calibrate_out_of_bag(X[:300], Y[:300])
    assert not hasattr(model.fit(X[:300], Y[:300]), "calibration_")


@pytest.mark.parametrize(("method", "by", "of"), KINDS)
def test_file_keeps_calibration_and_training_record(
    model: HedgerowClassifier,
    data: tuple[sp.csr_array, sp.csr_array],
    tmp_path: Path,
    method: str,
    by: str,
    of: str,
) -> None:
    after = calibrated(model, data, method=method, by=by, of=of)
    after.save(tmp_path / "model")
    for again in (hedgerow.load(tmp_path / "model"), pickle.loads(pickle.dumps(after)), copy.deepcopy(after)):
        np.testing.assert_array_equal(again.predict_votes(data[0]).probs, after.predict_votes(data[0]).probs)
        assert again.describe()["calibration"] == after.describe()["calibration"]
        np.testing.assert_array_equal(again.seen_in_training(data[0]), np.arange(460) < 300)
    assert after.describe()["calibration"]["method"] == method
    assert model.describe()["calibration"] is None


def test_texts_are_calibrated_and_known_again() -> None:
    sample = load_sample()
    texts, labels = sample.train_texts[:500], sample.train_labels[:500]
    model = HedgerowTextClassifier(method="bagging", members=3, random_state=0, leaf_size=10)
    model.fit(iter(texts), labels)
    others = sample.train_texts[500:800]
    np.testing.assert_array_equal(model.seen_in_training([*texts[:3], *others[:3]]), [True] * 3 + [False] * 3)
    plain = model.top(others, 5)
    model.calibrate([texts[0], *others], [labels[0], *sample.train_labels[500:800]])
    assert model.calibration_.seen == 1
    assert model.calibration_.rows == 300
    np.testing.assert_array_equal(model.top(others, 5).labels, plain.labels)
    assert (model.top(others, 5).probability != plain.probability).any()
    assert model.calibrate_out_of_bag(texts, labels).calibration_.source == "out-of-bag"


# --- bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["calibrate", "calibrate_out_of_bag"])
def test_model_that_is_not_fitted_is_refused(call: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(HedgerowClassifier(), call)(sp.csr_array((60, 4)), sp.csr_array((60, 4)))
    with pytest.raises(NotFittedError):
        getattr(HedgerowTextClassifier(), call)(["a text"] * 60, [["a"]] * 60)


def test_data_seen_in_training_are_refused_with_their_number_and_the_way_out(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array]
) -> None:
    X, Y = data
    with pytest.raises(ValueError, match=r"trained on 100 of the 260 inputs.*calibrate_out_of_bag"):
        model.calibrate(X[200:], Y[200:])
    found = model.uncalibrated().calibrate(X[293:], Y[293:]).calibration_
    assert (found.seen, found.rows) == (7, 160)
    assert not hasattr(model, "calibration_")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, Y: (X[:49], Y[:49], {}), "49 inputs with .* at least 50"),
        (lambda X, Y: (X, sp.csr_array(Y.shape), {}), "with 0 true labels"),
        (lambda X, Y: (X[:80], Y, {}), "there are 80 inputs, but labels for 160"),
        (lambda X, Y: (X[:, :7], Y, {}), "X has 7 features, but the model is expecting 40"),
        (lambda X, Y: (X, Y[:, :9], {}), "Y has 9 columns, but the model knows 60"),
        (lambda X, Y: (X * np.nan, Y, {}), "NaN"),
        (lambda X, Y: (X, Y * np.nan, {}), "NaN"),
        (lambda X, Y: (X, [["oak"]] * 160, {}), "none of the labels is known"),
        (lambda X, Y: (X, Y, {"method": "spline"}), "method is 'spline'; choose from 'isotonic'"),
        (lambda X, Y: (X, Y, {"by": "colour"}), "by is 'colour'"),
        (lambda X, Y: (X, Y, {"of": "median"}), "of is 'median'"),
    ],
)
def test_unfit_data_are_refused(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array], change: Any, message: str
) -> None:
    X, Y, how = change(data[0][300:], data[1][300:])
    with pytest.raises(ValueError, match=message):
        model.calibrate(X, Y, **how)
    assert not hasattr(model, "calibration_")


def test_out_of_bag_is_refused_without_bootstrap_and_with_other_data(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array]
) -> None:
    X, Y = data[0][:300], data[1][:300]
    for method in ("single", "boosting", "mc-dropout"):
        other = HedgerowClassifier(method=method, members=2, random_state=0).fit(X, Y)
        with pytest.raises(ValueError, match=r"on all training data.*use held-out data"):
            other.calibrate_out_of_bag(X, Y)
    swapped = np.r_[1, 0, 2:300]
    for inputs, labels in ((X[:299], Y[:299]), (X[swapped], Y[swapped]), (X, Y[swapped]), (X * 2, Y)):
        with pytest.raises(ValueError, match="not the data that the model was fitted to"):
            model.calibrate_out_of_bag(inputs, labels)
    with pytest.raises(ValueError, match="most is 0"):
        model.calibrate_out_of_bag(X, Y, most=0)


def test_votes_of_another_model_are_refused() -> None:
    votes, truth = made_up(9)
    found = Calibration.learn(votes, truth, of="members")
    with pytest.raises(ValueError, match="for 12 labels, but the votes have 5"):
        found.apply(Votes([0, 1], [0], [[0.5] * 3], 5))
    with pytest.raises(ValueError, match="a map for each of 3 members, but 2 vote"):
        found.apply(Votes([0, 1], [0], [[0.5] * 2], 12))
    with pytest.raises(ValueError, match="votes on 400 inputs, but Y has 401"):
        Calibration.learn(votes, sp.csr_array((401, 12)))
    with pytest.raises(ValueError, match="does not know the frequency of its labels"):
        Calibration.learn(votes, truth, by="frequency")


def test_model_without_a_record_loads_cannot_tell_what_it_saw_and_says_so(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array], tmp_path: Path
) -> None:
    model.save(tmp_path / "model")
    file = read_model(tmp_path / "model")
    sections, header = dict(file.sections), json.loads(json.dumps(file.header))
    del sections["seen"], header["training"], sections["label_counts"]
    write_model(tmp_path / "old", sections, header)
    old = hedgerow.load(tmp_path / "old")
    assert not old.seen_in_training(data[0]).any()
    old.calibrate(*data)
    with pytest.raises(ValueError, match="does not know its training data"):
        old.calibrate_out_of_bag(data[0][:300], data[1][:300])
    with pytest.raises(ValueError, match="does not know how often its labels occur"):
        old.calibrate(*data, by="frequency")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s, h: h["calibration"].update(method="spline"), "unknown method 'spline'"),
        (lambda s, h: h["calibration"].update(of=["mean"]), "unknown of"),
        (lambda s, h: h["calibration"].update(moves="sideways"), "unknown moves 'sideways'"),
        (lambda s, h: h["calibration"].update(rows=-1), "impossible number -1 of rows"),
        (lambda s, h: h["calibration"].update(rows=True), "impossible number"),
        (lambda s, h: h["calibration"].update(fingerprint=3), "no fingerprint"),
        (lambda s, h: h["calibration"].update(colour="red"), "colour"),
        (lambda s, h: h["calibration"].pop("by"), "by"),
        (lambda s, h: h.update(calibration=[]), "whole model"),
        (lambda s, h: s.pop("calibration.x"), "calibration.x"),
        (lambda s, h: s.pop("calibration.group"), "calibration.group"),
        (lambda s, h: s.update({"calibration.group": np.full(60, 9, np.uint8)}), "do not fit the labels"),
        (lambda s, h: s.update({"calibration.limits": np.zeros((0, 2))}), "the wrong shape"),
        (lambda s, h: s.update({"calibration.y": np.full(5, np.nan)}), "not finite"),
        (lambda s, h: s.update({"calibration.y": s["calibration.y"][::-1].copy()}), "0 to 1|not rise"),
        (lambda s, h: s.update({"calibration.y": 2 * s["calibration.y"]}), "0 to 1|not rise"),
        (lambda s, h: s.update({"calibration.begins": np.arange(3)}), "the wrong shape"),
        (lambda s, h: s.update({"calibration.begins": s["calibration.begins"][::-1].copy()}), "cut wrongly"),
        (lambda s, h: h["calibration"].update(of="members"), "the wrong shape or number"),
        (lambda s, h: h["calibration"].update(method="beta"), "does not rise, or there are too few"),
        (lambda s, h: s.update({"seen": s["seen"][::-1].copy()}), "not ascending"),
        (lambda s, h: s.update({"seen": np.arange(301, dtype=np.uint64)}), "301 hashes for 300"),
        (lambda s, h: s.update({"seen": np.arange(3)}), "not ascending"),
        (lambda s, h: s.pop("seen"), "seen"),
        (lambda s, h: h["training"].update(seed="0"), "no sound fingerprint"),
        (lambda s, h: h["training"].pop("fingerprint"), "fingerprint"),
    ],
)
def test_crafted_file_is_refused(
    model: HedgerowClassifier,
    data: tuple[sp.csr_array, sp.csr_array],
    tmp_path: Path,
    change: Any,
    message: str,
) -> None:
    after = calibrated(model, data, by="frequency")
    assert after.calibration_.groups > 1
    after.save(tmp_path / "model")
    file = read_model(tmp_path / "model")
    sections, header = dict(file.sections), json.loads(json.dumps(file.header))
    change(sections, header)
    write_model(tmp_path / "crafted", sections, header)
    with pytest.raises(Malformed, match=message):
        hedgerow.load(tmp_path / "crafted")


@pytest.mark.parametrize("of", ["mean", "members"])
def test_negative_zeros_count_as_zeros(of: str) -> None:
    votes, truth = made_up(0)
    zeros = Votes(
        votes.indptr, votes.labels, np.where(votes.probs < 0.3, np.float32(0), votes.probs), votes.n_labels
    )
    below = Votes(
        votes.indptr, votes.labels, np.where(votes.probs < 0.3, np.float32(-0.0), votes.probs), votes.n_labels
    )
    assert np.signbit(below.probs).any()
    learned = [Calibration.learn(one, truth, of=of) for one in (zeros, below)]
    for calibration in learned:
        np.testing.assert_array_equal(calibration.apply(below).probs, learned[0].apply(zeros).probs)


def test_inputs_that_occur_twice_are_out_of_bag_only_where_both_are(
    data: tuple[sp.csr_array, sp.csr_array],
) -> None:
    X, Y = (sp.vstack([part[:300], part[:300]], format="csr") for part in data)
    model = HedgerowClassifier(method="bagging", members=10, random_state=0, leaf_size=8).fit(X, Y)
    drawn = [drawn_for(number, 0, Y, None, True)[1] for number in range(10)]
    unseen = np.column_stack([(costs[:300] + costs[300:]) == 0 for costs in drawn])
    allowed: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Calibration, "learn", lambda *_, allowed_=allowed, **how: allowed_.append(how["allowed"])
        )
        model.calibrate_out_of_bag(X, Y)
    np.testing.assert_array_equal(allowed[0], np.vstack([unseen, unseen]))


def test_small_probabilities_keep_their_digits_and_their_order() -> None:
    p = np.geomspace(1e-8, 1e-3, 500)[:, None] * np.array([0.5, 1.0, 1.5])
    votes = Votes(np.arange(501), np.zeros(500, dtype=np.int32), p, 12)  # an input each
    learned, truth = made_up(0)
    calibration = replace(
        Calibration.learn(learned, truth, method="beta"), shape=np.array([[1.0, 1.0, np.log(2.0)]])
    )
    mean = calibration.apply(votes).probs.astype(np.float64).mean(axis=1)
    np.testing.assert_allclose(mean, map_of(calibration, p.mean(axis=1)), rtol=2e-3)
    assert (np.diff(mean) > 0).all()
