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


def kinds(text: str, marks: bool) -> list[str]:
    """The kind of each character; with `marks`, those on a word belong to it."""
    found: list[str] = []
    for char in text:
        on_word = marks and unicodedata.category(char)[0] == "M" and found[-1:] == ["word"]
        found.append("word" if on_word and kind(char) == "other" else kind(char))
    return found


def words(text: str, marks: bool = False) -> list[str]:
    """Runs of two or more word characters; of scripts without spaces, pairs of characters."""
    found = []
    small = text.lower()
    for kind_of_run, run in itertools.groupby(
        zip(small, kinds(small, marks), strict=True), lambda one: one[1]
    ):
        letters = "".join(char for char, _ in run)
        if kind_of_run == "unspaced" and len(letters) > 1:
            found += [a + b for a, b in itertools.pairwise(letters)]
        elif (kind_of_run == "unspaced" and re.match(r"\w", letters)) or (
            kind_of_run == "word" and len(letters) > 1
        ):
            found.append(letters)
    return found


def terms(text: str, stem: Callable[[str], str] = str, marks: bool = False) -> list[str]:
    """Words, or their stems, and pairs of them."""
    stems = [stem(word) or word for word in words(text, marks)]
    return stems + [f"{a} {b}" for a, b in itertools.pairwise(stems)]
