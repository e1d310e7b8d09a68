"""Vocabularies: entries, names, hierarchy, and the sections of a model file."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vocabularies import made, vocabularies

from hedgerow import Name, Vocabulary, VocabularyWarning
from hedgerow.vocabulary.building import EntryError


@pytest.fixture
def trees() -> Vocabulary:
    return made(
        {
            "id": "t:holly",
            "names": [("Holly", "en", True), ("Stechpalme", "de", True)],
            "broader": ["t:tree"],
        },
        {"id": "t:tree", "names": [("Baum", "de", True), ("tree", "en-GB", True), ("arbor", "", False)]},
        {"id": "t:oak", "names": [("Quercus", None, False), ("Oak", "en", False)], "broader": ["t:tree"]},
        {"id": "t:nothing"},
    )


def test_ids_are_found_and_numbered_in_the_order_of_the_file(trees: Vocabulary) -> None:
    assert len(trees) == 4
    assert trees.ids == ["t:holly", "t:tree", "t:oak", "t:nothing"]
    assert [trees.index(id) for id in trees.ids] == [0, 1, 2, 3]
    assert "t:oak" in trees
    assert "t:elm" not in trees
    assert 7 not in trees
    assert "\ud800" not in trees
    assert trees.indices(["t:oak", "t:elm", 3]).tolist() == [2, -1, -1]
    with pytest.raises(KeyError, match="no id 't:elm'"):
        trees.index("t:elm")


def test_name_prefers_the_language_asked_for_then_the_first_of_the_vocabulary(trees: Vocabulary) -> None:
    assert trees.languages == ("de", "en", "en-gb")  # two, one and one preferred names
    assert trees.name("t:holly", "en") == "Holly"
    assert trees.name("t:holly", "EN") == "Holly"
    assert trees.name("t:holly", "fr") == "Stechpalme"
    assert trees.name("t:holly") == "Stechpalme"
    assert trees.name("t:tree", "en") == "tree"  # a variant of the language
    assert trees.name("t:oak") == "Oak"  # no preferred name: one in a language, rather than one in none
    assert trees.name("t:nothing") is None


def test_names_are_preferred_ones_first_then_by_language(trees: Vocabulary) -> None:
    assert trees.names("t:tree") == [
        Name("Baum", "de", True),
        Name("tree", "en-gb", True),
        Name("arbor", None, False),
    ]
    columns = trees.name_columns()
    assert columns.texts.tolist() == ["Stechpalme", "Holly", "Baum", "tree", "arbor", "Oak", "Quercus"]
    assert columns.languages.tolist() == [0, 1, 0, 2, -1, 1, -1]
    assert columns.preferred.tolist() == [True, True, True, True, False, False, False]
    assert columns.entries.tolist() == [0, 0, 1, 1, 1, 2, 2]


def test_names_that_are_code_are_kept_as_they_are() -> None:
    names = ["<b>bold</b>", "'; DROP TABLE labels; --", "{{ 7 * 7 }}", "\x1b[2J", "a\x00b"]
    vocabulary = made({"id": "x", "names": [(name, None, True) for name in names]})
    assert [name.text for name in vocabulary.names("x")] == names


def test_hierarchy_goes_up_and_down(trees: Vocabulary) -> None:
    assert trees.broader("t:holly") == ["t:tree"]
    assert trees.narrower("t:tree") == ["t:holly", "t:oak"]
    assert trees.subtree("t:tree") == ["t:tree", "t:holly", "t:oak"]
    assert trees.ancestors("t:tree") == []


LINKS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=14)


def closure(links: list[tuple[int, int]]) -> np.ndarray:
    """Which entries can be reached, by Floyd and Warshall."""
    reached = np.zeros((8, 8), dtype=bool)
    for child, parent in links:
        reached[child, parent] = True
    for middle in range(8):
        reached |= reached[:, [middle]] & reached[[middle], :]
    return reached


@given(LINKS)
def test_hierarchy_agrees_with_the_transitive_closure(links: list[tuple[int, int]]) -> None:
    entries = [{"id": str(i), "broader": [str(p) for c, p in links if c == i]} for i in range(8)]
    reached = closure(links)
    if reached.diagonal().any():
        with pytest.raises(EntryError, match="leads back to the first") as caught:
            made(*entries)
        steps = str(caught.value).split(": ")[1].split(";")[0].replace("'", "").split(" -> ")
        assert steps[0] == steps[-1]
        assert all((int(a), int(b)) in links for a, b in pairwise(steps))
        return
    vocabulary = made(*entries)
    for i in range(8):
        above, below = vocabulary.ancestors(str(i)), vocabulary.subtree(str(i))
        assert len(set(above)) == len(above)
        assert {int(id) for id in above} == set(np.flatnonzero(reached[i]))
        assert {int(id) for id in below} == {i, *np.flatnonzero(reached[:, i])}


def test_long_chain_of_broader_entries_needs_no_deep_recursion() -> None:
    chain = [{"id": str(i), "broader": [str(i + 1)] if i < 20_000 else []} for i in range(20_001)]
    assert len(made(*chain).ancestors("0")) == 20_000


def test_broader_ids_that_are_missing_are_left_out_and_counted() -> None:
    with pytest.warns(VocabularyWarning, match="2 broader ids are not in the vocabulary.*'x' of 'a'"):
        vocabulary = made({"id": "a", "broader": ["x", "b", "y"]}, {"id": "b"})
    assert vocabulary.broader("a") == ["b"]


@pytest.mark.parametrize("id", ["", "  ", "a\x00b", "a\nb", "a\x1bb", "\u2028", "a\ud800", None, 7])
def test_ids_that_are_missing_or_hold_control_characters_are_refused(id: Any) -> None:
    with pytest.raises(EntryError, match=r"missing|control character|ids are strings"):
        made({"id": id})


def test_vocabulary_without_entries_is_refused() -> None:
    with pytest.raises(EntryError, match="no entry"):
        made()


@given(vocabularies())
def test_sections_hold_the_whole_vocabulary(vocabulary: Vocabulary) -> None:
    header, sections = vocabulary.to_sections()
    again = Vocabulary.from_sections(header, sections)
    assert again == vocabulary
    assert list(again) == list(vocabulary)
    for number, id in enumerate(vocabulary.ids):
        assert again.index(id) == number


def full() -> Vocabulary:
    from hedgerow.vocabulary.building import Builder

    builder = Builder()
    for number, id in enumerate(["b", "ab-a-long-identifier", "a", "ä"]):
        builder.entry(id)
        builder.name(f"Name ä{number}", "de", True)
        builder.name(f"name {number}", None, False)
        builder.notation(f"N{number}")
        builder.scheme(f"s:{number % 2}")
        builder.successor("a")
        if number:
            builder.broader("b")
            builder.deprecate()
    return Vocabulary(builder.finish())


def changed(array: np.ndarray, place: int, value: Any) -> np.ndarray:
    copy = array.copy()
    copy[place] = value
    return copy


CRAFTED: dict[str, Any] = {
    "ids cut wrongly": ("vocabulary.ids.begins", lambda a: changed(a, 1, 99)),
    "ids not rising": ("vocabulary.ids.begins", lambda a: changed(a, 2, 0)),
    "ids begin late": ("vocabulary.ids.begins", lambda a: changed(a, 0, 1)),
    "ids not UTF-8": ("vocabulary.ids.text", lambda a: changed(a, 0, 0xFF)),
    "ids with a control character": ("vocabulary.ids.text", lambda a: changed(a, 0, 0x0A)),
    "ids of another type": ("vocabulary.ids.begins", lambda a: a.astype(np.int64)),
    "names cut within a letter": ("vocabulary.names.begins", lambda a: changed(a, 1, 6)),
    "names not UTF-8": ("vocabulary.names.text", lambda a: changed(a, 3, 0xC3)),
    "names of no entry": ("vocabulary.names.of", lambda a: changed(a, -1, 7)),
    "names not rising": ("vocabulary.names.of", lambda a: changed(a, 1, 8)),
    "language out of range": ("vocabulary.names.language", lambda a: changed(a, 0, 1)),
    "language below none": ("vocabulary.names.language", lambda a: changed(a, 0, -2)),
    "flag of a name": ("vocabulary.names.preferred", lambda a: changed(a.view(np.uint8), 0, 2).view(bool)),
    "flag of an entry": ("vocabulary.deprecated", lambda a: changed(a.view(np.uint8), 0, 255).view(bool)),
    "order out of range": ("vocabulary.order", lambda a: changed(a, 0, 4)),
    "order twice": ("vocabulary.order", lambda a: changed(a, 0, a[1])),
    "order wrong": ("vocabulary.order", lambda a: a[::-1].copy()),
    "order of another size": ("vocabulary.order", lambda a: a[:-1].copy()),
    "scheme out of range": ("vocabulary.scheme", lambda a: changed(a, 0, 2)),
    "broader out of range": ("vocabulary.broader", lambda a: changed(a, 0, 4)),
    "broader below range": ("vocabulary.broader", lambda a: changed(a, 0, -1)),
    "broader in a cycle": ("vocabulary.broader", lambda a: changed(a, 0, 1)),
    "broader of another shape": ("vocabulary.broader", lambda a: a.reshape(1, -1).copy()),
    "broader begin wrongly": ("vocabulary.broader.begins", lambda a: changed(a, 1, 9)),
    "notations cut wrongly": ("vocabulary.notations.begins", lambda a: changed(a, 1, 0xFFFFFFFF)),
}


@pytest.mark.parametrize("what", CRAFTED)
def test_crafted_sections_are_refused(what: str) -> None:
    name, craft = CRAFTED[what]
    header, sections = full().to_sections()
    Vocabulary.from_sections(header, sections)
    with pytest.raises(ValueError, match=r"vocabulary|entry|name"):
        Vocabulary.from_sections(header, sections | {name: craft(sections[name])})


@pytest.mark.parametrize("name", sorted(full().to_sections()[1]))
def test_sections_that_are_missing_are_refused_or_what_no_entry_has(name: str) -> None:
    header, sections = full().to_sections()
    del sections[name]
    if name in (
        "vocabulary.deprecated",
        "vocabulary.broader",
        "vocabulary.notations.text",
        "vocabulary.successors.text",
    ):
        Vocabulary.from_sections(header, sections)
        return
    with pytest.raises(KeyError):
        Vocabulary.from_sections(header, sections)


@pytest.mark.parametrize(
    "change",
    [
        {"entries": 5}, {"entries": -1}, {"entries": True}, {"entries": 0}, {"names": 7}, {"names": "8"},
        {"schemes": 3}, {"schemes": 2**40}, {"languages": ["DE"]}, {"languages": ["de", "de"]},
        {"languages": "de"}, {"languages": [""]}, {"languages": [7]}, {"more": 1},
    ],
)  # fmt: skip
def test_crafted_header_is_refused(change: dict[str, Any]) -> None:
    header, sections = full().to_sections()
    with pytest.raises((ValueError, TypeError), match=r"vocabulary|entry|name"):
        Vocabulary.from_sections(header | change, sections)


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1), unique=True, min_size=2
    ),
    st.randoms(),
)
def test_only_the_right_order_of_ids_is_accepted(ids: list[str], random: Any) -> None:
    from hedgerow.vocabulary.sections import _check_order
    from hedgerow.vocabulary.strings import Strings

    strings = Strings.of(ids)
    order = list(range(len(ids)))
    random.shuffle(order)
    rising = sorted(order, key=lambda number: ids[number].encode())
    _check_order(strings, np.array(rising, dtype=np.uint32))
    if order != rising:
        with pytest.raises(ValueError, match="not in order"):
            _check_order(strings, np.array(order, dtype=np.uint32))
