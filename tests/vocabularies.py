"""Vocabularies for tests: made up by hypothesis, and put together from plain values."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from hedgerow import Vocabulary
from hedgerow.vocabulary.building import Builder

IDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), min_size=1, max_size=12
).filter(lambda text: bool(text.strip()))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    [
        "<script>alert(1)</script>",
        "a|b",
        'say "hi"',
        "a\tb",
        "a,b;c",
        "-- drop",
        "\\u0041",
        "{{x}}",
        "#",
        "=1+1",
    ]
)
LANGUAGES = st.sampled_from([None, "de", "en", "EN-gb", "zh-Hant"])


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    """Any vocabulary."""
    ids = draw(st.lists(IDS, min_size=1, max_size=6, unique=True))
    builder = Builder()
    for number, id in enumerate(ids):
        builder.entry(id)
        for text, language, preferred in draw(
            st.lists(st.tuples(TEXTS, LANGUAGES, st.booleans()), max_size=5)
        ):
            builder.name(text, language, preferred)
        if later := ids[number + 1 :]:  # so that there is no cycle
            for broader in draw(st.lists(st.sampled_from(later), max_size=3)):
                builder.broader(broader)
        if draw(st.booleans()):
            builder.notation(draw(TEXTS))
        if draw(st.booleans()):
            builder.scheme(draw(IDS))
        if draw(st.booleans()):
            builder.successor(draw(IDS))
        if draw(st.booleans()):
            builder.deprecate()
    return Vocabulary(builder.finish())


def made(*entries: dict[str, Any]) -> Vocabulary:
    """A vocabulary of entries with `id`, `names` (text, language, preferred) and `broader`."""
    builder = Builder()
    for entry in entries:
        builder.entry(entry["id"])
        for name in entry.get("names", ()):
            builder.name(*name)
        for broader in entry.get("broader", ()):
            builder.broader(broader)
    return Vocabulary(builder.finish())
