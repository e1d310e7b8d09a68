import copy
import itertools
import json
import lzma
import os
import pickle
import re
import signal
import sys
import threading
import unicodedata
from pathlib import Path

import joblib
import numpy as np
import numpy.typing as npt
import pytest
import word_oracle
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer as SklearnVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from hedgerow import _native
from hedgerow.features import tfidf as hedgerow_text
from hedgerow.features.tfidf import TfidfVectorizer, tokenize

DATA = Path(os.environ.get("HEDGEROW_DATA") or Path(__file__).parents[2] / "shared" / "data")
SAME_UNICODE = _native.unicode_version == unicodedata.unidata_version
TEXTS = [
    "Hedgehogs sleep in the hedge; the hedge sleeps not.",
    "The hedgehog, the Hedgehog and the HEDGEROW",
    "Über den Fluß: die Straße, die STRASSE",
    "die Straße über den Fluß",
    "",
    "ОБЛАКО над облаком, Οδυσσεύς ΟΔΥΣΣΕΥΣ, 東京都 東京都",
    "a b c ! ?",
    "облако над hedge",
]


# Characters that a Python with another Unicode version may see differently are left out there.
def characters():
    stable = st.characters(exclude_categories=["Cs"])
    if not SAME_UNICODE:
        stable = stable.filter(lambda c: unicodedata.ucd_3_2_0.category(c) != "Cn")
    tricky = st.sampled_from("aAbB01_ .,'-ΔΣσςİ\u0307\u00ad\u212a\u1e9e\u023aßÄДд東½²\x00")
    return st.one_of(tricky, stable)


any_text = st.text(characters(), max_size=40)
word_text = st.lists(
    st.sampled_from(["hedge", "Hedge", "row", "hog", "Ä1", "ß", "x", "don't", "東京", "ΟΔΟΣ"]), max_size=12
).map(" ".join)


def sklearn_vectorizer(**params):
    return SklearnVectorizer(**{"ngram_range": (1, 2), "min_df": 2, "sublinear_tf": True, **params})


def assert_same_as_sklearn(ours, theirs, texts, X):
    assert set(ours.get_feature_names_out()) == set(theirs.vocabulary_)
    columns = [theirs.vocabulary_[name] for name in ours.get_feature_names_out()]
    expected = csr_array(theirs.transform(texts))[:, columns]
    assert X.shape == expected.shape
    if X.nnz or expected.nnz:
        assert abs(X - expected).max() < 1e-6
    np.testing.assert_allclose(ours.idf_, theirs.idf_[columns], rtol=1e-6)


def assert_same_bits(left, right):
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    assert left.tobytes() == right.tobytes()


@pytest.fixture(scope="module")
def debian():
    path = DATA / "debian" / "packages.jsonl.xz"
    if not path.exists():
        pytest.skip(f"no {path}")
    with lzma.open(path, "rt") as lines:
        return [json.loads(line)["text"] for line in itertools.islice(lines, 6000)]


@pytest.fixture
def fitted():
    return TfidfVectorizer().fit(TEXTS)


# Tokens


@settings(max_examples=400)
@given(any_text)
@example("ΘΔΘΣ. ΔΣ.Δ ΔΣ\u00ad ΣΔ Σ ΔΣΣ ΔΣ' 1Σ ΔΣ\u0301Δ")
@example("İSTANBUL İİ aİb ﬁX ŉ ǅungla")
@example("\x00ab\x00cd")
def test_tokens_of_any_text_are_those_of_sklearn(text):
    ngrams = CountVectorizer(ngram_range=(1, 2)).build_analyzer()(text)
    words = tokenize(text)
    assert words + [f"{a} {b}" for a, b in itertools.pairwise(words)] == ngrams


