"""A tree that is asked about inputs before it learns from them says what one that never saw them says."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from dense_oracle import dense_rows, log_probability, node_log_probabilities, objective, random_problem
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from hedgerow import HedgerowClassifier, LabelTree, _native
from hedgerow.inputs.matrices import as_rows
from hedgerow.judge.judging import HEADROOM
from hedgerow.training.asked import HeldOutVotes, train_asked
from hedgerow.training.data import TrainingData
from hedgerow.training.places import Limits
from hedgerow.training.plan import TrainingPlan
from hedgerow.training.settings import (
    EnsembleSettings,
    Method,
    SolverSettings,
    TrainingSettings,
    TreeSettings,
)
from hedgerow.training.trainer import train
from hedgerow.trees.tree_model import TreeClassifier

ROWS, FEATURES, LABELS = 90, 20, 24
LEAVES = np.arange(LABELS) % 6
TREES = {
    "one leaf": LabelTree((np.array([0, LABELS], dtype=np.int32),), np.arange(LABELS, dtype=np.int32)),
    "two layers": LabelTree.from_clusters([LEAVES]),
    "three layers": LabelTree.from_clusters([LEAVES, np.array([0, 1, 0, 1, 0, 1])]),
}
TRANSFORMS = {"squared_hinge": "l3-hinge", "logistic": "sigmoid"}
COSTS = {"squared_hinge": 1.0, "logistic": 10.0}  # those that give probabilities of some size
X, Y = random_problem(5, ROWS, FEATURES, LABELS, density=0.4)
HELD_OUT = np.flatnonzero(np.arange(ROWS) % 4 == 1)
LEARNED = np.setdiff1d(np.arange(ROWS), HELD_OUT)

Floats = npt.NDArray[np.float64]


def plan_of(
    tree: LabelTree | None, X: Any = X, Y: Any = Y, loss: str = "squared_hinge", **solver: Any
) -> TrainingPlan:
    """A fit of one tree that is solved nearly to the optimum."""
    wanted = {
        **{"loss": loss, "C": COSTS[loss], "positive_cost": 1.0, "negative_cost": 1.0, "tolerance": 1e-4},
        **{"max_passes": 3000, "weight_threshold": 0.0, "negatives": "tfn", "matcher_beam": 20, "bias": 1.0},
        **{"normalize": True, **solver},
    }
    ensemble = EnsembleSettings(Method.SINGLE, 1, None, 0.5, 10)
    indicator = sp.csr_array(Y)
    data = TrainingData(as_rows(X), as_rows(indicator), indicator, X.shape[1], None)
    return TrainingPlan(
        data, TrainingSettings(ensemble, TreeSettings(8, 100, True), SolverSettings(**wanted)), 3, tree
    )


def without(plan: TrainingPlan, held_out: npt.NDArray[np.int64]) -> TrainingPlan:
    """The plain fit in which these inputs cost nothing."""
    costs = np.ones(plan.data.indicator.shape[0], dtype=np.float32)
    costs[held_out] = 0
    return replace(plan, data=replace(plan.data, costs=costs))


def as_candidates(lists: list[list[int]], held_out: npt.NDArray[np.int64], rows: int = ROWS) -> _native.Rows:
    """Candidates of the held-out inputs, in the order given; none of the others."""
    sizes = np.zeros(rows, dtype=np.int64)
    sizes[held_out] = [len(own) for own in lists]
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    labels = np.array([label for own in lists for label in own], dtype=np.int32)
    return _native.Rows(indptr, labels, None, LABELS)


def some_candidates(seed: int = 0) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [draw.permutation(LABELS)[: draw.integers(0, 9)].tolist() for _ in HELD_OUT]


def by_label(trained: TreeClassifier, rows: Any) -> tuple[Floats, Floats]:
    """Probabilities of all labels and of their leaves, computed label by label: (rows, labels)."""
    depth = trained.tree.depth
    places = node_log_probabilities(trained, rows, depth)
    leaves = node_log_probabilities(trained, rows, depth - 1)
    above = np.repeat(np.arange(leaves.shape[1]), np.diff(trained.tree.begins[-1]))
    probs, parents = np.zeros((2, rows.shape[0], LABELS))
    probs[:, trained.tree.labels] = np.exp(places)
    parents[:, trained.tree.labels] = np.exp(leaves[:, above])
    return probs, parents


def entries(votes: HeldOutVotes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The held-out input, by its place among them, and the label of each vote."""
    return np.repeat(np.arange(len(votes.indptr) - 1), np.diff(votes.indptr)), votes.labels


