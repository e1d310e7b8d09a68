"""A floor under the search of ensembles: what is left out is improbable, and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dense_oracle import node_log_probabilities, random_problem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.stats import entropy

import hedgerow
from hedgerow import HedgerowClassifier, Votes
from hedgerow.inputs.parameters import ParameterError
from hedgerow.inputs.search import FLOOR, SURE_LABELS
from hedgerow.storage.container import read_model

pytestmark = pytest.mark.simd

FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
ROUNDING = 1e-3  # of logarithms: float32 in the engine, float64 in the oracle
problems = {
    "seed": st.integers(0, 2**31),
    "rows": st.integers(5, 40),
    "features": st.integers(1, 60),
    "labels": st.integers(1, 120),
    "branching": st.integers(2, 9),
    "leaf_size": st.integers(1, 30),
    "loss": st.sampled_from(["squared_hinge", "logistic"]),
    "members": st.integers(2, 5),
    "beam": st.integers(1, 40),
    "floor": st.sampled_from([0.5, 0.1, 1e-2, 1e-3, 1e-4]),
}

Floats = npt.NDArray[np.float64]


def fitted(
    seed: int, rows: int, features: int, labels: int, **parameters: Any
) -> tuple[HedgerowClassifier, csr_array]:
    X, Y = random_problem(seed, rows, features, labels)
    model = HedgerowClassifier(method="bagging", random_state=seed, n_jobs=1, **parameters)
    return model.fit(X, Y), X


def said_by_members(model: HedgerowClassifier, X: Any) -> Floats:
    """Probabilities of all labels, (rows, labels, members), 0 for labels that a tree does not have."""
    trees = model.model_.forest.trees
    said = np.zeros((X.shape[0], len(model.classes_), len(trees)))
    for member, trained in enumerate(trees):
        logs = node_log_probabilities(trained, X, trained.tree.depth)
        said[:, trained.tree.labels, member] = np.exp(logs)
    return said


def dense(votes: Votes) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Votes on all labels, 0 where there are none, and which labels are candidates."""
    rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
    said = np.zeros((len(votes), votes.n_labels, votes.probs.shape[1]))
    said[rows, votes.labels] = votes.probs
    candidates = np.zeros(said.shape[:2], dtype=bool)
    candidates[rows, votes.labels] = True
    return said, candidates


@FEW
@given(**problems)
def test_vote_on_a_candidate_is_what_the_member_says_or_0_where_that_is_below_the_floor(
    **problem: Any,
) -> None:
    model, X = fitted(**problem)
    found, candidates = dense(model.predict_votes(X[:8]))
    truth = said_by_members(model, X[:8])
    left_out = (found == 0) & (truth > 1e-35)
    kept = candidates[..., None] & ~left_out & (truth > 1e-35)
    np.testing.assert_allclose(np.log(found[kept]), np.log(truth[kept]), rtol=0, atol=3e-3)
    assert (truth[left_out & candidates[..., None]] < problem["floor"] * (1 + ROUNDING)).all()


@FEW
@given(**problems)
def test_label_that_a_member_gives_the_floor_is_a_candidate_where_the_beam_is_wide(**problem: Any) -> None:
    model, X = fitted(**problem | {"beam": 10_000})
    _, candidates = dense(model.predict_votes(X[:8]))
    assert candidates[(said_by_members(model, X[:8]) > problem["floor"] * (1 + ROUNDING)).any(axis=2)].all()


@FEW
@given(missing=st.sampled_from(["exact", "delta", "bound"]), **problems)
def test_no_probability_and_no_total_is_further_off_than_certified_with_a_floor(
    missing: str, **problem: Any
) -> None:
    model, X = fitted(**problem, missing=missing)
    truth = said_by_members(model, X[:8]).mean(axis=2)
    votes = model.predict_votes(X[:8])
    found = model.predict_uncertain(X[:8], k=1).instance
    np.testing.assert_array_equal(found.bound, votes.bound)
    np.testing.assert_array_equal(found.missed, votes.missed)
    mean = dense(votes)[0].mean(axis=2)
    assert (np.abs(mean - truth).max(axis=1) <= found.bound + 1e-5).all()
    total = entropy([truth, 1 - truth], axis=0).sum(axis=1)
    assert (np.abs(found.total - total) <= found.missed + 1e-3 * (1 + total)).all()


@FEW
@given(share=st.floats(0, 1), **problems)
def test_any_number_of_labels_is_found_under_any_floor(share: float, **problem: Any) -> None:
    model, X = fitted(**problem | {"floor": 0.99})
    k = 1 + int(share * (min(len(tree.tree.labels) for tree in model.model_.forest.trees) - 1))
    found = model.predict_uncertain(X, k=k)
    assert all(len(set(labels)) == k for labels in found.labels.tolist())