@pytest.mark.skipif(not SAME_UNICODE, reason="this Python has another Unicode version than the tables")
def test_tokens_of_every_character_are_those_of_python():
    codes = [code for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    text = " ".join(f"x{chr(code)}y {chr(code)}{chr(code)} A{chr(code)}Σ Σ{chr(code)}A" for code in codes)
    assert tokenize(text) == re.findall(r"\w\w+", text.lower())


# Fitting and transforming


@pytest.mark.parametrize("sublinear", [True, False])
@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2)])
def test_real_texts_give_the_matrix_of_sklearn(debian, sublinear, ngrams):
    texts, new = debian[:2000], debian[2000:3000]
    ours = TfidfVectorizer(ngrams=ngrams, sublinear=sublinear)
    theirs = sklearn_vectorizer(ngram_range=ngrams, sublinear_tf=sublinear).fit(texts)
    X = ours.fit_transform(texts)
    assert_same_as_sklearn(ours, theirs, texts, X)
    assert_same_as_sklearn(ours, theirs, new, ours.transform(new))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(word_text, any_text), min_size=1, max_size=8), st.integers(1, 3))
def test_any_texts_give_the_matrix_of_sklearn(texts, min_count):
    ours = TfidfVectorizer(min_count=min_count)
    try:
        theirs = sklearn_vectorizer(min_df=min_count, analyzer=word_oracle.terms, ngram_range=(1, 1)).fit(
            texts
        )
    except ValueError:
        with pytest.raises(ValueError, match="min_count"):
            ours.fit(texts)
        return
    assert_same_as_sklearn(ours, theirs, texts, ours.fit_transform(texts))


def test_matrix_is_canonical_float32_csr(fitted):
    X = fitted.transform(TEXTS)
    assert isinstance(X, csr_array)
    assert (X.dtype, X.indices.dtype, X.indptr.dtype) == (np.float32, np.int32, np.int32)
    again = csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    assert again.has_canonical_format
    norms = np.sqrt((X**2).sum(axis=1))
    np.testing.assert_allclose(norms[np.diff(X.indptr) > 0], 1, rtol=1e-6)


def test_text_without_known_terms_gives_an_empty_row(fitted):
    assert fitted.transform(["", "?!", "zebra"]).nnz == 0
    assert fitted.transform([]).shape == (0, len(fitted.idf_))
    indices, values = fitted.transform_one("")
    assert len(indices) == len(values) == 0


def test_one_text_has_the_row_of_the_matrix(debian):
    vectorizer = TfidfVectorizer().fit(debian[:500])
    X = vectorizer.transform(debian[:800])
    for row, text in enumerate(debian[:800]):
        indices, values = vectorizer.transform_one(text)
        part = slice(X.indptr[row], X.indptr[row + 1])
        assert_same_bits(indices, X.indices[part])
        assert_same_bits(values, X.data[part])
    long_text = " ".join(debian[:100])
    assert_same_bits(vectorizer.transform_one(long_text)[1], vectorizer.transform([long_text]).data)


def test_any_number_of_threads_and_waves_gives_the_same_bits(debian, monkeypatch):
    def fit(n_jobs, **params):
        vectorizer = TfidfVectorizer(n_jobs=n_jobs, **params)
        return vectorizer, vectorizer.fit_transform(debian)

    for params in ({}, {"max_features": 20_000}):
        one, X = fit(1, **params)
        runs = [fit(n_jobs, **params) for n_jobs in (2, 5, None)]
        with monkeypatch.context() as patch:
            patch.setattr(hedgerow_text, "_PAIRS_AT_ONCE", 50_000)
            runs.append(fit(3, **params))
        for other, Y in runs:
            for name, array in one.to_arrays().items():
                assert_same_bits(array, other.to_arrays()[name])
            for part in ("data", "indices", "indptr"):
                assert_same_bits(getattr(X, part), getattr(Y, part))
            assert_same_bits(one.unknown_share(debian[-500:]), other.unknown_share(debian[-500:]))


