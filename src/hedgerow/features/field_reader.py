"""Reads records of several texts: each field has features of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.features.analyzer import BOTH, Analyzer
from hedgerow.features.fields import Field, Fields, Record
from hedgerow.features.readers import Sections, TextReader, TfidfReading, vectorizer_settings
from hedgerow.features.stemming import guess_languages, is_auto
from hedgerow.features.tfidf import Languages, NoWordsError, TfidfVectorizer, Wording
from hedgerow.features.tfidf import Reading as Tfidf
from hedgerow.inputs.threads import threads_for
from hedgerow.inputs.training_record import Hashes

__all__ = ["FieldReader", "fit_words", "open_words"]


@dataclass(frozen=True, eq=False)
class FieldReader(TfidfReading):
    """Inputs are records: tf-idf of each field, of length 1 times its weight, one after the other.

    Or they are texts, read in two ways.
    """

    fields: Fields
    vectorizers: tuple[TfidfVectorizer, ...]
    kind = "text"
    knows_training = False

    @property
    def width(self) -> int:
        """Number of terms of all fields."""
        return int(self._ends[-1])

    @property
    def has_pairs(self) -> bool:
        """Whether pairs of words are among the terms."""
        return any(vectorizer.has_pairs for vectorizer in self.vectorizers)

    @property
    def text_fields(self) -> tuple[str, ...] | None:
        """The texts of a record that are read; None where inputs are texts."""
        return None if self.fields.plain else self.fields.sources

    def inputs(self, X: Any) -> tuple[Record, ...]:
        """The records, all of them complete."""
        return self.fields.records(X)

    def check(self, inputs: Any, threads: int) -> None:
        """Nothing: `inputs` refuses what is not a text."""

    def hashes(self, inputs: Any, threads: int) -> Hashes:
        """Hashes of the records."""
        return self.fields.hashes(inputs)

    def texts(self, inputs: Any) -> tuple[str, ...]:
        """Each record as one text."""
        return self.fields.whole(inputs)

    def texts_apart(self, inputs: Any) -> list[tuple[str, ...]]:
        """The texts of all records, one source after the other."""
        return self.fields.columns(inputs)

    def tfidf(self, inputs: Any, threads: int, wording: bool = False) -> Tfidf:
        """Features and, where asked for, wording of the records."""
        languages = self._languages(inputs, threads)
        worded = wording and not all(field.reads_chars for field in self.fields.fields)
        parts = [
            vectorizer.read(
                self.fields.texts(inputs, field),
                wording=wording and not (worded and field.reads_chars),
                threads=threads,
                languages=languages if vectorizer.analyzer_.by_record else None,
            )
            for field, vectorizer in zip(self.fields.fields, self.vectorizers, strict=True)
        ]
        features = _joined([part.features for part in parts], self.fields.fields)
        return Tfidf(features, _added([part.wording for part in parts if part.wording is not None]))

    def feature_name(self, column: int) -> str:
        """The field and the term of a column."""
        field, own = self._place(column)
        name = self.vectorizers[field].feature_name(own)
        return name if self.fields.plain else f"{self.fields.fields[field].name}: {name}"

    def feature_names(self, inputs: Any, columns: npt.NDArray[np.int32]) -> list[str | int]:
        """The terms as the record writes them, not as stems."""
        languages = self._languages(inputs[:1], 1)
        decided = [] if languages is None else languages.tolist()
        written = [
            vectorizer.written(
                self.fields.texts(inputs[:1], field)[0], *(decided if vectorizer.analyzer_.by_record else [])
            )
            for field, vectorizer in zip(self.fields.fields, self.vectorizers, strict=True)
        ]
        names: list[str | int] = []
        for column in columns.tolist():
            field, own = self._place(column)
            names.append(written[field].get(own) or self.vectorizers[field].feature_name(own))
        return names

    def feature_field(self, column: int) -> str | None:
        """The field of a column; None where inputs are texts."""
        return None if self.fields.plain else self.fields.fields[self._place(column)[0]].name

    def describe(self) -> dict[str, Any]:
        """How texts are read, for people and programs."""
        if self.fields.plain:
            words, chars = (vectorizer.analyzer_.to_header() or {} for vectorizer in self.vectorizers)
            return {"analyzer": {**chars, **words, "name": BOTH}}
        return {
            "fields": [
                {
                    "field": field.name,
                    "weight": field.weight,
                    "terms": len(vectorizer.idf_),
                    **{
                        "analyzer" if key == "name" else key: value
                        for key, value in (vectorizer.analyzer_.to_header() or {"name": "word"}).items()
                    },
                }
                for field, vectorizer in zip(self.fields.fields, self.vectorizers, strict=True)
            ]
        }

    def to_file(self) -> tuple[dict[str, Any], dict[str, Any], Sections]:
        """Parameters, the fields with their analyzers, and their vocabularies."""
        entries: list[dict[str, Any]] = []
        sections: Sections = {}
        for number, (field, vectorizer) in enumerate(zip(self.fields.fields, self.vectorizers, strict=True)):
            entry: dict[str, Any] = {"name": field.name, "weight": field.weight}
            analyzer = vectorizer.analyzer_.to_header()
            entries.append(entry if analyzer is None else {**entry, "analyzer": analyzer})
            sections |= {f"text.{number}.{name}": of for name, of in vectorizer.to_arrays().items()}
        header = {"fields": entries, **({"plain_text": True} if self.fields.plain else {})}
        return {"sublinear": self.vectorizers[0].sublinear}, header, sections

    @classmethod
    def from_file(cls, header: Mapping[str, Any], sections: Mapping[str, npt.NDArray[Any]]) -> FieldReader:
        """Take back what `to_file` gave, after checking it."""
        entries = header["fields"]
        if not isinstance(entries, list) or not all(
            isinstance(entry, dict)
            and {"name", "weight"} <= set(entry) <= {"name", "weight", "analyzer"}
            and isinstance(entry["name"], str)
            for entry in entries
        ):
            raise ValueError(f"the fields are {entries!r:.60}, not a list of names and weights")
        named = {entry["name"]: entry["weight"] for entry in entries}
        if len(named) != len(entries):
            raise ValueError("two fields have the same name")
        fields, vectorizers = Fields.of(named), []
        if header.get("plain_text") is True:
            fields = replace(fields, plain=True)
            if [field.name for field in fields.fields] != [
                field.name for field in Fields.of_plain_text().fields
            ]:
                raise ValueError(f"a plain text is read as {', '.join(named)}")
        for number, entry in enumerate(entries):
            prefix = f"text.{number}."
            arrays = {name[len(prefix) :]: a for name, a in sections.items() if name.startswith(prefix)}
            analyzer = Analyzer.from_header(entry.get("analyzer"))
            settings = fields.fields[number].settings(vectorizer_settings(header["parameters"]))
            vectorizers.append(TfidfVectorizer.from_arrays(settings, arrays, analyzer))
        worded = (one.analyzer_ for one in vectorizers if one.analyzer_.name == "word")
        if len({analyzer.by_record for analyzer in worded}) > 1:
            raise ValueError("some fields have the language of the record, and others do not")
        return cls(fields, tuple(vectorizers))

    def _languages(self, inputs: Any, threads: int) -> Languages | None:
        """The language of each record, where that decides how its texts are stemmed."""
        if not any(vectorizer.analyzer_.by_record for vectorizer in self.vectorizers):
            return None
        return guess_languages(self.fields.columns(inputs), threads)

    @property
    def _ends(self) -> npt.NDArray[np.int64]:
        return np.cumsum([len(vectorizer.idf_) for vectorizer in self.vectorizers])

    def _place(self, column: int) -> tuple[int, int]:
        """The number of a column's field, and its number there."""
        field = int(np.searchsorted(self._ends, column, side="right"))
        if not 0 <= column < self.width:
            raise IndexError(f"column {column} of {self.width}")
        return field, column - (int(self._ends[field - 1]) if field else 0)


