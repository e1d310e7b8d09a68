"""``hedgerow map``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from .failures import ExitCode, failing_as
from .options import Overwrite, Threads, Verbose
from .terminal import say, show_progress


def map_data(
    data: Annotated[Path, typer.Argument(help="The data set: a folder or a file.", metavar="DATA")],
    folder: Annotated[Path, typer.Argument(help="The folder to write.", metavar="FOLDER")],
    part: Annotated[str, typer.Option(metavar="NAME", help="The part of DATA: train or test.")] = "train",
    threads: Threads = 0,
    overwrite: Overwrite = False,
    verbose: Verbose = False,
) -> None:
    """Convert DATA that is larger than memory, so that fit can train on it.

    DATA is a PECOS folder or the text format of the extreme classification repository. FOLDER gets its
    features and labels as arrays that are mapped: neither is ever in memory as a whole.

    \b
    Examples:
      hedgerow map amazon-3m/ amazon-3m-mapped/
      hedgerow fit amazon-3m-mapped/ three.hedgerow --memory 8GB
    """  # noqa: D301
    from hedgerow.data import DataError, map_data

    with show_progress(verbose) as report, failing_as(ExitCode.DATA, DataError), failing_as(ExitCode.WRITE):
        map_data(
            data,
            folder,
            part,
            overwrite=overwrite,
            threads=threads,
            progress=lambda share: report(share, "mapping"),
        )
    size = sum(path.stat().st_size for path in folder.glob("*.npy"))
    say(f"Saved {folder} ({decimal(size)}).")
    say(f"Next: hedgerow fit {folder} MODEL --memory 8GB", "dim")
