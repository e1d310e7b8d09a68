"""Amended trees: what is solved again is what training gives, and all else keeps its weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dense_oracle import dense_weights, node_log_probabilities, random_problem
from scipy.sparse import csr_array

from hedgerow import LabelTree, _native
from hedgerow.inputs.matrices import as_indicator, as_rows
from hedgerow.trees.regrowth import Regrown, regrow
from hedgerow.trees.tree_model import TreeClassifier

FEATURES, LABELS = 40, 36
SETTINGS: dict[str, Any] = {
    "negative_share": 1.0,
    "loss": "squared_hinge",
    "C": 1.0,
    "positive_cost": 1.0,
    "negative_cost": 1.0,
    "bias": 1.0,
    "tolerance": 0.1,
    "max_passes": 100,
    "weight_threshold": 0.05,
    "matcher_beam": 0,
    "normalise": True,
    "seed": 11,
}
WAYS: list[dict[str, Any]] = [
    {},
    {"matcher_beam": 3},
    {"loss": "logistic", "C": 10.0},
    {"bias": 0.0, "normalise": False},
]


def wrapped(native: Any, tree: LabelTree, how: dict[str, Any]) -> TreeClassifier:
    transform = "sigmoid" if how.get("loss") == "logistic" else "l3-hinge"
    return TreeClassifier(tree, FEATURES, transform, how.get("normalise", True), native, 0)


def trained(
    X: Any, Y: Any, tree: LabelTree, how: dict[str, Any], costs: Any = None, threads: int = 1
) -> TreeClassifier:
    rows, labels = as_rows(X, threads=1), as_indicator(Y, X.shape[0], 1)[1]
    found = _native.train(
        rows, labels, list(tree.begins), tree.labels, costs, None,
        threads=threads, progress=None, **SETTINGS | how,
    )  # fmt: skip
    return wrapped(found.model, tree, how)


def amended(
    before: TreeClassifier,
    X: Any,
    Y: Any,
    grown: Regrown,
    arrived: Any,
    how: dict[str, Any],
    *,
    renewal: float = 0.1,
    now: int = 1,
    lost: Any = None,
    costs: Any = None,
    threads: int = 1,
    solved: Any = None,
) -> tuple[TreeClassifier, Any]:
    rows, labels = as_rows(X, threads=1), as_indicator(Y, X.shape[0], 1)[1]
    if solved is None:
        solved = [np.zeros(size, dtype=np.int32) for size in grown.tree.layer_sizes[1:]]
    found = _native.amend(
        before.native, rows, labels, list(grown.tree.begins), grown.tree.labels, list(grown.origins),
        np.asarray(arrived, dtype=np.int32), solved, now, renewal,
        None if lost is None else as_indicator(lost, lost.shape[0], 1)[1], costs, None,
        threads=threads, progress=None, **SETTINGS | how,
    )  # fmt: skip
    return wrapped(found.model, grown.tree, how), found


def bytes_of(model: TreeClassifier) -> list[bytes]:
    count = sum(model.tree.layer_sizes[:-1])
    return [model.native.table().tobytes(), *(model.native.block(chunk).tobytes() for chunk in range(count))]


def lanes(model: TreeClassifier, layer: int, node: int) -> list[bytes]:
    """The weights and the bias of each child of a node."""
    weights, bias = dense_weights(model, layer, node)
    return [weights[lane].tobytes() + bias[lane].tobytes() for lane in range(len(bias))]


def as_it_is(tree: LabelTree) -> Regrown:
    nothing = np.zeros(0, dtype=np.int32)
    return regrow(tree, nothing, nothing, np.zeros(LABELS + 8, dtype=bool))


@pytest.fixture(scope="module")
def problem() -> tuple[csr_array, csr_array, LabelTree]:
    X, Y = random_problem(5, 240, FEATURES, LABELS, density=0.3)
    clusters = np.random.default_rng(0).permutation(np.arange(LABELS) % 6)
    return X, Y, LabelTree.from_clusters([clusters, np.arange(6) // 3])


def positive_rows(Y: npt.NDArray[np.bool_], tree: LabelTree, layer: int, node: int) -> npt.NDArray[np.bool_]:
    """Which rows have a label below a node."""
    begin, end = node, node + 1
    for begins in tree.begins[layer:]:
        begin, end = int(begins[begin]), int(begins[end])
    return np.asarray(Y[:, tree.labels[begin:end]].any(axis=1))


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_amended_tree_when_every_row_is_new_then_has_the_bytes_of_training(
    problem: tuple[csr_array, csr_array, LabelTree], how: dict[str, Any]
) -> None:
    X, Y, tree = problem
    before = trained(X[:120], Y[:120], tree, how)
    after, found = amended(before, X, Y, as_it_is(tree), np.ones(240), how, renewal=1e-9)
    expected = trained(X, Y, tree, how)
    assert bytes_of(before) != bytes_of(expected)
    assert bytes_of(after) == bytes_of(expected)
    assert found.solved == sum(tree.layer_sizes[1:])
    assert [set(when.tolist()) for when in found.when] == [{1}] * tree.depth


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_amended_tree_when_no_row_is_new_then_keeps_all_its_bytes(
    problem: tuple[csr_array, csr_array, LabelTree], how: dict[str, Any]
) -> None:
    X, Y, tree = problem
    before = trained(X, Y, tree, how)
    after, found = amended(before, X, Y, as_it_is(tree), np.zeros(240), how, renewal=1e-9)
    assert bytes_of(after) == bytes_of(before)
    assert (found.solved, found.passes, found.more_weights) == (0, 0, 0)


@pytest.mark.parametrize("renewal", [0.02, 0.1, 0.3])
def test_classifier_when_less_than_the_share_changed_then_stays_and_else_is_that_of_training(
    problem: tuple[csr_array, csr_array, LabelTree], renewal: float
) -> None:
    X, Y, tree = problem
    tight = {"tolerance": 1e-4, "max_passes": 20_000, "weight_threshold": 0.0}
    truth = Y.toarray().astype(bool)
    arrived = np.zeros(240, dtype=np.int32)
    arrived[200:] = 1
    before = trained(X[:200], Y[:200], tree, tight)
    after, found = amended(before, X, Y, as_it_is(tree), arrived, tight, renewal=renewal)
    whole = trained(X, Y, tree, tight)
    kept = again = 0
    for layer in range(tree.depth):
        for node in range(tree.layer_sizes[layer]):
            old, new = lanes(before, layer, node), lanes(after, layer, node)
            weights, bias = dense_weights(after, layer, node)
            expected, own = dense_weights(whole, layer, node)
            first = int(tree.begins[layer][node])
            for lane in range(len(old)):
                positive = positive_rows(truth, tree, layer + 1, first + lane)
                came = int((positive & (arrived == 1)).sum())
                if came and came >= np.float32(renewal) * positive.sum():
                    again += 1
                    assert found.when[layer][first + lane] == 1
                    np.testing.assert_allclose(weights[lane], expected[lane], rtol=2**-7, atol=1e-3)
                    np.testing.assert_allclose(bias[lane], own[lane], atol=1e-3)
                else:
                    kept += 1
                    assert found.when[layer][first + lane] == 0
                    assert new[lane] == old[lane]
    assert kept > 5
    assert again > 5
    assert found.solved == again


def test_row_that_a_classifier_was_solved_with_counts_no_more_as_new(
    problem: tuple[csr_array, csr_array, LabelTree],
) -> None:
    X, Y, tree = problem
    before = trained(X, Y, tree, {})
    arrived = np.repeat([0, 1, 2], 80)
    solved = [np.full(size, 2, dtype=np.int32) for size in tree.layer_sizes[1:]]
    after, found = amended(before, X, Y, as_it_is(tree), arrived, {}, now=3, renewal=1e-9, solved=solved)
    assert bytes_of(after) == bytes_of(before)
    solved[-1][4] = 1  # which has not seen the rows of update 2
    _, found = amended(before, X, Y, as_it_is(tree), arrived, {}, now=3, renewal=1e-9, solved=solved)
    own = positive_rows(Y.toarray().astype(bool), tree, tree.depth, 4)
    assert found.solved == int(own[arrived == 2].any())
    assert found.when[-1][4] == (3 if own[arrived == 2].any() else 1)


def test_classifier_when_its_rows_left_then_is_solved_again(
    problem: tuple[csr_array, csr_array, LabelTree],
) -> None:
    X, Y, tree = problem
    label = int(tree.labels[0])
    mine = np.flatnonzero(Y.toarray()[:, label])
    gone = mine[: len(mine) // 2] if len(mine) > 1 else mine[:0]
    assert len(gone)
    rest = np.setdiff1d(np.arange(240), gone)
    before = trained(X, Y, tree, {})
    alone = csr_array((np.ones(len(gone), np.int8), (np.arange(len(gone)), [label] * len(gone))),
                      shape=(len(gone), LABELS))  # fmt: skip
    arrived = np.zeros(len(rest))
    after, found = amended(before, X[rest], Y[rest], as_it_is(tree), arrived, {}, lost=alone)
    assert found.when[-1][0] == 1
    assert [when for when in found.when[-1].tolist()].count(1) == 1
    assert lanes(after, tree.depth - 1, 0)[1:] == lanes(before, tree.depth - 1, 0)[1:]


@pytest.mark.parametrize("how", WAYS, ids=str)
@pytest.mark.parametrize("split", [False, True])
def test_amended_tree_with_other_labels_is_the_same_at_any_number_of_threads(
    problem: tuple[csr_array, csr_array, LabelTree], how: dict[str, Any], split: bool
) -> None:
    X, Y, tree = problem
    before = trained(X, Y, tree, how)
    wider = csr_array((Y.data, Y.indices, Y.indptr), shape=(240, LABELS + 4)).tolil()
    wider[:12, LABELS] = 1
    wider[12:20, LABELS + 3] = 1
    arrived = np.zeros(240)
    arrived[:20] = 1
    dropped = np.zeros(LABELS + 4, dtype=bool)
    dropped[tree.labels[[0, 9]]] = True
    halves = {1: tree.children(tree.depth - 1, 1)[:2]} if split else {}
    grown = regrow(tree, np.array([LABELS, LABELS + 3]), np.array([0, 4]), dropped, halves)
    there = csr_array(wider)
    costs = np.random.default_rng(2).poisson(1.0, 240).astype(np.float32)
    one, first = amended(before, X, there, grown, arrived, how, costs=costs)
    four, second = amended(before, X, there, grown, arrived, how, costs=costs, threads=4)
    assert bytes_of(one) == bytes_of(four)
    assert all((a == b).all() for a, b in zip(first.when, second.when, strict=True))
    assert first.more_weights == second.more_weights == stored(one) - stored(before)
    # A label that stays, in a leaf that stays, and that no new row has, says what it said.
    truth = there.toarray().astype(bool)
    checked = 0
    for place, label in enumerate(grown.tree.labels.tolist()):
        origin = int(grown.origins[-1][place])
        if origin < 0 or truth[:20, label].any():
            continue
        if first.when[-1][place] == 0:
            assert lane_of(one, place) == lane_of(before, origin)
            checked += 1
    assert checked > 3
    for label in (LABELS, LABELS + 3):
        assert first.when[-1][grown.tree.labels.tolist().index(label)] == 1


def stored(model: TreeClassifier) -> int:
    return sum(
        len(model.node_weights(layer, node)[0])
        for layer in range(model.tree.depth)
        for node in range(model.tree.layer_sizes[layer])
    )


def lane_of(model: TreeClassifier, place: int) -> bytes:
    """The classifier of the label at a place."""
    leaf = int(np.searchsorted(model.tree.begins[-1], place, side="right")) - 1
    return lanes(model, model.tree.depth - 1, leaf)[place - int(model.tree.begins[-1][leaf])]


def test_row_that_costs_nothing_neither_changes_a_classifier_nor_counts(
    problem: tuple[csr_array, csr_array, LabelTree],
) -> None:
    X, Y, tree = problem
    arrived = np.zeros(240)
    arrived[200:] = 1
    costs = np.ones(240, dtype=np.float32)
    costs[200:] = 0
    before = trained(X, Y, tree, {}, costs)
    after, found = amended(before, X, Y, as_it_is(tree), arrived, {}, costs=costs, renewal=1e-9)
    assert bytes_of(after) == bytes_of(before)
    assert found.solved == 0


def test_amend_when_its_arguments_do_not_fit_then_refuses(
    problem: tuple[csr_array, csr_array, LabelTree],
) -> None:
    X, Y, tree = problem
    before = trained(X, Y, tree, {})
    grown = as_it_is(tree)
    narrow = X[:, : FEATURES - 1]
    ones = [np.zeros(size, dtype=np.int32) for size in tree.layer_sizes[1:]]

    def origins(layer: int, change: Any) -> Regrown:
        own = [origin.copy() for origin in grown.origins]
        own[layer] = change(own[layer])
        return Regrown(grown.tree, tuple(own))

    def at_place(value: int) -> Any:
        def change(own: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
            own[0] = value
            return own

        return change

    flat = LabelTree((np.array([0, LABELS], dtype=np.int32),), tree.labels)
    for match, refused in {
        "rows do not fit": lambda: amended(before, narrow, Y, grown, np.zeros(240), {}),
        "rows do not fit the": lambda: amended(before, X, Y, grown, np.zeros(239), {}),
        "the rows do not": lambda: amended(before, X, Y, grown, np.zeros(240), {}, solved=ones[:-1]),
        "solved does not fit": lambda: amended(
            before, X, Y, grown, np.zeros(240), {}, solved=[*ones[:-1], ones[-1][1:]]
        ),
        "origins do not fit": lambda: amended(
            before, X, Y, origins(1, lambda own: own[1:]), np.zeros(240), {}
        ),
        "no such node": lambda: amended(before, X, Y, origins(1, at_place(10**6)), np.zeros(240), {}),
        "no such node to": lambda: amended(before, X, Y, origins(0, at_place(-2)), np.zeros(240), {}),
        "same depth": lambda: amended(before, X, Y, as_it_is(flat), np.zeros(240), {}),
    }.items():
        with pytest.raises(ValueError, match=match):
            refused()


def test_tree_of_several_members_is_not_amended(
    problem: tuple[csr_array, csr_array, LabelTree],
) -> None:
    X, Y, tree = problem
    both = TreeClassifier.merge([trained(X, Y, tree, {"seed": seed}) for seed in (1, 2)], 1)
    with pytest.raises(ValueError, match="one member"):
        amended(both, X, Y, as_it_is(tree), np.zeros(240), {})


# --- graft ---


def random_weights(seed: int, rows: int) -> csr_array:
    random = np.random.default_rng(seed)
    dense = random.normal(size=(rows, FEATURES)) * (random.random((rows, FEATURES)) < 0.3)
    return csr_array(dense.astype(np.float32))


def put_together(tree: LabelTree, weights: csr_array) -> TreeClassifier:
    """A tree of one or two layers whose labels have these weights, by their places."""
    nodes: list[Any] = []
    nothing = np.zeros(0, dtype=np.int32)
    if tree.depth == 2:
        ones = np.ones(tree.layer_sizes[1], dtype=np.float32)
        nodes.append((nothing, nothing, nothing.astype(np.float32), ones))
    for leaf in range(tree.layer_sizes[tree.depth - 1]):
        begin, end = tree.begins[-1][leaf : leaf + 2].tolist()
        own = weights[begin:end]
        own.sort_indices()
        lane = np.repeat(np.arange(end - begin, dtype=np.int32), np.diff(own.indptr))
        nodes.append((own.indices.astype(np.int32), lane, own.data, np.zeros(end - begin, dtype=np.float32)))
    native = _native.assemble(list(tree.begins), tree.labels, FEATURES, "l3-hinge", nodes, 1)
    return wrapped(native, tree, {})


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_grafted_tree_scores_as_one_assembled_of_the_same_weights(deep: bool, share: float) -> None:
    shape = [np.arange(LABELS) % 5] if deep else []
    tree = LabelTree.from_clusters(shape) if deep else LabelTree(
        (np.array([0, LABELS], dtype=np.int32),), np.arange(LABELS, dtype=np.int32)[::-1].copy()
    )  # fmt: skip
    old = random_weights(1, LABELS)
    before = put_together(tree, old)
    dropped = np.zeros(LABELS + 20, dtype=bool)
    dropped[[3, 8, 13, 30]] = True
    new = np.arange(LABELS, LABELS + 20)
    grown = regrow(tree, new, np.arange(20) % (5 if deep else 1), dropped)
    count = len(grown.tree.labels)
    fresh = random_weights(2, count)
    given = (np.random.default_rng(3).random(count) < share) | (grown.origins[-1] < 0)
    found = _native.graft(
        before.native, list(grown.tree.begins), grown.tree.labels, list(grown.origins),
        as_rows(fresh, threads=1), given.astype(np.uint8), 1,
    )  # fmt: skip
    both = np.where(given[:, None], fresh.toarray(), old.toarray()[np.maximum(grown.origins[-1], 0)])
    expected = put_together(grown.tree, csr_array(both))
    grafted = wrapped(found.model, grown.tree, {})
    X = random_weights(4, 30)
    for layer in range(1, grown.tree.depth + 1):
        np.testing.assert_array_equal(
            node_log_probabilities(grafted, X, layer), node_log_probabilities(expected, X, layer)
        )
    assert bytes_of(grafted) == bytes_of(expected)
    assert found.more_weights == stored(grafted) - stored(before)
    again = _native.graft(
        before.native, list(grown.tree.begins), grown.tree.labels, list(grown.origins),
        as_rows(fresh, threads=1), given.astype(np.uint8), 4,
    )  # fmt: skip
    assert bytes_of(wrapped(again.model, grown.tree, {})) == bytes_of(grafted)


def test_graft_when_weights_do_not_fit_the_tree_then_refuses() -> None:
    tree = LabelTree.from_clusters([np.arange(LABELS) % 5])
    before = put_together(tree, random_weights(1, LABELS))
    same = as_it_is(tree)
    for rows, given in ((LABELS - 1, LABELS), (LABELS, LABELS + 1)):
        with pytest.raises(ValueError, match="weights do not fit"):
            _native.graft(
                before.native, list(tree.begins), tree.labels, list(same.origins),
                as_rows(random_weights(2, rows), threads=1), np.zeros(given, dtype=np.uint8), 1,
            )  # fmt: skip
