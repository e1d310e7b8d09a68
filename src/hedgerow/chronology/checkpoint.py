"""Keeps periods that were judged, so that a run that was stopped goes on from there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hedgerow.storage.atomic_file import atomic_file

from .results import JudgedPeriod

__all__ = ["Checkpoint", "CheckpointError"]

_FORMAT = 1
_ASKED = "asked.json"
_LARGEST = 1 << 24  # bytes; a period takes about one kB
_NAMES = {
    "data": "other data",
    "plan": "other options",
    "settings": "other settings of the model",
    "hedgerow": "another version of Hedgerow",
}


class CheckpointError(ValueError):
    """A folder of another run, or one that is damaged."""


class Checkpoint:
    """A folder with a file for each strategy and period that was judged."""

    def __init__(self, folder: Path | None, asked: Mapping[str, Any]) -> None:
        """Open or make a folder; `asked` is what its periods share. None keeps nothing."""
        self._folder = folder
        if folder is None:
            return
        asked = json.loads(json.dumps({"over_time": _FORMAT, **asked}))  # as it comes back from a file
        folder.mkdir(exist_ok=True)
        path = folder / _ASKED
        if not path.exists():
            if any(folder.iterdir()):
                raise CheckpointError(
                    f"{folder} holds something else than periods that were judged; name a new folder"
                )
            _write(path, asked)
            return
        before = _read(path)
        if other := [words for name, words in _NAMES.items() if before.get(name) != asked.get(name)]:
            raise CheckpointError(
                f"{folder} holds periods of {' and '.join(other)}; delete it to start again, or name another"
            )

    def find(self, strategy: str, number: int) -> JudgedPeriod | None:
        """What was found in a period, if it was judged."""
        path = self._path(strategy, number)
        if path is None or not path.exists():
            return None
        try:
            found = JudgedPeriod.from_dict(_read(path))
        except (TypeError, KeyError) as error:
            raise _damaged(path) from error
        if found.strategy != strategy:
            raise _damaged(path)
        return found

    def keep(self, number: int, found: JudgedPeriod) -> None:
        """Keep a period; it is on disk when this returns."""
        path = self._path(found.strategy, number)
        if path is not None:
            _write(path, found.to_dict())

    def _path(self, strategy: str, number: int) -> Path | None:
        return None if self._folder is None else self._folder / f"{strategy}-{number}.json"


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with atomic_file(path, overwrite=True) as file:
        file.write(json.dumps(content, indent=1).encode() + b"\n")


def _read(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _LARGEST:
        raise _damaged(path)
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _damaged(path) from error
    if not isinstance(found, dict):
        raise _damaged(path)
    return found


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError(f"{path} is damaged; delete it, and its period is judged again")