# --- Each classifier solved in float64 ---


def optimum(rows: Floats, positive: npt.NDArray[np.bool_], loss: str) -> Floats:
    """The weights of one binary problem by Newton's method; the constant feature is a column of the rows."""
    signs, C, weights = np.where(positive, 1.0, -1.0), COSTS[loss], np.zeros(rows.shape[1])
    for _ in range(100):
        margins = signs * (rows @ weights)
        if loss == "squared_hinge":
            slopes, curves = -2 * np.maximum(0.0, 1.0 - margins), 2.0 * (margins < 1)
        else:
            slopes, curves = -expit(-margins), expit(margins) * expit(-margins)
        gradient = weights + C * rows.T @ (signs * slopes)
        if np.abs(gradient).max() < 1e-8:
            return weights
        step = np.linalg.solve(np.eye(len(weights)) + C * (rows.T * curves) @ rows, gradient)
        costs, size = np.full(len(rows), C), 1.0
        before = objective(rows, signs, costs, weights, loss)
        while objective(rows, signs, costs, weights - size * step, loss) > before and size > 1e-6:
            size /= 2
        weights = weights - size * step
    return weights


def solved_without(
    tree: LabelTree, loss: str, matcher: TreeClassifier | None = None, beam: int = 0
) -> tuple[Floats, Floats]:
    """What classifiers solved without the held-out inputs say of these: probabilities of labels, own scores.

    With a matcher, a node also learns from inputs whose best nodes of its layer it is among.
    """
    rows = np.hstack([dense_rows(X), np.ones((ROWS, 1))])
    truth = Y.toarray()[:, tree.labels].astype(bool)
    layers = [truth]  # which rows belong to which nodes, from the labels up
    for begins in reversed(tree.begins):
        below = layers[0]
        layers.insert(0, np.column_stack([below[:, a:b].any(axis=1) for a, b in pairwise(begins.tolist())]))
    logs = np.zeros((len(HELD_OUT), 1))
    for layer, begins in enumerate(tree.begins):
        here = layers[layer].copy()
        if layer == 0:
            here[:] = True
        elif matcher is not None:
            reached = node_log_probabilities(matcher, X, layer)
            best = np.argsort(-reached, axis=1, kind="stable")[:, :beam]
            np.put_along_axis(here, best, True, axis=1)
        scores = np.empty((len(HELD_OUT), begins[-1]))
        for node, (begin, end) in enumerate(pairwise(begins.tolist())):
            taught = LEARNED[here[LEARNED, node]]
            for child in range(begin, end):
                weights = optimum(rows[taught], layers[layer + 1][taught, child], loss)
                scores[:, child] = rows[HELD_OUT] @ weights
        own = np.vectorize(lambda score: log_probability(score, TRANSFORMS[loss]))(scores)
        logs = np.repeat(logs, np.diff(begins), axis=1) + own
    probs, by_score = np.zeros((2, len(HELD_OUT), LABELS))
    probs[:, tree.labels], by_score[:, tree.labels] = np.exp(logs), scores
    return probs, by_score


@pytest.mark.parametrize("given_candidates", [False, True])
@pytest.mark.parametrize("negatives", ["tfn", "tfn+man"])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("shape", list(TREES))
def test_votes_on_held_out_inputs_are_those_of_classifiers_solved_without_them(
    shape: str, loss: str, negatives: str, given_candidates: bool
) -> None:
    tree, beam = TREES[shape], 2
    lists = some_candidates()
    plan = plan_of(tree, loss=loss, negatives=negatives, matcher_beam=beam)
    candidates = as_candidates(lists, HELD_OUT) if given_candidates else None
    trained, votes = train_asked(plan, HELD_OUT, candidates, 1)
    rows, labels = entries(votes)
    if given_candidates:
        assert [labels[rows == row].tolist() for row in range(len(HELD_OUT))] == lists
    else:  # there are fewer nodes and labels than a search keeps
        assert all(sorted(labels[rows == row].tolist()) == list(range(LABELS)) for row in set(rows.tolist()))
        assert len(labels) == len(HELD_OUT) * LABELS
    # Who is confused with whom is what the tree finds that has learned from all inputs.
    matcher = trained if negatives == "tfn+man" else None
    probs, scores = solved_without(tree, loss, matcher, beam)
    np.testing.assert_allclose(votes.probs(), probs[rows, labels], atol=1e-2)
    np.testing.assert_allclose(votes.scores, scores[rows, labels], atol=3e-2)
    lowered = scores[rows, labels] - HEADROOM
    own = np.exp([log_probability(score, TRANSFORMS[loss]) for score in lowered.tolist()])
    np.testing.assert_allclose(votes.own(HEADROOM), own, atol=1e-2)
    whole = np.exp(votes.parents.astype(np.float64)) * votes.own(HEADROOM)
    np.testing.assert_allclose(votes.probs(HEADROOM), whole, rtol=1e-6)


