"""``hedgerow vocabulary search``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from .options import AsJson
from .terminal import cell, print_json, say
from .vocabulary_show import FileOrModel, Lang


def search(
    file: FileOrModel,
    words: Annotated[list[str], typer.Argument(help="Words of a name, or an id.", metavar="WORDS")],
    lang: Lang = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Show at most this many entries.")] = 10,
    json: AsJson = False,
) -> None:
    """Find entries by any of their names, in any language, best first.

    Words may be unfinished, and have typing mistakes.

    \b
    Examples:
      hedgerow vocabulary search stw.ttl coase theorm
      hedgerow vocabulary search tags.hedgerow Geldpolitk --lang en
    """  # noqa: D301
    from .vocabularies import read_names_or_model

    found = read_names_or_model(file).search(" ".join(words), lang, limit)
    if json:
        for match in found:
            print_json(asdict(match))
        return
    if not found:
        say("Nothing was found; try fewer or other words.")
        return
    table = Table(box=None, padding=(0, 1), pad_edge=True)
    for column in ("id", "name", "found by", "fits"):
        table.add_column(cell(column, "dim"), overflow="fold")
    for match in found:
        found_by = "its id" if match.matched is None else match.matched
        table.add_row(cell(match.id), cell(match.name or ""), cell(found_by), cell(f"{match.score:.2f}"))
    Console(highlight=False).print(table)
