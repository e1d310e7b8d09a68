from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hedgerow.progress import Stage

from .compressed import DAMAGE, unpacked
from .errors import DataError

BLOCK_BYTES = 16 << 20
MAX_LINE_BYTES = 64 << 20
"""A longer line is taken for a file that is not text, or for a decompression bomb."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_blocks(path: Path, *, progress: Stage | None = None) -> Iterator[bytes]:
    """Read a text file, packed or plain, in blocks of whole lines; only the last may lack its line end.

    A byte order mark at the start is dropped.
    """
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror or error}") from error
    with file:
        size = max(1, os.fstat(file.fileno()).st_size)
        stream = unpacked(file, path)
        line = 1
        pending: list[bytes] = []  # the start of a line that no block has ended yet

        def read(count: int) -> bytes:
            try:
                return stream.read(count)
            except DAMAGE as error:
                raise DataError(
                    path, f"is damaged or cut off ({error}); fetch the file again", line
                ) from error

        mark = read(len(_BYTE_ORDER_MARK))
        if mark != _BYTE_ORDER_MARK:
            pending.append(mark)
        while block := read(BLOCK_BYTES):
            cut = block.rfind(b"\n") + 1
            start = block.find(b"\n") if cut else len(block)
            if sum(map(len, pending)) + start > MAX_LINE_BYTES:
                raise DataError(
                    path,
                    f"the line is longer than {MAX_LINE_BYTES} bytes; is this text with one record per line?",
                    line,
                )
            if cut:
                whole = b"".join([*pending, block[:cut]])
                pending = [block[cut:]]
                yield whole
                line += whole.count(b"\n")
            else:
                pending.append(block)
            if progress is not None and file.seekable():  # a pipe does not know where it is
                progress(min(1.0, file.tell() / size))
        if last := b"".join(pending):
            yield last


def read_raw_lines(path: Path, *, progress: Stage | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, line without its end) for each line of a file, packed or plain."""
    number = 0
    for block in read_blocks(path, progress=progress):
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        for line in lines:
            number += 1
            yield number, line.removesuffix(b"\r")


def decode(path: Path, number: int, line: bytes) -> str:
    """Decode one line, or say where the file is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = line[error.start : error.start + 1]
        raise DataError(
            path,
            f"is not UTF-8: byte {bad!r} at column {error.start + 1}; convert the file, say with iconv",
            number,
        ) from error


def read_lines(path: Path, *, progress: Stage | None = None) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without its line end) for each line of a UTF-8 file."""
    for number, line in read_raw_lines(path, progress=progress):
        yield number, decode(path, number, line)


def split_cell(cell: str, separator: str) -> list[str]:
    """The names between separators, without spaces around them and without empty ones."""
    return [name for piece in cell.split(separator) if (name := piece.strip())]
