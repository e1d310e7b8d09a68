"""In which forms a name may stand in a text."""

from __future__ import annotations

import re

__all__ = ["name_forms"]

_BRACKETS = frozenset("(<")
# What stands in brackets apart from other words; those of "Poly(ethylene)" belong to the word.
_QUALIFIER = re.compile(r"(?<!\S)(?:\([^()]*\)|<[^<>]*>)(?![^\s,;])")
_WORD = re.compile(r"\w\w")


def name_forms(name: str) -> list[tuple[str, bool]]:
    """The forms of a name, each with whether something was left out.

    A qualifier in parentheses or angle brackets, apart from other words, may be left out, unless no word is
    left. With one comma, what stands behind it may also come first, as in names of persons. What else
    separates words, such as slashes and hyphens, needs no form of its own.

    Examples
    --------
    >>> name_forms("Kraft (Physik)")
    [('Kraft (Physik)', False), ('Kraft ', True)]
    >>> name_forms("Curie, Marie")
    [('Curie, Marie', False), ('Marie Curie', False)]
    >>> name_forms("<script>")
    [('<script>', False)]
    """
    forms = [(name, False)]
    if not _BRACKETS.isdisjoint(name):
        short = _QUALIFIER.sub("", name)
        if short != name and _WORD.search(short):
            forms.append((short, True))
    if "," in name:
        forms += [(turned, shortened) for form, shortened in forms if (turned := _turned(form))]
    return forms


def _turned(name: str) -> str | None:
    family, *given = name.split(",")
    if len(given) != 1 or not _WORD.search(family) or not _WORD.search(given[0]):
        return None
    return f"{given[0].strip()} {family.strip()}"