# --- Against the plain engine ---


@pytest.mark.parametrize("negatives", ["tfn", "tfn+man"])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("shape", list(TREES))
def test_votes_and_model_are_those_of_two_plain_fits(shape: str, loss: str, negatives: str) -> None:
    # The matcher brings every input to every node: it has nothing to learn from held-out inputs.
    plan = plan_of(TREES[shape], loss=loss, negatives=negatives, matcher_beam=50)
    trained, votes = train_asked(plan, HELD_OUT, None, 1)
    [apart] = train(without(plan, HELD_OUT), Limits(1))
    [whole] = train(plan, Limits(1))
    rows, labels = entries(votes)
    probs, parents = by_label(apart, X[HELD_OUT])
    np.testing.assert_allclose(votes.probs(), probs[rows, labels], atol=1e-2)
    np.testing.assert_allclose(np.exp(votes.parents), parents[rows, labels], atol=1e-2)
    found, wanted = (by_label(model, X)[0] for model in (trained, whole))
    np.testing.assert_allclose(found, wanted, atol=1e-2)
    # Held-out inputs do matter, else this would compare nothing.
    assert np.abs(found[HELD_OUT] - probs).max() > 0.1


def test_final_model_is_the_plain_one_with_a_matcher_that_chooses() -> None:
    for shape in ("two layers", "three layers"):
        plan = plan_of(TREES[shape], negatives="tfn+man", matcher_beam=2)
        trained, _ = train_asked(plan, HELD_OUT, as_candidates(some_candidates(), HELD_OUT), 1)
        [whole] = train(plan, Limits(1))
        np.testing.assert_allclose(by_label(trained, X)[0], by_label(whole, X)[0], atol=1e-2)


@pytest.mark.parametrize("given_candidates", [False, True])
@pytest.mark.parametrize("negatives", ["tfn", "tfn+man"])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_bits_are_the_same_at_any_number_of_threads(
    loss: str, negatives: str, given_candidates: bool
) -> None:
    # Enough labels per node that panels of one node are solved by several threads.
    many, truth = random_problem(7, 120, FEATURES, 90, density=0.4)
    tree = LabelTree.from_clusters([np.arange(90) % 3])
    plan = plan_of(tree, many, truth, loss=loss, negatives=negatives, matcher_beam=1, tolerance=0.1)
    held_out = np.arange(0, 120, 3)
    candidates = None
    if given_candidates:
        candidates = as_rows(sp.csr_array(np.random.default_rng(0).random((120, 90)) < 0.1))
    found = [train_asked(plan, held_out, candidates, threads) for threads in (1, 2, 5)]
    first, wanted = found[0]
    for trained, votes in found[1:]:
        for name in ("indptr", "labels", "parents", "scores"):
            np.testing.assert_array_equal(getattr(votes, name), getattr(wanted, name))
        for layer, nodes in enumerate(tree.layer_sizes[:-1]):
            for node in range(nodes):
                for one, other in zip(
                    trained.node_weights(layer, node), first.node_weights(layer, node), strict=True
                ):
                    np.testing.assert_array_equal(one, other)


# --- What is asked ---


