"""Find the names of vocabulary entries in texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native
from hedgerow.features.name_forms import name_forms
from hedgerow.features.stemming import (
    AUTO,
    check_stemmer,
    language_number,
    stemmer_version,
    stems_for,
)
from hedgerow.features.tfidf import as_texts

__all__ = ["NameMatcher", "NameMatches"]

_FORMAT = 1
_NO_LANGUAGE = "none"
# Name and dtype of the arrays in the order in which the engine takes them, after the numbers of languages.
_ARRAYS: dict[str, type[np.generic]] = {
    "stem_bytes": np.uint8,
    "stem_starts": np.uint64,
    "language_ends": np.uint32,
    "edges": np.uint32,
    "edge_stems": np.uint32,
    "names": np.uint32,
    "entries": np.int32,
    "flags": np.uint8,
    "written": np.uint64,
    "lowered": np.uint64,
}


@dataclass(frozen=True, eq=False)
class NameMatches:
    """Entries whose names texts have: a row for each text, in the form of a CSR matrix.

    An occurrence is a place, from one word to another. Where two names of an entry stand at the very same
    place, they count once; where one stands within the other, twice.

    Attributes
    ----------
    indptr : ndarray of int64, shape (n_texts + 1,)
        Row i is at ``indptr[i]:indptr[i + 1]`` of what follows but `tokens`.
    entries : ndarray of int32, shape (n_found,)
        Different ones in each row, ascending.
    count : ndarray of int32, shape (n_found,)
        Occurrences of names of the entry.
    outer : ndarray of int32, shape (n_found,)
        Of them, those that no longer occurrence holds, of whatever entry and language. Of two that only
        overlap, each may be outer.
    same_case : ndarray of int32, shape (n_found,)
        Of them, those whose words are written as a name has them, upper and lower case included.
    exact : ndarray of int32, shape (n_found,)
        The same in lower case: not only their stems are equal.
    first : ndarray of float32, shape (n_found,)
        Words before the first occurrence, as a share of those of the text.
    words : ndarray of int32, shape (n_found,)
        Words of the longest name found.
    ambiguity : ndarray of int32, shape (n_found,)
        The fewest entries that share a name found, this one included; by stems.
    preferred : ndarray of bool, shape (n_found,)
        Whether a preferred name was found.
    shortened : ndarray of bool, shape (n_found,)
        Whether something was left out of all names found: a qualifier, or letters that stand alone.
    tokens : ndarray of int64, shape (n_texts,)
        Words of each text.
    """

    indptr: npt.NDArray[np.int64]
    entries: npt.NDArray[np.int32]
    count: npt.NDArray[np.int32]
    outer: npt.NDArray[np.int32]
    same_case: npt.NDArray[np.int32]
    exact: npt.NDArray[np.int32]
    first: npt.NDArray[np.float32]
    words: npt.NDArray[np.int32]
    ambiguity: npt.NDArray[np.int32]
    preferred: npt.NDArray[np.bool_]
    shortened: npt.NDArray[np.bool_]
    tokens: npt.NDArray[np.int64]


class NameMatcher:
    """Finds names of vocabulary entries in texts, by the stems of their words.

    Words are cut as by `TfidfVectorizer` with stems: a letter that stands alone is none. Names of a language
    are stemmed by its rules, and so are, for each language that names have, the words of a text, whatever
    language that is in. Names without a language, or in one that has no rules, are looked for by the rules
    of all others; if there are none, words must be equal.

    A qualifier may be missing in a text, and a name with one comma may be turned, see `name_forms`. A name
    of a single word of two letters, such as "EU", is found only in the same case. A name of function words
    only is left out, except in capitals, such as "WHO": then it is found in the same case. The same holds
    for words of a text that are all function words in its language, which is the one with the most of them:
    "war" in a German text is no "War". A name of more than 64 words is left out.

    Parameters
    ----------
    texts : sequence of str
        Names. An entry may have several; some may be equal.
    languages : sequence of (str or None)
        Language of each name, by name or code, such as "de" or "en-GB".
    entries : ndarray of int32, shape (n_names,)
        The entry of each name, from 0 on.
    preferred : ndarray of bool, shape (n_names,)
        Whether the entry is called by it before others.

    Examples
    --------
    >>> names, languages = ["Hecke", "hedge", "hedge school"], ["de", "en", "en"]
    >>> matcher = NameMatcher(names, languages, np.array([0, 0, 1]), np.ones(3, bool))
    >>> found = matcher.match(["Hedges, and the hedge schools", "Hecken"])
    >>> found.indptr.tolist(), found.entries.tolist()
    ([0, 2, 3], [0, 1, 0])
    >>> found.count.tolist(), found.outer.tolist()
    ([2, 1, 1], [1, 1, 1])
    """

    def __init__(
        self,
        texts: Sequence[str],
        languages: Sequence[str | None],
        entries: npt.NDArray[np.int32],
        preferred: npt.NDArray[np.bool_],
    ) -> None:
        names = as_texts(texts)
        entries, preferred = np.asarray(entries), np.asarray(preferred)
        if not len(names) == len(languages) == len(entries) == len(preferred):
            raise ValueError(
                f"there are {len(names)} names, {len(languages)} languages, {len(entries)} entries and"
                f" {len(preferred)} preferred; each name needs one of each"
            )
        if entries.ndim != 1 or (len(entries) and entries.dtype.kind not in "iu"):
            raise ValueError("entries must be a vector of whole numbers")
        if len(entries) and not 0 <= int(entries.min()) <= int(entries.max()) <= np.iinfo(np.int32).max:
            raise ValueError("entries must be from 0 to 2^31 - 1")
        if preferred.ndim != 1 or (len(preferred) and preferred.dtype != np.bool_):
            raise ValueError("preferred must be a vector of bool")
        forms, of_names, shortened = _all_forms(names)
        numbers = {language: language_number(language) for language in set(languages)}
        spoken = np.array([numbers[language] for language in languages], np.int8)
        flags = preferred.astype(np.uint8) * _native.PREFERRED_NAME
        stems = stems_for(AUTO, None)
        built = _native.build_names(
            forms,
            spoken[of_names],
            entries.astype(np.int32)[of_names],
            flags[of_names] | (shortened * np.uint8(_native.SHORTENED_NAME)),
            stems,
        )
        arrays = {name: getattr(built, name) for name in _ARRAYS}
        arrays["format"] = np.array([_FORMAT], np.uint32)
        arrays["languages"] = _as_array(" ".join(_names_of(built.languages)))
        arrays["stemmer"] = _as_array(stemmer_version())
        self._arrays, self._engine = _checked(arrays, stems)

    def match(self, texts: Iterable[str], *, threads: int = 1) -> NameMatches:
        """Find the entries whose names texts have.

        Parameters
        ----------
        texts : iterable of str
            One for each row.
        threads : int
            0 is all processors. The result is the same bit for bit.

        Returns
        -------
        NameMatches
        """
        found = self._engine.match(as_texts(texts), threads)
        return NameMatches(
            found.indptr,
            found.entries,
            found.count,
            found.outer,
            found.same_case,
            found.exact,
            found.first,
            found.words,
            found.ambiguity,
            found.preferred.view(np.bool_),
            found.shortened.view(np.bool_),
            found.tokens,
        )

    @property
    def n_entries(self) -> int:
        """One more than the highest entry that has a name."""
        entries = self._arrays["entries"]
        return int(entries.max()) + 1 if len(entries) else 0

    @property
    def entries(self) -> npt.NDArray[np.int32]:
        """The entry of each name that is looked for; entries come again, in any order."""
        entries: npt.NDArray[np.int32] = self._arrays["entries"]
        return entries

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The names as arrays, which `from_arrays` takes back.

        Returns
        -------
        dict of str to ndarray
            Read-only and not copied.
        """
        return dict(self._arrays)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> NameMatcher:
        """A matcher from its arrays.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            As `to_arrays` gives them. They may be read-only or mapped from a file; they are checked, used in
            place, and must not change afterwards. An array that is not aligned is copied.

        Returns
        -------
        NameMatcher

        Raises
        ------
        ValueError
            If the arrays are not those of names.
        """
        matcher = cls.__new__(cls)
        matcher.__setstate__(arrays)
        return matcher

    def __getstate__(self) -> dict[str, npt.NDArray[Any]]:
        return self.to_arrays()

    def __setstate__(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self._arrays, self._engine = _checked(state, stems_for(AUTO, None))


def _checked(
    arrays: Mapping[str, npt.NDArray[Any]], stems: _native.Stems
) -> tuple[dict[str, npt.NDArray[Any]], _native.NameMatcher]:
    """The arrays, if they are those of names, and the engine that uses them."""
    dtypes = {"languages": np.uint8, "stemmer": np.uint8} | _ARRAYS
    missing = [name for name in ("format", *dtypes) if name not in arrays]
    if missing:
        raise ValueError(f"the names lack the arrays {', '.join(missing)}")
    layout = np.asarray(arrays["format"])
    if layout.shape != (1,) or layout.dtype.kind not in "iu":
        raise ValueError("the format of the names must be one integer")
    if layout[0] != _FORMAT:
        raise ValueError(
            f"the names have format {layout[0]}, this version of Hedgerow reads {_FORMAT}; use the"
            " version that wrote them, or set the vocabulary again"
        )
    kept: dict[str, npt.NDArray[Any]] = {"format": layout.astype(np.uint32)}
    for name, dtype in dtypes.items():
        array = np.asarray(arrays[name])
        if array.dtype != dtype or array.ndim != 1:
            raise ValueError(
                f"{name} of the names must be a vector of {np.dtype(dtype)}, not of {array.dtype} with"
                f" shape {array.shape}"
            )
        kept[name] = np.require(array, requirements=["C_CONTIGUOUS", "ALIGNED"]).view()
    check_stemmer(_as_text(kept["stemmer"]))
    languages = _numbers_of(_as_text(kept["languages"]).split())
    arguments: list[Any] = [languages, *(kept[name] for name in _ARRAYS), stems]
    engine = _native.NameMatcher(*arguments)
    for array in kept.values():
        array.flags.writeable = False
    return kept, engine


def _as_array(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def _as_text(array: npt.NDArray[np.uint8]) -> str:
    return array[:1000].tobytes().decode("latin-1")


def _names_of(languages: npt.NDArray[np.int8]) -> list[str]:
    """The names of languages, as their numbers may be others in another version."""
    known = [name for name, _ in _native.languages()]
    return [_NO_LANGUAGE if number == _native.NO_LANGUAGE else known[number] for number in languages]


def _numbers_of(languages: Sequence[str]) -> npt.NDArray[np.int8]:
    numbers = [language_number(name) for name in languages]
    for name, number in zip(languages, numbers, strict=True):
        if number == _native.NO_LANGUAGE and name != _NO_LANGUAGE:
            raise ValueError(
                f"the names have words of {name!r:.60}, which is no language that can be stemmed"
            )
    return np.array(numbers, np.int8)


def _all_forms(
    names: tuple[object, ...],
) -> tuple[tuple[object, ...], npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """The forms of all names, the number of the name of each, and whether something was left out of it."""
    forms: list[object] = []
    of_names: list[int] = []
    shortened: list[bool] = []
    for number, name in enumerate(names):
        # The engine says what is wrong with what is no text.
        for form, short in name_forms(name) if isinstance(name, str) else [(name, False)]:
            forms.append(form)
            of_names.append(number)
            shortened.append(short)
    return tuple(forms), np.array(of_names, np.intp), np.array(shortened, np.bool_)
