"""What texts are cut into, written again in the plainest way."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable

UNSPACED = ("CJK UNIFIED", "CJK COMPATIBILITY", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA")
UNSPACED += ("VERTICAL IDEOGRAPHIC", "THAI", "LAO ", "KHMER", "MYANMAR")


def kind(char: str) -> str:
    category = unicodedata.category(char)
    if (category[0] in "LM" or category == "Nl") and unicodedata.name(char, "").startswith(UNSPACED):
        return "unspaced"
    return "word" if re.match(r"\w", char) else "other"


def words(text: str) -> list[str]:
    """Runs of two or more word characters; of scripts without spaces, pairs of characters."""
    found = []
    for kind_of_run, run in itertools.groupby(text.lower(), kind):
        letters = "".join(run)
        if kind_of_run == "unspaced" and len(letters) > 1:
            found += [a + b for a, b in itertools.pairwise(letters)]
        elif (kind_of_run == "unspaced" and re.match(r"\w", letters)) or (
            kind_of_run == "word" and len(letters) > 1
        ):
            found.append(letters)
    return found


def terms(text: str, stem: Callable[[str], str] = str) -> list[str]:
    """Words, or their stems, and pairs of them."""
    stems = [stem(word) or word for word in words(text)]
    return stems + [f"{a} {b}" for a, b in itertools.pairwise(stems)]
