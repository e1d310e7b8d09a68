"""Which names stand in texts, found again in the plainest way: every name at every place."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import Stemmer
import word_oracle

from hedgerow.features.name_forms import name_forms

HEADER = Path(__file__).parent.parent / "native/function_words.h"
LONGEST = 64


@cache
def function_words() -> dict[str, set[str]]:
    """The lists of the engine by language; Snowball's own order of languages."""
    lists = {}
    for language, quoted in re.findall(
        r'\{"(\w+)", "\w\w",((?:\s*"[^"]*")+)\}', HEADER.read_text(encoding="utf-8")
    ):
        words = "".join(re.findall(r'"([^"]*)"', quoted))
        lists[language] = {*word_oracle.words(words), *word_oracle.words(words, marks=True)}
    return lists


@cache
def stem(language: str | None, word: str) -> str:
    return word if language is None else Stemmer.Stemmer(language, 0).stemWord(word) or word


def cut(text: str) -> tuple[list[str], list[str], int]:
    """The words as they are written, in lower case, and how many letters stand alone."""
    small = text.lower()
    assert len(small) == len(text)
    places, single, start = [], 0, 0
    for kind, run in itertools.groupby(word_oracle.kinds(small, marks=True)):
        end = start + len(list(run))
        if kind == "unspaced" and end - start > 1:
            places += [slice(at, at + 2) for at in range(start, end - 1)]
        elif (kind == "unspaced" and re.match(r"\w", small[start])) or (kind == "word" and end - start > 1):
            places.append(slice(start, end))
        elif kind == "word":
            single += 1
        start = end
    return [text[place] for place in places], [small[place] for place in places], single


def in_capitals(words: list[str]) -> bool:
    letters = "".join(words)
    return letters.upper() == letters != letters.lower()


@dataclass(frozen=True)
class Form:
    entry: int
    language: str | None
    written: list[str]
    small: list[str]
    stems: tuple[str, ...]
    preferred: bool
    shortened: bool
    case_only: bool


@dataclass
class Found:
    """What is said of an entry in a text; places as (begin, end)."""

    places: set[tuple[int, int]] = field(default_factory=set)
    same_case: set[tuple[int, int]] = field(default_factory=set)
    exact: set[tuple[int, int]] = field(default_factory=set)
    ambiguity: int = 1 << 30
    preferred: bool = False
    shortened: bool = True


class Oracle:
    def __init__(
        self, names: list[str], languages: list[str | None], entries: list[int], preferred: list[bool]
    ) -> None:
        self.languages: list[str | None] = [
            language for language in function_words() if language in languages
        ] or [None]
        self.forms: list[Form] = []
        for name, own, entry, first in zip(names, languages, entries, preferred, strict=True):
            for text, shortened in name_forms(name):
                for language in [own] if own else self.languages:
                    self._add(text, language, entry, first, shortened)

    def _add(self, text: str, language: str | None, entry: int, preferred: bool, shortened: bool) -> None:
        written, small, single = cut(text)
        case_only = len(written) == 1 and len(written[0]) == 2
        if set(small) <= function_words().get(language or "", set()):
            if not in_capitals(written):
                return
            case_only = True
        if 0 < len(written) <= LONGEST:
            stems = tuple(stem(language, word) for word in small)
            self.forms.append(
                Form(entry, language, written, small, stems, preferred, shortened or single > 0, case_only)
            )

    def ambiguity(self, form: Form) -> int:
        same = (form.language, form.stems)
        return len({other.entry for other in self.forms if (other.language, other.stems) == same})

    def text_language(self, small: list[str]) -> str | None:
        lists = function_words()
        counts = [
            sum(word in lists.get(language or "", set()) for word in small) for language in self.languages
        ]
        return self.languages[int(np.argmax(counts))]

    def match(self, text: str) -> tuple[dict[int, Found], set[tuple[int, int]], int]:
        """What was found of each entry, the outer places, and how many words the text has."""
        written, small, _ = cut(text)
        function = function_words().get(self.text_language(small) or "", set())
        found: dict[int, Found] = {}
        for form in self.forms:
            stems = [stem(form.language, word) for word in small]
            for begin in range(len(small) - len(form.stems) + 1):
                place = (begin, begin + len(form.stems))
                here = written[slice(*place)]
                if tuple(stems[slice(*place)]) != form.stems:
                    continue
                same_case = here == form.written
                if form.case_only and not same_case:
                    continue
                if set(small[slice(*place)]) <= function and not (same_case and in_capitals(here)):
                    continue
                of_entry = found.setdefault(form.entry, Found())
                of_entry.places.add(place)
                if same_case:
                    of_entry.same_case.add(place)
                if small[slice(*place)] == form.small:
                    of_entry.exact.add(place)
                of_entry.ambiguity = min(of_entry.ambiguity, self.ambiguity(form))
                of_entry.preferred |= form.preferred
                of_entry.shortened &= form.shortened
        places = {place for of_entry in found.values() for place in of_entry.places}
        outer = {
            (begin, end)
            for begin, end in places
            if not any(b <= begin and end <= e and (b, e) != (begin, end) for b, e in places)
        }
        return found, outer, len(written)
