"""Files for arrays that are too large for memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Scratch", "spilling"]


@dataclass(frozen=True)
class Scratch:
    """A folder for arrays of more than `most_bytes`, in unnamed files that vanish with the process."""

    folder: str
    most_bytes: int


def spilling(scratch: Scratch | None) -> dict[str, Any]:
    """The same as options of the engine."""
    if scratch is None:
        return {}
    return {"scratch_folder": scratch.folder, "most_bytes": scratch.most_bytes}