def fit_words(
    inputs: Any, fields: Fields | None, settings: Mapping[str, Any]
) -> tuple[TextReader | FieldReader, sp.csr_array]:
    """A reader for inputs like these, and their features; the settings are those of `TfidfVectorizer`."""
    if fields is None:
        words = TfidfVectorizer(**settings)
        features = words.fit_transform(inputs)
        return TextReader(words), features
    vectorizers = [TfidfVectorizer(**field.settings(settings)) for field in fields.fields]
    languages, parts = None, []
    # A title has few words to tell its language by; the whole record has more. A single field is the record.
    if len(vectorizers) > 1 and any(is_auto(words.language) for words in vectorizers):
        languages = guess_languages(fields.columns(inputs), threads_for(vectorizers[0].n_jobs))
    for field, words in zip(fields.fields, vectorizers, strict=True):
        try:
            decided = languages if is_auto(words.language) else None
            parts.append(words.fit_transform(fields.texts(inputs, field), languages=decided))
        except NoWordsError as error:
            raise NoWordsError(f"field {field.name!r}: {error}") from None
    return FieldReader(fields, tuple(vectorizers)), _joined(parts, fields.fields)


def open_words(
    header: Mapping[str, Any], sections: Mapping[str, npt.NDArray[Any]]
) -> TextReader | FieldReader:
    """The reader of texts in a model file."""
    return (FieldReader if "fields" in header else TextReader).from_file(header, sections)


def _joined(parts: Sequence[sp.csr_array], fields: Sequence[Field]) -> sp.csr_array:
    weighted = [
        part if field.weight == 1 else part * np.float32(field.weight)
        for part, field in zip(parts, fields, strict=True)
    ]
    return sp.csr_array(sp.hstack(weighted, format="csr", dtype=np.float32))


def _added(parts: Sequence[Wording]) -> Wording | None:
    """The wording of whole records; a field has a say in the rarity by its number of words."""
    if not parts:
        return None
    words = np.sum([part.words for part in parts], axis=0)
    shares = np.array([part.words for part in parts], dtype=np.float64)
    shares[:, words == 0] = 1.0
    return Wording(
        words,
        np.sum([part.unknown_words for part in parts], axis=0),
        np.sum([part.unknown_pairs for part in parts], axis=0),
        np.average([part.rarity for part in parts], axis=0, weights=shares),
    )
