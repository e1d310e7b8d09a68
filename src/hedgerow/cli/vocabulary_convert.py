"""``hedgerow vocabulary convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .failures import ExitCode, failing_as
from .options import Overwrite
from .targets import check_new_file
from .terminal import say
from .vocabulary_show import FileOrModel


def convert(
    file: FileOrModel,
    out: Annotated[Path, typer.Argument(help="The file to write: .ttl, .json, .csv or .tsv.", metavar="OUT")],
    overwrite: Overwrite = False,
) -> None:
    """Write the vocabulary in FILE_OR_MODEL in another format; nothing is lost.

    \b
    Examples:
      hedgerow vocabulary convert stw.rdf stw.tsv.gz
      hedgerow vocabulary convert tags.hedgerow tags.ttl
    """  # noqa: D301
    check_new_file(out, overwrite)
    from hedgerow.data import DataError

    from .vocabularies import read_names_or_model

    vocabulary = read_names_or_model(file)
    with failing_as(ExitCode.WRITE, DataError):
        vocabulary.write(out, overwrite=overwrite)
    names = len(vocabulary.columns.name_texts)
    say(f"Saved {out}: {len(vocabulary):,} entries, {names:,} names.")