@settings(max_examples=60, deadline=None)
@given(st.lists(word_text, min_size=1, max_size=8), st.integers(1, 30))
@example(["hedge row"], 3)
def test_max_features_keeps_the_terms_of_most_texts_and_no_pair_without_its_words(texts, max_features):
    everything = CountVectorizer(ngram_range=(1, 2), binary=True)
    try:
        counts = everything.fit_transform(texts).sum(axis=0).A1
    except ValueError:
        return
    terms = everything.get_feature_names_out()
    order = [(-count, len(term.split()), term.split()) for count, term in zip(counts, terms, strict=True)]
    expected = {" ".join(words) for *_, words in sorted(order)[:max_features]}
    kept = set(TfidfVectorizer(min_count=1, max_features=max_features).fit(texts).get_feature_names_out())
    assert kept == expected
    assert all(set(term.split()) <= kept for term in kept)


@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2)])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_texts_read_once_have_the_features_and_the_wording_of_texts_read_twice(debian, ngrams, n_jobs):
    vectorizer = TfidfVectorizer(ngrams=ngrams, n_jobs=n_jobs).fit(debian[:300])
    for texts in (debian[-300:], [*debian[-3:], "", "zebra yak", "a"], [debian[-1]], []):
        found = vectorizer.read(texts)
        features, wording = vectorizer.transform(texts), vectorizer.wording(texts)
        for name in ("data", "indices", "indptr"):
            assert_same_bits(getattr(found.features, name), getattr(features, name))
        assert found.features.shape == features.shape == (len(texts), len(vectorizer.idf_))
        for name in ("words", "unknown_words", "unknown_pairs", "rarity"):
            assert_same_bits(getattr(found.wording, name), getattr(wording, name))


def test_unknown_share_counts_tokens(fitted):
    shares = fitted.unknown_share(["hedge hedge zebra yak", "hedge", "zebra", "", "a b"])
    np.testing.assert_array_equal(shares, [0.5, 0, 1, 1, 1])
    assert shares.dtype == np.float64


def test_feature_names_agree(fitted):
    names = fitted.get_feature_names_out()
    assert names.dtype == object
    assert [fitted.feature_name(i) for i in range(len(names))] == list(names)
    assert fitted.vocabulary_ == {name: i for i, name in enumerate(names)}
    words = [name for name in names if " " not in name]
    assert words == sorted(words) == list(names[: len(words)])
    for column in (-1, len(names)):
        with pytest.raises(IndexError, match=str(column)):
            fitted.feature_name(column)


def test_other_containers_of_texts_work(fitted):
    expected = fitted.transform(TEXTS)
    for texts in (tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, dtype=object), iter(TEXTS)):
        assert_same_bits(fitted.transform(texts).data, expected.data)


def test_threads_of_python_can_share_a_vectorizer(debian):
    vectorizer = TfidfVectorizer(n_jobs=2).fit(debian[:1000])
    expected = vectorizer.transform(debian[:1000])
    results = [None] * 4

    def work(i):
        results[i] = vectorizer.transform(debian[:1000])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for X in results:
        assert_same_bits(X.data, expected.data)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_signals_end_the_work():
    class StopError(Exception):
        pass

    def stop(*_):
        raise StopError

    texts = TEXTS * 200_000
    before = signal.signal(signal.SIGALRM, stop)
    try:
        vectorizer = TfidfVectorizer(n_jobs=2)
        with pytest.raises(StopError):  # noqa: PT012
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            while True:
                vectorizer.fit(texts)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# Errors


def test_errors_name_the_value_and_the_way_out(fitted):
    with pytest.raises(TypeError, match=r"text 2 is of type float, not str"):
        fitted.transform(["a", "b", float("nan")])
    with pytest.raises(TypeError, match=r"text 0 is of type NoneType, not str"):
        TfidfVectorizer().fit([None])
    with pytest.raises(TypeError, match=r"not one string; .*\[text\]"):
        fitted.transform("hedge")
    with pytest.raises(TypeError, match=r"not one string"):
        TfidfVectorizer().fit("hedge")
    with pytest.raises(TypeError, match="not int"):
        fitted.transform(3)
    with pytest.raises(TypeError, match="the text is of type bytes"):
        fitted.transform_one(b"hedge")
    with pytest.raises(ValueError, match="text 1 holds a lone surrogate at character 3"):
        fitted.transform(["hedge", "row\ud800"])
    with pytest.raises(ValueError, match="the text holds a lone surrogate at character 0"):
        fitted.transform_one("\udfff")
    with pytest.raises(ValueError, match=r"min_count=2 of the 2 texts; lower min_count"):
        TfidfVectorizer().fit(["hedge", "row"])
    with pytest.raises(ValueError, match="the texts are empty"):
        TfidfVectorizer(min_count=1).fit(["", "?"])
    with pytest.raises(ValueError, match="no texts"):
        TfidfVectorizer().fit([])


