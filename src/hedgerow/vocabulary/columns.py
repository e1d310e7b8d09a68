"""A vocabulary as arrays, which can lie in a mapped file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .hierarchy import Hierarchy
from .names import Entry, Name, language_tag
from .strings import Strings

__all__ = ["Columns", "NameColumns"]


@dataclass(frozen=True, eq=False)
class Columns:
    """A vocabulary as arrays; `vocabulary.building` makes and `vocabulary.sections` checks them.

    Names are grouped by entry, those of entry i are ``name_begins[i]:name_begins[i + 1]``: preferred ones
    first, then by language. Languages are numbered; -1 is none. Where no entry has a notation, a scheme or a
    successor, the column is None; in the others, an empty string is none.
    """

    ids: Strings
    order: npt.NDArray[np.uint32]  # the entries in the order of the bytes of their ids
    languages: tuple[str, ...]
    name_texts: Strings
    name_begins: npt.NDArray[np.uint32]
    name_languages: npt.NDArray[np.int16]
    name_preferred: npt.NDArray[np.bool_]
    notations: Strings | None
    schemes: Strings | None
    scheme_of: npt.NDArray[np.int32] | None  # by entry; -1 is none
    successors: Strings | None
    deprecated: npt.NDArray[np.bool_]
    broader: Hierarchy

    def entries(self) -> Iterator[Entry]:
        """All entries, with all that is known of each."""
        ids = self.ids.tolist()
        count = len(ids)
        languages = [*self.languages, None]  # -1 is the last
        codes, preferred = self.name_languages.tolist(), self.name_preferred.tolist()
        names = [
            Name(text, languages[code], shown)
            for text, code, shown in zip(self.name_texts, codes, preferred, strict=True)
        ]
        name_begins, begins = self.name_begins.tolist(), self.broader.begins.tolist()
        above = self.broader.entries.tolist()
        nothing = [""] * count
        notations = nothing if self.notations is None else self.notations.tolist()
        successors = nothing if self.successors is None else self.successors.tolist()
        schemes = [*(() if self.schemes is None else self.schemes), None]
        scheme_of = [-1] * count if self.scheme_of is None else self.scheme_of.tolist()
        deprecated = self.deprecated.tolist()
        for number, id in enumerate(ids):
            yield Entry(
                id,
                notations[number] or None,
                tuple(names[name_begins[number] : name_begins[number + 1]]),
                tuple(ids[broader] for broader in above[begins[number] : begins[number + 1]]),
                schemes[scheme_of[number]],
                successors[number] or None,
                deprecated[number],
            )

    def name_of(self, entry: int, lang: str | None) -> str | None:
        """The name of an entry to show, by number; see `Vocabulary.name`."""
        begin, end = int(self.name_begins[entry]), int(self.name_begins[entry + 1])
        if begin == end:
            return None
        languages = self.name_languages[begin:end].tolist()
        preferred = self.name_preferred[begin:end].tolist()

        def rank(place: int) -> tuple[bool, int, bool, int]:
            code = languages[place]
            fit = 2 if lang is None or code < 0 else _fit(self.languages[code], lang)
            return not preferred[place], fit, code < 0, code

        return self.name_texts[begin + min(range(end - begin), key=rank)]


@dataclass(frozen=True, eq=False)
class NameColumns:
    """All names of a vocabulary as columns, grouped by entry.

    Attributes
    ----------
    texts : Strings
        The names: UTF-8 bytes `text`, and where each name begins, `begins`.
    languages : int16 array
        Numbers of their languages in `Vocabulary.languages`; -1 where a name has none.
    preferred : bool array
        Whether each is a name to show.
    entries : int32 array
        The entry of each, by its number.
    """

    texts: Strings
    languages: npt.NDArray[np.int16]
    preferred: npt.NDArray[np.bool_]
    entries: npt.NDArray[np.int32]


def _fit(language: str, wanted: str) -> int:
    """0 for the language that is wanted, 1 for a variant of it, 2 for others."""
    wanted = language_tag(wanted) or ""
    return 0 if language == wanted else 1 if language.startswith(f"{wanted}-") else 2
