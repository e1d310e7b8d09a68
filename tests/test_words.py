"""Stems, n-grams of characters, and scripts without spaces."""

from __future__ import annotations

import copy
import json
import pickle
import threading
import unicodedata
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import Stemmer
import word_oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer as SklearnVectorizer

import hedgerow
from hedgerow import HedgerowTextClassifier, TfidfVectorizer, _native
from hedgerow.cli import main
from hedgerow.features.analyzer import Analyzer
from hedgerow.features.stemming import guess_language, language_name
from hedgerow.storage.container import ModelFileError, read_model, write_model

SAME_UNICODE = _native.unicode_version == unicodedata.unidata_version
ENGLISH = [
    "The hedges are growing between the gardens",
    "A hedge grows in every garden",
    "Hedgehogs were sleeping under the hedges",
    "The hedgehog sleeps",
]
GERMAN = [
    "Die Hecken wachsen zwischen den Gärten",
    "Eine Hecke wächst in jedem Garten",
    "Igel schliefen unter der Hecke",
    "Der Igel schläft nicht",
]
TEXTS = [*ENGLISH, *GERMAN, "Hedgerows Hecken", "", "東京都庁は新宿にある 東京", "ภาษาไทยง่าย hedges"]
WORDS = [
    "hedges",
    "Hedging",
    "grows",
    "running",
    "Häuser",
    "Gärten",
    "laufen",
    "don't",
    "東京都",
    "x",
    "and",
    "und",
]

word_text = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
letters = st.text(
    st.one_of(
        st.sampled_from(
            "aAbB01_ .,'-\t\nΣ\u03c3ςİ\u0307ßÄДд東京都かなカナーไทย\u0e31ລາວខ្មែမြ½\u00a0\u3000\x1c"
        ),
        st.characters(exclude_categories=["Cs", "Cn"], max_codepoint=0x2FFF),
    ),
    max_size=40,
)
texts_of_all_kinds = st.lists(st.one_of(word_text, letters), min_size=1, max_size=8)


def stemmer(language: str) -> Callable[[str], str]:
    return Stemmer.Stemmer(language, 0).stemWord


def sklearn_by(analyzer: Any, **params: Any) -> SklearnVectorizer:
    return SklearnVectorizer(**{"analyzer": analyzer, "sublinear_tf": True, "min_df": 2, **params})


def assert_same_as_sklearn(
    ours: TfidfVectorizer, theirs: SklearnVectorizer, texts: list[str], X: csr_array
) -> None:
    names = ours.get_feature_names_out()
    assert set(names) == set(theirs.vocabulary_)
    expected = csr_array(theirs.transform(texts))[:, [theirs.vocabulary_[name] for name in names]]
    assert X.shape == expected.shape
    if X.nnz or expected.nnz:
        assert abs(X - expected).max() < 1e-6


def fitted_alike(ours: TfidfVectorizer, theirs: SklearnVectorizer, texts: list[str]) -> bool:
    """Fit both; False if there is nothing to fit to, on which they must agree."""
    try:
        theirs.fit(texts)
    except ValueError:
        with pytest.raises(ValueError, match="min_count"):
            ours.fit(texts)
        return False
    ours.fit(texts)
    return True


# --- stems ---


@pytest.mark.parametrize("language", ["english", "german", "russian", "french"])
@settings(max_examples=30, deadline=None)
@given(texts=texts_of_all_kinds, new=texts_of_all_kinds, min_count=st.integers(1, 3))
def test_stems_give_the_matrix_of_sklearn_with_the_same_stems(
    language: str, texts: list[str], new: list[str], min_count: int
) -> None:
    if not SAME_UNICODE:
        pytest.skip("this Python has another Unicode version than the tables")
    stem = stemmer(language)
    ours = TfidfVectorizer(language=language, min_count=min_count)
    theirs = sklearn_by(lambda text: word_oracle.terms(text, stem, marks=True), min_df=min_count)
    if fitted_alike(ours, theirs, texts):
        assert_same_as_sklearn(ours, theirs, texts, ours.transform(texts))
        # What no text of the training had is read as it always was.
        unspaced = any(word_oracle.kind(c) == "unspaced" for t in new for c in t)
        marked = any(word_oracle.words(t) != word_oracle.words(t, marks=True) for t in new)
        if (ours.analyzer_.bigrams or not unspaced) and (ours.analyzer_.marks or not marked):
            assert_same_as_sklearn(ours, theirs, new, ours.transform(new))


