"""``hedgerow vocabulary show``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .failures import ExitCode, Failure
from .options import AsJson
from .terminal import print_json, say

if TYPE_CHECKING:
    from hedgerow.vocabulary import Vocabulary

FileOrModel = Annotated[
    Path, typer.Argument(help="The file of a vocabulary, or a model that has one.", metavar="FILE_OR_MODEL")
]
Lang = Annotated[
    str | None, typer.Option(metavar="LANGUAGE", help="Show names in this language, such as de.")
]


def show(
    file: FileOrModel,
    id: Annotated[str | None, typer.Argument(help="An entry.", metavar="[ID]")] = None,
    lang: Lang = None,
    json: AsJson = False,
) -> None:
    """Show what a vocabulary holds, or all it says of the entry ID.

    \b
    Examples:
      hedgerow vocabulary show stw.ttl
      hedgerow vocabulary show tags.hedgerow http://zbw.eu/stw/descriptor/10091-0
    """  # noqa: D301
    from .vocabularies import read_names_or_model

    vocabulary = read_names_or_model(file)
    if id is not None and id not in vocabulary:
        raise Failure(
            ExitCode.DATA,
            f"{file} has no entry {id!r}; look for it with hedgerow vocabulary search {file} WORDS",
        )
    about = _about_all(vocabulary) if id is None else _about_entry(vocabulary, id, lang)
    if json:
        print_json(about)
        return
    for key, value in about.items():
        if isinstance(value, list):
            say(f"{key.replace('_', ' ')}: {len(value):,}")
            for item in value:
                say("  " + (" ".join(map(str, item.values())) if isinstance(item, dict) else str(item)))
        elif value is not None:
            say(f"{key.replace('_', ' ')}: {f'{value:,}' if type(value) is int else value}")


def _about_all(vocabulary: Vocabulary) -> dict[str, Any]:
    columns = vocabulary.columns
    return {
        "entries": len(vocabulary),
        "names": len(columns.name_texts),
        "preferred_names": int(columns.name_preferred.sum()),
        "broader_links": len(columns.broader.entries),
        "deprecated": int(columns.deprecated.sum()),
        "languages": list(vocabulary.languages),
        "schemes": vocabulary.schemes,
    }


def _about_entry(vocabulary: Vocabulary, id: str, lang: str | None) -> dict[str, Any]:
    def named(ids: list[str]) -> list[dict[str, Any]]:
        return [{"id": other, "name": vocabulary.name(other, lang)} for other in ids]

    return {
        "id": id,
        "name": vocabulary.name(id, lang),
        "notation": vocabulary.notation(id),
        "scheme": vocabulary.scheme(id),
        "deprecated": vocabulary.deprecated(id) or None,
        "replaced_by": vocabulary.successor(id),
        "names": [
            {
                "text": name.text,
                "language": name.language or "",
                "kind": "preferred" if name.preferred else "alternative",
            }
            for name in vocabulary.names(id)
        ],
        "broader": named(vocabulary.broader(id)),
        "narrower": named(vocabulary.narrower(id)),
    }