def test_a_search_keeps_the_best_hundred_labels_below_the_best_twenty_leaves() -> None:
    draw = np.random.default_rng(0)
    many, truth = random_problem(11, 150, FEATURES, 240, density=0.4)
    tree = LabelTree.from_clusters([draw.permutation(np.arange(240) % 30)])
    plan = plan_of(tree, many, truth)
    held_out = np.arange(0, 150, 10)
    _, votes = train_asked(plan, held_out, None, 2)
    [apart] = train(without(plan, held_out), Limits(2))
    leaves = node_log_probabilities(apart, many[held_out], 1)
    places = np.exp(node_log_probabilities(apart, many[held_out], 2))
    leaf = np.repeat(np.arange(30), np.diff(tree.begins[1]))
    missed = 0
    assert np.diff(votes.indptr).tolist() == [100] * len(held_out)
    for row, (begin, end) in enumerate(pairwise(votes.indptr.tolist())):
        kept = np.isin(leaf, np.argsort(-leaves[row], kind="stable")[:20])
        best = np.sort(places[row][kept])[-100:][::-1]
        # In falling order, the best first; labels that are nearly equal may change places.
        np.testing.assert_allclose(votes.probs()[begin:end], best, atol=1e-2)
        assert len(set(votes.labels[begin:end].tolist())) == 100
        missed += not np.isin(np.argsort(-places[row])[:100], np.flatnonzero(kept)).all()
    assert missed > 0  # the beam did leave labels behind