def test_auto_stems_each_text_in_its_own_language() -> None:
    stems = {"english": stemmer("english"), "german": stemmer("german")}
    texts = [*ENGLISH, *GERMAN, "Hedgerows wachsen"]

    def terms(text: str) -> list[str]:
        return word_oracle.terms(text, stems["english" if text in ENGLISH else "german"])

    mostly_german = [*texts, "und die Hecke"]
    ours = TfidfVectorizer(language="auto", min_count=1)
    theirs = sklearn_by(terms, min_df=1).fit(mostly_german)
    assert_same_as_sklearn(ours, theirs, mostly_german, ours.fit_transform(mostly_german))
    assert ours.analyzer_.usual == "german"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (ENGLISH[0], "english"),
        (GERMAN[1], "german"),
        ("Les haies du jardin sont plus vieilles que la maison", "french"),
        ("Los setos del jardín son más viejos que la casa", "spanish"),
        ("As sebes do jardim são mais velhas e não são da casa", "portuguese"),
        ("Le siepi del giardino sono più vecchie della casa", "italian"),
        ("De heggen van het huis zijn ouder dan de tuin", "dutch"),
        ("Изгородь в саду была старше, чем дом, и это не всё", "russian"),
        ("Häcken i trädgården är inte äldre än huset och det är bra", "swedish"),
        ("Pensasaita on vanhempi kuin talo, mutta se ei ole suuri", "finnish"),
        ("Żywopłot jest starszy niż dom, który nie był duży", "polish"),
        ("Bahçedeki çit ve ev için çok eski bir şey değil", "turkish"),
        ("hedge fund", None),
        ("", None),
    ],
)
def test_function_words_give_a_text_its_language(text: str, language: str | None) -> None:
    assert guess_language(text) == language


def test_all_languages_of_the_engine_are_those_of_snowball() -> None:
    names = {name for name, _ in _native.languages()}
    assert names == set(Stemmer.algorithms()) - {"porter", "dutch_porter"}
    codes = [code for _, code in _native.languages()]
    assert len(set(codes)) == len(codes)
    assert [language_name(code) for code in codes] == [name for name, _ in _native.languages()]


@pytest.mark.parametrize("language", [None, "english", "auto"])
def test_features_depend_neither_on_threads_nor_on_batches_nor_on_what_was_read_before(
    language: str | None,
) -> None:
    texts = TEXTS * 700  # so long that threads are used
    first = TfidfVectorizer(language=language, n_jobs=1)
    X = first.fit_transform(texts)
    second = TfidfVectorizer(language=language, n_jobs=4).fit(texts[::-1])
    for name, array in first.to_arrays().items():
        assert array.tobytes() == second.to_arrays()[name].tobytes()
    fresh = pickle.loads(pickle.dumps(second))
    for vectorizer in (second, fresh, copy.deepcopy(first)):
        for step in (1, 5, len(TEXTS)):
            for begin in range(0, len(TEXTS), step):
                batch = vectorizer.transform(TEXTS[begin : begin + step])
                assert (batch != X[begin : begin + batch.shape[0]]).nnz == 0
    indices, values = fresh.transform_one(TEXTS[0])
    assert (indices.tolist(), values.tolist()) == (X[[0]].indices.tolist(), X[[0]].data.tolist())


def test_threads_that_read_new_words_at_the_same_time_get_the_same_features() -> None:
    vectorizer = TfidfVectorizer(language="auto", min_count=1).fit(TEXTS)
    texts = [
        f"{text} the hedges{number} growing{number % 7}s" for number in range(3000) for text in TEXTS[:2]
    ]
    expected = pickle.loads(pickle.dumps(vectorizer)).transform(texts)
    wrong: list[int] = []

    def read() -> None:
        wrong.append((vectorizer.transform(texts) != expected).nnz)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [0] * 4


def test_wording_counts_stems_and_not_words() -> None:
    vectorizer = TfidfVectorizer(language="en", min_count=1).fit(["hedge and garden", "garden"])
    wording = vectorizer.wording(["hedges hedging gardens walls wall walling bricks"])
    assert (wording.words.tolist(), wording.unknown_words.tolist()) == ([7], [4])
    idf = dict(zip(vectorizer.get_feature_names_out(), vectorizer.idf_.astype(float), strict=True))
    words = {name: value for name, value in idf.items() if " " not in name}
    unknown = max(words.values()) + np.log(2)
    assert wording.rarity[0] == pytest.approx((idf["hedg"] + idf["garden"] + 2 * unknown) / 4)


# --- n-grams of characters ---


