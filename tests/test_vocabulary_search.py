"""Search for entries by names with typing mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vocabularies import made, vocabularies

from hedgerow import Vocabulary
from hedgerow.vocabulary.similar_words import SimilarWords, edit_distances

NAMES = {
    "v:1": [("Geldpolitik", "de", True), ("Monetary policy", "en", True), ("Währungspolitik", "de", False)],
    "v:2": [("Coase-Theorem", "de", True), ("Coase theorem", "en", True)],
    "v:3": [("München", "de", True), ("Munich", "en", True)],
    "v:4": [("Straße", "de", True), ("Road", "en", True)],
    "v:5": [("Machine learning", "en", True), ("Maschinelles Lernen", "de", True)],
    "v:6": [("Learning", "en", True), ("Lernen", "de", True)],
    "v:7": [("Library", "en", True), ("Bibliothek", "de", True)],
    "v:8": [("Bibliothekswesen", "de", True)],
    "v:9": [("<script>alert('x')</script>", "en", True)],
}


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return made(*({"id": id, "names": names} for id, names in NAMES.items()))


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("Geldpolitik", "v:1"),
        ("monetary policy", "v:1"),
        ("waehrungspolitik", "v:1"),  # an umlaut written as two letters, of an alternative name
        ("Wahrungspolitk", "v:1"),  # without its dots, and a letter missing
        ("monetray polciy", "v:1"),  # letters that changed places
        ("coase theorm", "v:2"),
        ("theorem coase", "v:2"),
        ("Muenchen", "v:3"),
        ("MUNCHEN", "v:3"),
        ("Munihc", "v:3"),
        ("Strasse", "v:4"),
        ("machine lerning", "v:5"),
        ("lernen", "v:6"),
        ("Bibliothek", "v:7"),
        ("Bibliothekswe", "v:8"),
        ("script alert", "v:9"),
        ("v:4", "v:4"),
    ],
)
def test_best_match_is_what_was_meant(vocabulary: Vocabulary, text: str, id: str) -> None:
    assert vocabulary.search(text)[0].id == id


def test_match_has_the_name_in_the_language_and_the_one_it_was_found_by(vocabulary: Vocabulary) -> None:
    match = vocabulary.search("Währungspolitik", lang="en")[0]
    assert (match.id, match.name, match.matched, match.score) == (
        "v:1",
        "Monetary policy",
        "Währungspolitik",
        1.0,
    )
    assert vocabulary.search("v:3", lang="de")[0].matched is None


def test_unfinished_word_finds_the_shorter_name_first(vocabulary: Vocabulary) -> None:
    assert [match.id for match in vocabulary.search("biblioth")] == ["v:7", "v:8"]


def test_names_in_the_language_asked_for_come_first_where_others_fit_as_well() -> None:
    both = made({"id": "a", "names": [("Gift", "de", True)]}, {"id": "b", "names": [("Gift", "en", True)]})
    assert [match.id for match in both.search("gift", lang="en")] == ["b", "a"]
    assert [match.id for match in both.search("gift", lang="de")] == ["a", "b"]


def test_nothing_is_found_for_words_that_no_name_has(vocabulary: Vocabulary) -> None:
    assert vocabulary.search("xylophone quartet") == []
    assert vocabulary.search("") == []
    assert vocabulary.search(" \n-!") == []
    assert made({"id": "nameless"}).search("name") == []


def test_limit_cuts_the_list(vocabulary: Vocabulary) -> None:
    assert len(vocabulary.search("le", limit=1)) == 1
    with pytest.raises(ValueError, match="limit is 0"):
        vocabulary.search("le", limit=0)


def test_entry_is_found_once_however_many_of_its_names_fit() -> None:
    names = [(f"oak {number}", None, False) for number in range(500)]
    vocabulary = made({"id": "many", "names": names}, {"id": "one", "names": [("an old oak", "en", True)]})
    assert [match.id for match in vocabulary.search("oak", limit=5)] == ["many", "one"]


@given(vocabularies(), st.text(max_size=30))
def test_any_text_can_be_searched_for(vocabulary: Vocabulary, text: str) -> None:
    found = vocabulary.search(text, limit=3)
    assert len({match.id for match in found}) == len(found) <= 3
    assert all(match.id in vocabulary for match in found)
    scores = [match.score for match in found]
    assert all(0 <= score <= 1.0001 for score in scores)
    assert found == Vocabulary.from_sections(*vocabulary.to_sections()).search(text, limit=3)


def distance(one: str, other: str) -> int:
    """Optimal string alignment, letter by letter."""
    if not one or not other:
        return len(one) + len(other)
    best = min(
        distance(one[:-1], other) + 1,
        distance(one, other[:-1]) + 1,
        distance(one[:-1], other[:-1]) + (one[-1] != other[-1]),
    )
    if len(one) > 1 and len(other) > 1 and (one[-1], one[-2]) == (other[-2], other[-1]):
        best = min(best, distance(one[:-2], other[:-2]) + 1)
    return best


WORDS = st.text("abä", min_size=1, max_size=5)


@given(WORDS, st.lists(WORDS, min_size=1, max_size=5))
def test_edit_distances_agree_with_the_recursion(word: str, others: list[str]) -> None:
    width = max(map(len, others))
    rows = np.array([[ord(letter) for letter in other.ljust(width)] for other in others], dtype=np.uint32)
    lengths = np.array([len(other) for other in others])
    letters = np.array([ord(letter) for letter in word], dtype=np.uint32)
    assert edit_distances(letters, rows, lengths).tolist() == [distance(word, other) for other in others]


@given(st.lists(st.text("abcdeä", min_size=1, max_size=8), min_size=1, max_size=30, unique=True), st.data())
def test_all_words_with_few_mistakes_are_found(words: list[str], data: st.DataObject) -> None:
    words = sorted(words)
    word = data.draw(st.sampled_from(words))
    most = 0 if len(word) < 3 else 1 if len(word) < 6 else 2
    numbers, fits = SimilarWords.of(words).find(word)
    found = {words[number] for number in numbers.tolist()}
    wanted = {other for other in words if other.startswith(word) or cached(word, other) <= most}
    assert found == wanted
    assert fits[numbers == words.index(word)].max() == 1


def cached(one: str, other: str) -> int:
    """The same distance by a table, since words of eight letters are too long for the recursion."""
    table = {(i, 0): i for i in range(len(one) + 1)} | {(0, j): j for j in range(len(other) + 1)}
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            costs = [table[i - 1, j] + 1, table[i, j - 1] + 1]
            costs.append(table[i - 1, j - 1] + (one[i - 1] != other[j - 1]))
            if i > 1 and j > 1 and one[i - 2 : i] == other[j - 2 : j][::-1]:
                costs.append(table[i - 2, j - 2] + 1)
            table[i, j] = min(costs)
    return table[len(one), len(other)]
