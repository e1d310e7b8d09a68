"""Where the files of one part of a data set lie in a folder, in any spelling and packing."""

from __future__ import annotations

from pathlib import Path

from .compressed import SUFFIXES

PARTS = ("train", "test")
_SHORT = {"train": "trn", "test": "tst"}


def short_name(part: str) -> str:
    """The spelling that PECOS uses: trn and tst."""
    return _SHORT.get(part, part)


def find_file(folder: Path, part: str, pattern: str, *, packed: bool = True) -> Path | None:
    """Find the file that a pattern such as "{}.txt" names; plain files come first."""
    for suffix in SUFFIXES if packed else SUFFIXES[:1]:
        for spelling in (part, short_name(part)):
            path = folder / (pattern.format(spelling) + suffix)
            if path.is_file():
                return path
    return None
