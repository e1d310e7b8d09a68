"""Members vote as a walk through each of their trees says, and certificates hold.

The oracle of these tests reads the stored weights of every node and walks every tree of every member in
float64, for all labels; it shares nothing with the engine's search.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dense_oracle import dense_rows, random_problem
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, vstack
from scipy.special import entr
from sklearn.base import clone
from sklearn.svm import LinearSVC

import hedgerow
from hedgerow import (
    HedgerowClassifier,
    HedgerowTextClassifier,
    LabelTree,
    UncertainLabels,
    Votes,
    _native,
)
from hedgerow.storage.container import ModelFileError
from hedgerow.trees.forest import Ensemble
from hedgerow.trees.tree_model import TreeClassifier

FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
METHODS = ["single", "mc-dropout", "bagging", "boosting", "boosted-bagging"]
TRAINED = ["bagging", "boosting", "boosted-bagging"]
MEASURES = ["probability", "total", "data", "knowledge", "variance"]
DEEP: dict[str, Any] = {"floor": 0.0, "branching": 3, "leaf_size": 4, "n_jobs": 1}
TIGHT: dict[str, Any] = {"tolerance": 1e-4, "max_passes": 20_000, "weight_threshold": 0.0, "n_jobs": 1}

Floats = npt.NDArray[np.float64]


# --- the oracle -----------------------------------------------------------------------------------------


def walk(trained: TreeClassifier, X: Any) -> list[Floats]:
    """Log-probabilities (members, inputs, nodes) of every layer; the places of the labels come last."""
    rows = dense_rows(X, trained.normalize)
    layers = [np.zeros((trained.members, len(rows), 1))]
    for layer, begins in enumerate(trained.tree.begins):
        below = np.empty((trained.members, len(rows), int(begins[-1])))
        for node in range(len(begins) - 1):
            features, lanes, values, bias = trained.node_weights(layer, node)
            weights = np.zeros((len(bias), trained.features))
            weights[lanes, features] = values
            # All children of the first member, then all of the second, and so on.
            scores = (rows @ weights.T + bias).reshape(len(rows), trained.members, -1).transpose(1, 0, 2)
            if trained.transform == "l3-hinge":
                logs = -(np.maximum(0, 1 - scores) ** 3)
            else:
                logs = -np.logaddexp(0, -scores)
            below[:, :, begins[node] : begins[node + 1]] = layers[-1][:, :, [node]] + logs
        layers.append(below)
    return layers


def member_probabilities(model: HedgerowClassifier, X: Any) -> Floats:
    """What every member says of every label, (members, inputs, labels); 0 of labels that its tree lacks."""
    parts = []
    for trained in model.model_.forest.trees:
        places = np.exp(walk(trained, X)[-1])
        part = np.zeros((*places.shape[:2], len(model.classes_)))
        part[:, :, trained.tree.labels] = places
        parts.append(part)
    return np.concatenate(parts)


def known_labels(model: HedgerowClassifier) -> list[int]:
    return sorted({label for trained in model.model_.forest.trees for label in trained.tree.labels.tolist()})


def measures(probabilities: Floats) -> dict[str, Floats]:
    """The measures of the paper; the first axis are the members."""
    mean = probabilities.mean(axis=0)
    total = entr(mean) + entr(1 - mean)
    data = (entr(probabilities) + entr(1 - probabilities)).mean(axis=0)
    return {
        "probability": mean,
        "total": total,
        "data": data,
        "knowledge": total - data,
        "variance": probabilities.var(axis=0),
    }


def dense(votes: Votes) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Votes as an array (members, inputs, labels), and which labels are candidates."""
    rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
    candidates = np.zeros((len(votes), votes.n_labels), dtype=bool)
    candidates[rows, votes.labels] = True
    array = np.zeros((votes.members, len(votes), votes.n_labels))
    array[:, rows, votes.labels] = votes.probs.T
    return array, candidates


def met_by_beam(
    trained: TreeClassifier, X: Any, beam: int
) -> tuple[list[npt.NDArray[np.bool_]], npt.NDArray[Any]]:
    """The nodes that each input visits in every layer but the last, by the mean of the tree's members.

    Also for which inputs the choice is clear, so that rounding cannot change it.
    """
    layers = walk(trained, X)
    visits = [np.ones(layers[0].shape[1:], dtype=bool)]
    clear = np.ones(len(visits[0]), dtype=bool)
    for layer in range(1, trained.tree.depth):
        reached = np.repeat(visits[-1], np.diff(trained.tree.begins[layer - 1]), axis=1)
        means = np.where(reached, np.exp(layers[layer]).mean(axis=0), -1.0)
        order = np.argsort(-means, axis=1, kind="stable")
        chosen = np.zeros_like(reached)
        np.put_along_axis(chosen, order[:, :beam], True, axis=1)
        visits.append(chosen & reached)
        if means.shape[1] > beam:
            ranked = np.take_along_axis(means, order, axis=1)
            last, next_ = ranked[:, beam - 1], ranked[:, beam]
            clear &= (next_ < 0) | (last > next_ * (1 + 1e-3) + 1e-30)
    return visits, clear


# --- models to ask it about -----------------------------------------------------------------------------


