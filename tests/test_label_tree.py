"""The tree over the labels: complete, balanced, the same at any number of threads, and by meaning."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from dense_oracle import dense_rows, random_problem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from hedgerow import HedgerowClassifier, LabelTree
from hedgerow.inputs.matrices import as_rows
from hedgerow.trees.label_tree import aggregate_features

FEW = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def label_vectors(seed: int, labels: int, features: int = 30) -> csr_array:
    random = np.random.default_rng(seed)
    dense = random.random((labels, features)) * (random.random((labels, features)) < 0.3)
    return csr_array(dense.astype(np.float32))


def labels_below(tree: LabelTree, layer: int, node: int) -> list[int]:
    if layer == tree.depth:
        return [int(tree.labels[node])]
    begin, end = tree.begins[layer][node], tree.begins[layer][node + 1]
    return [label for child in range(begin, end) for label in labels_below(tree, layer + 1, child)]


def assert_same_tree(first: LabelTree, second: LabelTree) -> None:
    assert first.layer_sizes == second.layer_sizes
    for mine, yours in zip(first.begins, second.begins, strict=True):
        np.testing.assert_array_equal(mine, yours)
    np.testing.assert_array_equal(first.labels, second.labels)


def depth_of(labels: int, branching: int, leaf_size: int) -> int:
    """One layer for the labels and ceil(log_B(labels / leaf_size)) above, in whole numbers."""
    layers = 0
    while labels > leaf_size * branching**layers:
        layers += 1
    return layers + 1


@FEW
@given(
    seed=st.integers(0, 2**31),
    labels=st.integers(1, 400),
    branching=st.integers(2, 40),
    leaf_size=st.integers(1, 50),
)
def test_tree_of_any_size_is_complete_balanced_and_as_deep_as_needed(
    seed: int, labels: int, branching: int, leaf_size: int
) -> None:
    names = np.random.default_rng(seed).permutation(3 * labels)[:labels].astype(np.int32)
    tree = LabelTree.grow(
        label_vectors(seed, labels), names, branching=branching, leaf_size=leaf_size, seed=seed, threads=1
    )
    assert sorted(tree.labels.tolist()) == sorted(names.tolist())
    assert tree.depth == depth_of(labels, branching, leaf_size)
    assert np.diff(tree.begins[-1]).max() <= leaf_size
    for layer in range(tree.depth - 1):
        for node in range(tree.layer_sizes[layer]):
            sizes = [len(labels_below(tree, layer + 1, int(child))) for child in tree.children(layer, node)]
            assert 1 <= len(sizes) <= branching
            assert max(sizes) - min(sizes) <= 1
            assert len(sizes) == min(branching, sum(sizes))


@FEW
@given(seed=st.integers(0, 2**31), labels=st.integers(1, 150), branching=st.integers(2, 9))
def test_path_and_children_of_any_tree_are_inverse(seed: int, labels: int, branching: int) -> None:
    tree = LabelTree.grow(label_vectors(seed, labels), branching=branching, leaf_size=3, seed=seed, threads=1)
    for label in range(labels):
        node = 0
        path = tree.path(label)
        assert len(path) == tree.depth
        for layer, child in enumerate(path[:-1]):
            assert child in tree.children(layer, node)
            node = child
        assert label in tree.children(tree.depth - 1, node)
        assert tree.labels[path[-1]] == label


@pytest.mark.parametrize("branching", [3, 8, 16, 17])
@pytest.mark.parametrize("threads", [2, 4])
def test_tree_at_any_number_of_threads_is_the_same(branching: int, threads: int) -> None:
    vectors = label_vectors(7, 900, 60)
    one = LabelTree.grow(vectors, branching=branching, leaf_size=5, seed=3, threads=1)
    assert_same_tree(one, LabelTree.grow(vectors, branching=branching, leaf_size=5, seed=3, threads=threads))


def test_tree_with_another_seed_is_another() -> None:
    vectors = label_vectors(1, 200)
    first = LabelTree.grow(vectors, leaf_size=10, seed=1)
    assert (first.labels != LabelTree.grow(vectors, leaf_size=10, seed=2).labels).any()
    assert_same_tree(first, LabelTree.grow(vectors, leaf_size=10, seed=1))


@pytest.mark.parametrize("seed", range(5))
def test_well_separated_clusters_are_recovered(seed: int) -> None:
    random = np.random.default_rng(seed)
    truth = np.repeat([0, 1], 40)
    random.shuffle(truth)
    dense = random.random((80, 20)) * 0.05
    dense[np.arange(80), truth] += 1
    tree = LabelTree.grow(csr_array(dense.astype(np.float32)), branching=2, leaf_size=40, seed=seed)
    assert tree.layer_sizes == (1, 2, 80)
    found = {frozenset(truth[tree.children(1, node)].tolist()) for node in range(2)}
    assert found == {frozenset({0}), frozenset({1})}


def test_labels_in_one_leaf_are_more_alike_than_labels_apart() -> None:
    random = np.random.default_rng(0)
    centres = random.normal(size=(8, 30))
    dense = centres[np.arange(160) % 8] + 0.3 * random.normal(size=(160, 30))
    tree = LabelTree.grow(csr_array(dense.astype(np.float32)), branching=8, leaf_size=20, seed=0)
    unit = dense_rows(dense)
    alike = unit @ unit.T
    same = np.zeros((160, 160), bool)
    for node in range(8):
        children = tree.children(1, node)
        same[np.ix_(children, children)] = True
    apart = ~same
    np.fill_diagonal(same, False)
    assert alike[same].mean() > alike[apart].mean() + 0.4


@pytest.mark.parametrize("normalize", [True, False])
@FEW
@given(
    seed=st.integers(0, 2**31), rows=st.integers(1, 50), labels=st.integers(1, 40), threads=st.integers(1, 3)
)
def test_aggregated_features_are_the_normalised_sums_of_each_labels_rows(
    normalize: bool, seed: int, rows: int, labels: int, threads: int
) -> None:
    X, Y = random_problem(seed, rows, 25, labels)
    found = aggregate_features(as_rows(X), Y, np.arange(labels, dtype=np.int32), 25, None, normalize, threads)
    sums = Y.toarray().T.astype(np.float64) @ dense_rows(X, normalize)
    np.testing.assert_allclose(found.toarray(), dense_rows(sums), atol=2e-6)
    assert found.has_sorted_indices


def test_aggregated_features_of_some_labels_are_those_rows_of_all() -> None:
    X, Y = random_problem(1, 40, 25, 30)
    some = np.array([3, 4, 17, 29], dtype=np.int32)
    every = aggregate_features(as_rows(X), Y, np.arange(30, dtype=np.int32), 25, None, True, 1)
    part = aggregate_features(as_rows(X), Y, some, 25, None, True, 1)
    np.testing.assert_array_equal(part.toarray(), every.toarray()[some])


def test_label_features_decide_the_clusters_when_given() -> None:
    X, Y = random_problem(2, 60, 25, 20)
    truth = np.random.default_rng(0).permutation(np.repeat([0, 1], 10))
    noise = 0.05 * np.random.default_rng(1).random((20, 2))
    own = csr_array((np.eye(2)[truth] + noise).astype(np.float32))
    model = HedgerowClassifier(branching=2, leaf_size=10, random_state=0).fit(X, Y, label_features=own)
    assert {frozenset(truth[model.tree_.children(1, node)].tolist()) for node in range(2)} == {
        frozenset({0}),
        frozenset({1}),
    }


def test_label_features_of_any_length_give_the_same_clusters() -> None:
    vectors = label_vectors(4, 120, 40)
    vectors = csr_array(dense_rows(vectors).astype(np.float32))
    lengths = 2.0 ** np.random.default_rng(0).integers(-3, 4, 120)
    scaled = csr_array((vectors.toarray() * lengths[:, None]).astype(np.float32))
    X, Y = random_problem(3, 60, 25, 120)
    trees = [
        HedgerowClassifier(leaf_size=10, branching=4, random_state=0).fit(X, Y, label_features=given).tree_
        for given in (vectors, scaled)
    ]
    assert_same_tree(*trees)


def test_columns_without_labels_are_not_in_the_tree() -> None:
    X, Y = random_problem(5, 40, 20, 30)
    dense = Y.toarray()
    dense[:, [0, 7, 29]] = 0
    dense[:, 1] = 1
    tree = HedgerowClassifier(random_state=0, leaf_size=4).fit(X, dense).tree_
    assert sorted(tree.labels.tolist()) == np.flatnonzero(dense.any(axis=0)).tolist()


@FEW
@given(data=st.data(), labels=st.integers(1, 60), depth=st.integers(1, 4))
def test_tree_from_clusters_puts_every_label_below_its_cluster(data: Any, labels: int, depth: int) -> None:
    clusters, count = [], labels
    for _ in range(depth):
        parents = data.draw(st.integers(1, count))
        extra = data.draw(
            st.lists(st.integers(0, parents - 1), min_size=count - parents, max_size=count - parents)
        )
        order = data.draw(st.permutations(range(count)))
        clusters.append(np.array([*range(parents), *extra])[list(order)])
        count = parents
    names = np.arange(labels) * 2 + 1
    tree = LabelTree.from_clusters(clusters, names)
    assert tree.depth == depth + 1
    assert sorted(tree.labels.tolist()) == names.tolist()
    # Two labels share a node of the tree exactly where they share a cluster.
    own = np.arange(labels)
    for layer, assigned in enumerate(clusters, start=1):
        own = assigned[own]
        at = np.array([tree.path(int(name))[-1 - layer] for name in names])
        np.testing.assert_array_equal(own[:, None] == own, at[:, None] == at)


@pytest.mark.parametrize(
    ("clusters", "labels", "message"),
    [
        pytest.param([], None, "clusters is empty", id="no clusters"),
        pytest.param([[0, 2]], None, "every number from 0 to 2", id="a gap"),
        pytest.param([[0, -1]], None, "every number", id="a negative cluster"),
        pytest.param([[0.5, 1.0]], None, "vector of integers", id="fractions"),
        pytest.param([[[0, 1]]], None, "vector of integers", id="a matrix"),
        pytest.param(
            [[0, 1], [0]],
            None,
            r"clusters\[0\] has 2 clusters, but clusters\[1\] has 1",
            id="a level missing",
        ),
        pytest.param([[0, 1]], [1, 2, 3], "3 labels, but clusters", id="too many labels"),
        pytest.param([[0, 1]], [4, 4], "label 4 stands in two places", id="a label twice"),
        pytest.param([[0, 1]], [4, -4], "label -4 is negative", id="a negative label"),
    ],
)
def test_clusters_that_make_no_tree_are_refused(clusters: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LabelTree.from_clusters(clusters, labels)


@pytest.mark.parametrize(
    ("begins", "labels", "message"),
    [
        pytest.param([], [0], "no layers", id="no layers"),
        pytest.param([[0, 1, 2]], [0, 1], "root alone", id="two roots"),
        pytest.param([[0, 2], [0, 1, 1]], [0], "no children", id="a node without children"),
        pytest.param([[0, 3], [0, 1, 2]], [0, 1], "3 children", id="children that are not there"),
        pytest.param([[1, 2]], [0, 1], "start at 0", id="a late start"),
        pytest.param([[0, 2]], [0], "2 children", id="labels that are not there"),
    ],
)
def test_arrays_that_are_no_tree_are_refused(begins: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LabelTree(tuple(np.array(b, np.int32) for b in begins), np.array(labels, np.int32))


def test_arrays_of_other_integers_make_the_same_tree() -> None:
    begins, labels = [[0, 2], [0, 2, 4]], [3, 1, 0, 2]
    tree = LabelTree(tuple(np.array(b, np.int32) for b in begins), np.array(labels, np.int32))
    for dtype in (np.int64, np.uint16):
        other = LabelTree(
            tuple(np.repeat(np.array(b, dtype), 2)[::2] for b in begins), np.array(labels, dtype)
        )
        assert [b.tolist() for b in other.begins] == begins
        assert other.labels.dtype == np.int32
        np.testing.assert_array_equal(other.labels, tree.labels)
    with pytest.raises(TypeError, match=r"begins\[1\] has shape \(3,\) and dtype float64"):
        LabelTree((np.array([0, 2]), np.array([0.0, 2, 4])), np.array(labels))
    with pytest.raises(ValueError, match="labels has values from 0 to 4294967296"):
        LabelTree(tuple(np.array(b) for b in begins), np.array([3, 1, 0, 2**32]))


def test_path_of_a_label_outside_the_tree_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="label 9 is not in the tree"):
        LabelTree.from_clusters([[0, 0, 1]]).path(9)


def test_grow_with_the_wrong_number_of_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="5 rows, but there are 4 labels"):
        LabelTree.grow(label_vectors(0, 5), np.arange(4))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"branching": 1}, "branching is 1, but must be at least 2"),
        ({"branching": 0}, "branching is 0, but must be at least 2"),
        ({"leaf_size": 0}, "leaf_size is 0, but must be at least 1"),
        ({"leaf_size": -1}, "leaf_size is -1, but must be at least 1"),
        ({"iterations": 0}, "iterations is 0, but must be at least 1"),
    ],
)
def test_grow_with_settings_that_make_no_tree_is_refused(setting: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        LabelTree.grow(label_vectors(0, 300), **setting)
