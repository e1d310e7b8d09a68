"""Words that are spelled alike: found by pairs of letters that they share, and judged by edit distance."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["SimilarWords", "edit_distances"]

_BUCKETS = 1 << 16  # of pairs of letters; two that share one only cost time
_JUDGED = 200  # words that share most pairs
_LONGEST = 64  # letters of a word that count
_TYPO = 1.2  # what a mistake costs, as a share of the word's letters
_PREFIX, _SHORT_PREFIX = 0.95, 0.55  # a word that is nearly finished, and one that has just begun


@dataclass(frozen=True, eq=False)
class SimilarWords:
    """Sorted words with an index of the pairs of letters in them; a word begins and ends with a blank."""

    words: list[str]
    letters: npt.NDArray[np.uint32]  # of all words, a blank before each and one at the end
    starts: npt.NDArray[np.int64]  # of the words in letters
    lengths: npt.NDArray[np.int64]
    pair_begins: npt.NDArray[np.int64]  # by bucket
    pair_words: npt.NDArray[np.int32]

    @classmethod
    def of(cls, words: list[str]) -> SimilarWords:
        """Index words, which are sorted and not empty."""
        text = "\n" + "".join(f"{word}\n" for word in words)
        letters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        blank = letters == ord("\n")
        blanks = np.flatnonzero(blank)
        word_of = (np.cumsum(blank)[:-1] - 1).astype(np.int32)
        buckets = _bucket(letters[:-1], letters[1:])
        order = np.argsort(buckets, kind="stable")
        begins = np.concatenate([[0], np.cumsum(np.bincount(buckets, minlength=_BUCKETS))])
        return cls(words, letters, blanks[:-1] + 1, np.diff(blanks) - 1, begins, word_of[order])

    def find(self, word: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Numbers of words that may be meant, and how well each fits, from 0 to 1."""
        word = word[:_LONGEST]
        first = bisect_left(self.words, word)
        last = bisect_left(self.words, word + "\U0010ffff")
        longer = np.arange(first, last)
        finished = len(word) / np.maximum(self.lengths[longer], 1)
        fits = _SHORT_PREFIX + (_PREFIX - _SHORT_PREFIX) * finished
        fits[self.lengths[longer] == len(word)] = 1.0
        numbers, distances = self._alike(word)
        close = 1 - _TYPO * distances / len(word)
        return np.concatenate([longer, numbers]), np.concatenate([fits, close]).astype(np.float32)

    def _alike(self, word: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Words within the number of mistakes that a word of this length may have, but for itself."""
        most = 0 if len(word) < 3 else 1 if len(word) < 6 else 2
        if most == 0:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        codes = np.frombuffer(f"\n{word}\n".encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        buckets = np.unique(_bucket(codes[:-1], codes[1:]))
        met = [self.pair_words[self.pair_begins[at] : self.pair_begins[at + 1]] for at in buckets]
        shared = np.bincount(np.concatenate(met), minlength=len(self.words))
        # A mistake changes three pairs at most: two letters that changed places.
        enough = (shared >= max(1, len(buckets) - 3 * most)) & (np.abs(self.lengths - len(word)) <= most)
        found = np.flatnonzero(enough)
        if len(found) > _JUDGED:
            alike = shared[found] / (len(word) + self.lengths[found])
            found = np.sort(found[np.argsort(-alike, kind="stable")[:_JUDGED]])
        distances = edit_distances(codes[1:-1], self._rows(found), self.lengths[found])
        kept = (distances <= most) & (distances > 0)
        return found[kept], distances[kept]

    def _rows(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
        """The letters of words, one row each; what follows a word is filled up."""
        width = int(self.lengths[numbers].max(initial=0))
        places = self.starts[numbers][:, None] + np.arange(width)
        rows: npt.NDArray[np.uint32] = self.letters[np.minimum(places, len(self.letters) - 1)]
        return rows


def edit_distances(
    word: npt.NDArray[np.uint32], others: npt.NDArray[np.uint32], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Letters to insert, delete, replace, or swap with their neighbour, from a word to each of others.

    Row i of `others` has a word of ``lengths[i]`` letters, and then anything. No letter is changed twice
    (optimal string alignment).
    """
    rows, width = others.shape
    columns = others.T
    table = np.empty((len(word) + 1, width + 1, rows), dtype=np.int64)
    table[0] = np.arange(width + 1)[:, None]
    table[:, 0] = np.arange(len(word) + 1)[:, None]
    for i in range(1, len(word) + 1):
        differ = columns != word[i - 1]
        for j in range(1, width + 1):
            best = np.minimum(table[i - 1, j], table[i, j - 1]) + 1
            np.minimum(best, table[i - 1, j - 1] + differ[j - 1], out=best)
            if i > 1 and j > 1:
                swapped = (columns[j - 2] == word[i - 1]) & (columns[j - 1] == word[i - 2])
                np.minimum(best, np.where(swapped, table[i - 2, j - 2] + 1, best), out=best)
            table[i, j] = best
    found: npt.NDArray[np.int64] = table[len(word), lengths, np.arange(rows)]
    return found


def _bucket(first: npt.NDArray[np.uint32], second: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint16]:
    return ((first * np.uint32(0x9E37) + second * np.uint32(0x85EB)) % np.uint32(_BUCKETS)).astype(np.uint16)
