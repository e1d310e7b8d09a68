"""The search finds what a walk over all labels finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dense_oracle import label_probabilities, node_log_probabilities, random_problem
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, vstack

from hedgerow import HedgerowClassifier, LabelTree, TopLabels
from hedgerow.inputs.matrices import as_rows
from hedgerow.inputs.search import SearchSettings

pytestmark = pytest.mark.simd

FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def fitted(
    seed: int, rows: int, features: int, labels: int, **parameters: Any
) -> tuple[HedgerowClassifier, csr_array]:
    density = parameters.pop("density", 0.2)
    tree = parameters.pop("tree", None)
    X, Y = random_problem(seed, rows, features, labels, density)
    model = HedgerowClassifier(random_state=seed, n_jobs=1, **parameters).fit(X, Y, tree=tree)
    return model, X


def assert_best(model: HedgerowClassifier, X: Any, found: TopLabels) -> None:
    """Each label has its own probability, none occurs twice, and no better one is missing."""
    truth = label_probabilities(model, X)
    assert_probabilities(model, X, found, truth)
    best = -np.sort(-truth, axis=1)[:, : found.labels.shape[1]]
    np.testing.assert_allclose(found.probability, best, rtol=1e-4, atol=1e-5)


def assert_probabilities(model: HedgerowClassifier, X: Any, found: TopLabels, truth: Any = None) -> None:
    truth = label_probabilities(model, X) if truth is None else truth
    own = np.take_along_axis(truth, found.labels, axis=1)
    assert (own >= 0).all(), "a label that the tree does not have"
    np.testing.assert_allclose(found.probability, own, rtol=1e-4, atol=1e-5)
    # In logarithms, where an error in a small probability shows as well.
    small = own > 1e-30
    np.testing.assert_allclose(np.log(found.probability[small]), np.log(own[small]), rtol=0, atol=3e-3)
    assert (np.diff(found.probability, axis=1) <= 0).all()
    assert all(len(set(labels)) == len(labels) for labels in found.labels.tolist())


def unseen_inputs(seed: int, features: int) -> csr_array:
    """New inputs: an empty one, one with all features, and some in between."""
    random = np.random.default_rng(seed + 1)
    some = random.normal(size=(4, features)) * (random.random((4, features)) < 0.3)
    return csr_array(np.vstack([np.zeros(features), random.normal(size=features), some]).astype(np.float32))


models = {
    "seed": st.integers(0, 2**31),
    "rows": st.integers(5, 60),
    "features": st.integers(1, 80),
    "labels": st.integers(1, 90),
    "branching": st.integers(2, 20),
    "leaf_size": st.integers(1, 40),
    "loss": st.sampled_from(["squared_hinge", "logistic"]),
    "weight_threshold": st.sampled_from([0.0, 1e-3, 0.05, 0.3]),
    "density": st.sampled_from([0.05, 0.3, 1.0]),
    "normalize": st.booleans(),
    "bias": st.sampled_from([0.0, 1.0, 2.5]),
}


@FEW
@given(share=st.floats(0, 1), **models)
def test_exact_search_of_any_tree_gives_the_best_labels(share: float, **problem: Any) -> None:
    model, X = fitted(**problem)
    k = 1 + int(share * (len(model.tree_.labels) - 1))
    inputs = vstack([X[:8], unseen_inputs(problem["seed"], X.shape[1])], format="csr")
    assert_best(model, inputs, model.top(inputs, k=k, exact=True))


@FEW
@given(share=st.floats(0, 1), beam=st.integers(1, 6), **models)
def test_beam_search_of_any_tree_gives_correct_probabilities_of_existing_labels(
    share: float, beam: int, **problem: Any
) -> None:
    model, X = fitted(**problem, beam=beam)
    k = 1 + int(share * (len(model.tree_.labels) - 1))
    found = model.top(X[:10], k=k)
    assert found.labels.shape == (min(10, X.shape[0]), k)
    assert_probabilities(model, X[:10], found)


@FEW
@given(**models)
def test_full_beam_gives_the_same_as_exact_search(**problem: Any) -> None:
    model, X = fitted(**problem, beam=10_000)
    k = max(1, len(model.tree_.labels) // 2)
    full, exact = model.top(X, k=k), model.top(X, k=k, exact=True)
    np.testing.assert_array_equal(full.labels, exact.labels)
    np.testing.assert_array_equal(full.probability, exact.probability)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize(
    "children", [1, 7, 8, 9, 15, 16, 17, 31, 33, 100, 112, 113, 128, 129, 145, 255, 256, 257, 300]
)
def test_exact_search_of_one_wide_node_gives_the_best_labels(children: int, loss: str) -> None:
    # Features from rare and small to frequent and large, so that all three forms of a row of weights occur:
    # nearly empty, in the middle, nearly full; with even and odd numbers of groups of 16.
    random = np.random.default_rng(children)
    share = np.linspace(0.05, 1, 40)
    rows = 60
    X = csr_array(
        (random.normal(size=(rows, 40)) * share * (random.random((rows, 40)) < share)).astype(np.float32)
    )
    Y = (random.random((rows, children)) < 0.1).astype(np.int8)
    Y[random.integers(0, rows, children), np.arange(children)] = 1
    model = HedgerowClassifier(
        leaf_size=children, loss=loss, weight_threshold=0.12, random_state=0, n_jobs=1, tolerance=0.01
    ).fit(X, Y)
    assert model.tree_.depth == 1
    features, lanes, _, _ = model.model_.forest.trees[0].node_weights(0, 0)
    if loss == "squared_hinge" and children >= 100:
        counts = np.bincount(features, minlength=40)
        assert counts.max() >= 0.7 * children, "no row of weights is dense"
        assert (counts < 0.1 * children).any(), "no row of weights is sparse"
        assert ((counts > 0.3 * children) & (counts < 0.65 * children)).any(), (
            "no row of weights is in the middle"
        )
    assert lanes.max() == children - 1
    assert_best(model, X[:12], model.top(X[:12], k=children, exact=True))


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_exact_search_of_an_uneven_tree_of_ones_own_gives_the_best_labels(depth: int) -> None:
    random = np.random.default_rng(depth)
    clusters, count = [], 60
    for _ in range(depth - 1):
        parents = max(1, count // 3)
        clusters.append(np.concatenate([np.arange(parents), random.integers(0, parents, count - parents)]))
        count = parents
    tree = (
        LabelTree.from_clusters(clusters)
        if clusters
        else LabelTree((np.array([0, 60], np.int32),), np.arange(60, dtype=np.int32))
    )
    model, X = fitted(depth, 50, 30, 60, tree=tree)
    assert model.tree_.depth == depth
    assert_best(model, X, model.top(X, k=20, exact=True))


def test_features_never_seen_in_training_change_nothing() -> None:
    X, Y = random_problem(3, 40, 30, 25)
    padded = csr_array((X.data, X.indices, X.indptr), shape=(40, 3000))
    model = HedgerowClassifier(random_state=0, leaf_size=5, branching=3, normalize=False).fit(padded, Y)
    strange = padded.tolil()
    strange[:, 30:] = 7.0
    np.testing.assert_array_equal(model.top(padded, k=25).labels, model.top(strange.tocsr(), k=25).labels)
    np.testing.assert_array_equal(
        model.top(padded, k=25).probability, model.top(strange.tocsr(), k=25).probability
    )


@pytest.mark.parametrize("width", [1, 2, 65_535, 65_536, 65_537, 300_000])
def test_exact_search_with_any_number_of_features_gives_the_best_labels(width: int) -> None:
    # Keys of the table of features have 16 bits; above 65,536 features the rest must be in the directory.
    random = np.random.default_rng(width)
    X = np.zeros((30, width), np.float32)
    for row in X:
        row[random.integers(0, width, 6)] = random.random(6) + 0.1
    Y = (random.random((30, 12)) < 0.3).astype(np.int8)
    Y[np.arange(12), np.arange(12)] = 1
    model = HedgerowClassifier(leaf_size=4, branching=2, random_state=0, weight_threshold=0).fit(
        csr_array(X), Y
    )
    assert_best(model, csr_array(X), model.top(csr_array(X), k=12, exact=True))


@pytest.fixture(scope="module")
def deep() -> tuple[HedgerowClassifier, csr_array]:
    return fitted(11, 150, 60, 120, branching=3, leaf_size=4, beam=7)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("batch", [1, 7, 150])
def test_results_at_any_batch_size_and_number_of_threads_are_the_same_bits(
    deep: tuple[HedgerowClassifier, csr_array], batch: int, threads: int, exact: bool
) -> None:
    model, X = deep
    expected = model.set_params(n_jobs=1).top(X, k=9, exact=exact)
    model.set_params(n_jobs=threads)
    parts = [model.top(X[start : start + batch], k=9, exact=exact) for start in range(0, 150, batch)]
    np.testing.assert_array_equal(np.vstack([part.labels for part in parts]), expected.labels)
    np.testing.assert_array_equal(np.vstack([part.probability for part in parts]), expected.probability)


@pytest.mark.parametrize("beam", [60, 61])  # threads take four nodes at a time: also where one is left
def test_one_long_input_shared_by_threads_gets_the_bits_of_one_thread(beam: int) -> None:
    model, X = fitted(3, 200, 3000, 400, density=0.4, leaf_size=4, branching=4, weight_threshold=0.01)
    model.set_params(beam=beam)
    whole = model.top(X[:6], k=200)
    assert np.diff(X.indptr[:7]).max() * 60 > 5 * 4_000  # enough work for five threads
    for threads in (1, 2, 3, 5):
        model.set_params(n_jobs=threads)
        before = newest_thread()
        for _ in range(2):  # the second finds the scratch memory of the first
            for row in range(6):
                alone = model.top(X[row : row + 1], k=200)
                np.testing.assert_array_equal(alone.labels[0], whole.labels[row])
                np.testing.assert_array_equal(alone.probability[0], whole.probability[row])
        assert threads == 1 or newest_thread() - before >= 12 * (threads - 1) or newest_thread() < before


def newest_thread() -> int:
    """The number of the thread that Linux started last. It counts up, and begins again at some point."""
    return int(Path("/proc/loadavg").read_text().split()[-1])


def test_rows_in_another_order_give_results_in_that_order(deep: tuple[HedgerowClassifier, csr_array]) -> None:
    model, X = deep
    order = np.random.default_rng(0).permutation(X.shape[0])
    expected, found = model.top(X, k=5), model.top(X[order], k=5)
    np.testing.assert_array_equal(found.labels, expected.labels[order])
    np.testing.assert_array_equal(found.probability, expected.probability[order])


def test_beam_search_keeps_the_nodes_that_a_dense_walk_keeps(
    deep: tuple[HedgerowClassifier, csr_array],
) -> None:
    model, X = deep
    trained, tree, beam, k = model.model_.forest.trees[0], model.tree_, 7, 3
    found = model.top(X[:40], k=k)
    for row in range(40):
        kept = np.array([0])
        for layer in range(1, tree.depth + 1):
            logs = node_log_probabilities(trained, X[[row]], layer)[0]
            below = np.concatenate(
                [np.arange(tree.begins[layer - 1][n], tree.begins[layer - 1][n + 1]) for n in kept]
            )
            order = below[np.lexsort((below, -logs[below]))]
            limit = k if layer == tree.depth else beam
            # Where rounding could swap two nodes, there is nothing to compare.
            clear = len(order) <= limit or logs[order[limit - 1]] - logs[order[limit]] > 1e-4
            if not clear:
                break
            kept = np.sort(order[:limit])
        else:
            assert set(found.labels[row].tolist()) == set(tree.labels[kept].tolist())


@pytest.mark.parametrize("exact", [False, True])
def test_k_of_all_labels_gives_every_label_once(
    deep: tuple[HedgerowClassifier, csr_array], exact: bool
) -> None:
    model, X = deep
    found = model.top(X[:5], k=120, exact=exact)
    np.testing.assert_array_equal(np.sort(found.labels, axis=1), np.tile(np.arange(120), (5, 1)))
    assert_best(model, X[:5], found)


@pytest.mark.parametrize("k", [1, 2, 10, 29, 30])
def test_beam_of_one_over_leaves_of_one_label_still_gives_k_labels(k: int) -> None:
    model, X = fitted(5, 40, 20, 30, branching=2, leaf_size=1, beam=1)
    found = model.top(X, k=k)
    assert found.labels.shape == (40, k)
    assert_probabilities(model, X, found)


@pytest.mark.parametrize("exact", [False, True])
def test_equal_probabilities_are_ranked_by_label(exact: bool) -> None:
    # All weights are dropped and there is no bias: every score is 0.
    X, Y = random_problem(2, 30, 10, 40)
    tree = LabelTree.from_clusters([np.arange(40) % 5])
    model = HedgerowClassifier(random_state=0, weight_threshold=1e6, bias=0, beam=100).fit(X, Y, tree=tree)
    found = model.top(X[:1], k=23, exact=exact)
    assert len(set(found.probability[0].tolist())) == 1
    np.testing.assert_array_equal(found.labels[0], np.arange(23))
    np.testing.assert_array_equal(model.predict_uncertain(X[:1], k=23).labels, found.labels)


def test_certain_labels_are_ranked_alike_with_and_without_doubt() -> None:
    # Two labels that always come together, and a fit so close that many probabilities are 1.
    n, L = 400, 60
    y = np.random.default_rng(0).integers(0, L // 2, n)
    X = csr_array((np.ones(n, np.float32), (np.arange(n), y)), shape=(n, L // 2))
    pairs = np.stack([y, L - 1 - y], axis=1).ravel()
    Y = csr_array((np.ones(2 * n, np.int8), (np.repeat(np.arange(n), 2), pairs)), shape=(n, L))
    model = HedgerowClassifier(random_state=0, C=100.0, n_jobs=1).fit(X, Y)
    found = model.top(X, k=2)
    assert (found.probability == 1).any()
    np.testing.assert_array_equal(model.predict_uncertain(X, k=2).labels, found.labels)


def test_features_that_no_classifier_uses_change_nothing() -> None:
    # Rows of a chunk are told apart by the low 16 bits of a hash. A search that had to move on through full
    # buckets could take a row whose hash is 65,536 or more away for its own.
    features, count = 1 << 20, 605
    random = np.random.default_rng(42)
    used = np.sort(random.choice(features, count, replace=False))
    n, L = 200, 10
    y = random.integers(0, L, n)
    dense = np.zeros((n, count), np.float32)
    for row in range(n):
        dense[row, (np.arange(count) % L == y[row]) & (random.random(count) < 0.3)] = 1
    narrow = csr_array(dense)
    X = csr_array((narrow.data, used[narrow.indices], narrow.indptr), shape=(n, features))
    Y = csr_array((np.ones(n, np.int8), (np.arange(n), y)), shape=(n, L))
    model = HedgerowClassifier(random_state=0, n_jobs=1, weight_threshold=0).fit(X, Y)
    expected = model.predict_votes(csr_array((1, features), dtype=np.float32)).probs
    multiplier = 0x9E3779B1
    hashes = used * multiplier % features
    near = np.concatenate([hashes - shift * 65536 for shift in (1, 2, 3)]) % features
    others = np.setdiff1d(near * pow(multiplier, -1, features) % features, used)
    assert len(others) > 1500
    for feature in others.tolist():
        one = csr_array((np.ones(1, np.float32), ([0], [feature])), shape=(1, features))
        np.testing.assert_array_equal(model.predict_votes(one).probs, expected)


def test_search_within_a_search_leaves_the_outer_one_alone() -> None:
    # One input that takes so long that the engine asks whether to go on.
    random = np.random.default_rng(0)
    n, F, L = 1000, 400, 1000
    X = csr_array((random.random((n, F)) * (random.random((n, F)) < 0.5)).astype(np.float32))
    Y = csr_array((np.ones(n, np.int8), (np.arange(n), np.arange(n) % L)), shape=(n, L))
    model = HedgerowClassifier(
        method="mc-dropout", members=4000, random_state=0, n_jobs=1, max_passes=3, leaf_size=10,
        weight_threshold=0, candidates="all",
    ).fit(X, Y)  # fmt: skip
    within = []

    def progress(share: float, what: str) -> None:
        if not within:
            within.append(None)
            within[0] = model.predict_uncertain(X[[1]], k=3)

    outer = model.predict_uncertain(X[[0]], k=3, progress=progress)
    if not within:
        pytest.skip("this machine is so fast that it never asked")
    for found, row in ((outer, 0), (within[0], 1)):
        alone = model.predict_uncertain(X[[row]], k=3)
        np.testing.assert_array_equal(found.labels, alone.labels)
        np.testing.assert_array_equal(found.probability, alone.probability)


def test_an_empty_input_gets_the_probabilities_of_the_biases(
    deep: tuple[HedgerowClassifier, csr_array],
) -> None:
    model, X = deep
    nothing = csr_array((1, X.shape[1]), dtype=np.float32)
    assert_best(model, nothing, model.top(nothing, k=10, exact=True))


@FEW
@given(scale=st.floats(1e-30, 1e30), seed=st.integers(0, 5))
def test_inputs_of_any_length_are_scaled_to_one_when_normalizing(scale: float, seed: int) -> None:
    model, X = fitted(seed, 30, 20, 15)
    assume(np.isfinite(X.data * scale).all() and (np.abs(X.data * np.float32(scale)) > 1e-37).all())
    plain, scaled = model.top(X, k=5, exact=True), model.top(X * np.float32(scale), k=5, exact=True)
    np.testing.assert_allclose(plain.probability, scaled.probability, rtol=1e-3, atol=1e-5)


def test_inputs_at_the_edge_of_float32_are_scaled_or_count_as_empty() -> None:
    model, _ = fitted(1, 30, 20, 15)
    signs = np.where(np.arange(20) % 2, 1, -1).astype(np.float32)[None]
    huge = model.top(csr_array(signs * np.finfo(np.float32).max), k=15)
    np.testing.assert_allclose(
        huge.probability, model.top(csr_array(signs), k=15).probability, rtol=1e-3, atol=1e-5
    )
    # The smallest number there is: too short to be scaled, so the same as an empty input.
    tiny, empty = model.top(csr_array(signs * np.float32(1e-45)), k=15), model.top(csr_array(0 * signs), k=15)
    np.testing.assert_allclose(tiny.probability, empty.probability, rtol=1e-3, atol=1e-5)


# --- how far members follow an input ----------------------------------------------------------------------

WANTED = [(1, 2), (2, 4), (3, 8), (2, 1), (6, 3)]
ensembles = {
    "seed": st.integers(0, 2**31),
    "rows": st.integers(5, 40),
    "features": st.integers(1, 60),
    "labels": st.integers(1, 120),
    "branching": st.integers(2, 9),
    "leaf_size": st.integers(1, 30),
    "loss": st.sampled_from(["squared_hinge", "logistic"]),
    "kind": st.sampled_from(
        [
            {"method": "single"},
            {"method": "bagging", "members": 3},
            {"method": "bagging", "members": 4, "trees": 1},
            {"method": "bagging", "members": 5, "trees": 2},
            {"method": "mc-dropout", "members": 3},
        ]
    ),
}


@FEW
@given(
    beam=st.integers(1, 8),
    candidates=st.sampled_from(["scored", "all", 1, 3]),
    missing=st.sampled_from(["exact", "delta", "bound"]),
    tolerance=st.sampled_from([None, 0.3, 0.01, 0.0]),
    threads=st.integers(1, 3),
    **ensembles,
)
def test_reach_found_by_any_search_is_bit_for_bit_the_reach_alone(
    beam: int, candidates: Any, missing: str, tolerance: float | None, threads: int, kind: Any, **problem: Any
) -> None:
    model, X = fitted(**problem, **kind)
    ensemble, search = model.model_.forest, SearchSettings(beam, candidates, missing, tolerance)
    alone = ensemble.reach(as_rows(X), WANTED, 1)
    for rows in (slice(None), slice(3, 4), slice(1, 5)):
        inputs = as_rows(X[rows])
        votes = ensemble.votes(inputs, 1, search, threads, WANTED)
        assert votes.reach is not None
        assert votes.reach.tobytes() == alone[rows].tobytes()
        assert ensemble.reach(inputs, WANTED, threads).tobytes() == alone[rows].tobytes()
        # What is found beside the reach is what is found without it.
        plain = ensemble.votes(inputs, 1, search, threads)
        assert plain.reach is None
        for name in ("indptr", "labels", "probs", "bound", "missed"):
            np.testing.assert_array_equal(getattr(votes, name), getattr(plain, name))


def inputs_of(X: csr_array, rows: slice) -> int:
    return len(range(*rows.indices(X.shape[0])))
