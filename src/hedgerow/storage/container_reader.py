"""Reads model files and checks whatever a damaged or hostile one could get wrong."""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import re
import stat
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

from . import container_format as form
from .container_format import (
    Altered,
    Malformed,
    ModelFile,
    NotAModel,
    TooNew,
    Truncated,
    count_values,
    data_needed,
)

# Starting a thread pool costs more than hashing this much (XXH3 runs at some 10 GB/s per core).
PARALLEL_BYTES = 16 << 20

_FOREIGN = (
    (re.compile(rb"\x80[\x02-\x05]"), "a Python pickle; hedgerow never unpickles, since that runs code"),
    (
        re.compile(rb"PK[\x03\x05\x07]"),
        "a zip archive (or npz, or a torch file); unpack it if a model is inside",
    ),
    (re.compile(rb"\x1f\x8b|\xfd7zXZ\x00|\x28\xb5\x2f\xfd|BZh"), "a compressed file; decompress it first"),
    (re.compile(rb"\x93NUMPY"), "a NumPy array"),
    (re.compile(rb"\x89HDF"), "an HDF5 file"),
    (re.compile(rb"\s*[\[{<\"]"), "a text file"),
)


@dataclass(frozen=True)
class _Place:
    """Where a section lies: `begin` and `end` count from the start of the file."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def read_model(path: str | os.PathLike[str], verify: bool = True) -> ModelFile:
    """Map a model file into memory, after checking its structure.

    `verify` also compares all checksums, which reads the whole file once. Raises a `ModelFileError` that says
    what is wrong.
    """
    name = os.fspath(path)
    # Before opening: to open a named pipe would wait for ever.
    status = os.stat(name)
    if stat.S_ISDIR(status.st_mode):
        raise NotAModel(f"{name} is a folder, not a hedgerow model; name the model file")
    if not stat.S_ISREG(status.st_mode):
        raise NotAModel(
            f"{name} is not a regular file, so it cannot be a hedgerow model; name the model file"
        )
    with open(name, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise NotAModel(f"{name} is empty, not a hedgerow model; copy or write it again")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    size = len(mapped)
    text = _read_front(name, mapped)
    start = 8 + len(text)
    entries = _parse_json(name, text, "its header", size - start)
    information = _read_metadata(name, entries)
    places = _read_places(name, entries, start, size)
    if verify:
        _verify(name, mapped, start, places)
    header = _parse_json(name, information["header"], "the model's header", size - start)
    sections = {
        place.name: _view(name, mapped, place)
        for place in places[:-1]
        if not place.name.startswith(form.PADDING)
    }
    return ModelFile(name, header, sections, int(information["version"]), information["writer"], size)


def _read_front(name: str, mapped: mmap.mmap) -> bytes:
    """Return the JSON as bytes."""
    size = len(mapped)
    start = mapped[:16]
    length = int.from_bytes(start[:8], "little")
    if start[8:9] != b"{" or length > form.MAX_HEADER_BYTES:
        for pattern, what in _FOREIGN:
            if pattern.match(start):
                raise NotAModel(f"{name} is not a hedgerow model but looks like {what}")
        if size < 9:
            raise Truncated(
                f"{name} has only {size} bytes: not a model, or cut off while copying; get it again"
            )
        raise NotAModel(f"{name} is not a hedgerow model (it has no safetensors header); name the model file")
    if 8 + length > size:
        raise Truncated(
            f"{name} is cut off: its header alone takes {8 + length} bytes and it has {size}; get it again"
        )
    return mapped[8 : 8 + length]


def _parse_json(name: str, text: bytes | str, what: str, data: int) -> dict[str, Any]:
    """Parse JSON, if it is not too long for the bytes of data in its file."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key occurs twice")
        return found

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a JSON number")

    try:
        # The writer escapes what is not ASCII. Other text would take four bytes a letter.
        encoded = text if isinstance(text, bytes) else text.encode("ascii")
        if count_values(encoded) > form.MAX_HEADER_VALUES:
            raise ValueError(f"it has more than {form.MAX_HEADER_VALUES:,} values")
        if data_needed(encoded) > data:
            raise Truncated(
                f"{name} is cut off, or was not written by hedgerow: {what} has {len(encoded)} bytes, which"
                f" is long beside the {data} that follow; get the file again"
            )
        decoded = encoded.decode("ascii")
        del encoded
        value = json.loads(decoded, object_pairs_hook=unique, parse_constant=refuse)
    except RecursionError:
        raise _malformed(name, f"{what} is nested too deeply") from None
    except Truncated:
        raise
    except ValueError as error:
        raise _malformed(name, f"{what} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise _malformed(name, f"{what} is not a JSON object")
    return value


def _malformed(name: str, why: str) -> Malformed:
    return Malformed(f"{name} is damaged or was not written by hedgerow: {why}; get the file again")


def _read_metadata(name: str, entries: dict[str, Any]) -> dict[str, str]:
    found = entries.get(form.METADATA)
    if not isinstance(found, dict) or found.get("format") != form.FORMAT_NAME:
        raise NotAModel(f"{name}: this is a safetensors file, but not a hedgerow model; name the model file")
    version = found.get("version")
    if not isinstance(version, str) or not re.fullmatch(r"[1-9][0-9]{0,8}", version):
        raise _malformed(name, "its format version is not a number")
    if int(version) > form.FORMAT_VERSION:
        raise TooNew(
            f"{name} was written by a newer version of hedgerow (format {version});"
            " upgrade with pip install -U hedgerow"
        )
    if any(not isinstance(found.get(key), str) for key in ("writer", "header")):
        raise _malformed(name, "its metadata lacks the writer or the model's header")
    return {key: found[key] for key in ("version", "writer", "header")}


def _read_places(name: str, entries: dict[str, Any], start: int, size: int) -> list[_Place]:
    """Check the table of sections against the size of the file; return the sections in file order."""
    places = [_read_place(name, key, entry, start) for key, entry in entries.items() if key != form.METADATA]
    places.sort(key=lambda place: (place.begin, place.end))
    position = start
    for place in places:
        if place.begin != position:
            raise _malformed(name, f"section {place.name!r} does not start where the one before it ends")
        position = place.end
    if position > size:
        raise Truncated(f"{name} is cut off: it should have {position} bytes and has {size}; get it again")
    if position < size:
        raise _malformed(name, f"{size - position} bytes follow its last section")
    last = places[-1] if places else None
    if last is None or last.name != form.CHECKSUMS:
        raise _malformed(name, "its last section is not the checksums")
    if last.dtype != np.uint8 or last.shape != (len(places) + 1, form.DIGEST_BYTES):
        raise _malformed(name, f"it needs {len(places) + 1} checksums and has the shape {last.shape}")
    return places


def _read_place(name: str, key: str, entry: object, start: int) -> _Place:
    def lengths(value: object) -> tuple[int, ...] | None:
        # type(), because True is an int too.
        if isinstance(value, list) and all(type(item) is int and item >= 0 for item in value):
            return tuple(value)
        return None

    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _malformed(name, f"section {key!r} needs dtype, shape and data_offsets, and nothing else")
    dtype = form.DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        raise _malformed(name, f"section {key!r} has an unknown dtype")
    shape = lengths(entry["shape"])
    offsets = lengths(entry["data_offsets"])
    if shape is None or len(shape) > form.MAX_DIMENSIONS or offsets is None or len(offsets) != 2:
        raise _malformed(name, f"section {key!r} has an impossible shape or place")
    begin, end = offsets
    if math.prod(shape) * dtype.itemsize != end - begin:
        raise _malformed(name, f"the shape of section {key!r} does not fit the {end - begin} bytes it has")
    if (start + begin) % form.ALIGNMENT and not key.startswith(form.PADDING):
        raise _malformed(name, f"section {key!r} does not start at a multiple of {form.ALIGNMENT} bytes")
    return _Place(key, dtype, shape, start + begin, start + end)


def _view(name: str, mapped: mmap.mmap, place: _Place) -> npt.NDArray[Any]:
    if place.begin == place.end:
        # Only an empty section can be so odd: NumPy refuses (0, 2**62), which has no bytes.
        if math.prod(length for length in place.shape if length) * place.dtype.itemsize >= 2**62:
            raise _malformed(name, f"section {place.name!r} has an impossible shape")
        array = np.empty(place.shape, place.dtype)
        array.flags.writeable = False
        return array
    flat = np.frombuffer(mapped, place.dtype, math.prod(place.shape), place.begin)
    return flat.reshape(place.shape)


def _verify(name: str, mapped: mmap.mmap, start: int, places: list[_Place]) -> None:
    last = places[-1]
    digests = mapped[last.begin : last.end]
    if xxh3_128(digests[: -form.DIGEST_BYTES]).digest() != digests[-form.DIGEST_BYTES :]:
        raise Altered(
            f"{name} was altered after it was written: its checksums do not match; get the file again"
        )
    parts = [("the header", 0, start)]
    parts += [(f"section {place.name!r}", place.begin, place.end) for place in places[:-1]]

    def hashed(part: tuple[str, int, int]) -> bytes:
        _, begin, end = part
        # xxhash lets other threads run meanwhile.
        return xxh3_128(view[begin:end]).digest()

    with contextlib.ExitStack() as stack:
        view = stack.enter_context(memoryview(mapped))
        if len(mapped) < PARALLEL_BYTES:
            found: Iterable[bytes] = map(hashed, parts)
        else:
            # Threads also for waiting: each has its own read-ahead on a cold disk.
            pool = stack.enter_context(ThreadPoolExecutor(min(8, os.cpu_count() or 1)))
            found = pool.map(hashed, parts)
        for number, ((what, _, _), digest) in enumerate(zip(parts, found, strict=True)):
            if digest != digests[form.DIGEST_BYTES * number : form.DIGEST_BYTES * (number + 1)]:
                raise Altered(
                    f"{name} was altered after it was written: the checksum of {what} does not match;"
                    " get the file again"
                )
    for place in places:
        if place.dtype != np.bool_ or place.begin == place.end:
            continue
        if np.frombuffer(mapped, np.uint8, place.end - place.begin, place.begin).max() > 1:
            raise _malformed(name, f"section {place.name!r} holds values other than true and false")