@pytest.mark.parametrize(
    "params",
    [
        {"ngrams": (1, 3)},
        {"ngrams": (2, 2)},
        {"min_count": 0},
        {"min_count": 0.5},
        {"max_features": 0},
        {"max_features": True},
        {"n_jobs": 0},
        {"n_jobs": "all"},
    ],
)
def test_wrong_parameters_are_named(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        TfidfVectorizer(**params).fit(TEXTS)


def test_unfitted_vectorizer_says_so():
    vectorizer = TfidfVectorizer()
    with pytest.raises(NotFittedError):
        check_is_fitted(vectorizer)
    for call in (vectorizer.transform, vectorizer.unknown_share):
        with pytest.raises(NotFittedError, match="call fit"):
            call(TEXTS)
    for call in (vectorizer.get_feature_names_out, vectorizer.to_arrays):
        with pytest.raises(NotFittedError):
            call()
    with pytest.raises(NotFittedError):
        vectorizer.transform_one("hedge")
    assert not hasattr(vectorizer, "idf_")


def test_failed_fit_keeps_the_earlier_one(fitted):
    before = fitted.transform(TEXTS)
    with pytest.raises(ValueError, match="min_count"):
        fitted.fit(["hedge"])
    assert_same_bits(fitted.transform(TEXTS).data, before.data)


# scikit-learn's world


def test_clone_has_the_parameters_and_no_state(fitted):
    copied = clone(fitted.set_params(min_count=3, n_jobs=2))
    assert copied.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copied.transform(TEXTS)


def test_copies_by_pickle_joblib_and_deepcopy_transform_alike(fitted, tmp_path):
    joblib.dump(fitted, tmp_path / "vectorizer")
    copies = [
        pickle.loads(pickle.dumps(fitted)),
        copy.deepcopy(fitted),
        joblib.load(tmp_path / "vectorizer"),
        joblib.load(tmp_path / "vectorizer", mmap_mode="r"),
    ]
    for other in copies:
        assert other.get_params() == fitted.get_params()
        assert_same_bits(other.transform(TEXTS).data, fitted.transform(TEXTS).data)
    pickle.loads(pickle.dumps(TfidfVectorizer())).fit(TEXTS)


def test_pipeline_learns_from_texts():
    texts = ["hedge and hog", "hog in hedge", "clouds above", "clouds above all"]
    pipeline = make_pipeline(TfidfVectorizer(min_count=1), LogisticRegression(C=100.0))
    pipeline.fit(texts, [0, 0, 1, 1])
    np.testing.assert_array_equal(pipeline.predict(["hedge hog", "all clouds"]), [0, 1])
    assert "hedge" in pipeline[:-1].get_feature_names_out()


# Arrays


def test_arrays_round_trip_without_a_copy(fitted, tmp_path):
    arrays = fitted.to_arrays()
    assert all(not array.flags.writeable for array in arrays.values())
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in arrays}
    params = json.loads(json.dumps(fitted.get_params()))
    other = TfidfVectorizer.from_arrays(params, mapped)
    del mapped
    assert other.get_params() == fitted.get_params()
    assert_same_bits(other.transform(TEXTS).data, fitted.transform(TEXTS).data)
    again = TfidfVectorizer.from_arrays(params, arrays).to_arrays()
    assert all(np.shares_memory(again[name], arrays[name]) for name in arrays if name != "format")


