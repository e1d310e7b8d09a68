"""Texts to tf-idf features, many at once or one in microseconds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from hedgerow import _native
from hedgerow.features.analyzer import Analyzer
from hedgerow.inputs.threads import threads_for

__all__ = ["Languages", "NoWordsError", "Reading", "TfidfVectorizer", "Wording", "as_texts", "tokenize"]

Languages = npt.NDArray[np.int8]  # the number of each text's language

_FORMAT = 1
# Name and dtype of the arrays in the order in which the engine takes them.
_ARRAYS: dict[str, type[np.generic]] = {
    "word_bytes": np.uint8,
    "word_starts": np.uint64,
    "word_table": np.uint64,
    "pairs": np.uint64,
    "pair_table": np.uint64,
    "idf": np.float32,
}
# Pairs of words counted at once while fitting: 8 bytes each, so half a gigabyte at most.
_PAIRS_AT_ONCE = 1 << 26


def tokenize(text: str) -> list[str]:
    r"""The words of a text as the vectoriser sees them: ``re.findall(r"\w\w+", text.lower())``.

    Characters are those of Unicode 14 whatever Python runs; newer ones separate words.

    Examples
    --------
    >>> tokenize("The Fuß, it's 5 o'clock ΟΔΟΣ")
    ['the', 'fuß', 'it', 'clock', 'οδος']
    """
    words: list[str] = _native.tokenize(text, _native.Analyzer())
    return words


class NoWordsError(ValueError):
    """No word is in enough of the texts, or there is no word at all."""


@dataclass(frozen=True, eq=False)
class Wording:
    """How many words and pairs of neighbouring words texts have that the vocabulary lacks, shape (n_texts,).

    `rarity` is the mean idf of the different words; an unknown word counts as half as frequent as the rarest.
    """

    words: npt.NDArray[np.int64]
    unknown_words: npt.NDArray[np.int64]
    unknown_pairs: npt.NDArray[np.int64]
    rarity: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reading:
    """What `TfidfVectorizer.transform` and, where asked for, `TfidfVectorizer.wording` give."""

    features: csr_array
    wording: Wording | None


# Sparse rows cannot become data frames, so set_output is not offered.
class TfidfVectorizer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[misc, call-arg, unused-ignore]
    r"""Texts to rows of tf-idf weights of their words and word pairs.

    The features are those of scikit-learn's vectoriser of the same name with ``ngram_range=(1, 2)``,
    ``min_df=2`` and ``sublinear_tf=True``: lower-cased runs of at least two word characters (``\w\w+``; an
    apostrophe separates) and pairs of consecutive such words, the smooth idf
    :math:`\ln\frac{1+n}{1+df} + 1`, weights :math:`(1 + \ln tf) \cdot idf`, rows scaled to length 1. On
    request, words are stemmed, or n-grams of characters replace them.

    Differences to scikit-learn: columns are ordered by words first, then pairs; `max_features` goes by the
    number of texts that have a term, not by its occurrences; a pair is only ever a feature if both its words
    are; characters are those of Unicode 14 whatever Python runs, newer ones separate words; and a run of a
    script that has no spaces (Han, Hiragana, Katakana, Thai, Lao, Khmer, Myanmar) is not one word: every two
    neighbouring characters are, and a letter that stands alone.

    Parameters
    ----------
    ngrams : (1, 1) or (1, 2), default=(1, 2)
        Words only, or words and pairs.
    min_count : int, default=2
        Drop terms that fewer texts have.
    max_features : int or None, default=None
        Keep at most N terms, those of the most texts. Among equals words go before pairs, then terms in the
        order of their bytes; so a pair never stays without its words.
    sublinear : bool, default=True
        Weigh a term that occurs `tf` times by ``1 + ln(tf)`` instead of `tf`.
    n_jobs : int or None, default=None
        Threads; None and -1 are all processors, -2 all but one. The result is the same bit for bit.
    analyzer : {"word", "char_wb"}, default="word"
        Words, or n-grams of characters within what white space separates, padded with a space on either side,
        as of scikit-learn. They have no pairs: `ngrams` is not used.
    language : str or None, default=None
        Stem words by the rules of a language, such as "english" or "de" (Snowball's, by name or ISO code).
        "auto" decides for each text by its function words; a text without any takes the language of most of
        the texts that were fitted to. None leaves words as they are.
    char_ngrams : (int, int), default=(3, 5)
        With "char_wb", the fewest and the most characters of an n-gram.

    Attributes
    ----------
    analyzer_ : Analyzer
        How texts are read. Of texts without scripts that have no spaces, none is cut for their sake later.
    arrays_ : dict of str to ndarray
        The vocabulary, see `to_arrays`.
    idf_ : ndarray of float32, shape (n_features,)
        Inverse document frequencies.
    vocabulary_ : dict of str to int
        Term to column. Made again at each access.

    Examples
    --------
    >>> vectorizer = TfidfVectorizer(min_count=1)
    >>> X = vectorizer.fit_transform(["Hedgehogs sleep in hedges", "hedges of hawthorn"])
    >>> X.shape
    (2, 11)
    >>> list(vectorizer.get_feature_names_out()[:7])
    ['hawthorn', 'hedgehogs', 'hedges', 'in', 'of', 'sleep', 'hedgehogs sleep']
    >>> indices, values = vectorizer.transform_one("Hedges! Hawthorn hedges?")
    >>> [vectorizer.feature_name(i) for i in indices]
    ['hawthorn', 'hedges']
    >>> vectorizer.unknown_share(["hawthorn and holly"])
    array([0.66666667])
    """

    def __init__(
        self,
        ngrams: tuple[int, int] = (1, 2),
        min_count: int = 2,
        max_features: int | None = None,
        sublinear: bool = True,
        n_jobs: int | None = None,
        analyzer: str = "word",
        language: str | None = None,
        char_ngrams: tuple[int, int] = (3, 5),
    ) -> None:
        self.ngrams = ngrams
        self.min_count = min_count
        self.max_features = max_features
        self.sublinear = sublinear
        self.n_jobs = n_jobs
        self.analyzer = analyzer
        self.language = language
        self.char_ngrams = char_ngrams

    def fit(self, texts: Iterable[str], y: object = None) -> TfidfVectorizer:
        """Find the terms of the texts.

        Parameters
        ----------
        texts : iterable of str
            What to learn the vocabulary from.
        y : object, default=None
            Ignored.

        Returns
        -------
        self
        """
        self._fit(as_texts(texts))
        return self

    def fit_transform(
        self, texts: Iterable[str], y: object = None, *, languages: Languages | None = None
    ) -> csr_array:
        """`fit` to the texts and `transform` them.

        Parameters
        ----------
        texts : iterable of str
            One for each row.
        y : object, default=None
            Ignored.
        languages : int8 array, shape (n_texts,), optional
            With ``language="auto"``, the number of the language of each text, where more is known than the
            text; then `read` and `written` need it, too.

        Returns
        -------
        csr_array of float32, shape (n_texts, n_features)
        """
        kept = as_texts(texts)
        self._fit(kept, languages)
        return self._features(self._read(kept, wording=False, languages=languages))

    def transform(self, texts: Iterable[str]) -> csr_array:
        """Weigh the terms of the texts.

        Parameters
        ----------
        texts : iterable of str
            One for each row.

        Returns
        -------
        csr_array of float32, shape (n_texts, n_features)
            Sorted indices. A text without any known term has an empty row.
        """
        self._fitted()
        return self._features(self._read(as_texts(texts), wording=False))

    def read(
        self,
        texts: Iterable[str],
        *,
        wording: bool = True,
        threads: int | None = None,
        languages: Languages | None = None,
    ) -> Reading:
        """Do what `transform` and `wording` do, and read the texts only once.

        Parameters
        ----------
        texts : iterable of str
            One for each row.
        wording : bool
            Whether to count the wording.
        threads : int, optional
            0 is all processors; as `n_jobs` says, if not given.
        languages : int8 array, shape (n_texts,), optional
            As of `fit_transform`.

        Returns
        -------
        Reading
        """
        self._fitted()
        found = self._read(as_texts(texts), wording=wording, threads=threads, languages=languages)
        return Reading(self._features(found), _wording(found) if wording else None)

    def transform_one(self, text: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """The row of one text, without the cost of a matrix.

        Parameters
        ----------
        text : str
            Any text.

        Returns
        -------
        indices : ndarray of int32, shape (n_terms,)
            Columns in ascending order.
        values : ndarray of float32, shape (n_terms,)
        """
        row = self._fitted().row(text, bool(self.sublinear))
        return row.indices, row.values

    def unknown_share(self, texts: Iterable[str]) -> npt.NDArray[np.float64]:
        """The share of each text's words that the vocabulary does not have.

        Parameters
        ----------
        texts : iterable of str
            One for each row.

        Returns
        -------
        ndarray of float64, shape (n_texts,)
            1 for a text without words.
        """
        wording = self.wording(texts)
        shares = np.ones(len(wording.words))
        np.divide(wording.unknown_words, wording.words, out=shares, where=wording.words > 0)
        return shares

    def wording(self, texts: Iterable[str]) -> Wording:
        """Count the words and pairs of each text that the vocabulary does not have.

        Parameters
        ----------
        texts : iterable of str
            One for each row.

        Returns
        -------
        Wording
        """
        self._fitted()
        return _wording(self._read(as_texts(texts), rows=False))

    @property
    def has_pairs(self) -> bool:
        """Whether pairs of words are among the features."""
        self._fitted()
        return len(self.arrays_["pairs"]) > 0

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """The terms in the order of the columns, pairs joined by a space."""
        return np.array(self._fitted().terms(), dtype=object)

    def feature_name(self, column: int) -> str:
        """The term of a column."""
        engine = self._fitted()
        if not 0 <= column < len(self.idf_):
            raise IndexError(f"column {column} of {len(self.idf_)}")
        name: str = engine.term(int(column))
        return name

    def written(self, text: str, language: int = _native.EACH_TEXT) -> dict[int, str]:
        """The terms of a text that are features, by column, as they stand in it.

        Parameters
        ----------
        text : str
            Any text.
        language : int
            The number of its language, where that was decided before.

        Returns
        -------
        dict of int to str
            Words in lower case; where several have the same stem, all of them, with a slash between them.

        Examples
        --------
        >>> vectorizer = TfidfVectorizer(min_count=1, ngrams=(1, 1), language="en").fit(["hedge"])
        >>> vectorizer.written("Hedges! Hedging a hedge")
        {0: 'hedges/hedging/hedge'}
        """
        found: dict[int, dict[str, None]] = {}
        for column, words in self._fitted().written(text, language):
            found.setdefault(column, {})[words] = None
        return {column: "/".join(words) for column, words in found.items()}

    @property
    def idf_(self) -> npt.NDArray[np.float32]:
        """Inverse document frequencies."""
        self._fitted()
        idf: npt.NDArray[np.float32] = self.arrays_["idf"]
        return idf

    @property
    def vocabulary_(self) -> dict[str, int]:
        """Term to column."""
        return {name: column for column, name in enumerate(self._fitted().terms())}

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fitted state as arrays, which `from_arrays` takes back.

        Returns
        -------
        dict of str to ndarray
            Read-only and not copied. ``word_bytes`` (UTF-8 of the words, ascending) and ``word_starts``;
            ``pairs`` (first word << 32 | second word, ascending); ``word_table`` and ``pair_table`` (the hash
            tables); ``idf``; ``format`` (version of this layout).
        """
        self._fitted()
        return dict(self.arrays_)

    @classmethod
    def from_arrays(
        cls,
        params: Mapping[str, Any],
        arrays: Mapping[str, npt.NDArray[Any]],
        analyzer: Analyzer | None = None,
    ) -> TfidfVectorizer:
        """A fitted vectoriser from its parameters and arrays.

        Parameters
        ----------
        params : mapping of str to object
            As `get_params` gives them.
        arrays : mapping of str to ndarray
            As `to_arrays` gives them. They may be read-only or mapped from a file; they are checked, used
            in place, and must not change afterwards. An array that is not aligned is copied.
        analyzer : Analyzer, optional
            The attribute `analyzer_`; if not given, words as they are written.

        Returns
        -------
        TfidfVectorizer

        Raises
        ------
        ValueError
            If the arrays are not those of a vocabulary.
        """
        params = dict(params)
        for name in {"ngrams", "char_ngrams"} & set(params):  # JSON has no tuples
            params[name] = tuple(params[name])
        vectorizer = cls(**params)
        analyzer = analyzer or Analyzer()
        vectorizer._use(arrays, analyzer, analyzer.stems())
        return vectorizer

    def _fit(self, texts: tuple[object, ...], languages: Languages | None = None) -> None:
        if tuple(self.ngrams) not in ((1, 1), (1, 2)):
            raise ValueError(f"ngrams={self.ngrams!r}; use (1, 1) for words or (1, 2) for words and pairs")
        min_count = _positive("min_count", self.min_count)
        max_features = 0 if self.max_features is None else _positive("max_features", self.max_features)
        analyzer = Analyzer.of(self.analyzer, self.char_ngrams, self.language)
        stems = analyzer.stems()
        pairs = tuple(self.ngrams) == (1, 2) and analyzer.name == "word"
        threads = threads_for(self.n_jobs)
        found = _native.fit_vocabulary(
            texts,
            analyzer.engine(),
            stems,
            pairs,
            min_count,
            max_features,
            _PAIRS_AT_ONCE,
            threads,
            languages,
        )
        arrays = {name: getattr(found, name) for name in _ARRAYS}
        if len(arrays["idf"]) == 0:
            if not texts:
                raise ValueError("there are no texts to fit to; give at least one")
            way_out = "lower min_count or add texts" if min_count > 1 else "the texts are empty"
            raise NoWordsError(f"no word is in min_count={min_count} of the {len(texts)} texts; {way_out}")
        arrays["format"] = np.array([_FORMAT], dtype=np.uint32)
        self._use(arrays, analyzer.fitted(found, stems, languages is not None), stems)

    def _use(
        self, arrays: Mapping[str, npt.NDArray[Any]], analyzer: Analyzer, stems: _native.Stems | None
    ) -> None:
        missing = [name for name in ("format", *_ARRAYS) if name not in arrays]
        if missing:
            raise ValueError(f"the vocabulary lacks the arrays {', '.join(missing)}")
        layout = np.asarray(arrays["format"])
        if layout.shape != (1,) or layout.dtype.kind not in "iu":
            raise ValueError("the vocabulary's format must be one integer")
        if layout[0] != _FORMAT:
            raise ValueError(
                f"the vocabulary has format {layout[0]}, this version of Hedgerow reads {_FORMAT}; "
                "use the version that wrote it, or fit again"
            )
        kept: dict[str, npt.NDArray[Any]] = {"format": layout.astype(np.uint32)}
        for name, dtype in _ARRAYS.items():
            array = np.asarray(arrays[name])
            if array.dtype != dtype or array.ndim != 1:
                raise ValueError(
                    f"the vocabulary's {name} must be a vector of {np.dtype(dtype)}, "
                    f"not of {array.dtype} with shape {array.shape}"
                )
            kept[name] = np.require(array, requirements=["C_CONTIGUOUS", "ALIGNED"]).view()
        arguments: list[Any] = [*(kept[name] for name in _ARRAYS), analyzer.engine(), stems]
        engine = _native.Tfidf(*arguments)
        for array in kept.values():
            array.flags.writeable = False
        self.arrays_ = kept
        self.analyzer_ = analyzer
        self._engine = engine
        self._unknown_idf = float(kept["idf"][: len(kept["word_starts"]) - 1].max()) + math.log(2)

    def _fitted(self) -> _native.Tfidf:
        try:
            return self._engine
        except AttributeError:
            raise NotFittedError("this TfidfVectorizer is not fitted; call fit with texts first") from None

    def _read(
        self,
        texts: tuple[object, ...],
        rows: bool = True,
        wording: bool = True,
        threads: int | None = None,
        languages: Languages | None = None,
    ) -> _native.TextReading:
        sublinear = bool(self.sublinear)
        threads = threads_for(self.n_jobs) if threads is None else threads
        return self._engine.read(texts, sublinear, self._unknown_idf, rows, wording, threads, languages)

    def _features(self, found: _native.TextReading) -> csr_array:
        indptr, indices = found.indptr, found.indices
        if len(indices) <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        shape = (len(indptr) - 1, len(self.arrays_["idf"]))
        rows = csr_array((found.values, indices, indptr), shape=shape)
        rows.has_canonical_format = True
        return rows

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_engine")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_engine", None)
        state.pop("_unknown_idf", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        arrays = state.pop("arrays_", None)
        super().__setstate__(state)
        if arrays is not None:
            analyzer = state.get("analyzer_") or Analyzer()
            self._use(arrays, analyzer, analyzer.stems())


def _wording(found: _native.TextReading) -> Wording:
    return Wording(found.words, found.unknown_words, found.unknown_pairs, found.rarity)


def as_texts(texts: Iterable[str]) -> tuple[object, ...]:
    """The texts as a tuple; the engine checks each of them."""
    if isinstance(texts, str | bytes):
        raise TypeError("texts must be a list of strings, not one string; for one text pass [text]")
    # Both would be read as the names of their columns or keys.
    if hasattr(texts, "columns"):
        name = next((name for name in texts.columns if isinstance(name, str)), "text")
        raise TypeError(
            f"texts must be a list of strings, not a {type(texts).__name__}; pass one of its columns, such as"
            f" df[{name!r}]"
        )
    if isinstance(texts, Mapping):
        raise TypeError(
            f"texts must be a list of strings, not a {type(texts).__name__}; if its values are the texts,"
            " pass list(d.values())"
        )
    try:
        return tuple(texts)
    except TypeError:
        raise TypeError(f"texts must be a list of strings, not {type(texts).__name__}") from None


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1")
    return int(value)
