"""Arrays of NumPy whose headers are broken, or guarantee what there cannot be."""

from __future__ import annotations

import zipfile
from pathlib import Path


def array_with_header(header: str) -> bytes:
    """An array without entries."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def array_of(entries: int) -> bytes:
    """An array that guarantees some entries and has none."""
    return array_with_header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({entries},), }}")


BROKEN_ARRAYS = {
    "text without an end": array_with_header("'''"),
    "tuple without an end": array_with_header("{'descr': '<f4', 'shape': (1,"),
    "parentheses without an end": array_with_header("(" * 9000),
    "field twice": array_with_header(
        "{'descr': [('a', '<f4'), ('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"
    ),
    "more than memory": array_of(2**42),
    "more than any number": array_of(2**70),
    "fewer than none": array_of(-1),
}


def replace_member(path: Path, name: str, content: bytes, method: int = zipfile.ZIP_STORED) -> None:
    """Write an archive anew, with other bytes for the member of this name."""
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    with zipfile.ZipFile(path, "w", method) as archive:
        for member, data in members.items():
            archive.writestr(member, content if member == name else data)