def test_answers_for_few_labels_are_the_same_for_any_number_of_them_and_are_found_in_votes() -> None:
    model, X = fitted(3, 60, 40, 100, members=4, branching=3, leaf_size=4, floor=0.99)
    votes = model.predict_votes(X)
    few, many = model.predict_uncertain(X, 1), model.predict_uncertain(X, SURE_LABELS)
    assert np.diff(votes.indptr).min() >= SURE_LABELS
    np.testing.assert_array_equal(few.labels, many.labels[:, :1])
    assert few.probability.tobytes() == many.probability[:, :1].tobytes()
    assert few.instance.total.tobytes() == many.instance.total.tobytes()
    assert model.source.finds(SURE_LABELS)
    assert not model.source.finds(SURE_LABELS + 1)


@FEW
@given(threads=st.integers(1, 3), missing=st.sampled_from(["exact", "delta", "bound"]), **problems)
def test_search_with_a_floor_gives_the_same_bits_in_any_batch_and_number_of_threads(
    threads: int, missing: str, **problem: Any
) -> None:
    model, X = fitted(**problem, missing=missing)
    whole = model.predict_votes(X)
    model.set_params(n_jobs=threads)
    assert model.predict_votes(X).probs.tobytes() == whole.probs.tobytes()
    for row in range(min(4, X.shape[0])):
        alone = model.predict_votes(X[row : row + 1])
        own = slice(whole.indptr[row], whole.indptr[row + 1])
        np.testing.assert_array_equal(alone.labels, whole.labels[own])
        assert alone.probs.tobytes() == whole.probs[own].tobytes()


def test_floor_leaves_out_what_the_beam_alone_looks_at() -> None:
    model, X = fitted(3, 60, 40, 400, members=4, branching=3, leaf_size=4, floor=0.05)
    narrow = np.diff(model.predict_votes(X).indptr)
    wide = np.diff(model.set_params(floor=0.0).predict_votes(X).indptr)
    assert (narrow < wide).all()


@pytest.mark.parametrize("way", [{"candidates": "all"}, {"beam": 10_000, "floor": 0.0}])
def test_search_through_all_labels_has_no_floor(way: dict[str, Any]) -> None:
    model, X = fitted(3, 60, 40, 100, members=4, branching=3, leaf_size=4, floor=0.05)
    votes = model.set_params(**way).predict_votes(X)
    np.testing.assert_allclose(dense(votes)[0], said_by_members(model, X), rtol=0, atol=1e-5)
    assert votes.bound is not None
    assert (votes.bound == 0).all()


def test_tolerance_below_the_floor_is_kept() -> None:
    model, X = fitted(3, 60, 40, 100, members=4, branching=3, leaf_size=4, floor=0.05)
    assert model.predict_votes(X).bound.max() > 1e-3  # type: ignore[union-attr]
    assert model.predict_votes(X, tolerance=1e-3).bound.max() <= 1e-3 * (1 + ROUNDING)  # type: ignore[union-attr]


def test_single_model_has_no_floor_in_file_or_search(tmp_path: Path) -> None:
    X, Y = random_problem(3, 60, 40, 100)
    model = HedgerowClassifier(random_state=0).fit(X, Y)
    assert model.source.search.floor == 0
    model.save(tmp_path / "model")
    assert "floor" not in read_model(tmp_path / "model").header["parameters"]
    assert hedgerow.load(tmp_path / "model").floor == FLOOR


@pytest.mark.parametrize("floor", [FLOOR, 0.01, 0.0])
def test_file_of_an_ensemble_keeps_its_floor_and_without_one_has_none(floor: float, tmp_path: Path) -> None:
    model, X = fitted(3, 60, 40, 100, members=2, floor=floor)
    model.save(tmp_path / "model")
    assert read_model(tmp_path / "model").header["parameters"].get("floor", 0.0) == floor
    assert ("floor" in read_model(tmp_path / "model").header["parameters"]) == (floor > 0)
    again = hedgerow.load(tmp_path / "model")
    assert again.floor == again.source.search.floor == floor
    assert again.predict_votes(X).probs.tobytes() == model.predict_votes(X).probs.tobytes()


def test_policy_refuses_a_search_with_another_floor(tmp_path: Path) -> None:
    X, Y = random_problem(3, 600, 40, 20)
    model = HedgerowClassifier(method="bagging", members=3, floor=0.01, random_state=0).fit(X[:300], Y[:300])
    new = 300 + np.flatnonzero(np.diff(X.indptr)[300:])  # an empty input is among the first 300, too
    model.learn_policy(X[new], Y[new])
    model.save(tmp_path / "model")
    again = hedgerow.load(tmp_path / "model")
    again.decide(X[:3], missed_at_most=0.9)
    with pytest.raises(ValueError, match=r"floor is 0\.0, but the policy was learned with 0\.01"):
        again.set_params(floor=0.0).decide(X[:3], missed_at_most=0.9)


@pytest.mark.parametrize("floor", [-0.1, 1, float("nan"), True, "low", None])
def test_floor_that_is_no_probability_is_refused(floor: Any) -> None:
    with pytest.raises(ParameterError, match="floor"):
        HedgerowClassifier(floor=floor).check_parameters()
