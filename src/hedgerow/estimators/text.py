"""The classifier for texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hedgerow.estimators.features import HedgerowClassifier, TrainingInputs
from hedgerow.estimators.parameters import FitOptions
from hedgerow.features.analyzer import ANALYZERS, BOTH, check_analyzer
from hedgerow.features.field_reader import FieldReader, fit_words
from hedgerow.features.fields import Fields
from hedgerow.features.readers import TextReader, checked_texts
from hedgerow.features.tfidf import TfidfVectorizer
from hedgerow.inputs.labels import LabelledRows
from hedgerow.inputs.matrices import as_rows
from hedgerow.inputs.parameters import ParameterError, check_choice, check_integer
from hedgerow.inputs.search import FLOOR
from hedgerow.inputs.threads import threads_for

__all__ = ["HedgerowTextClassifier"]


class HedgerowTextClassifier(HedgerowClassifier):
    """Extreme multi-label classifier for texts: tf-idf on words and word pairs, then `HedgerowClassifier`.

    Parameters
    ----------
    ngrams : (1, 1) or (1, 2), default=(1, 2)
        Words only, or words and pairs of words.
    min_count : int, default=2
        Drop terms that fewer texts have.
    max_features : int or None, default=None
        Keep this many terms, the most frequent ones.
    sublinear : bool, default=True
        Weigh a term that occurs tf times by 1 + ln(tf).
    analyzer : {"word", "char_wb", "word+char_wb"}, default="word"
        Words, n-grams of characters within words, or both, each with a vocabulary of its own. N-grams have no
        pairs, so `ngrams` is for words.
    language : str or None, default=None
        Stem words by the rules of a language, such as "english" or "de" (Snowball's, by name or ISO code);
        "auto" decides for each text, or for all texts of a record together. None leaves words as they are.
    char_ngrams : (int, int), default=(3, 5)
        Of n-grams, the fewest and the most characters of an n-gram.
    fields : sequence of str, mapping of str to float, or None, default=None
        The texts of an input, such as ``["title", "abstract"]``, or with their weights
        ``{"title": 2, "abstract": 1}``. Each field has its own vocabulary and features; "title+abstract" is a
        field that joins two texts, "title~chars" reads n-grams of characters, and "abstract~words" reads no
        pairs of words. Inputs are then mappings of names to texts, a mapping of names to lists of
        texts, or a data frame; texts may be missing. A text alone is read as the last of them.
    **parameters
        As of `HedgerowClassifier`.

    Attributes
    ----------
    vectorizer_ : TfidfVectorizer
        From texts to features; absent with `fields`.
    vectorizers_ : dict of str to TfidfVectorizer
        The same of each field; absent without `fields`.

    Examples
    --------
    >>> texts = ["a thorny shrub", "a shrub with thorny twigs", "an evergreen tree", "the evergreen tree"]
    >>> labels = [["hawthorn"], ["hawthorn"], ["holly"], ["holly"]]
    >>> model = HedgerowTextClassifier(random_state=0).fit(texts, labels)
    >>> model.top(["evergreen"], k=1).labels
    array([['holly']], dtype=object)
    """

    left_out_at_default: ClassVar[frozenset[str]] = HedgerowClassifier.left_out_at_default | {
        *("analyzer", "language", "char_ngrams", "fields")
    }

    def __init__(
        self,
        *,
        ngrams: tuple[int, int] = (1, 2),
        min_count: int = 2,
        max_features: int | None = None,
        sublinear: bool = True,
        analyzer: str = "word",
        language: str | None = None,
        char_ngrams: tuple[int, int] = (3, 5),
        fields: Sequence[str] | Mapping[str, float] | None = None,
        method: str = "single",
        members: int = 10,
        trees: int | None = None,
        alpha: float = 0.5,
        hard_negatives: int = 10,
        dropout: float = 0.05,
        branching: int = 8,
        leaf_size: int = 100,
        loss: str = "squared_hinge",
        C: float = 1.0,
        positive_cost: float = 1.0,
        negative_cost: float = 1.0,
        tolerance: float = 0.1,
        max_passes: int = 100,
        weight_threshold: float = 0.05,
        negatives: str = "tfn",
        matcher_beam: int = 20,
        bias: float = 1.0,
        normalize: bool = True,
        judge: bool = False,
        wide: int | None = None,
        beam: int = 50,
        candidates: str | int = "scored",
        missing: str = "exact",
        floor: float = FLOOR,
        n_jobs: int | None = None,
        cluster: str | None = None,
        memory: str | int | None = None,
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.keep_parameters(locals())

    @property
    def vectorizer_(self) -> TfidfVectorizer:
        """From texts to features."""
        words = _words(self._fitted().reader)
        if isinstance(words, FieldReader):
            raise AttributeError("the model has a vectorizer for each field: vectorizers_")
        return words.vectorizer

    @property
    def vectorizers_(self) -> dict[str, TfidfVectorizer]:
        """From texts to features, for each field."""
        words = _words(self._fitted().reader)
        if not isinstance(words, FieldReader):
            raise AttributeError("the model has no fields: vectorizer_ reads its texts")
        names = [field.name for field in words.fields.fields]
        return dict(zip(names, words.vectorizers, strict=True))

    def describe(self) -> dict[str, Any]:
        """What the model is, for people and programs."""
        return {**super().describe(), **_words(self._fitted().reader).describe()}

    def check_parameters(self) -> None:
        """Raise ParameterError, or ValueError, for whatever `fit` or a prediction would refuse."""
        super().check_parameters()
        if not isinstance(self.ngrams, tuple | list):
            raise ParameterError(f"ngrams is {self.ngrams!r}; it must be (1, 1) or (1, 2)")
        check_integer("min_count", self.min_count, 1)
        if self.max_features is not None:
            check_integer("max_features", self.max_features, 1)
        check_choice("sublinear", self.sublinear, (True, False))
        check_choice("analyzer", self.analyzer, (*ANALYZERS, BOTH))
        both = self.analyzer == BOTH
        check_analyzer("word" if both else self.analyzer, self.char_ngrams, self.language)
        if both and self.fields is not None:
            raise ParameterError(
                f"analyzer is {BOTH!r}, but fields say themselves how they are read: add one such as"
                " 'title~chars', and use analyzer='word'"
            )
        self.fields_read()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags

    def fields_read(self) -> Fields | None:
        """The texts of an input; None where it is one text that is read in one way."""
        if self.analyzer == BOTH:
            return Fields.of_plain_text()
        return None if self.fields is None else Fields.of(self.fields)

    def _training_inputs(self, X: Any) -> tuple[tuple[Any, ...], int]:
        fields = self.fields_read()
        texts: tuple[Any, ...] = checked_texts(X) if fields is None else fields.records(X)
        if not texts:
            raise ValueError("there are no texts to fit to")
        return texts, len(texts)

    def _read_training(
        self, inputs: Any, labels: LabelledRows, options: FitOptions, seed: int
    ) -> TrainingInputs:
        if options.progress is not None:
            options.progress(0.0, "reading words")
        threads = threads_for(self.n_jobs)
        reader, features = fit_words(inputs, self.fields_read(), self._vectorizer_settings())
        rows = as_rows(features, threads=threads)
        return TrainingInputs(reader, rows, reader.hashes(inputs, threads))

    def _vectorizer_settings(self) -> dict[str, Any]:
        return {
            "ngrams": tuple(self.ngrams),  # JSON has no tuples
            "min_count": self.min_count,
            "max_features": self.max_features,
            "sublinear": self.sublinear,
            "n_jobs": self.n_jobs,
            "analyzer": self.analyzer,
            "language": self.language,
            "char_ngrams": tuple(self.char_ngrams),
        }


def _words(reader: Any) -> TextReader | FieldReader:
    """What reads the words; a transformer has one, too."""
    return reader if isinstance(reader, TextReader | FieldReader) else reader.words
