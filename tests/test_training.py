"""Which inputs a node learns from, and how good the whole is on real data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dense_oracle import dense_rows, dense_weights, node_log_probabilities, random_problem, two_layers
from scipy.sparse import csr_array
from sklearn.svm import LinearSVC

from hedgerow import HedgerowClassifier, LabelTree, _native
from hedgerow.data import read_part

TIGHT: dict[str, Any] = {
    "tolerance": 1e-4,
    "max_passes": 20_000,
    "weight_threshold": 0.0,
    "random_state": 0,
    "n_jobs": 1,
}
DATA = Path(os.environ.get("HEDGEROW_DATA") or Path(__file__).parents[2] / "shared" / "data")


def optimum(X: Any, rows: npt.NDArray[np.bool_], positive: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Weights of liblinear on some rows, the constant feature last."""
    full = np.hstack([dense_rows(X), np.ones((X.shape[0], 1))])[rows]
    solver = LinearSVC(loss="squared_hinge", dual=True, fit_intercept=False, tol=1e-8, max_iter=1_000_000)
    return np.asarray(solver.fit(full, np.where(positive[rows], 1, -1)).coef_[0])


def assert_node_learned_from(
    model: HedgerowClassifier, X: Any, layer: int, node: int, rows: npt.NDArray[np.bool_], Y: npt.NDArray[Any]
) -> int:
    """The node's classifiers are the optimum on exactly these rows; returns how many could be compared."""
    weights, bias = dense_weights(model.model_.forest.trees[0], layer, node)
    compared = 0
    for number, child in enumerate(
        range(model.tree_.begins[layer][node], model.tree_.begins[layer][node + 1])
    ):
        below = [int(model.tree_.labels[place]) for place in places_below(model.tree_, layer + 1, child)]
        positive = Y[:, below].any(axis=1)
        if positive[rows].all() or not positive[rows].any():
            continue  # liblinear wants two classes
        expected = optimum(X, rows, positive)
        np.testing.assert_allclose(weights[number], expected[:-1], rtol=2**-8, atol=2e-3)
        np.testing.assert_allclose(bias[number], expected[-1], rtol=1e-3, atol=2e-3)
        compared += 1
    return compared


def places_below(tree: LabelTree, layer: int, node: int) -> list[int]:
    if layer == tree.depth:
        return [node]
    begin, end = tree.begins[layer][node], tree.begins[layer][node + 1]
    return [place for child in range(begin, end) for place in places_below(tree, layer + 1, child)]