@settings(max_examples=60, deadline=None)
@given(
    texts_of_all_kinds,
    texts_of_all_kinds,
    st.sampled_from([(1, 1), (1, 3), (3, 5), (5, 5)]),
    st.integers(1, 3),
)
def test_char_wb_gives_the_matrix_of_sklearn(
    texts: list[str], new: list[str], lengths: tuple[int, int], min_count: int
) -> None:
    ours = TfidfVectorizer(analyzer="char_wb", char_ngrams=lengths, min_count=min_count)
    theirs = sklearn_by("char_wb", ngram_range=lengths, min_df=min_count)
    if fitted_alike(ours, theirs, texts):
        assert_same_as_sklearn(ours, theirs, texts, ours.transform(texts))
        assert_same_as_sklearn(ours, theirs, new, ours.transform(new))
        assert not ours.has_pairs


# --- scripts without spaces ---


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("東京都庁", ["東京", "京都", "都庁"]),
        ("新宿Hedge東", ["新宿", "hedge", "東"]),
        ("カタカナー語", ["カタ", "タカ", "カナ", "ナー", "ー語"]),
        ("ไทย", ["ไท", "ทย"]),
        ("一 x 二三", ["一", "二三"]),
        ("ภาษา hedge", ["ภา", "าษ", "ษา", "hedge"]),
    ],
)
def test_runs_of_scripts_without_spaces_are_cut_into_pairs(text: str, words: list[str]) -> None:
    assert _native.tokenize(text, _native.Analyzer(bigrams=True)) == words == word_oracle.words(text)


@settings(max_examples=300)
@given(letters)
def test_any_text_is_cut_as_the_oracle_cuts_it(text: str) -> None:
    if SAME_UNICODE:
        for marks in (False, True):
            analyzer = _native.Analyzer(bigrams=True, marks=marks)
            assert _native.tokenize(text, analyzer) == word_oracle.words(text, marks)


HINDI = "हिन्दी किताबें और पुस्तकालय की किताब"
NEPALI = "यो नेपाली पुस्तकहरू र विद्यालयका किताबहरू"
TAMIL = "தமிழ் புத்தகங்கள் மற்றும் நூலகத்தில் புத்தகம்"


@pytest.mark.parametrize(("language", "text"), [("hindi", HINDI), ("nepali", NEPALI), ("tamil", TAMIL)])
def test_vowel_signs_stay_in_words_and_stems_are_those_of_snowball(language: str, text: str) -> None:
    vectorizer = TfidfVectorizer(language=language, min_count=1, ngrams=(1, 1)).fit([text])
    stem = stemmer(language)
    expected = {stem(word) or word for word in text.split() if len(word) > 1}
    assert set(vectorizer.get_feature_names_out()) == expected
    assert vectorizer.analyzer_.to_header() == {
        "name": "word",
        "language": language,
        "marks": "kept",
        "stemmer": Stemmer.version(),
    }
    for word in text.split():
        if len(word) > 1:
            assert word in "/".join(vectorizer.written(text).values()).split("/")


def test_marks_are_kept_only_with_a_language_and_where_texts_have_them() -> None:
    plain = TfidfVectorizer(min_count=1, ngrams=(1, 1)).fit([HINDI])
    assert plain.analyzer_.to_header() is None
    assert set(plain.get_feature_names_out()) == set(word_oracle.words(HINDI))
    assert not TfidfVectorizer(language="de", min_count=1).fit(GERMAN).analyzer_.marks
    old = Analyzer.from_header({"name": "word", "language": "hindi"})
    assert _native.tokenize(HINDI, old.engine()) == word_oracle.words(HINDI)


@pytest.mark.parametrize(("language", "text"), [("hindi", HINDI), ("nepali", NEPALI), ("tamil", TAMIL)])
def test_auto_knows_the_language_of_texts_with_vowel_signs(language: str, text: str) -> None:
    vectorizer = TfidfVectorizer(language="auto", min_count=1, ngrams=(1, 1)).fit([text, *GERMAN])
    stems = {stemmer(language)(word) or word for word in text.split() if len(word) > 1}
    assert stems <= set(vectorizer.get_feature_names_out())


# --- models ---

LABELS = [["garden"], ["garden"], ["animal"], ["animal"]] * 2


def fitted(**parameters: Any) -> HedgerowTextClassifier:
    model = HedgerowTextClassifier(**{"random_state": 0, "min_count": 1, "leaf_size": 2, **parameters})
    return model.fit([*ENGLISH, *GERMAN], LABELS)


