"""Makes vocabularies from what readers find, and refuses what makes no sense."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .columns import Columns
from .hierarchy import Hierarchy
from .names import VocabularyWarning, check_id, language_tag, spaced
from .strings import Strings

__all__ = ["Builder", "EntryError"]

_SHOWN = 8  # entries of a cycle that an error names


class EntryError(ValueError):
    """An entry makes no sense; `line` is where it stands in the file, where that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Builder:
    """Collects entries in the order of a file: `entry` begins one, and what follows belongs to it."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._lines: list[int | None] = []
        self._names: dict[tuple[int, str, str | None, bool], None] = {}
        self._tags: dict[str | None, str | None] = {None: None, "": None}
        self._notations: dict[int, str] = {}
        self._schemes: dict[int, str] = {}
        self._successors: dict[int, str] = {}
        self._deprecated: set[int] = set()
        self._broader: dict[tuple[int, str], None] = {}
        self._entry = -1

    def __len__(self) -> int:
        return len(self._ids)

    def entry(self, id: object, line: int | None = None) -> None:
        """Begin an entry; its id must be new."""
        name = self._checked(id, "id", line)
        if name in self._ids:
            first = self._lines[self._ids[name]]
            where = "" if first is None else f"; line {first} has it, too"
            raise EntryError(f"the id {name!r} occurs twice{where}; an id stands for one entry", line)
        self._entry = self._ids[name] = len(self._ids)
        self._lines.append(line)

    def name(self, text: str, language: str | None, preferred: bool) -> None:
        """A name of the entry; an empty one, or one that the entry has, is left out."""
        if language not in self._tags:
            self._tags[language] = self._valid(language_tag, language)
        if text := self._valid(spaced, text):
            self._names[self._entry, text, self._tags[language], preferred] = None

    def notation(self, notation: str) -> None:
        """The notation of the entry; of several, the first."""
        if notation := self._valid(spaced, notation):
            self._notations.setdefault(self._entry, notation)

    def scheme(self, scheme: str) -> None:
        """The scheme of the entry; of several, the first."""
        self._schemes.setdefault(self._entry, self._checked(scheme, "scheme", self._line))

    def successor(self, id: str) -> None:
        """What replaces the entry; of several, the first."""
        self._successors.setdefault(self._entry, self._checked(id, "id that replaces another", self._line))

    def deprecate(self) -> None:
        """The entry should not be used any more."""
        self._deprecated.add(self._entry)

    def broader(self, id: str) -> None:
        """An entry right above this one."""
        self._broader[self._entry, self._checked(id, "broader id", self._line)] = None

    def finish(self) -> Columns:
        """The vocabulary; ids of broader entries that it lacks are left out with a warning."""
        if not self._ids:
            raise EntryError("there is no entry")
        count = len(self._ids)
        hierarchy = self._hierarchy(count)
        languages = self._languages()
        numbers: dict[str | None, int] = {language: number for number, language in enumerate(languages)}
        names = list(self._names)
        entries = np.fromiter((name[0] for name in names), dtype=np.int64, count=len(names))
        codes = np.fromiter((numbers.get(name[2], -1) for name in names), dtype=np.int16, count=len(names))
        preferred = np.fromiter((name[3] for name in names), dtype=bool, count=len(names))
        # Names without a language come last.
        order = np.lexsort((codes.astype(np.uint16), ~preferred, entries))
        encoded = np.array([id.encode() for id in self._ids], dtype=object)
        schemes = {scheme: number for number, scheme in enumerate(dict.fromkeys(self._schemes.values()))}
        scheme_of = None
        if schemes:
            scheme_of = np.full(count, -1, dtype=np.int32)
            for entry, scheme in self._schemes.items():
                scheme_of[entry] = schemes[scheme]
        deprecated = np.zeros(count, dtype=bool)
        deprecated[list(self._deprecated)] = True
        begins = np.concatenate([[0], np.cumsum(np.bincount(entries, minlength=count))])
        return Columns(
            ids=Strings.of(self._ids),
            order=np.argsort(encoded, kind="stable").astype(np.uint32),
            languages=languages,
            name_texts=Strings.of(names[place][1] for place in order.tolist()),
            name_begins=begins.astype(np.uint32),
            name_languages=codes[order],
            name_preferred=preferred[order],
            notations=_column(self._notations, count),
            schemes=Strings.of(schemes) if schemes else None,
            scheme_of=scheme_of,
            successors=_column(self._successors, count),
            deprecated=deprecated,
            broader=hierarchy,
        )

    @property
    def _line(self) -> int | None:
        return self._lines[self._entry] if self._lines else None

    def _checked(self, id: object, what: str, line: int | None) -> str:
        try:
            return check_id(id, what)
        except ValueError as error:
            raise EntryError(str(error), line) from None

    def _valid(self, check: Callable[[Any], Any], value: Any) -> Any:
        try:
            return check(value)
        except ValueError as error:
            raise EntryError(str(error), self._line) from None

    def _languages(self) -> tuple[str, ...]:
        """By the number of preferred names, then by the alphabet."""
        counts = dict.fromkeys(sorted(filter(None, set(self._tags.values()))), 0)
        used = set()
        for _, _, language, preferred in self._names:
            if language is not None:
                counts[language] += preferred
                used.add(language)
        if len(used) > 2**15 - 1:
            raise EntryError(f"there are names in {len(used):,} languages; that cannot be right")
        return tuple(sorted(used, key=lambda language: (-counts[language], language)))

    def _hierarchy(self, count: int) -> Hierarchy:
        known = [(entry, self._ids[id]) for entry, id in self._broader if id in self._ids]
        if missing := len(self._broader) - len(known):
            entry, id = next((entry, id) for entry, id in self._broader if id not in self._ids)
            warnings.warn(
                f"{missing:,} broader ids are not in the vocabulary and were left out, such as {id!r} of"
                f" {list(self._ids)[entry]!r}",
                VocabularyWarning,
                stacklevel=2,
            )
        pairs = np.array(known, dtype=np.int32).reshape(-1, 2)
        hierarchy = Hierarchy.of(pairs[:, 0], pairs[:, 1], count)
        if cycle := hierarchy.cycle():
            ids = list(self._ids)
            shown = [repr(ids[entry]) for entry in [*cycle, cycle[0]]]
            if len(cycle) > _SHOWN:
                shown = [*shown[:_SHOWN], "...", shown[-1]]
            raise EntryError(
                f"each of these entries has the next as broader, which leads back to the first:"
                f" {' -> '.join(shown)}; remove one of these steps",
                self._lines[cycle[0]],
            )
        return hierarchy


def _column(values: dict[int, str], count: int) -> Strings | None:
    return Strings.of(values.get(entry, "") for entry in range(count)) if values else None
