"""Writes model files."""

from __future__ import annotations

import json
import math
import os
import re
import struct
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

from . import container_format as form
from .atomic_file import atomic_file, check_target
from .container_format import Chunked, count_values, data_needed

WRITE_BYTES = 8 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")


def write_model(
    path: str | os.PathLike[str],
    sections: Mapping[str, npt.NDArray[Any] | Chunked],
    header: Mapping[str, Any],
    overwrite: bool = False,
) -> None:
    """Write a model file, atomically and without a second copy of the model in memory.

    The header is whatever JSON allows, with string keys and finite numbers. The same sections and header give
    the same bytes, whatever the order of the mappings.
    """
    check_target(path, overwrite)
    chunked = {name: _as_chunked(name, sections[name]) for name in sorted(sections)}
    layout = _lay_out(chunked)
    front = _front(layout, header)
    missing = data_needed(front[8:]) - sum(map(_nbytes, layout.values()))
    if missing > 0:
        # A little more, because the header has one section more then.
        layout = _lay_out(chunked, missing - missing % form.ALIGNMENT + (1 << 16))
        front = _front(layout, header)
    digests = [xxh3_128(front).digest()]
    with atomic_file(path, overwrite) as file:
        file.write(front)
        for name, section in layout.items():
            if name == form.CHECKSUMS:
                digests.append(xxh3_128(b"".join(digests)).digest())
                file.write(b"".join(digests))
            else:
                digests.append(_write_section(file, name, section))


def _as_chunked(name: str, section: npt.NDArray[Any] | Chunked) -> Chunked:
    reserved = name in {form.CHECKSUMS, form.METADATA} or name.startswith(form.PADDING)
    if reserved or not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot name a section: use letters, digits and _ . / -, and no reserved name"
        )
    if not isinstance(section, Chunked):
        array = np.asarray(section)
        section = Chunked(array.dtype, array.shape, _pieces(array))
    dtype = np.dtype(section.dtype).newbyteorder("<")
    if dtype not in form.CODES:
        raise TypeError(
            f"section {name!r} has dtype {dtype}; a model file stores {', '.join(map(str, form.CODES))}"
        )
    shape = tuple(int(length) for length in section.shape)
    if len(shape) > form.MAX_DIMENSIONS or min(shape, default=0) < 0:
        raise ValueError(
            f"section {name!r} has the shape {shape}; at most {form.MAX_DIMENSIONS} lengths >= 0 are stored"
        )
    return Chunked(dtype, shape, section.chunks)


def _pieces(array: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Cut an array of any strides into small pieces in C order, so that only a piece is ever copied."""
    if array.nbytes <= WRITE_BYTES or array.flags.c_contiguous:
        yield array
    elif array.nbytes // len(array) > WRITE_BYTES:
        for row in array:
            yield from _pieces(row)
    else:
        step = WRITE_BYTES // (array.nbytes // len(array))
        for start in range(0, len(array), step):
            yield array[start : start + step]


def _nbytes(section: Chunked) -> int:
    return math.prod(section.shape) * np.dtype(section.dtype).itemsize


def _lay_out(sections: dict[str, Chunked], more: int = 0) -> dict[str, Chunked]:
    """Put paddings between the sections, `more` bytes behind them, and the checksums at the end."""
    layout: dict[str, Chunked] = {}
    for number, (name, section) in enumerate(sections.items()):
        layout[name] = section
        missing = -_nbytes(section) % form.ALIGNMENT
        if missing:
            layout[f"{form.PADDING}{number}"] = _zeros(missing)
    if more:
        layout[f"{form.PADDING}{len(sections)}"] = _zeros(more)
    layout[form.CHECKSUMS] = Chunked(np.uint8, (len(layout) + 2, form.DIGEST_BYTES), [])
    return layout


def _zeros(size: int) -> Chunked:
    piece = np.zeros(min(size, WRITE_BYTES), np.uint8)
    return Chunked(np.uint8, (size,), (piece[: size - begin] for begin in range(0, size, WRITE_BYTES)))


def _front(layout: dict[str, Chunked], header: Mapping[str, Any]) -> bytes:
    """Return the length and the JSON, padded so that the data starts aligned."""
    entries: dict[str, Any] = {
        form.METADATA: {
            "format": form.FORMAT_NAME,
            "version": str(form.FORMAT_VERSION),
            "writer": _own_version(),
            "header": json.dumps(dict(header), allow_nan=False, sort_keys=True, separators=(",", ":")),
        }
    }
    begin = 0
    for name, section in layout.items():
        end = begin + _nbytes(section)
        entries[name] = {
            "dtype": form.CODES[np.dtype(section.dtype)],
            "shape": section.shape,
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % form.ALIGNMENT)
    if len(text) > form.MAX_HEADER_BYTES or count_values(text) > form.MAX_HEADER_VALUES:
        raise ValueError(
            f"the header takes {len(text):,} bytes for {count_values(text):,} values; a model file may have"
            f" {form.MAX_HEADER_BYTES:,} for {form.MAX_HEADER_VALUES:,}: store long lists as sections"
        )
    return struct.pack("<Q", len(text)) + text


def _own_version() -> str:
    try:
        return metadata.version("hedgerow")
    except metadata.PackageNotFoundError:
        return "unknown"


def _write_section(file: BinaryIO, name: str, section: Chunked) -> bytes:
    expected = _nbytes(section)
    written = 0
    digest = xxh3_128()
    for chunk in section.chunks:
        array = np.asarray(chunk)
        if array.dtype.newbyteorder("<") != section.dtype:
            raise TypeError(
                f"section {name!r} is declared {section.dtype}, but a chunk has dtype {array.dtype}"
            )
        written += array.nbytes
        if written > expected:
            break
        # Views as bytes; only what is not little endian and contiguous is copied, one piece at a time.
        flat = np.ascontiguousarray(array, dtype=section.dtype).reshape(-1).view(np.uint8)
        for start in range(0, flat.size, WRITE_BYTES):
            piece = flat[start : start + WRITE_BYTES].data
            digest.update(piece)
            file.write(piece)
    if written != expected:
        raise ValueError(
            f"the chunks of section {name!r} do not add up to {expected} bytes, its shape {section.shape}"
        )
    return digest.digest()