def fitted(
    seed: int,
    *,
    method: str = "bagging",
    members: int = 4,
    spread: str = "own",
    labels: int = 60,
    **parameters: Any,
) -> tuple[HedgerowClassifier, csr_array]:
    """A model with trees of three or four layers, and inputs: seen, unseen, empty, and with every feature."""
    X, Y = random_problem(seed, 60, 30, labels)
    trees = {"own": None, "one": 1, "some": max(1, members // 2)}[spread]
    model = HedgerowClassifier(
        method=method, members=members, trees=trees, random_state=seed, **(DEEP | parameters)
    ).fit(X, Y)
    random = np.random.default_rng(seed + 1)
    unseen = random.normal(size=(5, 30)) * (random.random((5, 30)) < [[0], [1], [0.3], [0.3], [0.1]])
    return model, vstack([X[:7], csr_array(unseen.astype(np.float32))], format="csr")


problems: dict[str, Any] = {
    "seed": st.integers(0, 2**31),
    "method": st.sampled_from(["single", *TRAINED]),
    "members": st.integers(1, 5),
    "spread": st.sampled_from(["own", "one", "some"]),
    "labels": st.integers(40, 120),
    "loss": st.sampled_from(["squared_hinge", "logistic"]),
    "C": st.sampled_from([0.3, 1.0, 10.0]),
}
beams = st.integers(1, 5)
candidate_modes = st.sampled_from(["scored", 1, 3, 10])


def assert_measures(found: UncertainLabels, probabilities: Floats, candidates: npt.NDArray[np.bool_]) -> None:
    """The arrays are the measures of these votes, and the labels are the best of them."""
    n, k = found.labels.shape
    expected = measures(probabilities)
    rows = np.arange(n)[:, None]
    assert candidates[rows, found.labels].all()
    assert all(len(set(labels)) == k for labels in found.labels.tolist())
    for name in MEASURES:
        np.testing.assert_allclose(
            getattr(found, name), expected[name][rows, found.labels], rtol=1e-5, atol=1e-5, err_msg=name
        )
        of_input = getattr(found.instance, "expected" if name == "probability" else name)
        np.testing.assert_allclose(of_input, expected[name].sum(axis=1), rtol=2e-5, atol=5e-5, err_msg=name)
    best = -np.sort(-expected["probability"], axis=1)[:, :k]
    np.testing.assert_allclose(found.probability, best, rtol=1e-5, atol=1e-5)
    assert (np.diff(found.probability, axis=1) <= 0).all()


# --- what members say -----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize(
    ("method", "spread"),
    [("single", "own"), *((method, spread) for method in TRAINED for spread in ("own", "one", "some"))],
)
def test_votes_on_all_labels_are_what_a_walk_through_every_tree_gives(
    method: str, spread: str, loss: str
) -> None:
    model, X = fitted(7, method=method, spread=spread, loss=loss, labels=90, candidates="all", beam=1)
    trees = {"own": 4, "one": 1, "some": 2}[spread]
    assert len(model.model_.forest.trees) == (1 if method == "single" else trees)
    assert model.model_.forest.members == (1 if method == "single" else 4)
    assert all(trained.tree.depth >= 4 for trained in model.model_.forest.trees)
    votes = model.predict_votes(X)
    found, candidates = dense(votes)
    expected = member_probabilities(model, X)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(np.flatnonzero(candidates.any(axis=0)), known_labels(model))
    np.testing.assert_array_equal(candidates.all(axis=0), candidates.any(axis=0))
    assert found.max() > 0.1
    if method != "single":
        differences = [np.abs(found[0] - other).max() for other in found[1:]]
        assert min(differences) > 0.01, "two members are one"
    np.testing.assert_array_equal(votes.bound, 0)
    np.testing.assert_array_equal(votes.missed, 0)


@FEW
@given(share=st.floats(0, 1), **problems)
def test_measures_over_all_labels_are_the_formulas_over_a_dense_array(share: float, **problem: Any) -> None:
    model, X = fitted(**problem, candidates="all", beam=1)
    k = 1 + int(share * (model.model_.forest.known - 1))
    expected = member_probabilities(model, X)
    _, candidates = dense(model.predict_votes(X))
    assert_measures(model.predict_uncertain(X, k=k), expected, candidates)


@FEW
@given(
    beam=beams,
    candidates=st.sampled_from(["scored", "all", 1, 3, 10]),
    missing=st.sampled_from(["exact", "delta", "bound"]),
    **problems,
)
def test_measures_at_any_beam_are_those_of_the_votes(
    beam: int, candidates: str | int, missing: str, **problem: Any
) -> None:
    model, X = fitted(**problem, candidates=candidates, missing=missing, beam=beam)
    votes, found = model.predict_votes(X), model.predict_uncertain(X, k=1)
    array, chosen = dense(votes)
    assert_measures(found, array, chosen)
    np.testing.assert_array_equal(found.instance.bound, votes.bound)
    np.testing.assert_array_equal(found.instance.missed, votes.missed)


@FEW
@given(beam=beams, candidates=candidate_modes, **problems)
def test_missing_votes_gone_after_are_what_a_walk_through_every_tree_gives(
    beam: int, candidates: str | int, **problem: Any
) -> None:
    model, X = fitted(**problem, beam=beam, candidates=candidates, missing="exact")
    found, chosen = dense(model.predict_votes(X))
    expected = np.where(chosen, member_probabilities(model, X), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert chosen.any(axis=1).all()


@FEW
@given(beam=beams, **problems)
def test_candidates_are_the_labels_below_the_nodes_that_any_tree_visits_and_missing_votes_are_0(
    beam: int, **problem: Any
) -> None:
    model, X = fitted(**problem, beam=beam, missing="delta")
    found, chosen = dense(model.predict_votes(X))
    expected, clear = np.zeros_like(found), np.ones(len(chosen), dtype=bool)
    met, member = np.zeros_like(chosen), 0
    for trained in model.model_.forest.trees:
        visits, sure = met_by_beam(trained, X, beam)
        clear &= sure
        own = np.zeros_like(chosen)
        own[:, trained.tree.labels] = np.repeat(visits[-1], np.diff(trained.tree.begins[-1]), axis=1)
        met |= own
        places = np.exp(walk(trained, X)[-1])
        part = np.zeros((trained.members, *chosen.shape))
        part[:, :, trained.tree.labels] = places
        expected[member : member + trained.members] = np.where(own, part, 0)
        member += trained.members
    np.testing.assert_array_equal(chosen[clear], met[clear])
    np.testing.assert_allclose(found[:, clear], expected[:, clear], rtol=1e-4, atol=1e-5)
    # Where rounding may have chosen another way, a vote is still right or 0.
    exact = member_probabilities(model, X)
    assert ((np.abs(found - exact) <= 1e-5 + 1e-4 * exact) | (found == 0)).all()


@FEW
@given(beam=beams, candidates=candidate_modes, **problems)
def test_missing_votes_by_bound_are_the_probability_of_a_node_on_the_way(
    beam: int, candidates: str | int, **problem: Any
) -> None:
    model, X = fitted(**problem, beam=beam, candidates=candidates, missing="bound")
    found, chosen = dense(model.predict_votes(X))
    member = 0
    for trained in model.model_.forest.trees:
        layers = [np.exp(layer) for layer in walk(trained, X)]
        tree = trained.tree
        own = slice(member, member + trained.members)
        votes = found[own][:, :, tree.labels]
        among = np.broadcast_to(chosen[:, tree.labels], votes.shape)
        exact = layers[-1]
        assert (votes >= exact - 1e-6)[among].all()
        # From the label up to the root, one of the probabilities is the vote.
        node = np.arange(len(tree.labels))
        fits = np.zeros(votes.shape, dtype=bool)
        for layer in range(tree.depth, 0, -1):
            on_the_way = layers[layer][:, :, node]
            fits |= np.abs(votes - on_the_way) <= 1e-5 + 1e-4 * on_the_way
            node = np.searchsorted(tree.begins[layer - 1], node, side="right") - 1
        assert fits[among].all()
        others = np.setdiff1d(np.arange(found.shape[2]), tree.labels)
        assert (found[own][:, :, others] == 0).all()
        member += trained.members


def test_missing_votes_differ_by_what_stands_for_them() -> None:
    # Or the three tests above would compare nothing that is missing.
    found = {}
    for missing in ("exact", "delta", "bound"):
        model, X = fitted(3, members=4, labels=100, beam=2, missing=missing)
        found[missing], chosen = dense(model.predict_votes(X))
    delta = (found["delta"] == 0) & (found["exact"] > 0) & chosen
    assert delta.sum() > 0.2 * chosen.sum() * 4
    assert (found["bound"] > found["exact"] + 1e-3)[delta].any()
    np.testing.assert_array_equal(found["delta"][~delta], found["exact"][~delta])


@FEW
@given(beam=beams, count=st.integers(1, 12), **problems)
def test_a_number_of_candidates_with_delta_is_the_best_of_each_member_and_0_elsewhere(
    beam: int, count: int, **problem: Any
) -> None:
    model, X = fitted(**problem, beam=beam, candidates=count, missing="delta")
    found, chosen = dense(model.predict_votes(X))
    member = 0
    for trained in model.model_.forest.trees:
        # The beam grows where so many labels need more nodes.
        sizes = np.sort(np.diff(trained.tree.begins[-1]))
        enough = int(np.searchsorted(np.cumsum(sizes), min(count, len(trained.tree.labels)))) + 1
        visits, clear = met_by_beam(trained, X, max(beam, enough))
        met = np.repeat(visits[-1], np.diff(trained.tree.begins[-1]), axis=1)
        for logs in walk(trained, X)[-1]:
            for row in np.flatnonzero(clear):
                own = np.where(met[row], np.exp(logs[row]), -1)
                order = np.argsort(-own, kind="stable")
                if count < met[row].sum() and own[order[count - 1]] < own[order[count]] * (1 + 1e-3) + 1e-30:
                    continue
                best = order[: min(count, int(met[row].sum()))]
                expected = np.zeros(found.shape[2])
                expected[trained.tree.labels[best]] = own[best]
                np.testing.assert_allclose(found[member, row], expected, rtol=1e-4, atol=1e-5)
                assert chosen[row, trained.tree.labels[best]].all()
            member += 1
    assert member == len(found)
    assert (chosen.sum(axis=1) <= count * len(found)).all()


@pytest.mark.parametrize("candidates", ["scored", "all", 1, 5])
@pytest.mark.parametrize("missing", ["exact", "delta", "bound"])
@pytest.mark.parametrize("spread", ["own", "one"])
def test_exact_top_labels_are_the_best_of_all_whatever_the_candidates(
    spread: str, missing: str, candidates: str | int
) -> None:
    model, X = fitted(5, members=5, spread=spread, candidates=candidates, missing=missing, beam=1, labels=80)
    mean = member_probabilities(model, X).mean(axis=0)
    for k in (1, 6):
        found = model.top(X, k=k, exact=True)
        best = -np.sort(-mean, axis=1)[:, :k]
        np.testing.assert_allclose(found.probability, best, rtol=1e-4, atol=1e-5)
        own = np.take_along_axis(mean, found.labels, axis=1)
        np.testing.assert_allclose(own, best, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_top_labels_and_probabilities_are_those_of_the_uncertain_labels(method: str) -> None:
    model, X = fitted(6, method=method, beam=3)
    top, uncertain, matrix = model.top(X, k=7), model.predict_uncertain(X, k=7), model.predict_proba(X, k=7)
    np.testing.assert_array_equal(top.labels, uncertain.labels)
    np.testing.assert_array_equal(top.probability, uncertain.probability)
    expected = np.zeros(matrix.shape, dtype=np.float32)
    np.put_along_axis(expected, top.labels, top.probability, axis=1)
    np.testing.assert_array_equal(matrix.toarray(), expected)
    np.testing.assert_array_equal(model.predict(X).toarray(), model.predict_proba(X).toarray() >= 0.5)


def test_a_single_model_knows_no_knowledge_uncertainty() -> None:
    model, X = fitted(6, method="single")
    found = model.predict_uncertain(X, k=9)
    for part in (found, found.instance):
        np.testing.assert_array_equal(part.variance, 0)
        np.testing.assert_allclose(part.knowledge, 0, atol=1e-6)
        np.testing.assert_allclose(part.total, part.data, atol=1e-6)
    assert (found.instance.total > 0.01).all()


def test_names_of_labels_are_in_predictions_and_votes() -> None:
    X, Y = random_problem(8, 40, 20, 12)
    names = [f"label {number}" for number in range(12)]
    plain = HedgerowClassifier(method="bagging", members=3, random_state=0).fit(X, Y)
    named = HedgerowClassifier(method="bagging", members=3, random_state=0).fit(X, Y, classes=names)
    one, other = plain.predict_uncertain(X, k=3), named.predict_uncertain(X, k=3)
    assert other.labels.tolist() == [[names[label] for label in row] for row in one.labels.tolist()]
    np.testing.assert_array_equal(named.predict_votes(X).classes, named.classes_)


# --- certificates ---------------------------------------------------------------------------------------


def assert_certified(
    model: HedgerowClassifier, X: Any, truth: Floats, tolerance: float | None = None
) -> Votes:
    votes, found = (
        model.predict_votes(X, tolerance=tolerance),
        model.predict_uncertain(X, 1, tolerance=tolerance),
    )
    array, _ = dense(votes)
    assert votes.bound is not None
    assert votes.missed is not None
    off = np.abs(array.mean(axis=0) - truth.mean(axis=0)).max(axis=1)
    assert (off <= votes.bound + 1e-6).all(), (off - votes.bound).max()
    for bound, missed, total in (
        (votes.bound, votes.missed, measures(array)["total"].sum(axis=1)),
        (found.instance.bound, found.instance.missed, found.instance.total),
    ):
        np.testing.assert_array_equal(bound, votes.bound)
        off = np.abs(total - measures(truth)["total"].sum(axis=1))
        assert (off <= missed + 5e-5).all(), (off - missed).max()
    assert (votes.bound <= 1).all()
    return votes


@settings(FEW, max_examples=100)
@given(
    beam=beams,
    candidates=st.sampled_from(["scored", "scored", "all", 1, 3, 10]),
    missing=st.sampled_from(["exact", "delta", "bound"]),
    **problems,
)
def test_no_probability_and_no_total_is_further_off_than_certified(
    beam: int, candidates: str | int, missing: str, **problem: Any
) -> None:
    model, X = fitted(**problem, beam=beam, candidates=candidates, missing=missing)
    assert_certified(model, X, member_probabilities(model, X))


@FEW
@given(
    beam=beams,
    candidates=candidate_modes,
    missing=st.sampled_from(["exact", "delta", "bound"]),
    seed=st.integers(0, 2**31),
)
def test_certificates_of_dropout_hold_against_its_votes_on_all_labels(
    beam: int, candidates: str | int, missing: str, seed: int
) -> None:
    model, X = fitted(seed, method="mc-dropout", beam=beam, candidates="all", dropout=0.2)
    truth, _ = dense(model.predict_votes(X))
    assert_certified(model.set_params(candidates=candidates, missing=missing), X, truth)


@FEW
@given(
    beam=beams,
    missing=st.sampled_from(["exact", "delta", "bound"]),
    tolerance=st.sampled_from([0.3, 0.05, 0.01, 1e-3, 1e-5]),
    **problems,
)
@example(
    beam=1,
    missing="exact",
    tolerance=0.05,
    seed=1,
    method="bagging",
    members=5,
    spread="some",
    labels=40,
    loss="squared_hinge",
    C=1.0,
)
def test_search_with_a_tolerance_goes_on_until_it_is_certified(
    beam: int, missing: str, tolerance: float, **problem: Any
) -> None:
    model, X = fitted(**problem, beam=beam, missing=missing)
    truth = member_probabilities(model, X)
    votes = assert_certified(model, X, truth, tolerance)
    assert votes.bound is not None
    assert (votes.bound <= tolerance * (1 + 1e-4)).all()


@pytest.mark.parametrize("missing", ["exact", "delta", "bound"])
@pytest.mark.parametrize("spread", ["own", "one", "some"])
def test_search_with_a_tolerance_visits_no_more_than_it_must(spread: str, missing: str) -> None:
    model, X = fitted(9, spread=spread, labels=120, beam=1, missing=missing)
    assert_same_votes(model.predict_votes(X, tolerance=1), model.predict_votes(X))
    sizes = [len(model.predict_votes(X, tolerance=t).labels) for t in (1, 0.3, 0.01, 1e-4, 0)]
    for fewer, more in pairwise(sizes):
        assert fewer < more
    assert sizes[0] < 0.2 * sizes[-1]
    assert sizes[-1] == X.shape[0] * len(known_labels(model))


@FEW
@given(beam=beams, missing=st.sampled_from(["exact", "delta", "bound"]), **problems)
# Members that share a tree give some nodes a probability too small for float32.
@example(
    beam=1,
    missing="exact",
    seed=0,
    method="boosting",
    members=2,
    spread="one",
    labels=40,
    loss="squared_hinge",
    C=10.0,
)
def test_search_with_no_tolerance_at_all_is_the_search_through_all_labels(
    beam: int, missing: str, **problem: Any
) -> None:
    model, X = fitted(**problem, beam=beam, missing=missing)
    votes, found = model.predict_votes(X, tolerance=0), model.predict_uncertain(X, k=3, tolerance=0)
    model.set_params(candidates="all")
    assert_same_votes(votes, model.predict_votes(X))
    assert_same_labels(found, model.predict_uncertain(X, k=3))


def test_certificates_are_not_idle() -> None:
    # Bounds that are always 1, or beams that always see everything, would pass the tests above.
    model, X = fitted(4, labels=120, beam=2)
    truth = member_probabilities(model, X).mean(axis=0)
    votes = model.predict_votes(X)
    _, chosen = dense(votes)
    assert votes.bound is not None
    assert votes.bound.min() > 0
    assert votes.bound.max() < 1
    assert chosen.mean() < 0.6
    lost = np.where(chosen, 0, truth).max(axis=1)
    assert (lost > 0.1 * votes.bound).any(), "the bound is far from what was missed everywhere"
    wide = model.set_params(beam=1000).predict_votes(X)
    np.testing.assert_array_equal(wide.bound, 0)
    np.testing.assert_array_equal(wide.missed, 0)


# --- dropout --------------------------------------------------------------------------------------------


def logits_of_dropout(passes: int, share: float) -> tuple[Floats, Floats, Floats]:
    """Logits of each pass over a tree of one layer, those of the whole, and sums of their squared terms."""
    X, Y = random_problem(12, 60, 40, 10, density=0.5)
    model = HedgerowClassifier(
        method="mc-dropout", members=passes, dropout=share, loss="logistic", random_state=0
    ).fit(X, Y)
    trained = model.model_.forest.trees[0]
    assert trained.tree.depth == 1
    rows = dense_rows(X)
    # Some inputs have no features, and with nothing to drop they say nothing here.
    rows, X = rows[(rows != 0).sum(axis=1) > 5], X[(rows != 0).sum(axis=1) > 5]
    array, _ = dense(model.predict_votes(X))
    features, lanes, values, bias = trained.node_weights(0, 0)
    weights = np.zeros((10, 40))
    weights[trained.tree.labels[lanes], features] = values
    biases = np.zeros(10)
    biases[trained.tree.labels] = bias
    return np.log(array) - np.log1p(-array), rows @ weights.T + biases, rows**2 @ (weights**2).T


def test_dropout_leaves_the_mean_of_logits_as_it_is_and_spreads_them_by_the_share_that_is_dropped() -> None:
    share = 0.1
    found, whole, squares = logits_of_dropout(1500, share)
    # A term t is dropped with this share, or scaled up so that its mean stays: a variance of
    # t² share / (1 - share).
    spread = np.sqrt(squares * share / (1 - share))
    assert spread.min() > 1e-3
    assert (np.abs(found.mean(axis=0) - whole) < 5 * spread / np.sqrt(1500)).all()
    ratio = found.std(axis=0) / spread
    assert 0.97 < ratio.mean() < 1.03
    assert (np.abs(ratio - 1) < 0.25).all()


def test_dropout_of_many_passes_has_a_mean_close_to_the_single_model() -> None:
    single, X = fitted(13, method="single", candidates="all")
    many, _ = fitted(13, method="mc-dropout", members=800, dropout=0.02, candidates="all")
    one, mean = single.predict_votes(X).mean().toarray(), many.predict_votes(X).mean().toarray()
    assert np.abs(one - mean).max() < 0.03
    array, _ = dense(many.predict_votes(X))
    assert len({votes.tobytes() for votes in array}) == 800, "two passes are one"


def test_dropout_of_next_to_nothing_gives_what_the_single_model_gives() -> None:
    single, X = fitted(13, method="single", beam=3)
    tiny, _ = fitted(13, method="mc-dropout", members=3, dropout=1e-12, beam=3)
    expected, found = single.predict_votes(X), tiny.predict_votes(X)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_allclose(found.probs, np.repeat(expected.probs, 3, axis=1), rtol=1e-5, atol=1e-7)
    instance = tiny.predict_uncertain(X).instance
    np.testing.assert_allclose(instance.knowledge, 0, atol=1e-5)
    np.testing.assert_allclose(instance.variance, 0, atol=1e-10)


def test_dropout_with_another_seed_drops_other_weights() -> None:
    model, X = fitted(14, method="mc-dropout", members=4, candidates="all")
    same, _ = fitted(14, method="mc-dropout", members=4, candidates="all")
    assert_same_votes(model.predict_votes(X), same.predict_votes(X))
    assert model.model_.forest.dropout is not None
    before = model.predict_votes(X).probs
    forest = model.model_.forest
    other = Ensemble(forest.trees, forest.labels, replace(forest.dropout, seed=15))
    model.model_ = replace(model.model_, forest=other)
    after = model.predict_votes(X).probs
    assert np.abs(before - after).max() > 1e-3
    assert not any((before[:, [i]] == after).all(axis=0).any() for i in range(4))


# --- the same bits --------------------------------------------------------------------------------------


def assert_same_votes(found: Votes, expected: Votes) -> None:
    for name in ("indptr", "labels", "probs", "bound", "missed"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes(), name


def assert_same_labels(found: UncertainLabels, expected: UncertainLabels) -> None:
    np.testing.assert_array_equal(found.labels, expected.labels)
    for name in MEASURES:
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name
    for name, values in vars(expected.instance).items():
        assert getattr(found.instance, name).tobytes() == values.tobytes(), f"instance.{name}"


def joined(parts: list[UncertainLabels]) -> UncertainLabels:
    instances = [part.instance for part in parts]
    return UncertainLabels(
        np.concatenate([part.labels for part in parts]),
        *(np.concatenate([getattr(part, name) for part in parts]) for name in MEASURES),
        instance=type(instances[0])(
            *(np.concatenate([getattr(part, name) for part in instances]) for name in vars(instances[0]))
        ),
    )


ALL_KINDS = [
    ("single", "own"),
    ("mc-dropout", "own"),
    *((method, spread) for method in TRAINED for spread in ("own", "one", "some")),
]


@pytest.mark.parametrize(("method", "spread"), ALL_KINDS)
@pytest.mark.parametrize(
    ("candidates", "missing"),
    [("scored", "exact"), ("scored", "bound"), (5, "delta"), (5, "exact"), ("all", "exact")],
)
def test_votes_and_measures_at_any_batch_size_and_number_of_threads_are_the_same_bits(
    method: str, spread: str, candidates: str | int, missing: str
) -> None:
    model, X = fitted(21, method=method, spread=spread, beam=3, candidates=candidates, missing=missing)
    X = vstack([X, 2 * X[::-1], X[3:7]], format="csr")
    votes, found = model.predict_votes(X), model.predict_uncertain(X, k=4)
    n = X.shape[0]
    for threads in (1, 2, 3):
        model.set_params(n_jobs=threads)
        for size in (1, 7, n):
            pieces = [X[start : start + size] for start in range(0, n, size)]
            assert_same_votes(Votes.concatenate([model.predict_votes(piece) for piece in pieces]), votes)
            assert_same_labels(joined([model.predict_uncertain(piece, k=4) for piece in pieces]), found)


@pytest.mark.parametrize("missing", ["exact", "bound"])
def test_one_long_input_whose_trees_threads_share_gets_the_bits_of_one_thread(missing: str) -> None:
    X, Y = random_problem(26, 200, 3000, 400, density=0.4)
    model = HedgerowClassifier(
        method="bagging", members=5, leaf_size=4, branching=4, weight_threshold=0.01, beam=20, missing=missing
    ).fit(X, Y)
    whole, found = model.predict_votes(X[:4]), model.predict_uncertain(X[:4])
    assert np.diff(X.indptr[:5]).max() * 20 * 5 > 3 * 20_000  # enough work for three threads
    for threads in (1, 2, 3, 5):
        model.set_params(n_jobs=threads)
        rows = [X[row : row + 1] for row in range(4)]
        assert_same_votes(Votes.concatenate([model.predict_votes(row) for row in rows]), whole)
        assert_same_labels(joined([model.predict_uncertain(row) for row in rows]), found)


def file_of(model: HedgerowClassifier, folder: Path) -> bytes:
    path = folder / "model.hedgerow"
    model.save(path, overwrite=True)
    return path.read_bytes()


@pytest.mark.parametrize(("method", "spread"), ALL_KINDS)
def test_one_seed_gives_one_file_at_any_number_of_threads(method: str, spread: str, tmp_path: Path) -> None:
    files = [
        file_of(fitted(22, method=method, spread=spread, n_jobs=threads)[0], tmp_path)
        for threads in (1, 3, 1)
    ]
    assert files[0] == files[1] == files[2]
    assert file_of(fitted(23, method=method, spread=spread)[0], tmp_path) != files[0]


@pytest.mark.parametrize(("method", "spread"), ALL_KINDS)
def test_saved_pickled_and_cloned_models_give_the_same_bits(method: str, spread: str, tmp_path: Path) -> None:
    model, X = fitted(24, method=method, spread=spread, beam=3)
    votes, found = model.predict_votes(X), model.predict_uncertain(X)
    file_of(model, tmp_path)
    loaded = hedgerow.load(tmp_path / "model.hedgerow")
    fresh = clone(model)
    assert not hasattr(fresh, "tree_")
    assert fresh.get_params() == model.get_params()
    for other in (
        loaded,
        hedgerow.load(tmp_path / "model.hedgerow", verify=False),
        pickle.loads(pickle.dumps(model)),
        pickle.loads(pickle.dumps(loaded)),
        fresh.fit(*random_problem(24, 60, 30, 60)),
    ):
        assert_same_votes(other.predict_votes(X), votes)
        assert_same_labels(other.predict_uncertain(X), found)
        assert other.describe() == model.describe()
    assert loaded.describe()["members"] == votes.members


def test_single_inputs_asked_in_many_threads_give_the_same_bits() -> None:
    models = [fitted(25, members=members, labels=labels, beam=2) for members, labels in ((2, 40), (5, 110))]
    expected = [[model.predict_uncertain(X[[row]]) for row in range(X.shape[0])] for model, X in models]

    def ask(number: int) -> None:
        for _ in range(5):
            for (model, X), answers in zip(models, expected, strict=True):
                row = number % X.shape[0]
                assert_same_labels(model.predict_uncertain(X[[row]]), answers[row])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(24)))


def test_single_inputs_asked_of_one_model_after_another_was_deleted_are_answered() -> None:
    # What a search keeps between calls must not outlive the model that it was made for. In a process of its
    # own: a mistake here may end it.
    script = """
        import pickle, sys
        from dense_oracle import random_problem
        from hedgerow import HedgerowClassifier

        def pickled(members, labels):
            X, Y = random_problem(1, 60, 30, labels)
            model = HedgerowClassifier(
                method="bagging", members=members, branching=3, leaf_size=4, random_state=0, n_jobs=1
            )
            return pickle.dumps(model.fit(X, Y)), X

        small, large = pickled(2, 40), pickled(7, 400)
        for _ in range(30):
            for data, X in (small, large):
                model = pickle.loads(data)
                one, two = model.predict_uncertain(X[:1]), model.predict_uncertain(X[:2])
                assert one.labels[0].tolist() == two.labels[0].tolist()
                assert one.total[0].tobytes() == two.total[0].tobytes()
                del model
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr[-2000:]}"


# --- training -------------------------------------------------------------------------------------------


def drawn(seed: int, member: int, rows: int) -> tuple[int, npt.NDArray[np.int64]]:
    """The seed of a member, and how often a bootstrap draws each input for it."""
    draw = np.random.default_rng([seed, member])
    own = int(draw.integers(2**62))
    return own, np.bincount(draw.integers(0, rows, rows), minlength=rows)


def assert_same_weights(found: TreeClassifier, expected: TreeClassifier, member: int = 0) -> None:
    """A member of a tree has the weights of a tree that was trained alone."""
    np.testing.assert_array_equal(found.tree.labels, expected.tree.labels)
    assert found.tree.depth == expected.tree.depth
    for layer, begins in enumerate(expected.tree.begins):
        np.testing.assert_array_equal(found.tree.begins[layer], begins)
        for node in range(len(begins) - 1):
            children = int(begins[node + 1] - begins[node])
            dense_weights = []
            for trained, first in ((found, member * children), (expected, 0)):
                features, lanes, values, bias = trained.node_weights(layer, node)
                weights = np.zeros((len(bias), trained.features + 1), dtype=np.float32)
                weights[lanes, features] = values
                weights[:, -1] = bias
                dense_weights.append(weights[first : first + children])
            np.testing.assert_array_equal(*dense_weights)


def alone(
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    X: Any,
    Y: Any,
    *,
    tree: Any = None,
    weights: Any = None,
    **rest: Any,
) -> TreeClassifier:
    """A single model with the seed of a member."""
    with monkeypatch.context() as patch:
        patch.setattr(HedgerowClassifier, "draw_seed", lambda self: seed)
        model = HedgerowClassifier(random_state=0, **(DEEP | rest)).fit(
            X, Y, tree=tree, sample_weight=weights
        )
    return model.model_.forest.trees[0]


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("weighted", [False, True])
def test_bagging_trains_each_member_as_a_single_model_weighted_by_its_bootstrap(
    monkeypatch: pytest.MonkeyPatch, loss: str, weighted: bool
) -> None:
    X, Y = random_problem(31, 60, 30, 50)
    own = np.linspace(0, 2, 60).astype(np.float32) if weighted else None
    model = HedgerowClassifier(method="bagging", members=3, loss=loss, random_state=5, **DEEP)
    trees = model.fit(X, Y, sample_weight=own).model_.forest.trees
    for member in range(3):
        seed, counts = drawn(5, member, 60)
        weights = counts if own is None else counts * own
        assert_same_weights(trees[member], alone(monkeypatch, seed, X, Y, weights=weights, loss=loss))


@pytest.mark.parametrize("members", [4, 5])
@pytest.mark.parametrize("trees", [1, 2, 3])
def test_members_that_share_a_tree_are_those_trained_alone_on_their_tree(
    monkeypatch: pytest.MonkeyPatch, members: int, trees: int
) -> None:
    X, Y = random_problem(32, 60, 30, 50)
    model = HedgerowClassifier(method="bagging", members=members, trees=trees, random_state=6, **DEEP).fit(
        X, Y
    )
    assert [t.members for t in model.model_.forest.trees] == [
        sum(number * trees // members == tree for number in range(members)) for tree in range(trees)
    ]
    member = 0
    for trained in model.model_.forest.trees:
        for voice in range(trained.members):
            seed, counts = drawn(6, member, 60)
            own = alone(monkeypatch, seed, X, Y, weights=counts, tree=trained.tree)
            assert_same_weights(trained, own, voice)
            member += 1
    assert member == members


def test_bagging_predicts_as_models_of_repeated_inputs_do() -> None:
    X, Y = random_problem(33, 60, 30, 50)
    tight = TIGHT | {"leaf_size": 4, "branching": 3, "candidates": "all"}
    model = HedgerowClassifier(method="bagging", members=3, random_state=7, **tight).fit(X, Y)
    found = member_probabilities(model, X)
    for member in range(3):
        _, counts = drawn(7, member, 60)
        rows = np.repeat(np.arange(60), counts)
        single = HedgerowClassifier(random_state=0, **tight)
        single.fit(X[rows], Y[rows], tree=model.model_.forest.trees[member].tree)
        np.testing.assert_allclose(found[member], member_probabilities(single, X)[0], atol=0.02)


def test_boosting_with_hard_negatives_that_cost_nothing_trains_each_member_as_a_single_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, Y = random_problem(34, 60, 30, 50)
    model = HedgerowClassifier(method="boosting", members=3, alpha=0, random_state=8, **DEEP).fit(X, Y)
    costly = HedgerowClassifier(method="boosting", members=3, alpha=0.5, random_state=8, **DEEP).fit(X, Y)
    for member in range(3):
        expected = alone(monkeypatch, drawn(8, member, 60)[0], X, Y)
        assert_same_weights(model.model_.forest.trees[member], expected)
        if member == 0:
            assert_same_weights(costly.model_.forest.trees[0], expected)
        else:
            np.testing.assert_array_equal(
                costly.model_.forest.trees[member].tree.labels, expected.tree.labels
            )
            with pytest.raises(AssertionError):
                assert_same_weights(costly.model_.forest.trees[member], expected)


def test_boosted_bagging_with_hard_negatives_that_cost_nothing_is_bagging() -> None:
    boosted, X = fitted(35, method="boosted-bagging", alpha=0)
    bagged, _ = fitted(35, method="bagging")
    costly, _ = fitted(35, method="boosted-bagging")
    assert_same_votes(boosted.predict_votes(X), bagged.predict_votes(X))
    assert np.abs(costly.predict_votes(X).mean() - bagged.predict_votes(X).mean()).max() > 1e-3


@pytest.mark.parametrize("alpha", [0.25, 1.0])
@pytest.mark.parametrize("count", [3, 10])
def test_boosting_teaches_nodes_the_inputs_that_earlier_members_send_there_by_mistake(
    alpha: float, count: int
) -> None:
    X, Y = random_problem(36, 70, 20, 24, density=0.4)
    truth = Y.toarray().astype(bool)
    clusters = np.arange(24) % 4
    model = HedgerowClassifier(
        method="boosting", members=3, alpha=alpha, hard_negatives=count, random_state=9, **TIGHT
    ).fit(X, Y, tree=LabelTree.from_clusters([clusters]))
    said = member_probabilities(model, X)
    full = np.hstack([dense_rows(X), np.ones((70, 1))])
    compared = 0
    for member in (1, 2):
        mean = said[:member].mean(axis=0)
        best = np.argsort(-mean, axis=1, kind="stable")[:, :count]
        mistakes = np.zeros_like(truth)
        np.put_along_axis(mistakes, best, True, axis=1)
        mistakes &= ~truth
        trained = model.model_.forest.trees[member]
        for node in range(4):
            begin, end = trained.tree.begins[1][node], trained.tree.begins[1][node + 1]
            labels = trained.tree.labels[begin:end]
            by_right = truth[:, labels].any(axis=1)
            costs = np.where(by_right, 1.0, np.where(mistakes[:, labels].any(axis=1), alpha, 0.0))
            assert (costs == alpha).any(), "no mistake leads here"
            features, lanes, values, bias = trained.node_weights(1, node)
            weights = np.zeros((len(labels), 21))
            weights[lanes, features] = values
            weights[:, -1] = bias
            rows = costs > 0
            for child, label in enumerate(labels):
                positive = truth[rows, label]
                if positive.all() or not positive.any():
                    continue
                solver = LinearSVC(
                    loss="squared_hinge", dual=True, fit_intercept=False, tol=1e-7, max_iter=1_000_000
                )
                solver.fit(full[rows], np.where(positive, 1, -1), sample_weight=costs[rows])
                np.testing.assert_allclose(weights[child], solver.coef_[0], rtol=2**-8, atol=4e-3)
                compared += 1
    assert compared > 30


@FEW
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 6),
    labels=st.integers(1, 12),
    members=st.integers(0, 5),
    room=st.integers(1, 15),
    count=st.integers(1, 15),
    threads=st.integers(1, 3),
)
def test_hard_negatives_are_the_wrong_ones_among_the_best_sums(
    seed: int, rows: int, labels: int, members: int, room: int, count: int, threads: int
) -> None:
    random = np.random.default_rng(seed)
    truth = random.random((rows, labels)) < 0.3
    indptr = np.concatenate([[0], np.cumsum(truth.sum(axis=1))]).astype(np.int64)
    Y = _native.Rows(indptr, np.nonzero(truth)[1].astype(np.int32), None, labels)
    negatives = _native.HardNegatives(rows, room)
    sums: list[dict[int, float]] = [{} for _ in range(rows)]
    for _ in range(members):
        k = int(random.integers(1, labels + 1))
        best = np.array([random.permutation(labels)[:k] for _ in range(rows)], dtype=np.int32)
        # Eighths: their sums are exact, and often equal.
        probability = (random.integers(0, 9, best.shape) / 8).astype(np.float32)
        negatives.add(best, probability, threads)
        for row, own in enumerate(sums):
            for label, value in zip(best[row].tolist(), probability[row].tolist(), strict=True):
                own[label] = own.get(label, 0.0) + value
            kept = sorted(own, key=lambda label: (-own[label], label))[:room]
            sums[row] = {label: own[label] for label in kept}
    wrong = negatives.wrong(Y, count)
    begins, found = wrong.indptr, wrong.indices
    assert begins[0] == 0
    for row, own in enumerate(sums):
        ranked = sorted(own, key=lambda label: (-own[label], label))[:count]
        expected = sorted(label for label in ranked if not truth[row, label])
        assert found[begins[row] : begins[row + 1]].tolist() == expected


def test_hard_negatives_of_other_inputs_are_refused() -> None:
    negatives = _native.HardNegatives(3, 10)
    with pytest.raises(ValueError, match="shape"):
        negatives.add(np.zeros((2, 4), np.int32), np.zeros((2, 4), np.float32), 1)
    with pytest.raises(ValueError, match="shape"):
        negatives.add(np.zeros((3, 4), np.int32), np.zeros((3, 5), np.float32), 1)


# --- more members ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", TRAINED)
@pytest.mark.parametrize("given_trees", [False, True])
def test_members_added_later_are_those_asked_for_at_once(
    method: str, given_trees: bool, tmp_path: Path
) -> None:
    X, Y = random_problem(41, 60, 30, 50)

    def new(members: int) -> HedgerowClassifier:
        trees = members if given_trees else None
        return HedgerowClassifier(method=method, members=members, trees=trees, random_state=1, **DEEP).fit(
            X, Y
        )

    at_once, later = new(10), new(6)
    begun = later.predict_votes(X)
    assert later.add_members(X, Y, 4) is later
    assert later.members == 10
    assert_same_votes(later.predict_votes(X), at_once.predict_votes(X))
    assert_same_labels(later.predict_uncertain(X), at_once.predict_uncertain(X))
    assert file_of(later, tmp_path) == file_of(at_once, tmp_path)
    assert begun.members == 6


def test_members_added_to_a_loaded_model_with_names_and_weights_are_those_asked_for_at_once(
    tmp_path: Path,
) -> None:
    X, Y = random_problem(42, 60, 30, 50)
    names = [[f"label {label}" for label in row.indices] for row in Y]
    weights = np.linspace(0.5, 2, 60)
    parameters: dict[str, Any] = {"method": "boosted-bagging", "random_state": 1, **DEEP}
    at_once = HedgerowClassifier(members=5, **parameters).fit(X, names, sample_weight=weights)
    HedgerowClassifier(members=3, **parameters).fit(X, names, sample_weight=weights).save(tmp_path / "three")
    later = hedgerow.load(tmp_path / "three").add_members(X, names, 1, sample_weight=weights)
    later.add_members(X, names, 1, sample_weight=weights)
    assert_same_votes(later.predict_votes(X), at_once.predict_votes(X))
    np.testing.assert_array_equal(later.classes_, at_once.classes_)


def test_members_added_to_a_model_on_a_tree_of_ones_own_are_on_that_tree() -> None:
    X, Y = random_problem(43, 60, 30, 50)
    tree = LabelTree.from_clusters([np.arange(50) % 7])
    parameters: dict[str, Any] = {"method": "bagging", "random_state": 1, **DEEP}
    at_once = HedgerowClassifier(members=3, **parameters).fit(X, Y, tree=tree)
    later = HedgerowClassifier(members=2, **parameters).fit(X, Y, tree=tree)
    later.add_members(X, Y, 1, tree=tree)
    assert_same_votes(later.predict_votes(X), at_once.predict_votes(X))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "single"}, "no members can be added to method 'single'"),
        ({"method": "mc-dropout"}, "no members can be added to method 'mc-dropout'"),
        ({"method": "bagging", "trees": 1}, "where 3 share 1 trees; fit again"),
        ({"method": "boosting", "trees": 2}, "where 3 share 2 trees; fit again"),
        ({"method": "bagging", "random_state": None}, "integer random_state"),
    ],
)
def test_members_are_not_added_where_they_could_not_be_those_asked_for_at_once(
    parameters: dict[str, Any], message: str
) -> None:
    X, Y = random_problem(44, 40, 20, 30)
    model = HedgerowClassifier(**({"members": 3, "random_state": 0} | DEEP | parameters)).fit(X, Y)
    before = model.predict_votes(X)
    with pytest.raises(ValueError, match=message):
        model.add_members(X, Y, 1)
    assert model.members == 3
    assert_same_votes(model.predict_votes(X), before)


@pytest.mark.parametrize("kind", ["features", "texts"])
def test_members_are_not_added_for_data_that_the_model_was_not_fitted_to(kind: str) -> None:
    X, Y = random_problem(46, 60, 20, 30)
    model: Any = HedgerowClassifier(method="bagging", members=2, random_state=0, **DEEP)
    own: Any = (X, Y)
    order = np.random.default_rng(0).permutation(60)
    others: Any = [(X[order], Y[order]), (X * 2, Y), (X, Y[order]), (X[:59], Y[:59])]
    if kind == "texts":
        model = HedgerowTextClassifier(method="bagging", members=2, random_state=0, **DEEP)
        texts = [f"{words} hedge {words}" for words in range(60)]
        own = (texts, Y)
        others = [([texts[row] for row in order], Y[order]), ([*texts[:59], "other"], Y), (texts, Y[order])]
    model.fit(*own)
    before = model.predict_votes(own[0])
    for other in others:
        with pytest.raises(ValueError, match="not what the model was fitted to, or stand in another order"):
            model.add_members(*other, 1)
    assert_same_votes(model.predict_votes(own[0]), before)
    assert model.add_members(*own, 1).seen_in_training(own[0]).all()


def test_labels_that_only_some_trees_have_can_be_asked_for() -> None:
    # Each label has one input, so a bootstrap lacks a third of them.
    X = csr_array(np.eye(8, dtype=np.float32))
    model = HedgerowClassifier(method="bagging", members=6, random_state=0).fit(
        X, csr_array(np.eye(8, dtype=np.int8))
    )
    trees = [set(tree.tree.labels.tolist()) for tree in model.model_.forest.trees]
    every = set().union(*trees)
    assert max(len(own) for own in trees) < len(every)
    assert (np.sort(model.top(X, k=len(every)).labels, axis=1) == np.sort(list(every))).all()
    assert (np.diff(model.predict_proba(X).indptr) == len(every)).all()
    with pytest.raises(ValueError, match=f"knows only {len(every)} labels"):
        model.top(X, k=len(every) + 1)


def test_every_hard_negative_asked_for_counts() -> None:
    X, Y = random_problem(47, 80, 20, 120)
    votes = [
        HedgerowClassifier(method="boosting", members=2, random_state=0, hard_negatives=count)
        .fit(X, Y)
        .predict_votes(X)
        for count in (30, 100)
    ]
    assert not np.array_equal(votes[0].probs, votes[1].probs)


def test_members_are_not_added_for_other_data_or_no_count() -> None:
    X, Y = random_problem(45, 40, 20, 30)
    names = [[f"label {label}" for label in row.indices] for row in Y]
    parameters: dict[str, Any] = {"method": "bagging", "members": 2, "random_state": 0, **DEEP}
    numbered, named = (
        HedgerowClassifier(**parameters).fit(X, Y),
        HedgerowClassifier(**parameters).fit(X, names),
    )
    refusals: list[tuple[str, Callable[[], Any]]] = [
        (
            "input 0 has the label 'sloe', which the model does not know",
            lambda: named.add_members(X, [["sloe"]] * 40, 1),
        ),
        ("Y has 29 columns, but the model knows 30 labels", lambda: numbered.add_members(X, Y[:, :29], 1)),
        ("19 features, but the model is expecting 20", lambda: numbered.add_members(X[:, :19], Y, 1)),
        ("40 rows, but Y has 39", lambda: numbered.add_members(X, Y[:39], 1)),
        ("count is 0; it must be an integer of at least 1", lambda: numbered.add_members(X, Y, 0)),
        ("count is -1; it must be an integer of at least 1", lambda: numbered.add_members(X, Y, -1)),
        (r"count is 1\.5; it must be an integer of at least 1", lambda: numbered.add_members(X, Y, 1.5)),  # type: ignore[arg-type]
        ("count is True; it must be an integer of at least 1", lambda: numbered.add_members(X, Y, True)),
    ]
    for message, add in refusals:
        with pytest.raises(ValueError, match=message):
            add()
    assert numbered.members == named.members == 2
    assert numbered.predict_votes(X).members == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_model_to_which_members_could_not_be_added_is_as_it_was(
    error: type[BaseException], trained: list[int]
) -> None:
    X, Y = random_problem(46, 40, 20, 30)
    model = HedgerowClassifier(method="boosting", members=2, random_state=0, **DEEP).fit(X, Y)
    before = model.predict_votes(X)

    def stop(share: float, what: str) -> None:
        if what.startswith("member 4"):
            raise error

    with pytest.raises(error):
        model.add_members(X, Y, 3, progress=stop)
    assert len(trained) == 3
    assert model.members == 2
    assert_same_votes(model.predict_votes(X), before)


def test_ensemble_of_texts_votes_as_that_of_their_features_does(tmp_path: Path) -> None:
    texts = [
        f"{one} {two} berries {one}" for one in ("sloe", "elder", "holly") for two in ("red", "black", "no")
    ]
    labels = [text.split()[:2] for text in texts]
    model = HedgerowTextClassifier(method="boosted-bagging", members=2, min_count=1, random_state=0)
    model.fit(texts, labels).add_members(texts, labels, 1).save(tmp_path / "model")
    features = model.vectorizer_.transform(texts)
    plain = HedgerowClassifier(method="boosted-bagging", members=3, random_state=0).fit(features, labels)
    for found in (model, hedgerow.load(tmp_path / "model")):
        assert_same_votes(found.predict_votes(texts), plain.predict_votes(features))
        assert_same_labels(found.predict_uncertain(texts, k=2), plain.predict_uncertain(features, k=2))


# --- checkpoints ----------------------------------------------------------------------------------------


class StopError(Exception):
    """Raised by a progress callback."""


def stop_at(member: int) -> Callable[[float, str], None]:
    def progress(share: float, what: str) -> None:
        assert 0 <= share <= 1
        if what.startswith(f"member {member + 1} of"):
            raise StopError(what)

    return progress


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the trees that are trained, and has the callback called for each, however short it takes."""
    seeds: list[int] = []
    train = TreeClassifier.train.__func__  # type: ignore[attr-defined]

    def counted(
        cls: type[TreeClassifier], rows: Any, tree: Any, settings: Any, threads: int, progress: Any
    ) -> TreeClassifier:
        if progress is not None:
            progress(0.5)
        seeds.append(settings["seed"])
        return train(cls, rows, tree, settings, threads, progress)

    monkeypatch.setattr(TreeClassifier, "train", classmethod(counted))
    return seeds


@pytest.mark.parametrize("method", TRAINED)
@pytest.mark.parametrize("trees", [5, 1, 2])
def test_fit_that_was_stopped_goes_on_from_the_checkpoint_and_ends_with_the_same_bits(
    method: str, trees: int, trained: list[int], tmp_path: Path
) -> None:
    X, Y = random_problem(51, 60, 30, 50)

    def new() -> HedgerowClassifier:
        return HedgerowClassifier(method=method, members=5, trees=trees, random_state=2, **DEEP)

    whole = new().fit(X, Y)
    seeds = list(trained)
    assert len(set(seeds)) == 5
    trained.clear()
    folder = tmp_path / "deep" / "folder"
    model = new()
    for member in (0, 3, 3, 4):
        with pytest.raises(StopError, match=f"member {member + 1} of 5: "):
            model.fit(X, Y, checkpoint=folder, progress=stop_at(member))
        assert len(list(folder.glob("*"))) == member
        assert not hasattr(model, "tree_")
    assert trained == seeds[:4]
    resumed = new().set_params(n_jobs=2).fit(X, Y, checkpoint=folder)
    assert trained == seeds, "a member was trained twice"
    assert_same_votes(resumed.predict_votes(X), whole.predict_votes(X))
    assert file_of(resumed, tmp_path) == file_of(whole, tmp_path)
    # And once more, with nothing left to do.
    again = new().fit(X, Y, checkpoint=folder)
    assert trained == seeds
    assert_same_votes(again.predict_votes(X), whole.predict_votes(X))


@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize("kind", [np.float16, np.float64, object, list])
def test_checkpoint_takes_whatever_inputs_a_fit_takes(kind: Any, tmp_path: Path) -> None:
    X, Y = random_problem(52, 40, 12, 10)
    dense = np.round(X.toarray(), 2)
    given = dense.tolist() if kind is list else dense.astype(kind)

    def new() -> HedgerowClassifier:
        return HedgerowClassifier(method="bagging", members=2, random_state=0, n_jobs=1)

    whole = new().fit(given, Y)
    with pytest.raises(StopError):
        new().fit(given, Y, checkpoint=tmp_path / "members", progress=stop_at(1))
    resumed = new().fit(given, Y, checkpoint=tmp_path / "members")
    assert_same_votes(resumed.predict_votes(X), whole.predict_votes(X))


X51, Y51 = random_problem(51, 60, 30, 50)
CLUSTERS = np.arange(50) % 7
OTHER_FITS: dict[str, Callable[[Path], Any]] = {
    "inputs": lambda folder: begun().fit(X51 * 2, Y51, checkpoint=folder),
    "order of inputs": lambda folder: begun().fit(X51[::-1], Y51, checkpoint=folder),
    "labels": lambda folder: begun().fit(X51, Y51[::-1], checkpoint=folder),
    "sample_weight": lambda folder: begun().fit(X51, Y51, sample_weight=np.arange(60), checkpoint=folder),
    "tree": lambda folder: begun().fit(X51, Y51, tree=LabelTree.from_clusters([CLUSTERS]), checkpoint=folder),
    "label_features": lambda folder: begun().fit(X51, Y51, label_features=np.eye(50), checkpoint=folder),
    "width": lambda folder: begun().fit(
        csr_array((X51.data, X51.indices, X51.indptr), shape=(60, 35)), Y51, checkpoint=folder
    ),
    "method": lambda folder: begun(method="boosting").fit(X51, Y51, checkpoint=folder),
    "C": lambda folder: begun(C=2.0).fit(X51, Y51, checkpoint=folder),
    "members": lambda folder: begun(members=4).fit(X51, Y51, checkpoint=folder),
    "trees": lambda folder: begun(trees=1).fit(X51, Y51, checkpoint=folder),
    "random_state": lambda folder: begun(random_state=3).fit(X51, Y51, checkpoint=folder),
}


def begun(**parameters: Any) -> HedgerowClassifier:
    return HedgerowClassifier(**({"method": "bagging", "members": 3, "random_state": 2} | DEEP | parameters))


@pytest.mark.parametrize("other", OTHER_FITS)
def test_checkpoint_of_another_fit_is_refused_and_left_as_it_was(other: str, tmp_path: Path) -> None:
    folder = tmp_path / "members"
    begun().fit(X51, Y51, checkpoint=folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=r"members holds members of another fit.*choose another folder"):
        OTHER_FITS[other](folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_checkpoint_of_another_large_tree_is_refused(tmp_path: Path) -> None:
    X, Y = random_problem(52, 60, 30, 1500)
    clusters = np.arange(1500) % 5
    swapped = clusters.copy()
    swapped[[700, 701]] = swapped[[701, 700]]
    begun().fit(X, Y, tree=LabelTree.from_clusters([clusters]), checkpoint=tmp_path / "members")
    with pytest.raises(ValueError, match="members of another fit"):
        begun().fit(X, Y, tree=LabelTree.from_clusters([swapped]), checkpoint=tmp_path / "members")


def test_checkpoint_with_a_damaged_or_foreign_file_is_refused_by_name(tmp_path: Path) -> None:
    model = begun().fit(X51, Y51, checkpoint=tmp_path)
    path = tmp_path / "member-0001.hedgerow"
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 0x55
    path.write_bytes(whole)
    with pytest.raises(ModelFileError, match=str(path)):
        begun().fit(X51, Y51, checkpoint=tmp_path)
    model.save(path, overwrite=True)
    with pytest.raises(ValueError, match="members of another fit"):
        begun().fit(X51, Y51, checkpoint=tmp_path)
    path.unlink()
    assert_same_votes(begun().fit(X51, Y51, checkpoint=tmp_path).predict_votes(X51), model.predict_votes(X51))


# --- bad parameters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "stacking"}, "method is 'stacking'"),
        ({"members": 0}, "members is 0"),
        ({"members": 2.5}, r"members is 2\.5"),
        ({"trees": 0}, "trees is 0"),
        ({"members": 3, "trees": 4}, "trees is 4, but there are only 3 members"),
        ({"alpha": -0.1}, r"alpha is -0\.1"),
        ({"alpha": np.nan}, "alpha is nan"),
        ({"hard_negatives": 0}, "hard_negatives is 0"),
        ({"dropout": 0.0}, r"dropout is 0\.0"),
        ({"dropout": 1.0}, r"dropout is 1\.0"),
        ({"candidates": 0}, "candidates is 0"),
        ({"candidates": "best"}, "candidates is 'best'"),
        ({"missing": "nan"}, "missing is 'nan'"),
        ({"beam": 0}, "beam is 0"),
    ],
)
def test_impossible_parameters_are_refused_by_name(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        begun(**parameters).fit(X51, Y51)


@pytest.mark.parametrize("tolerance", [-0.01, 1.01, np.nan, np.inf])
def test_tolerance_that_is_no_probability_is_refused(tolerance: float) -> None:
    model = begun().fit(X51, Y51)
    for predict in (model.predict_uncertain, model.predict_votes):
        with pytest.raises(
            ValueError, match=rf"tolerance is {tolerance}; it is a probability, between 0 and 1"
        ):
            predict(X51, tolerance=tolerance)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"candidates": 0}, "candidates"), ({"missing": "zero"}, "missing"), ({"beam": 0}, "beam")],
)
def test_parameters_of_the_search_are_checked_when_they_are_used(
    parameters: dict[str, Any], message: str
) -> None:
    model = begun().fit(X51, Y51).set_params(**parameters)
    for predict in (model.predict_uncertain, model.predict_votes, model.top):
        with pytest.raises(ValueError, match=f"^{message} is"):
            predict(X51)


def test_more_labels_than_all_trees_together_have_are_refused() -> None:
    model = begun().fit(X51, Y51)
    trees = [tree.tree.labels for tree in model.model_.forest.trees]
    every = len(np.unique(np.concatenate(trees)))
    assert min(len(labels) for labels in trees) < every
    for exact in (False, True):
        assert model.top(X51, k=every, exact=exact).labels.shape == (60, every)
    with pytest.raises(ValueError, match=f"the model knows only {every} labels"):
        model.predict_uncertain(X51, k=every + 1)
