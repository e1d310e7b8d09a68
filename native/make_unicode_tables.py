"""Write unicode_tables.h: lower case, word characters as of `re`, marks, and scripts without spaces.

Run it to move to the Unicode version of the Python that runs it. The header is committed, so that texts give
the same tokens whatever Python reads them.
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

SIGMA, FINAL_SIGMA = "\u03a3", "\u03c2"
WORD = re.compile(r"\w")


def is_word(char: str) -> bool:
    """Whether the character is a word character once in lower case."""
    return WORD.match(char.lower()) is not None


# Python does not show the next two properties, but how it lower-cases a capital sigma depends on just them:
# final after a cased character, case-ignorable ones between them not counting.
def is_cased(char: str) -> bool:
    """Whether the character is cased and not case-ignorable."""
    return (char + SIGMA).lower().endswith(FINAL_SIGMA)


def is_ignorable(char: str) -> bool:
    """Whether the character is case-ignorable."""
    return ("a" + char + SIGMA).lower().endswith(FINAL_SIGMA) and not is_cased(char)


# Python does not show scripts either; the names of characters begin with theirs.
UNSPACED = (
    *("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "IDEOGRAPHIC ITERATION MARK"),
    *("IDEOGRAPHIC CLOSING MARK", "IDEOGRAPHIC NUMBER ZERO", "VERTICAL IDEOGRAPHIC ITERATION MARK"),
    *("HIRAGANA ", "KATAKANA", "HALFWIDTH KATAKANA", "THAI ", "LAO ", "KHMER ", "MYANMAR "),
)


def is_unspaced(char: str) -> bool:
    """Whether the character is a letter or mark of a script that puts no spaces between words."""
    category = unicodedata.category(char)
    return (category[0] in "LM" or category == "Nl") and unicodedata.name(char, "").startswith(UNSPACED)


def is_mark(char: str) -> bool:
    """Whether the character is a mark on another one, such as a vowel sign, and not a word character."""
    return unicodedata.category(char)[0] == "M" and not is_word(char)


def characters() -> Iterator[str]:
    """All characters but surrogates."""
    return (chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)


def ranges(holds: Callable[[str], bool]) -> list[tuple[int, int]]:
    """Runs of characters (first, last) for which `holds` is true."""
    found: list[tuple[int, int]] = []
    for char in filter(holds, characters()):
        code = ord(char)
        if found and found[-1][1] == code - 1:
            found[-1] = (found[-1][0], code)
        else:
            found.append((code, code))
    return found


def lower_ranges() -> list[tuple[int, int, int, int]]:
    """Runs of characters (first, last, step, what to add); many scripts alternate capital and small."""
    found: list[tuple[int, int, int, int]] = []
    for char in characters():
        small = char.lower()
        if len(small) != 1 or small == char:
            continue
        code, delta = ord(char), ord(small) - ord(char)
        first, last, step, added = found[-1] if found else (0, 0, 0, 0)
        if added == delta and code - last <= 2 and (first == last or step == code - last):
            found[-1] = (first, code, code - last, delta)
        else:
            found.append((code, code, 1, delta))
    return found


def rows(entries: list[str]) -> str:
    """Lay out the entries of an array."""
    lines, line = [], "   "
    for entry in entries:
        if len(line) + len(entry) + 2 > 118:
            lines.append(line)
            line = "   "
        line += f" {entry},"
    return "\n".join([*lines, line])


def main() -> None:
    """Write the header beside this script."""
    several = [char for char in characters() if len(char.lower()) != 1]
    if several != ["\u0130"]:
        raise SystemExit(f"tokens.cpp knows only U+0130 to become longer in lower case, not {several}")

    def table(comment: str, name: str, holds: Callable[[str], bool]) -> str:
        entries = [f"{{0x{first:x}, 0x{last:x}}}" for first, last in ranges(holds)]
        return f"// {comment}\ninline constexpr Range {name}[] = {{\n{rows(entries)}\n}};\n"

    lower = [f"{{0x{first:x}, 0x{last:x}, {step}, {delta}}}" for first, last, step, delta in lower_ranges()]
    parts = [
        "// Written by make_unicode_tables.py. Do not edit.\n#pragma once\n\n#include <cstdint>\n\n"
        "// clang-format off\nnamespace hedgerow::unicode {\n",
        f'inline constexpr char version[] = "{unicodedata.unidata_version}";\n',
        "struct Range {\n  std::uint32_t first, last;\n};\n",
        "struct LowerRange {\n  std::uint32_t first, last, step;\n  std::int32_t delta;\n};\n",
        table("Word characters, once in lower case.", "word", is_word),
        table("Cased and not case-ignorable.", "cased", is_cased),
        table("Case-ignorable.", "ignorable", is_ignorable),
        table("Letters and marks of scripts that put no spaces between words.", "unspaced", is_unspaced),
        table("Marks on other characters, such as vowel signs.", "mark", is_mark),
        "// Characters whose lower case is one other character.\n"
        f"inline constexpr LowerRange lower[] = {{\n{rows(lower)}\n}};\n",
        "}  // namespace hedgerow::unicode\n// clang-format on\n",
    ]
    Path(__file__).with_name("unicode_tables.h").write_text("\n".join(parts))


if __name__ == "__main__":
    main()
