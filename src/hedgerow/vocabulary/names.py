"""Names and ids: what they may hold, and how they are written."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["LONGEST", "NO_URI", "Entry", "Name", "VocabularyWarning", "check_id", "language_tag", "spaced"]

NO_URI = "urn:hedgerow:id:"
"""Before ids that are no URIs, in files that must have some; then the id, percent-encoded."""

LONGEST = 100_000
"""Characters of a name at most; those of large vocabularies have some thousand, definitions included."""

_TAG = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*")
_NOT_IN_IDS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NOT_TEXT = re.compile(r"[\ud800-\udfff]")


class VocabularyWarning(UserWarning):
    """Something about a vocabulary that its user should know, and that does not prevent its use."""


@dataclass(frozen=True)
class Name:
    """A name of an entry.

    Attributes
    ----------
    text : str
        The name, as the file has it; runs of white space are one space.
    language : str or None
        The tag of its language in lower case, such as "de" or "en-gb"; None where the file has none.
    preferred : bool
        Whether it is the name to show, rather than an alternative.
    """

    text: str
    language: str | None
    preferred: bool


@dataclass(frozen=True)
class Entry:
    """All that a vocabulary says of an entry; see the methods of `Vocabulary` of the same names."""

    id: str
    notation: str | None
    names: tuple[Name, ...]
    broader: tuple[str, ...]
    scheme: str | None
    successor: str | None
    deprecated: bool


def check_id(id: object, what: str = "id") -> str:
    """Refuse ids that are empty or cannot stand on a line; the error names the id."""
    if not isinstance(id, str):
        raise ValueError(f"the {what} {id!r} is of type {type(id).__name__}; ids are strings")
    if not id.strip():
        raise ValueError(f"the {what} is missing; give every entry one")
    if bad := _NOT_IN_IDS.search(id):
        raise ValueError(
            f"the {what} {id!r} holds the control character {bad.group()!r}, which ids cannot have; remove it"
        )
    return id


def language_tag(language: str | None) -> str | None:
    """A language tag in lower case, as tags mean the same in any; an empty one is none."""
    if not language:
        return None
    if not _TAG.fullmatch(language):
        raise ValueError(f"{language[:40]!r} is not a language tag such as 'de' or 'en-gb'; correct it")
    return language.lower()


def spaced(text: str) -> str:
    """A name with one space for each run of white space; what is no text or no name is refused."""
    if _NOT_TEXT.search(text):
        raise ValueError(f"the name {text!r} holds half a character (a lone surrogate); correct it")
    if len(text) > LONGEST:
        raise ValueError(
            f"the name {text[:40]!r}... has {len(text):,} characters, more than {LONGEST:,}; shorten or"
            " remove it"
        )
    return " ".join(text.split())