@pytest.mark.parametrize(
    ("parameters", "header"),
    [
        ({}, None),
        ({"language": "de"}, {"name": "word", "language": "german", "stemmer": Stemmer.version()}),
        (
            {"language": "auto"},
            {"name": "word", "language": "auto", "usual": "english", "stemmer": Stemmer.version()},
        ),
        ({"analyzer": "char_wb", "char_ngrams": (2, 4)}, {"name": "char_wb", "char_ngrams": [2, 4]}),
    ],
)
def test_saved_model_keeps_its_analyzer_and_predicts_the_same_bits(
    parameters: dict[str, Any], header: dict[str, Any] | None, tmp_path: Path
) -> None:
    model = fitted(**parameters)
    model.save(tmp_path / "m")
    file = read_model(tmp_path / "m")
    assert file.header.get("analyzer") == header
    assert {"analyzer", "language", "char_ngrams"} & set(file.header["parameters"]) == set(parameters)
    again = hedgerow.load(tmp_path / "m")
    new = ["Hedges grow", "Der Garten", "a sleeping hedgehog", "東京"]
    before, after = (own.predict_votes(new) for own in (model, again))
    assert before.probs.tobytes() == after.probs.tobytes()
    assert again.describe()["analyzer"] == (header or {"name": "word"})
    again.save(tmp_path / "again")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "again").read_bytes()


def test_model_of_texts_without_spaces_says_so_in_its_file_and_reads_pairs(tmp_path: Path) -> None:
    model = HedgerowTextClassifier(random_state=0, min_count=1).fit(
        ["東京都庁 hedge", "大阪城 hog"], [["tokyo"], ["osaka"]]
    )
    model.save(tmp_path / "m")
    assert read_model(tmp_path / "m").header["analyzer"] == {"name": "word", "unspaced": "bigrams"}
    again = hedgerow.load(tmp_path / "m")
    assert "京都" in again.vectorizer_.vocabulary_
    assert again.top(["東京駅"], k=1).labels[0, 0] == "tokyo"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"name": "sentence"}, "analyzer is 'sentence'"),
        ({"name": "word", "language": "klingon"}, "klingon"),
        ({"name": "word", "language": "auto", "usual": "klingon"}, "klingon"),
        ({"name": "word", "usual": "german"}, "usual language"),
        ({"name": "word", "unspaced": "trigrams"}, "trigrams"),
        ({"name": "word", "lemmas": "yes"}, "lemmas"),
        ({"name": "word", "language": "german", "marks": "dropped"}, "marks"),
        ({"name": "word", "language": "auto", "decided": "folder"}, "languages"),
        ({"name": "word", "language": "german", "stemmer": 3}, "not a version"),
        ({"name": "word", "language": "german", "stemmer": "3.1\n4"}, "not a version"),
        ({"name": "word", "stemmer": "3.1.0"}, "no language"),
        ({"name": "char_wb", "char_ngrams": [3, 1]}, "char_ngrams"),
        ({"name": "char_wb", "char_ngrams": [0, 10**9]}, "char_ngrams"),
        ({"name": "char_wb", "language": "german"}, "no stems"),
        ({}, "analyzer is None"),
        ("word", "not an object"),
        ([], "not an object"),
    ],
)
def test_file_with_an_impossible_analyzer_is_refused(entry: Any, said: str, tmp_path: Path) -> None:
    fitted(language="en").save(tmp_path / "m")
    file = read_model(tmp_path / "m")
    write_model(tmp_path / "bad", dict(file.sections), {**file.header, "analyzer": entry})
    with pytest.raises(ModelFileError, match=said):
        hedgerow.load(tmp_path / "bad")


@pytest.mark.parametrize(
    "parameters",
    [
        {"language": "klingon"},
        {"language": 3},
        {"analyzer": "sentence"},
        {"analyzer": "char_wb", "language": "en"},
        {"char_ngrams": (5, 3)},
        {"char_ngrams": 3},
    ],
)
def test_impossible_ways_to_read_texts_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"language|analyzer|char_ngrams"):
        fitted(**parameters)
    with pytest.raises(ValueError, match=r"language|analyzer|char_ngrams"):
        TfidfVectorizer(**parameters).fit(TEXTS)


def test_explanation_shows_words_as_written_and_not_stems() -> None:
    model = fitted(language="en")
    why = hedgerow.explain(model, "Gardening in gardens, growing hedges", "garden")
    assert {"gardening/gardens", "growing", "hedges", "growing hedges"} & set(why.features) >= {"hedges"}
    assert "gardening/gardens" in set(why.features)
    assert not {"garden", "hedg", "grow"} & set(why.features)


