"""Finds entries by their names, as a person types them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .columns import NameColumns
from .folding import folded
from .similar_words import SimilarWords

__all__ = ["Hit", "Lookup", "Match"]

_MOST_WORDS = 16  # of a question that count
_LEAST = 0.35  # a name that fits less is not shown
_WHOLE = 0.2  # share of the score for names without further words
_LANGUAGE, _PREFERRED, _DEPRECATED = 0.02, 0.01, 0.05  # what decides between names that fit as well


@dataclass(frozen=True)
class Match:
    """An entry that was found.

    Attributes
    ----------
    id : str
        Its id.
    name : str or None
        Its name to show.
    matched : str or None
        The name by which it was found; None if it was found by its id.
    score : float
        How well the name fits; 1 is exact.
    """

    id: str
    name: str | None
    matched: str | None
    score: float


@dataclass(frozen=True)
class Hit:
    """A name that fits, the best of its entry; both by number."""

    entry: int
    name: int
    score: float


@dataclass(frozen=True, eq=False)
class Lookup:
    """An index of the words of names."""

    words: SimilarWords
    name_begins: npt.NDArray[np.int64]  # by word
    names: npt.NDArray[np.int32]  # that have the word
    lengths: npt.NDArray[np.float32]  # letters of each name

    @classmethod
    def of(cls, names: list[str]) -> Lookup:
        """Index names."""
        met: dict[str, int] = {}
        flat: list[int] = []
        counts = []
        lengths = []
        for line in folded(names):
            words = line.split()
            counts.append(len(words))
            lengths.append(sum(map(len, words)))
            flat += [met.setdefault(word, len(met)) for word in words]
        ordered = sorted(met)
        place = np.empty(len(met), dtype=np.int64)
        place[[met[word] for word in ordered]] = np.arange(len(met))
        word_of = place[np.array(flat, dtype=np.int64)]
        begins = np.concatenate([[0], np.cumsum(np.bincount(word_of, minlength=len(met)))])
        name_of = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        return cls(
            SimilarWords.of(ordered),
            begins,
            name_of[np.argsort(word_of, kind="stable")],
            np.array(lengths, dtype=np.float32),
        )

    def search(
        self,
        names: NameColumns,
        deprecated: npt.NDArray[np.bool_],
        text: str,
        language: int | None,
        limit: int,
    ) -> list[Hit]:
        """The best entries, best first; names in a language come first where others fit as well."""
        scores = self._scores(text)
        found = np.flatnonzero(scores >= _LEAST)
        order = scores[found] + np.where(names.preferred[found], np.float32(_PREFERRED), np.float32(0))
        if language is not None:
            order[names.languages[found] == language] += np.float32(_LANGUAGE)
        order[deprecated[names.entries[found]]] -= np.float32(_DEPRECATED)
        best = [int(found[place]) for place in _best_of_each(names.entries[found], order, limit)]
        return [Hit(int(names.entries[name]), name, float(scores[name])) for name in best]

    def _scores(self, text: str) -> npt.NDArray[np.float32]:
        """How well each name fits."""
        count = len(self.lengths)
        total = np.zeros(count, dtype=np.float32)
        asked = list(dict.fromkeys(folded([text])[0].split()))[:_MOST_WORDS]
        weights = 0.0
        for word in asked:
            numbers, fits = self.words.find(word)
            rare = np.log(2.0 + count)
            if len(numbers) and fits.max() == 1:
                exact = int(numbers[fits == 1][0])
                rare -= np.log(1.0 + self.name_begins[exact + 1] - self.name_begins[exact])
            best = np.zeros(count, dtype=np.float32)
            sizes = self.name_begins[numbers + 1] - self.name_begins[numbers]
            skipped = self.name_begins[numbers] - np.cumsum(sizes) + sizes
            names = self.names[np.repeat(skipped, sizes) + np.arange(sizes.sum())]
            np.maximum.at(best, names, np.repeat(fits, sizes))
            total += np.float32(rare) * best
            weights += rare
        if not weights:
            return total
        letters = np.float32(sum(map(len, asked)))
        whole = np.minimum(1, letters / np.maximum(self.lengths, 1))
        return total / np.float32(weights) * (1 - _WHOLE + _WHOLE * whole).astype(np.float32)


def _best_of_each(entries: npt.NDArray[np.int32], scores: npt.NDArray[np.float32], limit: int) -> list[int]:
    """Places of the best name of each of the best entries, best first; of equals, the first comes first."""
    many = 20 * limit  # an entry seldom has more names that fit
    places = np.arange(len(scores))
    if len(scores) > many:
        least = np.partition(scores, -many)[-many]
        places = np.flatnonzero(scores >= least)
    places = places[np.argsort(-scores[places], kind="stable")]
    _, first = np.unique(entries[places], return_index=True)
    if len(first) < limit and len(places) < len(scores):
        places = np.argsort(-scores, kind="stable")
        _, first = np.unique(entries[places], return_index=True)
    return [int(place) for place in places[np.sort(first)[:limit]]]