def test_arrays_may_be_strided_or_unaligned(fitted):
    def unaligned(array):
        raw = np.zeros(array.nbytes + 1, dtype=np.uint8)
        raw[1:] = np.frombuffer(array.tobytes(), dtype=np.uint8)
        return raw[1:].view(array.dtype)

    for change in (unaligned, lambda array: np.repeat(array, 2)[::2]):
        arrays = {name: change(array) for name, array in fitted.to_arrays().items()}
        other = TfidfVectorizer.from_arrays(fitted.get_params(), arrays)
        assert_same_bits(other.transform(TEXTS).data, fitted.transform(TEXTS).data)


def _set(name, index, value):
    def change(arrays):
        arrays[name] = arrays[name].copy()
        arrays[name][index] = value

    return change


def _replace(name, make):
    def change(arrays):
        arrays[name] = make(arrays[name])

    return change


def _swap(name):
    def make(array):
        array = array.copy()
        array[[0, 1]] = array[[1, 0]]
        return array

    return _replace(name, make)


def _move_first_slot(name):
    """Put an entry into a free slot where probing never gets."""

    def make(table):
        table = table.copy()
        full = np.flatnonzero(table)[0]
        after = [(full + step) % len(table) for step in range(1, len(table))]
        free = [slot for slot in after if table[slot] == 0]
        table[free[-1]], table[full] = table[full], 0
        return table

    return _replace(name, make)


def _full(name):
    return _replace(name, lambda table: np.where(table == 0, table.max(), table))


LARGE = [np.uint64(2**63), np.uint64(2**64 - 1)]
CORRUPTIONS = {
    "no format": lambda arrays: arrays.pop("format"),
    "format 2": _set("format", 0, 2),
    "format of two": _replace("format", lambda a: np.repeat(a, 2)),
    "format as text": _replace("format", lambda a: np.array(["1"])),
    "no idf": lambda arrays: arrays.pop("idf"),
    "idf of another type": _replace("idf", lambda a: a.astype(np.float64)),
    "idf of another byte order": _replace("idf", lambda a: a.astype(a.dtype.newbyteorder())),
    "idf too short": _replace("idf", lambda a: a[:-1]),
    "idf too long": _replace("idf", lambda a: np.append(a, a[:1])),
    "idf nan": _set("idf", 0, np.nan),
    "idf infinite": _set("idf", -1, np.inf),
    "idf zero": _set("idf", 1, 0),
    "idf negative": _set("idf", 1, -1),
    "idf square": _replace("idf", lambda a: a.reshape(1, -1)),
    "no words": _replace("word_starts", lambda a: a[:0]),
    "one word start": _replace("word_starts", lambda a: a[:1]),
    "words start late": _set("word_starts", 0, 1),
    "words end early": _replace("word_bytes", lambda a: a[:-1]),
    "words end late": _replace("word_bytes", lambda a: np.append(a, a[:1])),
    "word bytes gone": _replace("word_bytes", lambda a: a[:0]),
    "word starts fall": _swap("word_starts"),
    "word start huge": _set("word_starts", 1, LARGE[1]),
    "word start far": _set("word_starts", 2, LARGE[0]),
    "empty word": _replace("word_starts", lambda a: np.concatenate([a[:2], a[1:2], a[3:]])),
    "word not UTF-8": _set("word_bytes", 0, 0xFF),
    "word out of order": _set("word_bytes", 0, ord("z")),
    "word cut in a character": _replace("word_bytes", lambda a: np.where(a < 0xC0, a, np.uint8(0xC0))),
    "pairs swapped": _swap("pairs"),
    "pair twice": _replace("pairs", lambda a: np.concatenate([a[:1], a[:1], a[2:]])),
    "pair of unknown first word": _set("pairs", -1, LARGE[0]),
    "pair of unknown second word": _replace("pairs", lambda a: a | np.uint64(0xFFFF)),
    "pairs too short": _replace("pairs", lambda a: a[:-1]),
    "pairs gone": _replace("pairs", lambda a: a[:0]),
    **{
        f"{table} {what}": change
        for table in ("word_table", "pair_table")
        for what, change in {
            "empty": _replace(table, lambda a: a[:0]),
            "zero": _replace(table, np.zeros_like),
            "too small": _replace(table, lambda a: a[:2]),
            "no power of two": _replace(table, lambda a: np.append(a, a[:1] * 0)),
            "doubled": _replace(table, lambda a: np.concatenate([a, a * 0])),
            "full": _full(table),
            "of huge ids": _replace(table, lambda a: np.where(a == 0, a, a | np.uint64(0xFFFFFFFF))),
            "of id zero": _replace(table, lambda a: a >> np.uint64(32) << np.uint64(32)),
            "with lost entry": _replace(table, lambda a: np.where(a == a.max(), 0, a)),
            "with double entry": _replace(table, lambda a: np.where(a == 0, a.max(), a)),
            "with other hashes": _replace(table, lambda a: np.where(a == 0, a, a ^ np.uint64(1 << 40))),
            "rotated": _replace(table, lambda a: np.roll(a, 1)),
            "with entry out of reach": _move_first_slot(table),
        }.items()
    },
}


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_damaged_arrays_are_rejected(fitted, corruption):
    arrays = fitted.to_arrays()
    CORRUPTIONS[corruption](arrays)
    with pytest.raises(ValueError, match="vocabulary"):
        TfidfVectorizer.from_arrays(fitted.get_params(), arrays)


