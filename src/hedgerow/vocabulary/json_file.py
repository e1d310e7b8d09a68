"""Vocabularies as JSON: a list of entries, or ids with their names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hedgerow.data.errors import DataError

from .building import Builder, EntryError
from .columns import Columns
from .files import read_text

__all__ = ["read_json"]

_KEYS = {"id", "notation", "names", "alternatives", "broader", "scheme", "replaced_by", "deprecated"}


def read_json(path: Path) -> Columns:
    """``{"entries": [{"id": ..., "names": {"de": ...}, ...}]}``, that list alone, or ``{id: name}``."""
    text = read_text(path)
    try:
        content = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        what = f"is not valid JSON: {error.msg} at column {error.colno}"
        raise DataError(path, what, error.lineno) from error
    except RecursionError:
        raise DataError(path, "is nested too deeply for a vocabulary") from None
    builder = Builder()
    if isinstance(content, dict) and isinstance(content.get("entries"), list):
        if unknown := set(content) - {"entries"}:
            raise EntryError(f"there is a key {min(unknown)!r} beside 'entries'; remove it")
        content = content["entries"]
    if isinstance(content, list):
        for place, entry in enumerate(content):
            try:
                _add(entry, builder)
            except EntryError as error:
                raise EntryError(f"entries[{place}]: {error}") from None
    elif isinstance(content, dict):
        for id, names in content.items():
            builder.entry(id)
            _add_names(names, True, builder, repr(id))
    else:
        raise EntryError("it holds neither entries nor names by id")
    return builder.finish()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise EntryError(f"the key {twice!r} occurs twice in one object; an id stands for one entry")
    return found


def _add(entry: Any, builder: Builder) -> None:
    if not isinstance(entry, dict) or "id" not in entry:
        raise EntryError("an entry is an object with an 'id'; the id is missing")
    if unknown := set(entry) - _KEYS:
        raise EntryError(f"the key {min(unknown)!r} is not one of {', '.join(sorted(_KEYS))}")
    id = repr(entry["id"])
    builder.entry(entry["id"])
    _add_names(entry.get("names", {}), True, builder, id)
    _add_names(entry.get("alternatives", {}), False, builder, id)
    for broader in _strings(entry.get("broader", []), f"broader of {id}"):
        builder.broader(broader)
    for key, add in (
        ("notation", builder.notation),
        ("scheme", builder.scheme),
        ("replaced_by", builder.successor),
    ):
        value = entry.get(key)
        if value is not None:
            if not isinstance(value, str):
                raise EntryError(f"{key} of {id} is {value!r}; it must be a string")
            add(value)
    deprecated = entry.get("deprecated", False)
    if not isinstance(deprecated, bool):
        raise EntryError(f"deprecated of {id} is {deprecated!r}; it must be true or false")
    if deprecated:
        builder.deprecate()


def _add_names(names: Any, preferred: bool, builder: Builder, id: str) -> None:
    if names is None:
        return
    if not isinstance(names, dict):
        names = {"": names}
    for language, texts in names.items():
        for text in _strings(texts, f"a name of {id}"):
            builder.name(text, language, preferred)


def _strings(value: Any, what: str) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
        raise EntryError(f"{what} is {value!r}; it must be a string or a list of strings")
    return values
