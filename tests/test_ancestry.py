"""Hierarchies of terms beside Python sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hedgerow.vocabulary.ancestry import Ancestry, CyclicHierarchy

PAIRS = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=25)
    )
)


def downward(seed: int, entries: int, relations: int) -> Ancestry:
    """A polyhierarchy without cycles whose entries are numbered in no order."""
    random = np.random.default_rng(seed)
    ends = np.sort(random.integers(0, entries, (relations, 2)), axis=1)
    ends = ends[ends[:, 0] < ends[:, 1]]
    name = random.permutation(entries)
    return Ancestry(entries, name[ends[:, 1]], name[ends[:, 0]])


def ancestors(n: int, pairs: list[tuple[int, int]]) -> list[set[int]]:
    """By walking up from each entry."""
    found = []
    for entry in range(n):
        seen: set[int] = set()
        ready = [entry]
        while ready:
            one = ready.pop()
            more = {parent for child, parent in pairs if child == one} - seen
            seen |= more
            ready += more
        found.append(seen)
    return found


@settings(max_examples=200, deadline=None)
@given(PAIRS)
def test_hierarchy_then_is_that_of_sets_or_refused_where_a_set_has_its_own_entry(drawn):
    n, pairs = drawn
    above = ancestors(n, pairs)
    child, parent = ([pair[i] for pair in pairs] for i in (0, 1))
    if any(entry in above[entry] for entry in range(n)):
        with pytest.raises(CyclicHierarchy) as refused:
            Ancestry(n, child, parent)
        cycle = refused.value.cycle
        assert all((a, b) in pairs for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True))
        assert len(set(cycle)) == len(cycle)
        assert cycle[0] == min(cycle)
        return
    made = Ancestry(n, child, parent)
    for entry in range(n):
        below = {other for other in range(n) if entry in above[other]}
        assert made.ancestors_of(entry).tolist() == sorted(above[entry])
        assert made.descendants(entry).tolist() == sorted(below)
        assert made.broader(entry).tolist() == sorted({p for c, p in pairs if c == entry})
        assert made.narrower(entry).tolist() == sorted({c for c, p in pairs if p == entry})
        assert made.inner[entry] == bool(below)
        assert made.roots[entry] == (bool(below) and not above[entry])
    assert made.ancestors.has_sorted_indices
    assert np.array_equal(made.upwards.toarray(), made.ancestors.toarray() + np.eye(n))

    def longest(entry: int) -> int:
        return max((1 + longest(p) for c, p in pairs if c == entry), default=0)

    assert made.depths.tolist() == [longest(entry) for entry in range(n)]


@settings(max_examples=60, deadline=None)
@given(PAIRS, st.randoms(use_true_random=False))
def test_hierarchy_for_labels_then_has_labels_first_and_the_same_ancestors(drawn, shuffle):
    n, pairs = drawn
    above = ancestors(n, pairs)
    assume(not any(entry in above[entry] for entry in range(n)))
    made = Ancestry(n, [c for c, _ in pairs], [p for _, p in pairs])
    places = [*shuffle.sample(range(n), shuffle.randint(0, n)), -1]
    shuffle.shuffle(places)
    own, order = made.for_labels(places)
    assert order[: len(places)].tolist() == places
    assert own.entries == len(order)
    wanted = set().union(*(above[place] for place in places if place >= 0)) | {p for p in places if p >= 0}
    assert set(order.tolist()) - {-1} == wanted
    for entry in range(own.entries):
        expected = above[order[entry]] if order[entry] >= 0 else set()
        assert {int(order[other]) for other in own.ancestors_of(entry)} == expected


def test_pairs_given_in_any_order_and_twice_then_make_the_same_hierarchy():
    one = Ancestry(4, [0, 1, 2, 0], [2, 2, 3, 2])
    other = Ancestry(4, np.array([2, 1, 0], dtype=np.uint16), np.array([3, 2, 2], dtype=np.int64))
    assert (one.child.tolist(), one.parent.tolist()) == (other.child.tolist(), other.parent.tolist())
    assert one.child.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("entries", "child", "parent", "message"),
    [
        (2, [0], [2], r"parent\[0\] is 2, but there are 2 entries"),
        (2, [0, -1], [1, 1], r"child\[1\] is -1"),
        (2, [0], [1, 1], "child has 1 entries, but parent has 2"),
        (2, [0.5], [1], "child must be a vector of integers"),
        (2, [[0]], [[1]], "child must be a vector"),
        (0, [0], [0], "there are 0 entries"),
        (-1, [], [], "entries is -1"),
        (3, [0, 1, 2], [1, 2, 1], "1 < 2 < 1"),
        (1, [0], [0], "0 < 0"),
    ],
)
def test_hierarchy_that_makes_no_sense_then_is_refused(entries, child, parent, message):
    with pytest.raises(ValueError, match=message):
        Ancestry(entries, child, parent)


@pytest.mark.parametrize("entries", [True, 2.0, "2", None])
def test_entries_that_are_no_integer_then_are_refused(entries):
    with pytest.raises(TypeError, match="entries is"):
        Ancestry(entries, [], [])


def test_cycle_of_many_entries_then_is_named_in_part():
    ring = np.arange(1000)
    with pytest.raises(CyclicHierarchy, match=r"0 < 1 < .* < \(990 more\) < 0") as refused:
        Ancestry(1000, ring, (ring + 1) % 1000)
    assert refused.value.cycle == tuple(range(1000))


def test_hierarchies_that_no_vocabulary_has_then_are_refused_and_not_computed():
    with pytest.raises(ValueError, match="more than 100 broader terms one above the other"):
        Ancestry(100_000, np.arange(99_999), np.arange(1, 100_000))
    # 90 layers of 100 entries, each below all of the layer before.
    place = np.arange(9000)
    child = np.repeat(place[100:], 100)
    wide = Ancestry(9000, child, (child // 100 - 1) * 100 + np.tile(np.arange(100), 8900))
    with pytest.raises(ValueError, match="too many broader terms"):
        wide.ancestors  # noqa: B018


def test_entries_that_are_not_there_then_are_refused():
    made = Ancestry(2, [0], [1])
    for entry in (-1, 2):
        with pytest.raises(IndexError, match="there are 2"):
            made.broader(entry)
    with pytest.raises(TypeError, match=r"entry is 1\.0"):
        made.descendants(1.0)
    for places, message in (([0, 0], "two labels are entry 0"), ([2], "from -1 to 1"), ([0.0], "integers")):
        with pytest.raises(ValueError, match=message):
            made.for_labels(places)


def test_hierarchy_of_nothing_then_is_empty():
    made = Ancestry(0, [], [])
    assert made.ancestors.shape == (0, 0)
    assert made.for_labels([-1, -1])[0].entries == 2
    assert made.with_more(3).depths.tolist() == [0, 0, 0]
