"""Trees trained in pieces are the trees that are trained in one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dense_oracle import random_problem
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import LabelTree, _native
from hedgerow.inputs.matrices import as_indicator, as_rows
from hedgerow.storage.container import read_model, write_model
from hedgerow.training.blocks import (
    Block,
    TrainedBlock,
    TreeTask,
    above,
    as_matched,
    block_work,
    cut,
    gaps,
    join,
    joined_sections,
    match,
)
from hedgerow.trees.tree_model import LabelledInputs, TreeClassifier

ROWS, FEATURES, LABELS = 90, 30, 40
# Layers of 1, 3 and 8 nodes, then the labels: some nodes have more children than a panel has lanes.
TREE = LabelTree.from_clusters([np.minimum(np.arange(LABELS) // 2, 7), np.arange(8) % 3])
SETTINGS: dict[str, Any] = {
    "negative_share": 0.5,
    "loss": "squared_hinge",
    "C": 1.0,
    "positive_cost": 1.0,
    "negative_cost": 1.0,
    "bias": 1.0,
    "tolerance": 0.1,
    "max_passes": 100,
    "weight_threshold": 0.01,
    "matcher_beam": 0,
    "normalise": True,
    "seed": 7,
}


def tree_task(hard: bool = False, weighted: bool = False, **changes: Any) -> TreeTask:
    X, Y = random_problem(3, ROWS, FEATURES, LABELS, density=0.3)
    random = np.random.default_rng(5)
    costs = random.integers(0, 3, ROWS).astype(np.float32) if weighted else None
    negatives = None
    if hard:
        wrong = random.random((ROWS, LABELS)) < 0.1
        wrong[Y.toarray() > 0] = False
        negatives = as_indicator(wrong, ROWS)[1]
    return TreeTask(as_rows(X), as_indicator(Y, ROWS)[1], TREE, costs, negatives, SETTINGS | changes)


def in_one_piece(task: TreeTask) -> TreeClassifier:
    rows = LabelledInputs(task.X, task.Y, FEATURES, task.costs, task.negatives)
    return TreeClassifier.train(rows, task.tree, task.settings, 2, None)


def in_blocks(task: TreeTask, nodes: int) -> list[TrainedBlock]:
    """Layer by layer, at most so many nodes at once; a matcher searches a third of the rows at a time."""
    trained: list[TrainedBlock] = []
    matched = None
    indptr, indices, values, columns = task.X.arrays()
    for layer in range(task.tree.depth):
        if layer and task.settings["matcher_beam"]:
            upper = above(task.tree, layer, trained, FEATURES, task.settings["loss"], True)
            found = []
            for begin in range(0, ROWS, ROWS // 3):
                part = indptr[begin : begin + ROWS // 3 + 1]
                rows = slice(part[0], part[-1])
                some = _native.Rows(part - part[0], indices[rows], values[rows], columns)
                found.append(match(upper, some, task.settings["matcher_beam"], 1))
            matched = as_matched(found, task.tree.layer_sizes[layer])
        size = task.tree.layer_sizes[layer]
        for first in range(0, size, nodes):
            trained.append(task.train(Block(layer, first, min(first + nodes, size)), matched, 1))
    return trained


def weights_of(model: TreeClassifier) -> tuple[bytes, bytes, int]:
    state = model.__getstate__()
    return state["table"].tobytes(), state["weights"].tobytes(), model.weights


@pytest.mark.parametrize("nodes", [1, 2, 3, 8])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"loss": "logistic", "C": 10.0},
        {"normalise": False, "bias": 0.0},
        {"weighted": True},
        {"weighted": True, "hard": True},
        {"matcher_beam": 2},
        {"matcher_beam": 100},
        {"matcher_beam": 2, "weighted": True, "hard": True},
    ],
    ids=lambda how: "-".join(how) or "plain",
)
def test_tree_when_trained_in_blocks_then_has_the_bytes_of_one_piece(how: dict[str, Any], nodes: int) -> None:
    task = tree_task(**how)
    whole = in_one_piece(task)
    joined = join(
        TREE, in_blocks(task, nodes)[::-1], FEATURES, task.settings["loss"], task.settings["normalise"]
    )
    assert weights_of(joined) == weights_of(whole)
    assert joined.to_header() == whole.to_header()


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_block_when_cut_anywhere_then_has_the_chunks_of_the_whole(data: st.DataObject) -> None:
    task = tree_task()
    layer = data.draw(st.integers(0, TREE.depth - 1))
    size = TREE.layer_sizes[layer]
    first = data.draw(st.integers(0, size - 1))
    last = data.draw(st.integers(first + 1, size))
    trained = task.train(Block(layer, first, last), None, data.draw(st.integers(1, 2)))
    whole = in_one_piece(task)
    before = sum(TREE.layer_sizes[:layer])
    chunks = [whole.native.block(before + node).tobytes() for node in range(first, last)]
    assert trained.weights.tobytes() == b"".join(chunks)
    np.testing.assert_array_equal(
        trained.table[:, 1:], whole.native.table()[before + first : before + last, 1:]
    )


def test_sections_when_blocks_are_streamed_then_are_those_of_the_whole(tmp_path: Any) -> None:
    task = tree_task()
    whole = in_one_piece(task)
    write_model(tmp_path / "whole", whole.to_sections("tree"), whole.to_header())
    write_model(tmp_path / "joined", joined_sections("tree", TREE, in_blocks(task, 3)), whole.to_header())
    assert (tmp_path / "joined").read_bytes() == (tmp_path / "whole").read_bytes()
    file = read_model(tmp_path / "joined")
    opened = TreeClassifier.from_sections("tree", file.header, file.sections, LABELS, True)
    assert weights_of(opened) == weights_of(whole)


@pytest.mark.parametrize("hard", [False, True])
def test_work_of_a_node_is_features_and_rows_times_panels(hard: bool) -> None:
    task = tree_task(hard=hard)
    X, Y = random_problem(3, ROWS, FEATURES, LABELS, density=0.3)
    weight = np.diff(X.indptr) + 16
    labels = Y.toarray() > 0
    if task.negatives is not None:
        indptr, indices, _, _ = task.negatives.arrays()
        labels[np.repeat(np.arange(ROWS), np.diff(indptr)), indices] = True
    for layer in range(TREE.depth):
        begins = TREE.begins[layer]
        expected = []
        for node in range(TREE.layer_sizes[layer]):
            low, high = node, node + 1
            for below in range(layer, TREE.depth):
                low, high = TREE.begins[below][low], TREE.begins[below][high]
            here = np.ones(ROWS, bool) if layer == 0 else labels[:, TREE.labels[low:high]].any(axis=1)
            expected.append(weight[here].sum() * -(-(begins[node + 1] - begins[node]) // 16))
        np.testing.assert_array_equal(task.work(layer, None), expected)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (Block(3, 0, 1), "no inner layer 3"),
        (Block(-1, 0, 1), "no inner layer -1"),
        (Block(1, 2, 4), "from 2 to 4"),
        (Block(1, 1, 1), "from 1 to 1"),
        (Block(1, -1, 1), "from -1 to 1"),
    ],
)
def test_block_that_the_tree_does_not_have_is_refused(block: Block, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tree_task().train(block, None, 1)


def test_matcher_without_the_layers_above_is_refused() -> None:
    task = tree_task(matcher_beam=2)
    assert task.train(Block(0, 0, 1), None, 1).kept > 0
    with pytest.raises(ValueError, match="layers above"):
        task.train(Block(1, 0, 1), None, 1)
    with pytest.raises(ValueError, match="run for 1 rows, but X has 90"):
        task.train(Block(1, 0, 1), as_matched([np.zeros((1, 1), np.int32)], 3), 1)


def test_join_when_nodes_are_missing_or_doubled_then_is_refused() -> None:
    blocks = in_blocks(tree_task(), 2)
    for wrong in (blocks[1:], blocks[:-1], blocks[:2] + blocks[3:], [*blocks, blocks[2]]):
        with pytest.raises(ValueError, match="do not make up the tree"):
            join(TREE, wrong, FEATURES, "squared_hinge", True)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=30), st.integers(1, 200))
def test_cut_covers_every_node_once_and_exceeds_the_target_only_by_a_single_node(
    work: list[int], target: int
) -> None:
    blocks = cut(work, 1, target)
    assert [node for block in blocks for node in range(block.first, block.last)] == list(range(len(work)))
    assert all(
        block.last == block.first + 1 or sum(work[block.first : block.last]) <= target for block in blocks
    )


@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_gaps_are_the_nodes_that_no_block_covers(done: list[bool]) -> None:
    blocks = [Block(1, node, node + 1) for node, is_done in enumerate(done) if is_done]
    missing = [
        node for low, high in gaps([*blocks, Block(0, 0, 1)], 1, len(done)) for node in range(low, high)
    ]
    assert missing == [node for node, is_done in enumerate(done) if not is_done]


def test_block_grows_with_what_it_costs_beside_its_nodes_and_shrinks_with_processors() -> None:
    assert block_work(1e9, 1000, 1000, 2) == 1e9 / 16
    assert block_work(1e9, 1000, 1000, 4) == 1e9 / 32
    assert block_work(1.0, 10**9, 1000, 2) > block_work(1.0, 1000, 1000, 2) > 1000
