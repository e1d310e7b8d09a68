"""A vocabulary as sections of a model file; nothing that a file says is taken on trust."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .columns import Columns
from .hierarchy import Hierarchy
from .names import language_tag
from .strings import Strings

__all__ = ["from_sections", "to_sections"]

_MASKS = np.array(
    [(1 << 64) - (1 << 8 * (8 - kept)) for kept in range(9)], dtype=np.uint64
)  # the first bytes
_KEYS = {"entries", "names", "languages", "schemes"}


def to_sections(columns: Columns) -> tuple[dict[str, Any], dict[str, Any]]:
    """The entry for the header of a file, and the arrays. What no entry has takes no room."""
    header: dict[str, Any] = {
        "entries": len(columns.ids),
        "names": len(columns.name_texts),
        "languages": list(columns.languages),
        "schemes": 0 if columns.schemes is None else len(columns.schemes),
    }
    sections = {
        **columns.ids.to_sections("vocabulary.ids"),
        **columns.name_texts.to_sections("vocabulary.names"),
        "vocabulary.order": columns.order,
        "vocabulary.names.of": columns.name_begins,
        "vocabulary.names.language": columns.name_languages,
        "vocabulary.names.preferred": columns.name_preferred,
    }
    if columns.notations is not None:
        sections |= columns.notations.to_sections("vocabulary.notations")
    if columns.schemes is not None and columns.scheme_of is not None:
        sections |= columns.schemes.to_sections("vocabulary.schemes")
        sections["vocabulary.scheme"] = columns.scheme_of
    if columns.successors is not None:
        sections |= columns.successors.to_sections("vocabulary.successors")
    if columns.deprecated.any():
        sections["vocabulary.deprecated"] = columns.deprecated
    if len(columns.broader.entries):
        sections["vocabulary.broader"] = columns.broader.entries
        sections["vocabulary.broader.begins"] = columns.broader.begins
    return header, sections


def from_sections(header: Any, sections: dict[str, Any]) -> Columns:
    """The vocabulary in a file, whose arrays stay there; ValueError or KeyError if it is broken."""
    if not isinstance(header, dict) or set(header) != _KEYS:
        raise ValueError("the vocabulary's entry in the header is broken")
    count, names, schemes = (_count(header[key]) for key in ("entries", "names", "schemes"))
    if count == 0:
        raise ValueError("the vocabulary has no entries")
    languages = _languages(header["languages"])
    ids = Strings.from_sections("vocabulary.ids", sections, count)
    order = _array(sections, "vocabulary.order", np.uint32, count)
    _check_order(ids, order)
    codes = _array(sections, "vocabulary.names.language", np.int16, names)
    _check_within(codes, -1, len(languages), "a name has a language")
    scheme_of = None
    if schemes:
        scheme_of = _array(sections, "vocabulary.scheme", np.int32, count)
        _check_within(scheme_of, -1, schemes, "an entry has a scheme")
    if "vocabulary.deprecated" in sections:
        deprecated = _array(sections, "vocabulary.deprecated", np.bool_, count)
        if (deprecated.view(np.uint8) > 1).any():
            raise ValueError("the vocabulary has a flag that is neither true nor false")
    else:
        deprecated = np.zeros(count, dtype=bool)
    preferred = _array(sections, "vocabulary.names.preferred", np.bool_, names)
    if (preferred.view(np.uint8) > 1).any():
        raise ValueError("the vocabulary has a flag that is neither true nor false")
    return Columns(
        ids=ids,
        order=order,
        languages=languages,
        name_texts=Strings.from_sections("vocabulary.names", sections, names),
        name_begins=_begins(sections, "vocabulary.names.of", np.uint32, count, names),
        name_languages=codes,
        name_preferred=preferred,
        notations=_optional(sections, "vocabulary.notations", count),
        schemes=Strings.from_sections("vocabulary.schemes", sections, schemes) if schemes else None,
        scheme_of=scheme_of,
        successors=_optional(sections, "vocabulary.successors", count),
        deprecated=deprecated,
        broader=_hierarchy(sections, count),
    )


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError(f"the vocabulary has the number {value!r}")
    return value


def _languages(tags: Any) -> tuple[str, ...]:
    if not isinstance(tags, list) or len(tags) != len(set(tags)):
        raise ValueError("the languages of the vocabulary are broken")
    for tag in tags:
        if not isinstance(tag, str) or not tag or language_tag(tag) != tag:
            raise ValueError(f"the vocabulary has the language {tag!r}")
    return tuple(tags)


def _array(sections: dict[str, Any], name: str, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = sections[name]
    if array.dtype != dtype or array.shape != (count,):
        raise ValueError(f"the section {name!r} has another type or number")
    return array


def _check_within(values: npt.NDArray[Any], least: int, end: int, what: str) -> None:
    if values.size and not (least <= int(values.min()) and int(values.max()) < end):
        raise ValueError(f"{what} that the vocabulary lacks")


def _begins(
    sections: dict[str, Any], name: str, dtype: npt.DTypeLike, count: int, end: int
) -> npt.NDArray[Any]:
    begins = _array(sections, name, dtype, count + 1)
    if begins[0] != 0 or begins[-1] != end or (begins[1:] < begins[:-1]).any():
        raise ValueError(f"the section {name!r} is cut wrongly")
    return begins


def _optional(sections: dict[str, Any], name: str, count: int) -> Strings | None:
    return Strings.from_sections(name, sections, count) if f"{name}.text" in sections else None


def _hierarchy(sections: dict[str, Any], count: int) -> Hierarchy:
    if "vocabulary.broader" not in sections:
        return Hierarchy(np.zeros(count + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))
    entries = sections["vocabulary.broader"]
    if entries.ndim != 1:
        raise ValueError("the section 'vocabulary.broader' has another shape")
    entries = _array(sections, "vocabulary.broader", np.int32, len(entries))
    _check_within(entries, 0, count, "an entry has a broader one")
    begins = _begins(sections, "vocabulary.broader.begins", np.int64, count, len(entries))
    hierarchy = Hierarchy(begins, entries)
    if hierarchy.cycle():
        raise ValueError("an entry of the vocabulary is broader than itself")
    return hierarchy


def _check_order(ids: Strings, order: npt.NDArray[np.uint32]) -> None:
    """Ids in this order must rise: then they are unique, and found by halving."""
    if order.size and int(order.max()) >= len(ids):
        raise ValueError("the order of the vocabulary names an entry that it lacks")
    bounds = ids.begins.astype(np.int64)
    begins = bounds[:-1][order]
    lengths = bounds[1:][order] - begins
    if (ids.text < 0x20).any():
        raise ValueError("an id of the vocabulary holds a control character")
    if not lengths.all():
        raise ValueError("an id of the vocabulary is empty")
    # Eight bytes of each at a time, as numbers; ids that differ from their neighbour need no further look.
    padded = np.concatenate([ids.text, np.zeros(8, dtype=np.uint8)])
    windows = np.ndarray((ids.text.size + 1,), dtype=">u8", buffer=padded.data, strides=(1,))
    one = np.arange(len(ids) - 1)
    done = 0
    while one.size:
        first, second = (_eight_bytes(windows, begins[of], lengths[of], done) for of in (one, one + 1))
        same = first == second
        # Of two that go on alike, the first must end sooner: zeros, which might look the same, are in no id.
        ended = same & (lengths[one + 1] <= done + 8)
        if (first > second).any() or ended.any():
            raise ValueError("the ids of the vocabulary are not in order, or one occurs twice")
        one = one[same]
        done += 8


def _eight_bytes(
    windows: npt.NDArray[np.uint64], begins: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], done: int
) -> npt.NDArray[np.uint64]:
    """The bytes of ids behind the first `done` as numbers that rise as they do; behind their end, zeros."""
    places = np.minimum(begins + done, len(windows) - 1)
    found: npt.NDArray[np.uint64] = windows[places].astype(np.uint64)
    return found & _MASKS[np.clip(lengths - done, 0, 8)]
