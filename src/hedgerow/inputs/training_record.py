"""What a model remembers of its training data: enough to know an input again, too little to tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import xxhash

# More inputs than this share of the data were seen in training: then these are no held-out data.
MOST_SEEN = 0.05

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class TrainingRecord:
    """Hashes of the inputs that a model was trained on."""

    seen: Hashes  # of each different input, ascending: of the text, or of the row of features
    fingerprint: str  # of all inputs in their order, with their labels
    seed: int  # what samples for members are drawn from

    @classmethod
    def of(cls, hashes: Hashes, Y: sp.csr_array, seed: int) -> TrainingRecord:
        """Remember inputs by their hashes, and their labels."""
        return cls(np.unique(hashes), hash_data(hashes, Y), seed)

    def has(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Which inputs are among those that the model was trained on."""
        if not self.seen.size:
            return np.zeros(len(hashes), dtype=bool)
        place = np.minimum(np.searchsorted(self.seen, hashes), len(self.seen) - 1)
        return np.asarray(self.seen[place] == hashes)

    def is_of(self, hashes: Hashes, Y: sp.csr_array) -> bool:
        """Whether these are the inputs and labels of the training, in its order."""
        return hash_data(hashes, Y) == self.fingerprint

    def check_same(self, hashes: Hashes, Y: sp.csr_array) -> None:
        """Raise ValueError unless these are the inputs and labels of the training, in its order."""
        if not self.is_of(hashes, Y):
            raise ValueError(
                "X and Y are not what the model was fitted to, or stand in another order; give the same data,"
                " or fit again"
            )

    @classmethod
    def from_file(cls, header: Mapping[str, Any], seen: npt.NDArray[Any], rows: int | None) -> TrainingRecord:
        """Take back what a model file has of it, after checking it."""
        if seen.dtype != np.uint64 or seen.ndim != 1 or (seen[1:] <= seen[:-1]).any():
            raise ValueError("the hashes of the training data are not ascending 64-bit numbers")
        if rows is not None and len(seen) > rows:
            raise ValueError(f"there are {len(seen)} hashes for {rows} inputs of the training data")
        fingerprint, seed = header["fingerprint"], header["seed"]
        if not isinstance(fingerprint, str) or type(seed) is not int:
            raise ValueError("the training data have no sound fingerprint and seed")
        return cls(np.asarray(seen), fingerprint, seed)


def hash_texts(texts: Sequence[str]) -> Hashes:
    """A 64-bit hash of each text.

    Examples
    --------
    >>> first, second, third = hash_texts(["yew", "elm", "yew"])
    >>> bool(first == third), bool(first == second)
    (True, False)
    """
    digest = xxhash.xxh3_64_intdigest
    encoded = (text.encode("utf-8", "surrogatepass") for text in texts)
    return np.fromiter((digest(text) for text in encoded), dtype=np.uint64, count=len(texts))


def add_strings(digest: xxhash.xxh3_128, strings: Iterable[object]) -> None:
    """Let a hash depend on strings, one after the other, and on where each ends."""
    for text in strings:
        encoded = str(text).encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)


def hash_data(hashes: Hashes, Y: sp.csr_array) -> str:
    """A hash of inputs, by their hashes, and their labels, in this order."""
    digest = xxhash.xxh3_128(repr(Y.shape).encode())
    digest.update(np.ascontiguousarray(hashes).data)
    digest.update(np.asarray(Y.indptr, dtype=np.int64).data)
    digest.update(np.asarray(Y.indices, dtype=np.int32).data)
    return str(digest.hexdigest())


def unseen_rows(seen: npt.NDArray[np.bool_], otherwise: str) -> npt.NDArray[np.int64]:
    """The inputs that a model was not trained on; an error that ends with `otherwise` if it was on many."""
    if seen.sum() > MOST_SEEN * len(seen):
        raise ValueError(f"the model was trained on {int(seen.sum())} of the {len(seen)} inputs, {otherwise}")
    return np.flatnonzero(~seen)