def has_label_below(tree: LabelTree, layer: int, node: int, Y: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return Y[:, tree.labels[places_below(tree, layer, node)]].any(axis=1)


def test_root_learns_from_all_rows_and_inner_nodes_from_rows_with_a_label_below() -> None:
    X, Y = random_problem(1, 80, 20, 24, density=0.4)
    truth = Y.toarray().astype(bool)
    tree = two_layers(np.arange(24) % 4)
    model = HedgerowClassifier(**TIGHT).fit(X, Y, tree=tree)
    assert assert_node_learned_from(model, X, 0, 0, np.ones(80, bool), truth) == 4
    compared = 0
    for node in range(4):
        compared += assert_node_learned_from(model, X, 1, node, has_label_below(tree, 1, node, truth), truth)
    assert compared > 15


def test_deep_tree_teaches_each_layer_by_its_own_labels() -> None:
    X, Y = random_problem(2, 80, 20, 24, density=0.4)
    truth = Y.toarray().astype(bool)
    tree = LabelTree.from_clusters([np.arange(24) % 8, np.arange(8) % 3])
    model = HedgerowClassifier(**TIGHT).fit(X, Y, tree=tree)
    for layer in (1, 2):
        for node in range(tree.layer_sizes[layer]):
            assert_node_learned_from(model, X, layer, node, has_label_below(tree, layer, node, truth), truth)


@pytest.mark.parametrize("beam", [1, 2, 3])
def test_matcher_adds_the_rows_that_its_beam_brings(beam: int) -> None:
    X, Y = random_problem(3, 80, 20, 24, density=0.4)
    truth = Y.toarray().astype(bool)
    tree = two_layers(np.arange(24) % 4)
    model = HedgerowClassifier(negatives="tfn+man", matcher_beam=beam, **TIGHT).fit(X, Y, tree=tree)
    logs = node_log_probabilities(model.model_.forest.trees[0], X, 1)
    order = np.argsort(-logs, axis=1, kind="stable")
    matched = np.zeros_like(logs, dtype=bool)
    np.put_along_axis(matched, order[:, :beam], True, axis=1)
    added = 0
    for node in range(4):
        own = has_label_below(tree, 1, node, truth)
        added += int((matched[:, node] & ~own).sum())
        assert_node_learned_from(model, X, 1, node, own | matched[:, node], truth)
    assert added > 0, "the matcher brought nothing that was not there"


def test_matcher_in_a_deep_tree_searches_from_the_root_in_each_layer() -> None:
    X, Y = random_problem(4, 80, 20, 27, density=0.4)
    truth = Y.toarray().astype(bool)
    tree = LabelTree.from_clusters([np.arange(27) % 9, np.arange(9) % 3])
    model = HedgerowClassifier(negatives="tfn+man", matcher_beam=2, **TIGHT).fit(X, Y, tree=tree)
    first = node_log_probabilities(model.model_.forest.trees[0], X, 1)
    second = node_log_probabilities(model.model_.forest.trees[0], X, 2)
    matched = np.zeros_like(second, dtype=bool)
    for row in range(80):
        kept = np.argsort(-first[row], kind="stable")[:2]
        below = np.concatenate([tree.children(1, node) for node in kept])
        matched[row, below[np.argsort(-second[row, below], kind="stable")[:2]]] = True
    for node in range(9):
        rows = has_label_below(tree, 2, node, truth) | matched[:, node]
        assert_node_learned_from(model, X, 2, node, rows, truth)


def test_rows_without_labels_teach_the_root_only() -> None:
    X, Y = random_problem(5, 60, 20, 12, density=0.4)
    truth = Y.toarray().astype(bool)
    truth[30:45] = False
    truth[np.arange(12), np.arange(12)] = True
    tree = two_layers(np.arange(12) % 3)
    with_rows = HedgerowClassifier(**TIGHT).fit(X, truth, tree=tree)
    keep = truth.any(axis=1)
    without = HedgerowClassifier(**TIGHT).fit(csr_array(X[keep]), truth[keep], tree=tree)
    assert assert_node_learned_from(with_rows, X, 0, 0, np.ones(60, bool), truth) == 3
    for node in range(3):
        for mine, yours in zip(
            dense_weights(with_rows.model_.forest.trees[0], 1, node),
            dense_weights(without.model_.forest.trees[0], 1, node),
            strict=True,
        ):
            np.testing.assert_allclose(mine, yours, rtol=2**-7, atol=2e-3)


def test_columns_without_labels_are_never_predicted() -> None:
    X, Y = random_problem(6, 60, 20, 12)
    dense = Y.toarray()
    dense[:, [0, 5, 11]] = 0
    dense[:12, 1] = 1
    model = HedgerowClassifier(random_state=0, leaf_size=3, branching=2).fit(X, dense)
    known = np.flatnonzero(dense.any(axis=0))
    found = model.top(X, k=len(known))
    np.testing.assert_array_equal(np.sort(found.labels, axis=1), np.tile(known, (60, 1)))
    assert len(model.classes_) == 12
    assert model.predict_proba(X).shape == (60, 12)


def test_own_tree_is_kept_as_it_is() -> None:
    X, Y = random_problem(7, 60, 20, 12)
    tree = LabelTree.from_clusters([[0, 1, 0, 2, 2, 1, 3]], labels=[11, 0, 3, 4, 9, 2, 1])
    model = HedgerowClassifier(random_state=0).fit(X, Y, tree=tree)
    assert model.tree_ is tree
    assert sorted(model.top(X[:1], k=7).labels[0].tolist()) == [0, 1, 2, 3, 4, 9, 11]


def test_own_tree_with_a_label_that_no_row_has_still_trains() -> None:
    X, Y = random_problem(8, 40, 20, 6)
    dense = Y.toarray()
    dense[:, 2] = 0
    dense[:20, 0] = 1
    model = HedgerowClassifier(random_state=0).fit(X, dense, tree=two_layers([0, 0, 1, 1, 2, 2]))
    best = model.top(X, k=6, exact=True)
    assert (best.labels[:, 0] != 2).all()
    # A whole cluster that no row has: its node has no row to learn from.
    dense[:, 3] = 0
    model = HedgerowClassifier(random_state=0).fit(X, dense, tree=two_layers([0, 0, 1, 1, 2, 2]))
    best = model.top(X, k=6, exact=True)
    assert np.isfinite(best.probability).all()
    assert sorted(best.labels[0].tolist()) == list(range(6))


def test_tree_that_does_not_fit_is_refused() -> None:
    X, Y = random_problem(9, 20, 10, 4)
    with pytest.raises(ValueError, match="label 4, but Y has only 4 columns"):
        HedgerowClassifier().fit(X, Y, tree=two_layers([0, 0, 1, 1, 1]))
    with pytest.raises(ValueError, match="either tree or label_features"):
        HedgerowClassifier().fit(X, Y, tree=two_layers([0, 0, 1, 1]), label_features=csr_array(np.eye(4)))


def test_one_row_one_label_and_one_feature_can_be_learned() -> None:
    model = HedgerowClassifier(random_state=0).fit(csr_array([[2.0]]), [["only"]])
    found = model.top(csr_array([[1.0]]), k=1)
    assert found.labels.tolist() == [["only"]]
    assert found.probability[0, 0] > 0.5


@pytest.mark.parametrize("scale", [1e20, 1e37])
def test_features_too_large_to_learn_from_without_normalizing_are_told(scale: float) -> None:
    X, Y = random_problem(1, 30, 20, 15)
    with pytest.raises(ValueError, match="too large for float32; scale them down, or use normalize=True"):
        HedgerowClassifier(random_state=0, normalize=False).fit(X * np.float32(scale), Y)
    assert HedgerowClassifier(random_state=0).fit(X * np.float32(scale), Y).score(X, Y) > 0.3


def test_bias_too_large_to_learn_with_is_told() -> None:
    X, Y = random_problem(1, 30, 20, 15)
    with pytest.raises(ValueError, match="the bias are too large for float32"):
        HedgerowClassifier(random_state=0, bias=1e25, loss="logistic").fit(X, Y)


def test_two_weights_of_a_child_for_one_feature_are_refused() -> None:
    begins, labels = [np.array([0, 2], np.int32)], np.arange(2, dtype=np.int32)
    features, lanes = np.array([0, 0, 1], np.int32), np.zeros(3, np.int32)
    node = (features, lanes, np.array([1, 1, 5], np.float32), np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="feature 0 has two weights for lane 0"):
        _native.assemble(begins, labels, 3, "sigmoid", [node])


def precision(model: HedgerowClassifier, X: Any, Y: Any) -> list[float]:
    labels = model.top(X, k=5).labels
    hits = np.array([np.isin(row, Y.indices[Y.indptr[i] : Y.indptr[i + 1]]) for i, row in enumerate(labels)])
    return [100 * float(hits[:, :k].mean()) for k in (1, 3, 5)]


def test_eurlex_is_predicted_as_well_as_by_the_reference_implementation() -> None:
    if not (DATA / "eurlex-4k").is_dir():
        pytest.skip(f"{DATA / 'eurlex-4k'} is not here; set HEDGEROW_DATA")
    train, test = (read_part(DATA / "eurlex-4k", part) for part in ("train", "test"))
    model = HedgerowClassifier(weight_threshold=1e-3, random_state=1).fit(train.X, train.Y)
    # What PECOS gets with the same settings; another seed moves each by about 0.5.
    np.testing.assert_allclose(precision(model, test.X, test.Y), [81.57, 68.38, 57.09], atol=0.6)
