"""A vocabulary: entries with ids, names by language, and broader entries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .building import Builder
from .columns import Columns, NameColumns
from .hierarchy import Hierarchy
from .lookup import Lookup, Match
from .names import Entry, Name, language_tag
from .reading import read_columns
from .sections import from_sections, to_sections
from .strings import Strings
from .writing import write_columns

__all__ = ["Vocabulary", "read_vocabulary"]

_SCHEMES = 5  # that an error lists


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Entries with ids, names in several languages and broader entries, such as a thesaurus.

    Make one with `Vocabulary.read` or `Vocabulary.from_names`. Entries are in the order of the file; ids are
    unique strings, often URIs. A vocabulary does not change.

    Examples
    --------
    >>> vocabulary = Vocabulary.from_names({"t:1": "tree", "t:2": "holly"})
    >>> vocabulary.name("t:2")
    'holly'
    >>> [found.id for found in vocabulary.search("hollly")]
    ['t:2']
    """

    columns: Columns

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read a vocabulary from a file; see `read_vocabulary`."""
        return read_vocabulary(path)

    @classmethod
    def from_names(cls, names: Mapping[str, str], language: str | None = None) -> Vocabulary:
        """A vocabulary of ids with one name each.

        Parameters
        ----------
        names : mapping of str to str
            Ids and their names.
        language : str, optional
            The language of the names.
        """
        builder = Builder()
        for id, name in names.items():
            builder.entry(id)
            builder.name(name, language, True)
        return cls(builder.finish())

    def write(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the vocabulary to a file, whole or not at all.

        Parameters
        ----------
        path : path-like
            The file. Its ending chooses the format: .ttl (SKOS), .json, .csv or .tsv, and .gz, .xz or .zst
            behind that packs it.
        overwrite : bool
            Replace an existing file.
        """
        write_columns(self.columns, path, overwrite)

    def to_sections(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a model file keeps: an entry for its header, and arrays."""
        return to_sections(self.columns)

    @classmethod
    def from_sections(cls, header: Any, sections: dict[str, Any]) -> Vocabulary:
        """The vocabulary in a model file, checked; its arrays stay in the file and are read when needed."""
        return cls(from_sections(header, sections))

    # --- entries ---

    def __len__(self) -> int:
        return len(self.columns.ids)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self._find(id) is not None

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self):,} entries, {len(self.columns.name_texts):,} names>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and all(
            _same(getattr(self.columns, part.name), getattr(other.columns, part.name))
            for part in fields(Columns)
        )

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Entry]:
        """All entries, with all that is known of each."""
        return self.columns.entries()

    @cached_property
    def ids(self) -> list[str]:
        """The ids of all entries, in the order of the file."""
        return self.columns.ids.tolist()

    def index(self, id: str) -> int:
        """The number of an entry; KeyError for an id that the vocabulary lacks."""
        found = self._find(id) if isinstance(id, str) else None
        if found is None:
            raise KeyError(f"the vocabulary has no id {id!r}")
        return found

    def indices(self, ids: Iterable[Any]) -> npt.NDArray[np.int64]:
        """The numbers of many entries; -1 for ids that the vocabulary lacks."""
        numbers = self._numbers
        return np.array([numbers.get(id, -1) for id in ids], dtype=np.int64)

    def notation(self, id: str) -> str | None:
        """The notation of an entry, such as a class mark."""
        return _optional(self.columns.notations, self.index(id))

    def scheme(self, id: str) -> str | None:
        """The scheme that an entry belongs to."""
        schemes, scheme_of = self.columns.schemes, self.columns.scheme_of
        number = self.index(id)
        if schemes is None or scheme_of is None or scheme_of[number] < 0:
            return None
        return schemes[int(scheme_of[number])]

    @property
    def schemes(self) -> list[str]:
        """All schemes that entries belong to."""
        return [] if self.columns.schemes is None else self.columns.schemes.tolist()

    def in_scheme(self, scheme: str) -> list[str]:
        """The ids of all entries that belong to a scheme; KeyError for one that the vocabulary lacks."""
        schemes, scheme_of = self.columns.schemes, self.columns.scheme_of
        known = self.schemes
        if scheme not in known or schemes is None or scheme_of is None:
            more = f", and {len(known) - _SCHEMES:,} more" if len(known) > _SCHEMES else ""
            there = f"its schemes are {', '.join(known[:_SCHEMES])}{more}" if known else "it has none"
            raise KeyError(f"the vocabulary has no scheme {scheme!r}; {there}")
        return self._named(np.flatnonzero(scheme_of == known.index(scheme)))

    def successor(self, id: str) -> str | None:
        """The id that replaces an entry; it need not be in the vocabulary."""
        return _optional(self.columns.successors, self.index(id))

    def deprecated(self, id: str) -> bool:
        """Whether an entry should not be used any more."""
        return bool(self.columns.deprecated[self.index(id)])

    # --- names ---

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of names: that with most preferred names first, equals in alphabetical order."""
        return self.columns.languages

    def check_language(self, lang: str | None) -> None:
        """Refuse a language that no name has, nor a variant of it; None stands for the first one."""
        if lang is not None and not isinstance(lang, str):
            raise TypeError(f"lang is {lang!r}; give the tag of a language, such as 'de'")
        tag = language_tag(lang)
        if tag is None or any(own == tag or own.startswith(f"{tag}-") for own in self.languages):
            return
        there = f"it has {', '.join(self.languages)}" if self.languages else "its names have no language"
        raise ValueError(f"the vocabulary has no names in the language {lang!r}; {there}")

    def name(self, id: str, lang: str | None = None) -> str | None:
        """The name of an entry to show.

        Parameters
        ----------
        id : str
            The entry.
        lang : str, optional
            The language to prefer. "en" also finds "en-gb" where there is no "en".

        Returns
        -------
        str or None
            The preferred name in this language, else in the first of `languages` that has one, else one
            without a language, else any name; None for an entry without names.
        """
        return self.columns.name_of(self.index(id), lang)

    def names(self, id: str) -> list[Name]:
        """All names of an entry: preferred ones first, then by language, then in the order of the file."""
        number = self.index(id)
        columns = self.columns
        places = range(int(columns.name_begins[number]), int(columns.name_begins[number + 1]))
        return [
            Name(
                columns.name_texts[place],
                None if columns.name_languages[place] < 0 else self.languages[columns.name_languages[place]],
                bool(columns.name_preferred[place]),
            )
            for place in places
        ]

    def name_columns(self) -> NameColumns:
        """All names as columns, for programs that read them all."""
        columns = self.columns
        entries = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(columns.name_begins))
        return NameColumns(columns.name_texts, columns.name_languages, columns.name_preferred, entries)

    def search(self, text: str, lang: str | None = None, limit: int = 10) -> list[Match]:
        """Entries that a person may mean, by any of their names in any language, best first.

        Words may be unfinished, and have typing mistakes: one in words of three letters or more, two in those
        of six or more. Accents do not count, and ae, oe and ue are taken for ä, ö and ü. The first search
        builds an index, which takes about a second for 200,000 entries.

        Parameters
        ----------
        text : str
            Words of a name, or an id.
        lang : str, optional
            The language of the names to show; names in it come first where others fit as well.
        limit : int
            The most entries to give.

        Returns
        -------
        list of Match
        """
        if limit < 1:
            raise ValueError(f"limit is {limit}; ask for at least one entry")
        columns = self.columns
        matches = [Match(text, self.name(text, lang), None, 1.0)] if text in self else []
        for hit in self._lookup.search(
            self.name_columns(), columns.deprecated, text, self._code(lang), limit
        ):
            id = columns.ids[hit.entry]
            if not matches or id != matches[0].id:
                name = columns.name_of(hit.entry, lang)
                matches.append(Match(id, name, columns.name_texts[hit.name], round(hit.score, 4)))
        return matches[:limit]

    def prepare_search(self) -> None:
        """Build the index of `search` now, so that the first search is as fast as others."""
        self._lookup  # noqa: B018

    # --- hierarchy ---

    @property
    def hierarchy(self) -> Hierarchy:
        """Broader and narrower entries, by number."""
        return self.columns.broader

    def broader(self, id: str) -> list[str]:
        """The ids right above an entry."""
        return self._named(self.hierarchy.broader(self.index(id)))

    def narrower(self, id: str) -> list[str]:
        """The ids right below an entry."""
        return self._named(self.hierarchy.narrower(self.index(id)))

    def ancestors(self, id: str) -> list[str]:
        """All ids above an entry, nearest first."""
        return self._named(self.hierarchy.ancestors(self.index(id)))

    def subtree(self, id: str) -> list[str]:
        """An entry and all ids below it, nearest first."""
        return [id, *self._named(self.hierarchy.descendants(self.index(id)))]

    # --- within ---

    def _code(self, lang: str | None) -> int | None:
        """The number of a language; None for one that no name has."""
        tag = language_tag(lang)
        return self.languages.index(tag) if tag in self.languages else None

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup.of(self.columns.name_texts.tolist())

    def _named(self, numbers: Sequence[int] | npt.NDArray[np.integer[Any]]) -> list[str]:
        return self.columns.ids.taken([int(number) for number in numbers])

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {id: number for number, id in enumerate(self.ids)}

    def _find(self, id: str) -> int | None:
        """By halving, so that a mapped vocabulary need not be read as a whole."""
        if "_numbers" in vars(self):
            return self._numbers.get(id)
        try:
            wanted = id.encode()
        except UnicodeEncodeError:
            return None
        ids, order = self.columns.ids, self.columns.order
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            found = ids.bytes_of(int(order[middle]))
            if found == wanted:
                return int(order[middle])
            if found < wanted:
                low = middle + 1
            else:
                high = middle
        return None


