"""How texts become words: the analyzer, which a model file names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hedgerow import _native
from hedgerow.features.stemming import (
    AUTO,
    check_stemmer,
    language_name,
    stemmer_version,
    stems_for,
    usual_language,
)
from hedgerow.inputs.parameters import ParameterError, check_choice, check_integer

__all__ = ["ANALYZERS", "BOTH", "Analyzer", "check_analyzer"]

ANALYZERS = ("word", "char_wb")
BOTH = "word+char_wb"  # one beside the other, each with a vocabulary of its own
_LONGEST = 32  # characters of an n-gram


@dataclass(frozen=True)
class Analyzer:
    """Words, or n-grams of characters within them.

    Attributes
    ----------
    name : {"word", "char_wb"}
        As of `TfidfVectorizer`.
    char_ngrams : (int, int)
        Fewest and most characters of an n-gram; with "char_wb".
    bigrams : bool
        Whether runs of scripts without spaces are cut into overlapping pairs of characters.
    language : str or None
        A language of Snowball, or "auto"; None for words as they are written.
    usual : str or None
        With "auto", the language of most of the training texts.
    marks : bool
        Whether marks on letters, such as the vowel signs of Hindi, belong to words; else they end them.
    by_record : bool
        With "auto", whether the language is that of the whole record, and not of one of its texts.
    stemmer : str or None
        The version of PyStemmer that made the stems; None where the model file is older than this entry.
    """

    name: str = "word"
    char_ngrams: tuple[int, int] = (3, 5)
    bigrams: bool = False
    language: str | None = None
    usual: str | None = None
    marks: bool = False
    by_record: bool = False
    stemmer: str | None = None

    @classmethod
    def of(cls, name: str, char_ngrams: Any, language: str | None) -> Analyzer:
        """The analyzer that parameters ask for, checked."""
        check_analyzer(name, char_ngrams, language)
        first, last = char_ngrams
        return cls(
            name,
            (int(first), int(last)),
            bigrams=name == "word",
            language=None if language is None else language_name(language),
            marks=language is not None,
            stemmer=None if language is None else stemmer_version(),
        )

    def fitted(
        self, found: _native.Vocabulary, stems: _native.Stems | None, by_record: bool = False
    ) -> Analyzer:
        """The same after it met texts: with their usual language, and cut as they need it.

        Texts without scripts that need it are read as before, and their model files are the same.
        """
        usual = usual_language(stems) if stems is not None and self.language == AUTO else None
        return replace(
            self,
            bigrams=self.bigrams and found.unspaced,
            marks=self.marks and found.marked,
            usual=usual,
            by_record=by_record and self.language == AUTO,
        )

    def engine(self) -> _native.Analyzer:
        """The part that the engine needs to cut texts."""
        return _native.Analyzer(self.name == "char_wb", self.bigrams, *self.char_ngrams, self.marks)

    def stems(self) -> _native.Stems | None:
        """What the engine asks for stems; a new one for each vocabulary."""
        return None if self.language is None else stems_for(self.language, self.usual)

    def to_header(self) -> dict[str, Any] | None:
        """The entry of a model file; None for words as they are written, which is what old files have."""
        if self == Analyzer(char_ngrams=self.char_ngrams):
            return None
        if self.name == "char_wb":
            return {"name": self.name, "char_ngrams": list(self.char_ngrams)}
        entry: dict[str, Any] = {"name": self.name}
        if self.bigrams:
            entry["unspaced"] = "bigrams"
        if self.language is not None:
            entry["language"] = self.language
        if self.usual is not None:
            entry["usual"] = self.usual
        if self.marks:
            entry["marks"] = "kept"
        if self.by_record:
            entry["decided"] = "record"
        if self.stemmer is not None:
            entry["stemmer"] = self.stemmer
        return entry

    @classmethod
    def from_header(cls, entry: Any) -> Analyzer:
        """Take back what `to_header` gave, after checking it."""
        if entry is None:
            return cls()
        if not isinstance(entry, Mapping):
            raise ValueError(f"the analyzer is {entry!r:.60}, not an object")
        known = {"name", "char_ngrams", "unspaced", "language", "usual", "marks", "decided", "stemmer"}
        if unknown := sorted(set(entry) - known):
            raise ValueError(
                f"the analyzer has {unknown[0]!r:.60}, which this version of Hedgerow does not know; use the"
                " version that wrote the file"
            )
        name, language, usual = entry.get("name"), entry.get("language"), entry.get("usual")
        ngrams = entry.get("char_ngrams", [3, 5])
        check_analyzer(name, ngrams, language)
        if entry.get("unspaced") not in (None, "bigrams"):
            raise ValueError(f"the analyzer cuts scripts without spaces by {entry['unspaced']!r:.60}")
        if usual is not None and (
            language != AUTO or usual not in [known for known, _ in _native.languages()]
        ):
            raise ValueError(f"the analyzer has the usual language {usual!r:.60}")
        if entry.get("marks") not in (None, "kept") or entry.get("decided") not in (None, "record"):
            raise ValueError("the analyzer reads marks or languages in a way that is not known")
        if language is None and any(key in entry for key in ("marks", "decided", "stemmer")):
            raise ValueError("the analyzer has no language, but says how it stems")
        check_stemmer(entry.get("stemmer"))
        return cls(
            entry["name"],
            (ngrams[0], ngrams[1]),
            "unspaced" in entry,
            language,
            usual,
            "marks" in entry,
            "decided" in entry,
            entry.get("stemmer"),
        )


def check_analyzer(name: Any, char_ngrams: Any, language: Any) -> None:
    """Raise ParameterError unless texts can be read like that."""
    check_choice("analyzer", name, ANALYZERS)
    if not isinstance(char_ngrams, tuple | list) or len(char_ngrams) != 2:
        raise ParameterError(f"char_ngrams is {char_ngrams!r}; it must be two numbers, such as (3, 5)")
    check_integer("char_ngrams[0]", char_ngrams[0], 1, _LONGEST)
    check_integer("char_ngrams[1]", char_ngrams[1], int(char_ngrams[0]), _LONGEST)
    if language is not None:
        language_name(language)
        if name == "char_wb":
            raise ParameterError(
                f"language is {language!r}, but n-grams of characters have no stems; leave it None, or use"
                " analyzer='word'"
            )
