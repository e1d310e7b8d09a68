"""Entries that another version of a vocabulary lacks."""

from __future__ import annotations

from collections.abc import Container, Iterator

from .building import Builder
from .vocabulary import Vocabulary

__all__ = ["names_looked_for", "what_left"]


def what_left(
    before: Vocabulary | None, left: Vocabulary | None, now: Vocabulary, labels: Container[str]
) -> Vocabulary | None:
    """Labels that have an entry no more, with the names that were looked for; None where none has left.

    Parameters
    ----------
    before : Vocabulary or None
        The version before.
    left : Vocabulary or None
        What had left already; an entry may come back.
    now : Vocabulary
        The version from now on.
    labels : container of str
        All labels, as they are written.

    Examples
    --------
    >>> before = Vocabulary.from_names({"t:1": "holly", "t:2": "yew"})
    >>> left = what_left(before, None, Vocabulary.from_names({"t:2": "yew"}), ["t:1", "t:2"])
    >>> left.ids, left.name("t:1")
    (['t:1'], 'holly')
    """
    builder, still = Builder(), set(now.ids)
    for vocabulary in (before, left):
        if vocabulary is None:
            continue
        for id in vocabulary.ids:
            if id in still or id not in labels:
                continue
            builder.entry(id)
            for name in () if vocabulary.deprecated(id) else vocabulary.names(id):
                builder.name(name.text, name.language, name.preferred)
    return Vocabulary(builder.finish()) if len(builder) else None


def names_looked_for(
    vocabulary: Vocabulary | None, left: Vocabulary | None
) -> Iterator[tuple[str, str, str | None, bool]]:
    """Id, text, language and whether it is preferred, of each name in use, or of what left."""
    for part in (vocabulary, left):
        if part is None:
            continue
        ids, names, languages = part.ids, part.name_columns(), [*part.languages, None]  # -1 is the last
        used = (~part.columns.deprecated[names.entries]).tolist()
        rows = zip(
            names.entries.tolist(),
            names.texts.tolist(),
            names.languages.tolist(),
            names.preferred.tolist(),
            strict=True,
        )
        for (entry, text, language, preferred), one in zip(rows, used, strict=True):
            if one:
                yield ids[entry], text, languages[language], preferred
