"""Whole files, packed or plain, within a bound."""

from __future__ import annotations

import re
from pathlib import Path

from hedgerow.data.compressed import DAMAGE, unpacked
from hedgerow.data.errors import DataError
from hedgerow.data.lines import decode

__all__ = ["first_bytes", "read_bytes", "read_text"]

MOST_BYTES = 2 << 30
"""A larger file is taken for a decompression bomb: 200,000 entries take some 10 MB."""

_MARK = b"\xef\xbb\xbf"


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """All bytes of a file, unpacked."""
    whole = first_bytes(path, most + 1)
    if len(whole) > most:
        raise DataError(path, f"has more than {most:,} bytes; is this a vocabulary?")
    return whole


def first_bytes(path: Path, count: int) -> bytes:
    """The first bytes of a file, unpacked; fewer where it ends before."""
    pieces = []
    try:
        with open(path, "rb") as file:
            stream = unpacked(file, path)
            try:
                while count > 0 and (piece := stream.read(min(count, 1 << 20))):
                    pieces.append(piece)
                    count -= len(piece)
            except DAMAGE as error:
                raise DataError(path, f"is damaged or cut off ({error}); fetch the file again") from error
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror or error}") from error
    return b"".join(pieces)


def read_text(path: Path) -> str:
    """All text of a UTF-8 file; the error for another encoding says which line."""
    whole = read_bytes(path).removeprefix(_MARK)
    try:
        return whole.decode()
    except UnicodeDecodeError as error:
        line = whole.count(b"\n", 0, error.start) + 1
        start = whole.rfind(b"\n", 0, error.start) + 1
        end = re.compile(rb"\n|\Z").search(whole, error.start)
        return decode(path, line, whole[start : end.start() if end else None])