FITTED = TfidfVectorizer().fit(TEXTS)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_change_of_the_arrays_is_rejected_or_harmless(data):
    arrays = FITTED.to_arrays()
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(sorted(arrays)))
        array = np.copy(arrays[name])
        if len(array) == 0:
            continue
        kind = data.draw(st.sampled_from(["bit", "copy", "cut", "grow", "fill"]))
        i, j = (data.draw(st.integers(0, len(array) - 1)) for _ in range(2))
        if kind == "bit":
            raw = array.view(np.uint8)
            raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "copy":
            array[i] = array[j]
        elif kind == "cut":
            array = array[:i]
        elif kind == "grow":
            array = np.concatenate([array, array[i:]])
        else:
            array[min(i, j) : max(i, j) + 1] = data.draw(st.sampled_from([0, 1, 255]))
        arrays[name] = array
    try:
        vectorizer = TfidfVectorizer.from_arrays({}, arrays)
    except ValueError:
        return
    X = vectorizer.transform([*TEXTS, "zebra hedge"])
    assert X.shape[1] == len(vectorizer.get_feature_names_out())
    assert np.isfinite(X.data).all()
    # What is accepted finds all of its own terms.
    words = [name for name in vectorizer.get_feature_names_out() if " " not in name]
    assert vectorizer.unknown_share([" ".join(words)]) == 0 or set(words) != set(map(str.lower, words))


@pytest.mark.parametrize(("lowest", "highest"), [(0, 2**24), (2**32 - 2**24, 2**32)])
def test_words_whose_fingerprints_crowd_one_end_of_the_table_are_all_found(lowest: int, highest: int) -> None:
    # Enough of them to run past the last slot and go on from the first.
    letters = np.random.default_rng(0).integers(97, 123, (400_000, 7), dtype=np.uint8)
    words = np.unique(letters[crowded(letters, lowest, highest)], axis=0)
    texts = [row.tobytes().decode() for row in words]
    assert len(texts) > 1000
    X = TfidfVectorizer(min_count=1, ngrams=(1, 1)).fit_transform(texts)
    assert X.shape == (len(texts), len(texts))
    assert len(np.unique(X.indices)) == X.nnz == len(texts)


def crowded(letters: npt.NDArray[np.uint8], lowest: int, highest: int) -> npt.NDArray[np.bool_]:
    """Which words of seven letters have such a fingerprint."""
    tail = np.zeros(len(letters), dtype=np.uint64)
    for place in range(7):
        tail |= letters[:, place].astype(np.uint64) << np.uint64(8 * place)
    x = tail ^ np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(7)
    with np.errstate(over="ignore"):
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            x = (x ^ (x >> np.uint64(33))) * np.uint64(factor)
    fingerprint = (x ^ (x >> np.uint64(33))) >> np.uint64(32)
    return np.asarray((fingerprint >= lowest) & (fingerprint < highest))
