"""Records of several texts, such as title and abstract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hedgerow.features.analyzer import BOTH
from hedgerow.features.tfidf import as_texts
from hedgerow.inputs.parameters import ParameterError, check_real
from hedgerow.inputs.training_record import Hashes, hash_texts

__all__ = ["Field", "Fields", "Record"]

_JOINS = "+"
# After a name: how its text is read, where that is not as all others are.
_AS = "~"
_READ_AS: dict[str, dict[str, Any]] = {
    "chars": {"analyzer": "char_wb", "language": None},
    "words": {"analyzer": "word", "ngrams": (1, 1)},
}
# The weight of n-grams of characters beside the words of a plain text.
_CHARS_BESIDE_WORDS = 0.7


class Record(tuple[str, ...]):
    """The texts of one input, in the order of `Fields.sources`."""

    __slots__ = ()


@dataclass(frozen=True)
class Field:
    """A text with features of its own: one of a record, or several of them joined, as in "title+abstract".

    A name that ends in "~chars" reads n-grams of characters within words; one in "~words" reads no pairs.
    """

    name: str
    weight: float = 1.0

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The texts of a record that it is made of."""
        return tuple(self.name.partition(_AS)[0].split(_JOINS))

    @property
    def read_as(self) -> str | None:
        """How it is read, where that is not as the others are: "chars" or "words"."""
        return self.name.partition(_AS)[2] or None

    @property
    def reads_chars(self) -> bool:
        """Whether it reads n-grams of characters beside the words of other fields."""
        return self.read_as == "chars"

    def settings(self, usual: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of its vectoriser, given those of the others."""
        analyzer = {"analyzer": "word"} if usual.get("analyzer") == BOTH else {}
        return {**usual, **analyzer, **_READ_AS.get(self.read_as or "", {})}


@dataclass(frozen=True)
class Fields:
    r"""The fields that a model reads. Those of a plain text are two readings of it, and have no names.

    Examples
    --------
    >>> fields = Fields.of({"title": 2, "title+abstract": 1})
    >>> fields.sources
    ('title', 'abstract')
    >>> records = fields.records([{"title": "Hedges", "abstract": "How they grow."}, "A text alone"])
    >>> fields.texts(records, fields.fields[1])
    ('Hedges\nHow they grow.', 'A text alone')
    """

    fields: tuple[Field, ...]
    plain: bool = False

    @classmethod
    def of_plain_text(cls) -> Fields:
        """A text alone, read by words and beside them by n-grams of characters."""
        return cls((Field("text"), Field("text~chars", _CHARS_BESIDE_WORDS)), plain=True)

    @classmethod
    def of(cls, fields: Any) -> Fields:
        """Fields by name, or by name with their weights, checked; also as a list of pairs of both."""
        if isinstance(fields, str | bytes) or not isinstance(fields, Mapping | Sequence):
            raise ParameterError(
                f"fields is {fields!r:.60}; it must be a list of names, or a mapping of names to weights"
            )
        named = list(fields.items()) if isinstance(fields, Mapping) else list(fields)
        pairs = [
            tuple(one) if isinstance(one, tuple | list) and len(one) == 2 else (one, 1.0) for one in named
        ]
        try:
            weights = dict(pairs)
        except TypeError:  # what cannot be a name
            weights = {}
        if not weights or len(weights) != len(fields):
            raise ParameterError(f"fields is {fields!r:.60}; name at least one field, and each of them once")
        for name, weight in weights.items():
            text, tilde, read_as = name.partition(_AS) if isinstance(name, str) else ("", "", "")
            if tilde and read_as not in _READ_AS:
                raise ParameterError(
                    f"fields has {name!r:.60}; after {_AS} there can be {' or '.join(_READ_AS)}, as in"
                    f" 'title{_AS}chars'"
                )
            parts = text.split(_JOINS)
            if not all(part.strip() == part != "" for part in parts) or len(set(parts)) < len(parts):
                raise ParameterError(
                    f"fields has {name!r:.60}; a field is the name of a text, or of several as in"
                    " 'title+abstract'"
                )
            check_real(f"the weight of the field {name!r}", weight, above=0)
        return cls(tuple(Field(name, float(weight)) for name, weight in weights.items()))

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The texts of a record that are read."""
        return tuple(dict.fromkeys(source for field in self.fields for source in field.sources))

    def records(self, X: Any) -> tuple[Record, ...]:
        """Inputs in any of their forms.

        Parameters
        ----------
        X : mapping of str to sequence of str, data frame, or iterable
            Texts by name, or one input after the other: a mapping of names to texts, or a text alone, which
            is read as the last of the sources. Texts may be missing, and others are not read.
        """
        if self.plain:
            return tuple(self._plain_record(row, one) for row, one in enumerate(as_texts(X)))
        if isinstance(X, str | bytes):
            raise TypeError("X is one text; give a list of inputs")
        if isinstance(X, Mapping) or hasattr(X, "columns"):
            return tuple(self._from_columns(X))
        try:
            inputs = tuple(X)
        except TypeError:
            raise TypeError(f"X is of type {type(X).__name__}; give a list of texts by field") from None
        return tuple(self._record(row, one) for row, one in enumerate(inputs))

    def texts(self, records: Iterable[Record], field: Field) -> tuple[str, ...]:
        """The text of a field of each record."""
        places = [self.sources.index(source) for source in field.sources]
        if len(places) == 1:
            return tuple(record[places[0]] for record in records)
        return tuple("\n".join(record[at] for at in places if record[at]) for record in records)

    def columns(self, records: Sequence[Record]) -> list[tuple[str, ...]]:
        """The texts of all records, one source after the other."""
        return [tuple(record[place] for record in records) for place in range(len(self.sources))]

    def whole(self, records: Iterable[Record]) -> tuple[str, ...]:
        """All texts of each record as one."""
        return tuple("\n".join(text for text in record if text) for record in records)

    def hashes(self, records: Sequence[Record]) -> Hashes:
        """A 64-bit hash of each record, which says also where each text ends; that of a plain text is its."""
        if self.plain:
            return hash_texts([record[0] for record in records])
        return hash_texts(["".join(f"{len(text)}:{text}" for text in record) for record in records])

    def _from_columns(self, X: Any) -> Iterator[Record]:
        known = list(X.columns) if hasattr(X, "columns") else list(X)
        there = [name for name in self.sources if name in known]
        if not there:
            raise TypeError(
                f"X has none of the texts {', '.join(self.sources)}; it has"
                f" {', '.join(map(str, known[:20])) or 'none'}"
            )
        columns = {name: list(X[name]) for name in there}
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the texts differ in number: {lengths}")
        for row in range(lengths[there[0]]):
            yield self._record(row, {name: column[row] for name, column in columns.items()})

    def _record(self, row: int, one: Any) -> Record:
        if isinstance(one, Record) and len(one) == len(self.sources):
            return one
        if isinstance(one, str):
            return Record([*[""] * (len(self.sources) - 1), one])
        if not isinstance(one, Mapping):
            raise TypeError(
                f"input {row} is of type {type(one).__name__}; give a mapping of {', '.join(self.sources)} to"
                " texts, or a text"
            )
        if one and not any(name in one for name in self.sources):
            raise ValueError(
                f"input {row} has none of the texts {', '.join(self.sources)}; it has"
                f" {', '.join(map(str, list(one)[:20]))}"
            )
        return Record([self._text(row, name, one.get(name)) for name in self.sources])

    @staticmethod
    def _plain_record(row: int, one: Any) -> Record:
        if isinstance(one, Record):
            return one
        if not isinstance(one, str):
            raise TypeError(f"text {row} is of type {type(one).__name__}, not str")
        return Record([one])

    @staticmethod
    def _text(row: int, name: str, text: Any) -> str:
        if isinstance(text, str):
            return text
        if text is None or text != text:  # as data frames mark what is missing
            return ""
        raise TypeError(f"the {name} of input {row} is of type {type(text).__name__}, not str")