def _optional(column: Strings | None, number: int) -> str | None:
    return None if column is None else column[number] or None


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Strings) and isinstance(other, Strings):
        return one.same_as(other)
    if isinstance(one, Hierarchy) and isinstance(other, Hierarchy):
        return np.array_equal(one.begins, other.begins) and np.array_equal(one.entries, other.entries)
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other)
    return type(one) is type(other) and bool(one == other)


def read_vocabulary(path: str | os.PathLike[str]) -> Vocabulary:
    r"""Read a vocabulary from a file, whose ending or beginning says what it holds.

    Parameters
    ----------
    path : path-like
        SKOS as Turtle (.ttl, .nt) or RDF/XML (.rdf, .xml), for which you ``pip install 'hedgerow[skos]'``;
        a table (.tsv, .csv), with a header or as Annif writes it; or JSON (.json). Packed files (.gz, .xz,
        .zst) work, too.

    Returns
    -------
    Vocabulary

    Raises
    ------
    DataError
        Where the file is broken, an id is missing or occurs twice, or broader entries form a cycle; it says
        where.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "trees.tsv"
    >>> _ = path.write_text("id\tname_en\tname_de\tbroader\nt:1\ttree\tBaum\nt:2\tholly\t\tt:1\n")
    >>> vocabulary = read_vocabulary(path)
    >>> vocabulary.name("t:1", lang="de"), vocabulary.broader("t:2")
    ('Baum', ['t:1'])
    """
    return Vocabulary(read_columns(path))
