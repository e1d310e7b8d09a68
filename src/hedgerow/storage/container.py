"""The model file: a safetensors container in which every bit is accounted for.

The file is read by any safetensors library::

    8 bytes    length N of the JSON, little endian
    N bytes    JSON: dtype, shape and place of each section; ``__metadata__`` names the format and carries
               the model's own header as a JSON string; spaces at its end align the data
    data       the sections by name, each starting at a multiple of 64 bytes, with ``padding.I`` sections of
               zeros between them (safetensors allows no gaps) and behind them where the JSON would be long
               beside its data, and the section ``checksums`` last

``checksums`` holds one XXH3-128 digest (16 bytes) for the length and the JSON, one for each other section in
file order (paddings too), and one for all the digests before it. So there is no byte that could change
unnoticed. This guards against accidents, not against an attacker, who can compute checksums as well. So
whatever is read is checked against the size of the file before use, and nothing in a file is ever executed.

Sections come back as read-only views of one memory map. Processes that load the same file share one copy.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import re
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from typing import Any, BinaryIO, NoReturn

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

from hedgerow.storage.atomic_file import atomic_file, check_target

__all__ = [
    "FORMAT_VERSION",
    "Altered",
    "Chunked",
    "ExtraMissing",
    "Malformed",
    "ModelFile",
    "ModelFileError",
    "NotAModel",
    "TooNew",
    "Truncated",
    "read_model",
    "write_model",
]

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
WRITE_BYTES = 8 << 20
# Starting a thread pool costs more than hashing this much (XXH3 runs at some 10 GB/s a core).
PARALLEL_BYTES = 16 << 20

_DTYPES = {
    "BOOL": np.dtype("?"),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
}
_CODES: dict[np.dtype[Any], str] = {dtype: code for code, dtype in _DTYPES.items()}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
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

    Parameters
    ----------
    dtype : dtype-like
        Type of the section.
    shape : tuple of int
        Shape of the whole section.
    chunks : iterable of ndarray
        Arrays of `dtype` that, one after the other in C order, make up the section.
    """

    dtype: npt.DTypeLike
    shape: tuple[int, ...]
    chunks: Iterable[npt.NDArray[Any]]


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds.

    Attributes
    ----------
    path : str
        Where it was read from.
    header : dict
        The model's own header, as given to `write_model`.
    sections : dict of str to ndarray
        Read-only views of one memory map, sorted by name. They stay valid as long as any of them lives.
    version : int
        Version of the file format.
    writer : str
        Version of hedgerow that wrote the file.
    size : int
        Bytes of the whole file.
    """

    path: str
    header: dict[str, Any]
    sections: dict[str, npt.NDArray[Any]]
    version: int
    writer: str
    size: int


# --- writing ------------------------------------------------------------------------------------------


def write_model(
    path: str | os.PathLike[str],
    sections: Mapping[str, npt.NDArray[Any] | Chunked],
    header: Mapping[str, Any],
    overwrite: bool = False,
) -> None:
    """Write a model file, atomically and without a second copy of the model in memory.

    The same sections and header give the same bytes, whatever the order of the mappings.

    Parameters
    ----------
    path : path-like
        The file to write.
    sections : mapping of str to ndarray or Chunked
        The arrays: booleans, integers or floats of up to 64 bits. Their names give the order in the file.
    header : mapping
        Whatever else belongs to the model, as JSON allows it: string keys, finite numbers.
    overwrite : bool, default False
        Whether an existing file is replaced.

    Raises
    ------
    OSError
        The file exists, its folder is missing, the disk is full, ...; nothing is left behind.
    TypeError, ValueError
        A section or the header cannot be stored.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.hedgerow"
    >>> write_model(path, {"weights": np.arange(3, dtype=np.float32)}, {"method": "single"})
    >>> model = read_model(path)
    >>> model.sections["weights"], model.header
    (array([0., 1., 2.], dtype=float32), {'method': 'single'})
    """
    check_target(path, overwrite)
    chunked = {name: _as_chunked(name, sections[name]) for name in sorted(sections)}
    layout = _lay_out(chunked)
    front = _front(layout, header)
    missing = _data_for(front[8:]) - sum(map(_nbytes, layout.values()))
    if missing > 0:
        # A little more, because the header has one section more then.
        layout = _lay_out(chunked, missing - missing % ALIGNMENT + (1 << 16))
        front = _front(layout, header)
    digests = [xxh3_128(front).digest()]
    with atomic_file(path, overwrite) as file:
        file.write(front)
        for name, section in layout.items():
            if name == CHECKSUMS:
                digests.append(xxh3_128(b"".join(digests)).digest())
                file.write(b"".join(digests))
            else:
                digests.append(_write_section(file, name, section))


def _as_chunked(name: str, section: npt.NDArray[Any] | Chunked) -> Chunked:
    reserved = name in {CHECKSUMS, METADATA} or name.startswith(PADDING)
    if reserved or not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot name a section: use letters, digits and _ . / -, and no reserved name"
        )
    if not isinstance(section, Chunked):
        array = np.asarray(section)
        section = Chunked(array.dtype, array.shape, _pieces(array))
    dtype = np.dtype(section.dtype).newbyteorder("<")
    if dtype not in _CODES:
        raise TypeError(
            f"section {name!r} has dtype {dtype}; a model file stores {', '.join(map(str, _CODES))}"
        )
    shape = tuple(int(length) for length in section.shape)
    if len(shape) > MAX_DIMENSIONS or min(shape, default=0) < 0:
        raise ValueError(
            f"section {name!r} has the shape {shape}; at most {MAX_DIMENSIONS} lengths >= 0 are stored"
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
    """Put paddings between the sections, so many bytes more, and the checksums at the end."""
    layout: dict[str, Chunked] = {}
    for number, (name, section) in enumerate(sections.items()):
        layout[name] = section
        missing = -_nbytes(section) % ALIGNMENT
        if missing:
            layout[f"{PADDING}{number}"] = _zeros(missing)
    if more:
        layout[f"{PADDING}{len(sections)}"] = _zeros(more)
    layout[CHECKSUMS] = Chunked(np.uint8, (len(layout) + 2, DIGEST_BYTES), [])
    return layout


def _zeros(size: int) -> Chunked:
    piece = np.zeros(min(size, WRITE_BYTES), np.uint8)
    return Chunked(np.uint8, (size,), (piece[: size - begin] for begin in range(0, size, WRITE_BYTES)))


def _front(layout: dict[str, Chunked], header: Mapping[str, Any]) -> bytes:
    """Return the length and the JSON, padded so that the data starts aligned."""
    entries: dict[str, Any] = {
        METADATA: {
            "format": FORMAT_NAME,
            "version": str(FORMAT_VERSION),
            "writer": _own_version(),
            "header": json.dumps(dict(header), allow_nan=False, sort_keys=True, separators=(",", ":")),
        }
    }
    begin = 0
    for name, section in layout.items():
        end = begin + _nbytes(section)
        entries[name] = {
            "dtype": _CODES[np.dtype(section.dtype)],
            "shape": section.shape,
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    if len(text) > MAX_HEADER_BYTES or _values(text) > MAX_HEADER_VALUES:
        raise ValueError(
            f"the header takes {len(text):,} bytes for {_values(text):,} values, and a model file may have"
            f" {MAX_HEADER_BYTES:,} for {MAX_HEADER_VALUES:,}; store long lists as sections"
        )
    return struct.pack("<Q", len(text)) + text


def _values(text: bytes) -> int:
    """How many values there are in JSON, at most."""
    return sum(text.count(mark) for mark in (b"[", b"{", b","))


def _data_for(text: bytes) -> int:
    """How many bytes must follow a header, so that parsing it takes little memory beside its file."""
    return max(
        (len(text) - FREE_HEADER_BYTES) * DATA_FOR_BYTE,
        (_values(text) - FREE_HEADER_VALUES) * DATA_FOR_VALUE,
    )


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


# --- reading ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """Where a section lies: `begin` and `end` count from the start of the file."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def read_model(path: str | os.PathLike[str], verify: bool = True) -> ModelFile:
    """Map a model file into memory.

    Parameters
    ----------
    path : path-like
        The file.
    verify : bool, default True
        Whether to compare all checksums, which reads the whole file once. The structure is checked always.

    Returns
    -------
    ModelFile

    Raises
    ------
    ModelFileError
        `NotAModel`, `Truncated`, `Altered`, `TooNew` or `Malformed`.
    OSError
        The file does not exist or cannot be read.
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
        place.name: _view(name, mapped, place) for place in places[:-1] if not place.name.startswith(PADDING)
    }
    return ModelFile(name, header, sections, int(information["version"]), information["writer"], size)


def _read_front(name: str, mapped: mmap.mmap) -> bytes:
    """Return the JSON as bytes."""
    size = len(mapped)
    start = mapped[:16]
    length = int.from_bytes(start[:8], "little")
    if start[8:9] != b"{" or length > MAX_HEADER_BYTES:
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
        raise ValueError(f"{constant} is no JSON number")

    try:
        # The writer escapes what is not ASCII. Other text would take four bytes a letter.
        encoded = text if isinstance(text, bytes) else text.encode("ascii")
        if _values(encoded) > MAX_HEADER_VALUES:
            raise ValueError(f"it has more than {MAX_HEADER_VALUES:,} values")
        if _data_for(encoded) > data:
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
    found = entries.get(METADATA)
    if not isinstance(found, dict) or found.get("format") != FORMAT_NAME:
        raise NotAModel(f"{name}: this is a safetensors file, but not a hedgerow model; name the model file")
    version = found.get("version")
    if not isinstance(version, str) or not re.fullmatch(r"[1-9][0-9]{0,8}", version):
        raise _malformed(name, "its format version is not a number")
    if int(version) > FORMAT_VERSION:
        raise TooNew(
            f"{name} was written by a newer version of hedgerow (format {version});"
            " upgrade with pip install -U hedgerow"
        )
    if any(not isinstance(found.get(key), str) for key in ("writer", "header")):
        raise _malformed(name, "its metadata lacks the writer or the model's header")
    return {key: found[key] for key in ("version", "writer", "header")}


def _read_places(name: str, entries: dict[str, Any], start: int, size: int) -> list[_Place]:
    """Check the table of sections against the size of the file; return the sections in file order."""
    places = [_read_place(name, key, entry, start) for key, entry in entries.items() if key != METADATA]
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
    if last is None or last.name != CHECKSUMS:
        raise _malformed(name, "its last section is not the checksums")
    if last.dtype != np.uint8 or last.shape != (len(places) + 1, DIGEST_BYTES):
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
    dtype = _DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        raise _malformed(name, f"section {key!r} has an unknown dtype")
    shape = lengths(entry["shape"])
    offsets = lengths(entry["data_offsets"])
    if shape is None or len(shape) > MAX_DIMENSIONS or offsets is None or len(offsets) != 2:
        raise _malformed(name, f"section {key!r} has an impossible shape or place")
    begin, end = offsets
    if math.prod(shape) * dtype.itemsize != end - begin:
        raise _malformed(name, f"the shape of section {key!r} does not fit the {end - begin} bytes it has")
    if (start + begin) % ALIGNMENT and not key.startswith(PADDING):
        raise _malformed(name, f"section {key!r} does not start at a multiple of {ALIGNMENT} bytes")
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
    if xxh3_128(digests[:-DIGEST_BYTES]).digest() != digests[-DIGEST_BYTES:]:
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
            if digest != digests[DIGEST_BYTES * number : DIGEST_BYTES * (number + 1)]:
                raise Altered(
                    f"{name} was altered after it was written: the checksum of {what} does not match;"
                    " get the file again"
                )
    for place in places:
        if place.dtype != np.bool_ or place.begin == place.end:
            continue
        if np.frombuffer(mapped, np.uint8, place.end - place.begin, place.begin).max() > 1:
            raise _malformed(name, f"section {place.name!r} holds something else than true and false")
