"""What the writer and the reader of model files agree on: limits, types of arrays, and errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FORMAT_NAME = "hedgerow"
FORMAT_VERSION = 1
ALIGNMENT = 64
# A model of 4,096 trees needs some 7 MB and 600,000 values; whatever is far beyond that is refused before it
# is parsed. So is a header that is long beside its file: text can take ten times its bytes while it is
# parsed, and a value 250 bytes, yet no file may take more memory than twice its size and a little.
MAX_HEADER_BYTES = 16 << 20
MAX_HEADER_VALUES = 1_000_000
FREE_HEADER_BYTES, DATA_FOR_BYTE = 512 << 10, 8
FREE_HEADER_VALUES, DATA_FOR_VALUE = 16_000, 256
MAX_DIMENSIONS = 32
CHECKSUMS = "checksums"
PADDING = "padding."
METADATA = "__metadata__"  # fixed by safetensors
DIGEST_BYTES = 16

_CODES = "BOOL U8 I8 U16 I16 F16 U32 I32 F32 U64 I64 F64"
_KINDS = "? u1 i1 <u2 <i2 <f2 <u4 <i4 <f4 <u8 <i8 <f8"
DTYPES = {code: np.dtype(kind) for code, kind in zip(_CODES.split(), _KINDS.split(), strict=True)}
CODES: dict[np.dtype[Any], str] = {dtype: code for code, dtype in DTYPES.items()}


class ModelFileError(ValueError):
    """A file cannot be used as a model; the subclass says why, the message what to do."""


class NotAModel(ModelFileError):  # noqa: N818 - the names say the cause
    """The file is something else."""


class Truncated(ModelFileError):  # noqa: N818
    """The end of the file is missing."""


class Altered(ModelFileError):  # noqa: N818
    """A checksum does not match: bytes changed after the file was written."""


class TooNew(ModelFileError):  # noqa: N818
    """The file has a format version that this release does not know."""


class ExtraMissing(ModelFileError, ImportError):  # noqa: N818
    """The model needs a package that is not installed."""


class Malformed(ModelFileError):  # noqa: N818
    """The file contradicts itself or the format."""


@dataclass(frozen=True)
class Chunked:
    """A section whose bytes are produced while they are written.

    The chunks are arrays of `dtype` that, one after the other in C order, make up the whole `shape`.
    """

    dtype: npt.DTypeLike
    shape: tuple[int, ...]
    chunks: Iterable[npt.NDArray[Any]]


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds: the header as given to `write_model`, and the arrays, sorted by name.

    The arrays are read-only views of one memory map and stay valid as long as any of them lives. `version` is
    that of the format, `writer` that of the hedgerow which wrote the file, `size` counts all its bytes.
    """

    path: str
    header: dict[str, Any]
    sections: dict[str, npt.NDArray[Any]]
    version: int
    writer: str
    size: int


def count_values(text: bytes) -> int:
    """The most values that a JSON text can hold."""
    return sum(text.count(mark) for mark in (b"[", b"{", b","))


def data_needed(text: bytes) -> int:
    """How many bytes must follow a header, so that parsing it takes little memory beside its file."""
    return max(
        (len(text) - FREE_HEADER_BYTES) * DATA_FOR_BYTE,
        (count_values(text) - FREE_HEADER_VALUES) * DATA_FOR_VALUE,
    )
