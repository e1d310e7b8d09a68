"""Many strings in two arrays, which can lie in a mapped file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Strings"]

MOST_BYTES = 2**32 - 1


@dataclass(frozen=True, eq=False)
class Strings:
    """Strings as UTF-8, one after the other: string i is ``text[begins[i]:begins[i + 1]]``.

    Attributes
    ----------
    text : uint8 array
        All bytes.
    begins : uint32 array, one longer than there are strings
        Where each string begins; then where the last one ends.
    """

    text: npt.NDArray[np.uint8]
    begins: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, strings: Iterable[str]) -> Strings:
        """Put strings into arrays."""
        encoded = [string.encode() for string in strings]
        begins = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), out=begins[1:])
        if begins[-1] > MOST_BYTES:
            raise ValueError(f"there are {begins[-1]:,} bytes of text, but {MOST_BYTES:,} are the most")
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), begins.astype(np.uint32))

    def __len__(self) -> int:
        return len(self.begins) - 1

    def __getitem__(self, number: int) -> str:
        return self.bytes_of(number).decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def bytes_of(self, number: int) -> bytes:
        """One string as UTF-8."""
        return self.text[int(self.begins[number]) : int(self.begins[number + 1])].tobytes()

    def encoded(self) -> list[bytes]:
        """All strings as UTF-8."""
        whole, bounds = self.text.tobytes(), self.begins.tolist()
        return [whole[begin:end] for begin, end in pairwise(bounds)]

    def tolist(self) -> list[str]:
        """All strings."""
        return [string.decode() for string in self.encoded()]

    def taken(self, numbers: Sequence[int]) -> list[str]:
        """Some of the strings."""
        return [self[number] for number in numbers]

    def same_as(self, other: Strings) -> bool:
        """Whether both hold the same strings in the same order."""
        return np.array_equal(self.begins, other.begins) and np.array_equal(self.text, other.text)

    def to_sections(self, name: str) -> dict[str, Any]:
        """The arrays for a file."""
        return {f"{name}.text": self.text, f"{name}.begins": self.begins}

    @classmethod
    def from_sections(cls, name: str, sections: dict[str, Any], count: int) -> Strings:
        """The strings in a file, checked; ValueError or KeyError where they are broken."""
        text, begins = sections[f"{name}.text"], sections[f"{name}.begins"]
        if (text.dtype, text.ndim) != (np.uint8, 1) or (begins.dtype, begins.shape) != (
            np.uint32,
            (count + 1,),
        ):
            raise ValueError(f"the section {name!r} has another type or number")
        if begins[0] != 0 or begins[-1] != text.size or (begins[1:] < begins[:-1]).any():
            raise ValueError(f"the section {name!r} is cut wrongly")
        try:
            text.tobytes().decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"the section {name!r} is not UTF-8") from error
        inner = begins[begins < text.size]
        if (text[inner] & 0xC0 == 0x80).any():
            raise ValueError(f"the section {name!r} is cut within a character")
        return cls(text, begins)
