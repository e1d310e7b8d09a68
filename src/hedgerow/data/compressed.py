from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from os import PathLike, fspath
from typing import IO, BinaryIO, cast

import zstandard

from hedgerow.storage.atomic_file import atomic_file

SUFFIXES = ("", ".xz", ".gz", ".zst")
"""Endings of a file's name that say how it is packed; the first is plain."""

DAMAGE = (EOFError, OSError, lzma.LZMAError, zlib.error, zstandard.ZstdError)
"""What the streams raise on damaged or truncated data."""


class _ZstdReader(io.RawIOBase):
    """A zstd stream that notices when it is cut off, which zstandard's own reader takes for the end."""

    # One input byte can become 32 KiB of output, so a small step bounds what a decompression bomb can fill.
    _step = 2048

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._packed = b""
        self._plain = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._plain:
            packed = self._packed or self._file.read(self._step)
            self._packed = b""
            if not packed:
                if self._frame is not None:
                    raise EOFError("the zstd data end in the middle of a frame")
                return 0
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._plain = memoryview(self._frame.decompress(packed))
            if self._frame.eof:
                self._packed = self._frame.unused_data
                self._frame = None
        size = min(len(buffer), len(self._plain))
        buffer[:size] = self._plain[:size]
        self._plain = self._plain[size:]
        return size


def unpacked(file: BinaryIO, path: str | PathLike[str]) -> BinaryIO:
    """Wrap an open file so that it reads as plain bytes, whatever the ending of its name says it holds."""
    name = fspath(path)
    if name.endswith(".gz"):
        return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb"))
    if name.endswith(".xz"):
        return cast(BinaryIO, lzma.LZMAFile(file, "rb"))
    if name.endswith(".zst"):
        return cast(BinaryIO, io.BufferedReader(_ZstdReader(file)))
    return file


@contextlib.contextmanager
def packed_file(path: str | PathLike[str], overwrite: bool = False) -> Iterator[IO[bytes]]:
    """Write plain bytes to a file atomically, packed as its ending says (.gz, .xz, .zst, else plain)."""
    name = fspath(path)
    with atomic_file(path, overwrite) as file:
        if name.endswith(".gz"):
            # No time stamp and no name inside: the same data make the same bytes.
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                yield cast(IO[bytes], packed)
        elif name.endswith(".xz"):
            with lzma.LZMAFile(file, "wb") as packed_xz:
                yield packed_xz
        elif name.endswith(".zst"):
            with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as packed_zst:
                yield cast(IO[bytes], packed_zst)
        else:
            yield file
