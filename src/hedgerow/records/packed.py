"""Values as users wrote them (texts, ids, names), compressed in blocks that stay shut when others come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import zstandard

from hedgerow.storage.container import ModelFileError

__all__ = ["BrokenValuesError", "Packed"]

_TOGETHER = 1024
_LEVEL = 3
# A block of texts is some megabytes; whatever claims to be far more is refused before it is opened.
_MOST_BYTES = 1 << 30


class BrokenValuesError(ModelFileError):
    """Compressed values that are not what they should be."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the file of records has values that cannot be read: {what}; get the file again")


@dataclass(frozen=True, eq=False)
class Packed:
    """A list of JSON values in compressed blocks, and how many each block holds."""

    blocks: tuple[bytes, ...] = ()
    counts: tuple[int, ...] = ()

    @classmethod
    def of(cls, values: Iterable[Any]) -> Packed:
        """Compress values."""
        compressor = zstandard.ZstdCompressor(level=_LEVEL)
        listed = list(values)
        parts = [listed[begin : begin + _TOGETHER] for begin in range(0, len(listed), _TOGETHER)]
        blocks = (compressor.compress(orjson.dumps([_plain(value) for value in part])) for part in parts)
        return cls(tuple(blocks), tuple(map(len, parts)))

    def __len__(self) -> int:
        return sum(self.counts)

    def and_more(self, values: Iterable[Any]) -> Packed:
        """The same with more values at the end."""
        more = Packed.of(values)
        return Packed(self.blocks + more.blocks, self.counts + more.counts)

    def values(self) -> list[Any]:
        """All values."""
        opened: list[Any] = []
        for block, count in zip(self.blocks, self.counts, strict=True):
            opened += _opened(block, count)
        return opened

    def some(self, places: npt.NDArray[np.integer[Any]]) -> list[Any]:
        """Values by their places; only their blocks are opened."""
        begins = np.concatenate([[0], np.cumsum(self.counts)])
        found: dict[int, list[Any]] = {}
        wanted = []
        for place in places.tolist():
            number = int(np.searchsorted(begins, place, side="right")) - 1
            if number not in found:
                found[number] = Packed((self.blocks[number],), (self.counts[number],)).values()
            wanted.append(found[number][place - int(begins[number])])
        return wanted

    def to_sections(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Arrays for a file."""
        return {
            f"{name}.bytes": np.frombuffer(b"".join(self.blocks), dtype=np.uint8),
            f"{name}.sizes": np.array([len(block) for block in self.blocks], dtype=np.int64),
            f"{name}.counts": np.array(self.counts, dtype=np.int64),
        }

    @classmethod
    def from_sections(cls, name: str, sections: Mapping[str, npt.NDArray[Any]]) -> Packed:
        """Take back what `to_sections` gave, after checking it."""
        data, sizes, counts = (sections[f"{name}.{part}"] for part in ("bytes", "sizes", "counts"))
        if data.dtype != np.uint8 or sizes.dtype != np.int64 or counts.dtype != np.int64:
            raise ValueError(f"{name} has the wrong type")
        if sizes.shape != counts.shape or (sizes < 1).any() or (counts < 1).any():
            raise ValueError(f"{name} has impossible blocks")
        if sum(counts.tolist()) >= 2**31:  # of Python's numbers, which do not overflow
            raise ValueError(f"{name} has impossibly many values")
        if sum(sizes.tolist()) != data.size:
            raise ValueError(f"{name} is cut wrongly")
        ends = np.cumsum(sizes)
        whole = memoryview(data)  # type: ignore[arg-type]
        blocks = (
            bytes(whole[end - size : end]) for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)
        )
        return cls(tuple(blocks), tuple(counts.tolist()))


def _opened(block: bytes, count: int) -> list[Any]:
    """The values in a block; what it claims is not trusted."""
    try:
        size = zstandard.frame_content_size(block)
        if not 0 <= size <= _MOST_BYTES:
            raise BrokenValuesError("a block says that it has an impossible size")
        part = orjson.loads(zstandard.ZstdDecompressor().decompress(block, max_output_size=size))
    except (zstandard.ZstdError, orjson.JSONDecodeError) as error:
        raise BrokenValuesError(str(error)) from error
    if not isinstance(part, list) or len(part) != count:
        raise BrokenValuesError("a block does not hold as many as it should")
    return part


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(name): text for name, text in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return value