def test_a_search_does_not_score_more_children_than_matter() -> None:
    draw = np.random.default_rng(0)
    labels, rows = 9000, 40
    dense = sp.csr_array((draw.random((rows, 8)) * (draw.random((rows, 8)) < 0.6)).astype(np.float32))
    truth = sp.csr_array((np.ones(labels), (np.arange(labels) % rows, np.arange(labels))), (rows, labels))
    tree = LabelTree.from_clusters([np.arange(labels) // 3000])
    plan = plan_of(tree, dense, truth, tolerance=0.1)
    held_out = np.arange(0, rows, 4)
    _, votes = train_asked(plan, held_out, None, 2)
    [apart] = train(without(plan, held_out), Limits(2))
    places = node_log_probabilities(apart, dense[held_out], 2)
    everywhere = 0
    for row, (begin, end) in enumerate(pairwise(votes.indptr.tolist())):
        leaves = set((votes.labels[begin:end] // 3000).tolist())
        assert end - begin == 100
        assert len(leaves) <= 2  # 3 leaves have more than 8000 labels
        best = tree.labels[np.argsort(-places[row], kind="stable")[:100]]
        everywhere += len(set((best // 3000).tolist())) == 3
    assert everywhere > 0  # a search through all labels finds some in each leaf


def test_candidates_that_the_tree_lacks_have_probability_0() -> None:
    own = np.arange(0, LABELS, 2)
    tree = LabelTree.from_clusters([np.arange(len(own)) % 3], own)
    lists = [list(range(row % 3, LABELS)) for row in range(len(HELD_OUT))]
    _, votes = train_asked(plan_of(tree), HELD_OUT, as_candidates(lists, HELD_OUT), 1)
    assert votes.labels.tolist() == [label for labels in lists for label in labels]
    lacking = votes.labels % 2 == 1
    for probs in (votes.probs(), votes.own(), votes.probs(HEADROOM), votes.own(HEADROOM)):
        assert (probs[lacking] == 0).all()
        assert (probs[~lacking] > 0).any()
    # The others are as if these had not been asked for.
    known = [[label for label in labels if label % 2 == 0] for labels in lists]
    _, fewer = train_asked(plan_of(tree), HELD_OUT, as_candidates(known, HELD_OUT), 1)
    np.testing.assert_array_equal(votes.probs()[~lacking], fewer.probs())


def test_labels_that_only_held_out_inputs_have_are_voted_on() -> None:
    truth = Y.toarray()
    truth[LEARNED, 5] = 0
    truth[HELD_OUT[0], 5] = 1
    for shape in TREES:
        _, votes = train_asked(plan_of(TREES[shape], Y=truth), HELD_OUT, None, 1)
        assert np.isfinite(votes.probs()).all()
        assert votes.probs()[votes.labels == 5].max() < 0.1  # nobody could know of it


@pytest.mark.parametrize("held_out", [[3, 2], [2, 2], [-1, 2], [2, ROWS]])
def test_rows_out_of_order_or_out_of_range_are_refused(held_out: list[int]) -> None:
    with pytest.raises(ValueError, match="must ascend, and be rows of X"):
        train_asked(plan_of(TREES["two layers"]), np.array(held_out), None, 1)


def test_candidates_of_other_inputs_are_refused() -> None:
    too_few = as_candidates([[1], [2]], np.array([0, 1]), rows=ROWS - 1)
    with pytest.raises(ValueError, match="differ in the number of rows"):
        train_asked(plan_of(TREES["two layers"]), HELD_OUT, too_few, 1)


def test_without_held_out_inputs_nothing_is_asked() -> None:
    plan = plan_of(TREES["two layers"])
    trained, votes = train_asked(plan, np.zeros(0, dtype=np.int64), None, 1)
    [whole] = train(plan, Limits(1))
    assert votes.indptr.tolist() == [0]
    assert votes.labels.size == 0
    np.testing.assert_allclose(by_label(trained, X)[0], by_label(whole, X)[0], atol=1e-2)


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_votes_do_not_depend_on_the_labels_of_held_out_inputs(data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 2**32 - 1))
    draw = np.random.default_rng(seed)
    rows, truth = random_problem(seed % 1000, 40, 12, LABELS)
    held_out = np.flatnonzero(draw.random(40) < data.draw(st.floats(0.05, 0.9)))
    tree = TREES[data.draw(st.sampled_from(list(TREES)))]
    loss = data.draw(st.sampled_from(list(TRANSFORMS)))
    other = truth.toarray()
    other[held_out] = draw.random((len(held_out), LABELS)) < 0.2
    lists = [draw.permutation(LABELS)[: draw.integers(0, 5)].tolist() for _ in held_out]
    candidates = as_candidates(lists, held_out, 40) if data.draw(st.booleans()) else None
    said = []
    for own in (truth, sp.csr_array(other)):
        votes = train_asked(plan_of(tree, rows, own, loss=loss), held_out, candidates, 1)[1]
        asked = np.zeros((2, len(held_out), LABELS))
        asked[:, *entries(votes)] = votes.probs(), votes.own(HEADROOM)
        said.append(asked)
        assert ((votes.probs() >= 0) & (votes.probs() <= 1)).all()
        assert (votes.own(HEADROOM) <= votes.own()).all()
    # Features are numbered differently, so sums are rounded differently.
    np.testing.assert_allclose(said[0], said[1], atol=1e-2)


# --- The same of a trained forest ---


@pytest.mark.parametrize("headroom", [0.0, HEADROOM])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("shape", list(TREES))
def test_own_scores_of_candidates_are_the_last_layer_of_the_dense_oracle(
    shape: str, loss: str, headroom: float
) -> None:
    model = HedgerowClassifier(method="bagging", members=3, loss=loss, random_state=0, n_jobs=1)
    if shape == "two layers":  # a tree of its own for each member, some without some labels
        model.set_params(leaf_size=5, branching=3).fit(X, Y)
        assert any(len(tree.tree.labels) < LABELS for tree in model.source.forest.trees)
    else:
        model.fit(X, Y, tree=TREES[shape])
    forest = model.source.forest
    lists = [np.random.default_rng(row).permutation(LABELS)[: row % 9] for row in range(ROWS)]
    indptr = np.concatenate([[0], np.cumsum([len(own) for own in lists])])
    labels = np.concatenate(lists).astype(np.int32)
    found = forest.score(as_rows(X), indptr, labels, 2, headroom)
    rows = np.repeat(np.arange(ROWS), np.diff(indptr))
    voice = 0
    for tree in forest.trees:
        for member in range(tree.members):
            logs, own = dense_member(tree, member, headroom)
            np.testing.assert_allclose(found.probs[:, voice], np.exp(logs)[rows, labels], atol=1e-5)
            np.testing.assert_allclose(found.own[:, voice], np.exp(own)[rows, labels], atol=1e-5)
            voice += 1
    assert voice == found.own.shape[1] == 3


def dense_member(tree: TreeClassifier, member: int, headroom: float) -> tuple[Floats, Floats]:
    """Log-probabilities of all labels by one member of a tree, whole and below their leaves."""
    rows, reached = dense_rows(X), np.zeros((ROWS, 1))
    for layer, begins in enumerate(tree.tree.begins):
        last = layer + 1 == tree.tree.depth
        own = np.empty((ROWS, begins[-1]))
        for node, (begin, end) in enumerate(pairwise(begins.tolist())):
            features, lanes, values, bias = tree.node_weights(layer, node)
            weights = np.zeros((len(bias), tree.features))
            weights[lanes, features] = values
            ours = slice(member * (end - begin), (member + 1) * (end - begin))
            scores = rows @ weights[ours].T + bias[ours] - headroom * last
            own[:, begin:end] = np.vectorize(lambda z: log_probability(z, tree.transform))(scores)
        reached = np.repeat(reached, np.diff(begins), axis=1) + own
    logs, alone = np.full((2, ROWS, LABELS), -np.inf)
    logs[:, tree.tree.labels], alone[:, tree.tree.labels] = reached, own
    return logs, alone
