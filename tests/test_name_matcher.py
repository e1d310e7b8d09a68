"""Names of vocabulary entries in texts."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import signal
import threading
import unicodedata
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from name_oracle import Oracle

from hedgerow import _native
from hedgerow.features.name_forms import name_forms
from hedgerow.features.name_matcher import NameMatcher, NameMatches
from hedgerow.features.stemming import StemmerWarning

SAME_UNICODE = _native.unicode_version == unicodedata.unidata_version
FIELDS = [field.name for field in dataclasses.fields(NameMatches)]
WORDS = [
    "Hecke",
    "Hecken",
    "hecken",
    "hedge",
    "Hedges",
    "hedging",
    "Häuser",
    "haus",
    "GÄRTEN",
    "Garten",
    "gardens",
    "die",
    "Die",
    "DIE",
    "der",
    "war",
    "War",
    "wars",
    "of",
    "who",
    "WHO",
    "it",
    "IT",
    "its",
    "eu",
    "EU",
    "Eu",
    "C",
    "x",
    "Thomas",
    "Müller,",
    "Marie.",
    "(Physik)",
    "<Recht>",
    "<script>",
    "Kraft-",
    "Kraft/",
    "東京都",
    "京都",
    "は",
    "ภาษา",
    "हिन्दी",
    "é",
    "Σίσυφος",
    "ΣΙΣΥΦΟΣ",
    "UND",
    "und",
    "and",
]
SEPARATORS = [" ", " ", " ", "-", "/", ", ", "\n", ""]


SPELLINGS = [str, str.lower, str.upper, str.capitalize, lambda word: word + "s"]


@st.composite
def examples(draw: st.DrawFn) -> tuple[Any, list[str]]:
    """A vocabulary, and texts of the few words that its names have."""
    few = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
    spelled = [spell(word) + after for word in few for spell in SPELLINGS for after in SEPARATORS]
    piece = st.sampled_from(spelled)

    def phrases(most: int) -> st.SearchStrategy[str]:
        return st.lists(piece, min_size=1, max_size=most).map("".join)

    languages = st.sampled_from(["german", "english", None])
    row = st.tuples(phrases(4), languages, st.integers(0, 4), st.booleans())
    rows = draw(st.lists(row, max_size=8))
    return tuple([one[i] for one in rows] for i in range(4)), draw(
        st.lists(phrases(20), min_size=1, max_size=3)
    )


def matcher_of(
    names: list[str],
    languages: Any = "english",
    entries: list[int] | None = None,
    preferred: list[bool] | None = None,
) -> NameMatcher:
    """A matcher of names that are entries of their own, unless said otherwise."""
    return NameMatcher(
        names,
        [languages] * len(names) if isinstance(languages, str | None) else languages,
        np.array(range(len(names)) if entries is None else entries, np.int32),
        np.array([True] * len(names) if preferred is None else preferred, bool),
    )


def found_in(matcher: NameMatcher, text: str) -> dict[int, dict[str, Any]]:
    """What is said of each entry."""
    found = matcher.match([text])
    fields = [name for name in FIELDS if name not in ("indptr", "entries", "tokens")]
    return {
        int(entry): {name: getattr(found, name)[i].item() for name in fields}
        for i, entry in enumerate(found.entries)
    }


def entries_in(matcher: NameMatcher, text: str) -> list[int]:
    return list(found_in(matcher, text))


def assert_same_bits(one: NameMatches, other: NameMatches) -> None:
    for name in FIELDS:
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()


# --- all that is found ---


@settings(max_examples=300, deadline=None)
@given(example=examples())
def test_match_finds_what_brute_force_finds(example: Any) -> None:
    if not SAME_UNICODE:
        pytest.skip("this Python has another Unicode version than the tables")
    vocabulary, texts = example
    oracle = Oracle(*vocabulary)
    matches = matcher_of(*vocabulary).match(texts)
    for row, text in enumerate(texts):
        expected, outer, words = oracle.match(text)
        assert matches.tokens[row] == words
        here = range(matches.indptr[row], matches.indptr[row + 1])
        assert [matches.entries[i] for i in here] == sorted(expected)
        for i in here:
            one = expected[int(matches.entries[i])]
            assert matches.count[i] == len(one.places)
            assert matches.outer[i] == len(one.places & outer)
            assert matches.same_case[i] == len(one.same_case)
            assert matches.exact[i] == len(one.exact)
            assert matches.first[i] == np.float32(min(one.places)[0] / words)
            assert matches.words[i] == max(end - begin for begin, end in one.places)
            assert matches.ambiguity[i] == one.ambiguity
            assert matches.preferred[i] == one.preferred
            assert matches.shortened[i] == one.shortened


def test_match_of_nothing_is_empty() -> None:
    found = matcher_of([]).match(["some text", ""])
    assert found.indptr.tolist() == [0, 0, 0]
    assert found.tokens.tolist() == [2, 0]
    assert matcher_of([]).n_entries == 0
    assert matcher_of(["hedge"]).match([]).indptr.tolist() == [0]


def test_types_of_columns_are_those_of_the_documentation() -> None:
    found = matcher_of(["hedge"]).match(["hedge"])
    kinds = {name: getattr(found, name).dtype.name for name in FIELDS}
    assert kinds == {
        "indptr": "int64",
        "entries": "int32",
        "count": "int32",
        "outer": "int32",
        "same_case": "int32",
        "exact": "int32",
        "first": "float32",
        "words": "int32",
        "ambiguity": "int32",
        "preferred": "bool",
        "shortened": "bool",
        "tokens": "int64",
    }


# --- long and short matches ---


def test_names_within_a_longer_one_are_found_but_not_outer() -> None:
    matcher = matcher_of(["neural network", "network", "artificial neural network"])
    found = found_in(matcher, "Artificial neural networks and a network")
    assert {entry: (one["count"], one["outer"]) for entry, one in found.items()} == {
        0: (1, 0),
        1: (2, 1),
        2: (1, 1),
    }


def test_names_that_only_overlap_are_both_outer() -> None:
    found = found_in(matcher_of(["garden hedge", "hedge school"]), "garden hedge school")
    assert [one["outer"] for one in found.values()] == [1, 1]


def test_a_longer_name_of_another_language_holds_a_shorter_one() -> None:
    found = found_in(matcher_of(["Social", "Social Media"], ["de", "en"]), "Social media")
    assert [one["outer"] for one in found.values()] == [0, 1]


def test_two_names_at_one_place_count_once() -> None:
    matcher = matcher_of(["Software", "software", "Software (EDV)"], ["de", "en", "de"], [3, 3, 3])
    (found,) = found_in(matcher, "Software").values()
    assert (found["count"], found["outer"], found["shortened"]) == (1, 1, False)


def test_names_of_more_than_64_words_are_left_out() -> None:
    long = " ".join(["hedge"] * 64)
    assert entries_in(matcher_of([long, long + " hedge"]), long + " hedge hedge") == [0]


# --- languages ---


def test_words_are_stemmed_by_the_language_of_each_name() -> None:
    matcher = matcher_of(["Häuser", "running"], ["de", "en"])
    assert entries_in(matcher, "Das Haus, das Laufen: jogging and runs") == [0, 1]
    assert entries_in(matcher_of(["Häuser"], "en"), "Das Haus") == []


@pytest.mark.parametrize("language", [None, "la", "x-unknown"])
def test_names_without_known_language_are_stemmed_by_all_others(language: str | None) -> None:
    matcher = matcher_of(["Gärten", "Hecke", "hedge"], [language, "de", "en"])
    assert entries_in(matcher, "Garten") == [0]
    assert entries_in(matcher_of(["Gärten"], [language]), "Garten") == []
    assert entries_in(matcher_of(["Gärten"], [language]), "GÄRTEN") == [0]


def test_tags_of_regions_are_read_as_their_language() -> None:
    assert entries_in(matcher_of(["Häuser", "Hedges"], ["de-CH", "en_GB"]), "Haus hedge") == [0, 1]


# --- case, and words that are no names ---


def test_names_of_two_letters_are_found_only_in_the_same_case() -> None:
    matcher = matcher_of(["EU", "IT", "Go"])
    assert entries_in(matcher, "The EU pays for IT, written in Go") == [0, 1, 2]
    assert entries_in(matcher, "it is on the go, eu") == []


def test_names_of_function_words_are_left_out_unless_they_are_in_capitals() -> None:
    matcher = matcher_of(["Who", "WHO", "The Who", "The other"])
    assert entries_in(matcher, "Who is the other? The who") == []
    assert entries_in(matcher, "The WHO decides") == [1]


def test_function_words_of_the_text_are_no_names_of_another_language() -> None:
    matcher = matcher_of(["War", "Ims", "Hecke"], ["en", "en", "de"])
    assert entries_in(matcher, "War es im Garten, war die Hecke im Haus") == [2]
    assert entries_in(matcher, "The war and the hedge") == [0]


def test_same_case_and_exact_count_what_is_written_alike() -> None:
    found = found_in(matcher_of(["Hedge School"]), "hedge school, Hedge School, hedge schools")[0]
    assert (found["count"], found["exact"], found["same_case"]) == (3, 2, 1)


# --- forms ---


@pytest.mark.parametrize(
    ("name", "forms"),
    [
        ("Hedge", [("Hedge", False)]),
        ("Kraft (Physik)", [("Kraft (Physik)", False), ("Kraft ", True)]),
        ("Python <Programmiersprache>", [("Python <Programmiersprache>", False), ("Python ", True)]),
        ("(Alte) Kraft", [("(Alte) Kraft", False), (" Kraft", True)]),
        ("Poly(ethylene) film", [("Poly(ethylene) film", False)]),
        ("<script>", [("<script>", False)]),
        ("<script>alert(1)</script>", [("<script>alert(1)</script>", False)]),
        ("Curie, Marie", [("Curie, Marie", False), ("Marie Curie", False)]),
        (
            "Curie, Marie (Film)",
            [
                ("Curie, Marie (Film)", False),
                ("Curie, Marie ", True),
                ("Marie (Film) Curie", False),
                ("Marie Curie", True),
            ],
        ),
        ("Karl V., Reich, Kaiser", [("Karl V., Reich, Kaiser", False)]),
        ("Hedge,", [("Hedge,", False)]),
    ],
)
def test_name_forms(name: str, forms: list[tuple[str, bool]]) -> None:
    assert name_forms(name) == forms


def test_what_was_left_out_is_said() -> None:
    matcher = matcher_of(["Kraft (Physik)", "Vitamin C", "Rhein-Main/Gebiet"], "de")
    found = found_in(matcher, "Kraft und Vitamin im Rhein, Main, Gebiet")
    assert {entry: one["shortened"] for entry, one in found.items()} == {0: True, 1: True, 2: False}
    assert found_in(matcher, "Kraft; Kraft (Physik)")[0]["shortened"] is False


def test_names_without_a_word_are_never_found() -> None:
    assert entries_in(matcher_of(["C++", "", "()", "R & D"]), "C++ R & D () C") == []


def test_names_that_look_like_code_are_data() -> None:
    matcher = matcher_of(["<script>alert(1)</script>", "'; DROP TABLE names; --", "%s{0}\x00"], "en")
    assert entries_in(matcher, "a <script>alert(1)</script> '; drop table NAMES") == [0, 1]


# --- threads, and words met before ---


def many_texts() -> list[str]:
    random = np.random.default_rng(5)
    return [" ".join(random.choice(WORDS, 40)) + f" new{i}" for i in range(3000)]


def test_bits_are_the_same_at_any_number_of_threads_and_any_batch() -> None:
    names = [*WORDS, "Hecke Garten", "hedge war", "IT EU"]
    texts = many_texts()
    one = matcher_of(names, "en").match(texts)
    assert len(one.entries) > 10_000
    for threads in (2, 5, 0):
        assert_same_bits(one, matcher_of(names, "en").match(texts, threads=threads))
    matcher = matcher_of(names, "en")
    parts = [matcher.match(texts[at : at + 7]) for at in range(0, 210, 7)]
    rows = slice(0, int(one.indptr[210]))
    for name in FIELDS:
        if name not in ("indptr", "tokens"):
            joined = np.concatenate([getattr(part, name) for part in parts])
            assert joined.tobytes() == getattr(one, name)[rows].tobytes()


def test_several_threads_may_ask_one_matcher_at_a_time() -> None:
    matcher, texts = matcher_of(WORDS, "de"), many_texts()
    expected = matcher_of(WORDS, "de").match(texts)
    found: list[NameMatches] = []
    workers = [
        threading.Thread(target=lambda: found.append(matcher.match(texts, threads=2))) for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4
    for one in found:
        assert_same_bits(one, expected)


def test_ctrl_c_ends_a_long_match() -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    matcher = matcher_of(WORDS, "de")
    texts = [" ".join(WORDS * 2000)] * 3000  # minutes
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            matcher.match(texts)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert matcher.match(["Hecke"]).entries.size > 0


# --- arrays ---


@cache
def example() -> NameMatcher:
    return matcher_of([*WORDS, "hedge school", "hedge garden school", "Curie, Marie (Film)"], "en")


def test_arrays_round_trip() -> None:
    matcher, texts = example(), many_texts()[:50]
    arrays = {
        name: np.frombuffer(array.tobytes(), array.dtype) for name, array in matcher.to_arrays().items()
    }
    expected = matcher.match(texts)
    for other in (
        NameMatcher.from_arrays(arrays),
        pickle.loads(pickle.dumps(matcher)),
        copy.deepcopy(matcher),
    ):
        assert_same_bits(other.match(texts), expected)
        assert other.n_entries == matcher.n_entries == len(WORDS) + 3


def test_arrays_are_the_same_at_each_build() -> None:
    one, other = (matcher_of(WORDS, "de").to_arrays() for _ in range(2))
    assert {name: array.tobytes() for name, array in one.items()} == {
        name: array.tobytes() for name, array in other.items()
    }


def changed(name: str, array: Any) -> dict[str, Any]:
    return example().to_arrays() | {name: array}


def letters(text: str) -> Any:
    return np.frombuffer(text.encode(), np.uint8)


def two_languages() -> dict[str, Any]:
    return matcher_of(["Hecke", "hedge"], ["de", "en"]).to_arrays()


def with_value(name: str, at: int, value: int) -> dict[str, Any]:
    array = example().to_arrays()[name].copy()
    array[at] = value
    return changed(name, array)


def with_name_at_root() -> Any:
    names = example().to_arrays()["names"].copy()
    names[1:] = np.maximum(names[1:], 1)
    return names


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (with_value("format", 0, 9), "format 9"),
        (changed("format", np.zeros(2, np.uint32)), "one integer"),
        (changed("edges", np.zeros(2, np.int32)), "vector of uint32"),
        (changed("edges", np.zeros((2, 2), np.uint32)), "shape"),
        (changed("edges", np.zeros(0, np.uint32)), "edges does not span"),
        (changed("stem_starts", np.zeros(0, np.uint64)), "stem_starts does not span"),
        (changed("stemmer", letters("<script>")), "not a version"),
        (changed("languages", letters("klingon")), "'klingon', which is no language"),
        (changed("languages", letters("<script> english")), "'<script>', which is no language"),
        (changed("languages", letters("english german")), "other stems"),
        (two_languages() | {"languages": letters("german german")}, "occurs twice"),
        (with_value("stem_starts", 1, 1 << 60), "falls"),
        (with_value("stem_starts", 3, 0), "falls"),
        (with_value("stem_bytes", 0, 255), "not UTF-8"),
        (with_value("stem_bytes", 0, ord("z")), "stems do not ascend"),
        (with_value("language_ends", 0, 1 << 31), "language_ends"),
        (with_value("language_ends", 0, 1), "no language"),
        (with_value("edges", 1, 1 << 31), "edges falls"),
        (with_value("edges", 1, 0), "leads back"),
        (with_value("edge_stems", 0, 1 << 31), "unknown stem"),
        (with_value("edge_stems", 1, 0), "edges do not ascend"),
        (changed("names", with_name_at_root()), "no words"),
        (with_value("names", -1, 1 << 31), "names does not span"),
        (with_value("entries", 0, -1), "negative"),
        (with_value("flags", 0, 200), "flags"),
        (changed("flags", np.zeros(3, np.uint8)), "different lengths"),
    ],
)
def test_arrays_that_are_not_those_of_names_are_refused(arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NameMatcher.from_arrays(arrays)


def test_arrays_without_a_part_are_refused() -> None:
    arrays = example().to_arrays()
    del arrays["edges"]
    with pytest.raises(ValueError, match="lack the arrays edges"):
        NameMatcher.from_arrays(arrays)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_changed_arrays_are_refused_or_safe(data: st.DataObject) -> None:
    arrays = {name: array.copy() for name, array in example().to_arrays().items()}
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from([name for name in arrays if name not in ("format", "stemmer")]))
        array = arrays[name]
        at = data.draw(st.integers(0, len(array) - 1))
        limits = np.iinfo(array.dtype)
        own = int(array[at])
        near = [own - 1, own + 1, 0, 1, len(array), limits.min, limits.max]
        array[at] = data.draw(st.sampled_from([n for n in near if limits.min <= n <= limits.max]))
        if data.draw(st.booleans()):
            arrays[name] = array[: data.draw(st.integers(1, len(array)))]
    try:
        matcher = NameMatcher.from_arrays(arrays)
    except ValueError:
        return
    found = matcher.match([" ".join(WORDS), "hedge garden school"])
    assert np.all(np.diff(found.indptr) >= 0)
    assert np.all((found.entries >= 0) & (found.entries < matcher.n_entries))


def test_names_stemmed_by_another_release_of_the_stemmer_warn() -> None:
    with pytest.warns(StemmerWarning, match=r"9\.9\.9"):
        NameMatcher.from_arrays(changed("stemmer", letters("9.9.9.1")))


# --- bad input ---


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 names, 1 languages"):
        NameMatcher(["a b", "c d"], ["en"], np.zeros(2, np.int32), np.ones(2, bool))


@pytest.mark.parametrize("entries", [[-1], [1 << 31], [0.5]])
def test_entries_that_are_no_numbers_of_entries_are_refused(entries: list[Any]) -> None:
    with pytest.raises(ValueError, match="entries must be"):
        NameMatcher(["hedge"], ["en"], np.array(entries), np.ones(1, bool))


def test_preferred_must_be_bool() -> None:
    with pytest.raises(ValueError, match="preferred must be"):
        NameMatcher(["hedge"], ["en"], np.zeros(1, np.int32), np.full(1, 7))


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="text 1 holds a lone surrogate"):
        matcher_of(["hedge"]).match(["fine", "\ud800"])
    with pytest.raises(TypeError, match="not one string"):
        matcher_of(["hedge"]).match("hedge")
    with pytest.raises(TypeError, match="text 0 is of type int"):
        matcher_of([7])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="lone surrogate"):
        matcher_of(["\udcff"])
