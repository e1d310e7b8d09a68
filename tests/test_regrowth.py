"""Trees that get labels, lose labels and have leaves split, beside the same done with nested lists."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import LabelTree
from hedgerow.trees.regrowth import regrow, renumbered

MANY = settings(max_examples=60, deadline=None, derandomize=True)


@dataclass
class Node:
    """A node by its number in the old tree (None: it is new), with nodes below it, or labels."""

    origin: int | None
    below: list[Node]
    label: int | None = None


@st.composite
def trees(draw: st.DrawFn) -> LabelTree:
    """Any tree: of depth 1 to 4, each node with 1 to 4 children, labels with gaps and in any order."""
    begins, nodes = [], 1
    for _ in range(draw(st.integers(1, 4))):
        sizes = draw(st.lists(st.integers(1, 4), min_size=nodes, max_size=nodes))
        begins.append(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
        nodes = sum(sizes)
    labels = draw(st.permutations(range(2 * nodes)))[:nodes]
    return LabelTree(tuple(begins), np.array(labels, dtype=np.int32))


def nested(tree: LabelTree, layer: int = 0, node: int = 0) -> Node:
    if layer == tree.depth:
        return Node(node, [], int(tree.labels[node]))
    begin, end = tree.begins[layer][node : node + 2].tolist()
    return Node(node, [nested(tree, layer + 1, child) for child in range(begin, end)])


def layer_of(root: Node, layer: int) -> list[Node]:
    found = [root]
    for _ in range(layer):
        found = [below for node in found for below in node.below]
    return found


def changed(
    tree: LabelTree, added: dict[int, int], dropped: set[int], halves: dict[int, set[int]]
) -> tuple[list[list[int]], list[int], list[list[int]]]:
    """How many children each node of each layer has after the change, the labels, and the origins."""
    root = nested(tree)
    leaves = {node.origin: node for node in layer_of(root, tree.depth - 1)}
    for label, leaf in added.items():
        leaves[leaf].below.append(Node(None, [], label))
    for leaf in leaves.values():
        leaf.below = [one for one in leaf.below if one.label not in dropped]
    if tree.depth > 1:
        for above in layer_of(root, tree.depth - 2):
            cut = []
            for leaf in above.below:
                if leaf.origin in halves:
                    second = halves[leaf.origin]
                    cut.append(Node(None, [one for one in leaf.below if one.label not in second]))
                    cut.append(Node(None, [one for one in leaf.below if one.label in second]))
                else:
                    cut.append(leaf)
            above.below = cut
    for layer in range(tree.depth - 2, -1, -1):
        for node in layer_of(root, layer):
            node.below = [below for below in node.below if below.below]
    layers = [layer_of(root, layer) for layer in range(tree.depth + 1)]
    origins = [[-1 if node.origin is None else node.origin for node in layer] for layer in layers[1:]]
    return (
        [[len(node.below) for node in layer] for layer in layers[:-1]],
        [int(node.label) for node in layers[-1] if node.label is not None],
        origins,
    )


@MANY
@given(tree=trees(), data=st.data())
def test_tree_when_labels_come_and_go_then_is_what_nested_lists_become(
    tree: LabelTree, data: st.DataObject
) -> None:
    leaves = tree.layer_sizes[tree.depth - 1]
    names = 3 * len(tree.labels) + 8
    free = sorted(set(range(names)) - set(tree.labels.tolist()))
    new = data.draw(st.lists(st.sampled_from(free), unique=True, max_size=8))
    to = data.draw(st.lists(st.integers(0, leaves - 1), min_size=len(new), max_size=len(new)))
    everyone = [*tree.labels.tolist(), *new]
    dropped = data.draw(st.sets(st.sampled_from(everyone), max_size=len(everyone) - 1))
    halves: dict[int, set[int]] = {}
    if tree.depth > 1:
        for leaf in data.draw(st.sets(st.integers(0, leaves - 1))):
            halves[leaf] = data.draw(st.sets(st.sampled_from(everyone)))
    flags = np.zeros(names, dtype=bool)
    flags[list(dropped)] = True
    asked = {leaf: np.array(sorted(second), dtype=np.int32) for leaf, second in halves.items()}
    grown = regrow(tree, np.array(new, dtype=np.int64), np.array(to, dtype=np.int64), flags, asked)

    sizes, labels, origins = changed(tree, dict(zip(new, to, strict=True)), dropped, halves)
    assert [np.diff(begins).tolist() for begins in grown.tree.begins] == sizes
    assert grown.tree.labels.tolist() == labels
    assert [origin.tolist() for origin in grown.origins] == origins
    assert all(size > 0 for layer in sizes for size in layer)
    assert sorted(labels) == sorted(set(everyone) - dropped)


@MANY
@given(tree=trees())
def test_tree_when_nothing_changes_then_is_the_same_and_every_node_its_own_origin(tree: LabelTree) -> None:
    nothing = np.zeros(0, dtype=np.int32)
    grown = regrow(tree, nothing, nothing, np.zeros(2 * len(tree.labels), dtype=bool))
    for mine, theirs in zip(grown.tree.begins, tree.begins, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(grown.tree.labels, tree.labels)
    assert [origin.tolist() for origin in grown.origins] == [
        list(range(size)) for size in tree.layer_sizes[1:]
    ]


@MANY
@given(tree=trees(), data=st.data())
def test_numbers_when_carried_then_stay_with_their_node_and_new_nodes_get_the_other(
    tree: LabelTree, data: st.DataObject
) -> None:
    names = 2 * len(tree.labels) + 1
    leaf = data.draw(st.integers(0, tree.layer_sizes[tree.depth - 1] - 1))
    dropped = np.zeros(names, dtype=bool)
    dropped[data.draw(st.sampled_from(tree.labels.tolist()))] = True
    new = names - 1  # which the tree cannot have
    grown = regrow(tree, np.array([new]), np.array([leaf]), dropped)
    old = tuple(100 + np.arange(size, dtype=np.int32) for size in tree.layer_sizes[1:])
    for carried, origin in zip(grown.carry(old, 7), grown.origins, strict=True):
        assert carried.dtype == np.int32
        assert carried.tolist() == [7 if place < 0 else 100 + place for place in origin.tolist()]


@MANY
@given(tree=trees(), data=st.data())
def test_labels_when_renumbered_then_have_their_new_columns_and_go_where_nobody_has_them(
    tree: LabelTree, data: st.DataObject
) -> None:
    before = 2 * len(tree.labels)
    order = data.draw(st.permutations(range(before)))
    lost = data.draw(st.sets(st.integers(0, before - 1)))
    columns = np.array([-1 if label in lost else order[label] for label in range(before)], dtype=np.int64)
    there = np.array(data.draw(st.lists(st.booleans(), min_size=before, max_size=before)))
    found, dropped = renumbered(tree, columns, there)
    assert len(set(found.labels.tolist())) == len(found.labels)
    for old, new in zip(tree.labels.tolist(), found.labels.tolist(), strict=True):
        if old in lost:
            assert new >= before
            assert dropped[new]
        else:
            assert new == order[old]
            assert dropped[new] == (not there[new])


def test_depth_of_a_tree_stays_whatever_is_dropped() -> None:
    begins = (np.array([0, 2], dtype=np.int32), np.array([0, 1, 2], dtype=np.int32))
    tree = LabelTree((*begins, np.array([0, 2, 5], dtype=np.int32)), np.arange(5, dtype=np.int32))
    dropped = np.array([True, True, True, False, True])
    nothing = np.zeros(0, dtype=np.int32)
    grown = regrow(tree, nothing, nothing, dropped)
    assert grown.tree.layer_sizes == (1, 1, 1, 1)
    assert [origin.tolist() for origin in grown.origins] == [[1], [1], [3]]


@pytest.mark.parametrize("second", [[], [4, 5, 6]])
def test_leaf_when_one_half_is_empty_then_has_no_empty_node(second: list[int]) -> None:
    tree = LabelTree(
        (np.array([0, 2], dtype=np.int32), np.array([0, 1, 4], dtype=np.int32)),
        np.array([3, 4, 5, 6], dtype=np.int32),
    )
    nothing = np.zeros(0, dtype=np.int32)
    grown = regrow(tree, nothing, nothing, np.zeros(9, dtype=bool), {1: np.array(second, dtype=np.int32)})
    assert grown.tree.layer_sizes == (1, 2, 4)
    assert [origin.tolist() for origin in grown.origins] == [[0, -1], [0, 1, 2, 3]]