def test_old_analyzer_has_no_entry_and_every_other_one_comes_back() -> None:
    assert Analyzer().to_header() is None
    for analyzer in (
        Analyzer(bigrams=True),
        Analyzer(language="german"),
        Analyzer(language="auto", usual="german", bigrams=True),
        Analyzer(language="auto", usual="german", marks=True, by_record=True, stemmer=Stemmer.version()),
        Analyzer("char_wb", (2, 3)),
    ):
        assert Analyzer.from_header(json.loads(json.dumps(analyzer.to_header()))) == analyzer


def with_stemmer(version: str | None, folder: Path) -> Path:
    fitted(language="en").save(folder / "m", overwrite=True)
    file = read_model(folder / "m")
    entry = {"name": "word", "language": "english"} | ({} if version is None else {"stemmer": version})
    path = folder / f"of-{version}.hedgerow"
    write_model(path, dict(file.sections), {**file.header, "analyzer": entry})
    return path


def test_model_trained_with_another_stemmer_warns_once_and_loads(tmp_path: Path) -> None:
    path = with_stemmer("2.9.0.1", tmp_path)
    with pytest.warns(UserWarning, match=r"trained with PyStemmer 2\.9\.0\.1, and .* may stem") as said:
        model = hedgerow.load(path)
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = hedgerow.load(path)
    assert again.top(["Hedges grow"], k=1).labels == model.top(["Hedges grow"], k=1).labels
    again.save(tmp_path / "kept")
    assert read_model(tmp_path / "kept").header["analyzer"]["stemmer"] == "2.9.0.1"


def test_same_stemmer_or_an_unknown_one_does_not_warn(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for version in (None, Stemmer.version(), f"{Stemmer.version()}.7"):
            hedgerow.load(with_stemmer(version, tmp_path))


def test_command_says_which_stemmer_and_warns_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = with_stemmer("2.8.0", tmp_path)
    assert run("inspect", path, "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["analyzer"]["stemmer"] == "2.8.0"
    assert captured.err.count("\n") == 1
    assert "trained with PyStemmer 2.8.0" in captured.err
    assert "UserWarning" not in captured.err
    assert run("inspect", path) == 0
    assert "2.8.0" in capsys.readouterr().out


# --- the command line ---


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    lines = [
        json.dumps({"text": text, "labels": labels})
        for text, labels in zip([*ENGLISH, *GERMAN], LABELS, strict=True)
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_options_for_texts_become_parameters(records: Path, tmp_path: Path) -> None:
    options = ["--language", "auto", "--ngrams", 1, "--min-count", 1, "--max-features", 20, "--no-sublinear"]
    assert run("fit", records, tmp_path / "m", *options, "--json") == 0
    model = hedgerow.load(tmp_path / "m")
    wanted = {"language": "auto", "min_count": 1, "max_features": 20, "sublinear": False}
    assert {name: model.get_params()[name] for name in wanted} == wanted
    assert tuple(model.ngrams) == (1, 1)
    assert len(model.vectorizers_["text"].idf_) == 20
    assert run("fit", records, tmp_path / "c", "--analyzer", "char_wb", "--char-ngrams", "2-3") == 0
    assert hedgerow.load(tmp_path / "c").vectorizer_.analyzer_ == Analyzer("char_wb", (2, 3))


@pytest.mark.parametrize(
    "options",
    [
        ["--language", "klingon"],
        ["--analyzer", "char_wb", "--language", "en"],
        ["--analyzer", "char_wb", "--ngrams", "2"],
        ["--char-ngrams", "2-3"],
        ["--analyzer", "char_wb", "--char-ngrams", "3-2"],
        ["--ngrams", "3"],
        ["--min-count", "0"],
    ],
)
def test_impossible_options_for_texts_are_refused(options: list[str], records: Path, tmp_path: Path) -> None:
    assert run("fit", records, tmp_path / "m", *options) == 2


def test_options_for_texts_are_refused_with_features(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.txt").write_text("2 3 2\n0 0:1 2:0.5\n1 1:1\n")
    assert run("fit", tmp_path / "train.txt", tmp_path / "m", "--language", "en") == 2
    assert "--language is for texts" in capsys.readouterr().err


def test_help_shows_options_for_texts_in_a_panel_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fit", "--help") == 0
    assert "─ Texts ─" in capsys.readouterr().out


def test_words_in_too_few_texts_are_refused_with_the_name_of_the_option(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", records, tmp_path / "m", "--min-count", 9) == 3
    assert "--min-count 9" in capsys.readouterr().err
