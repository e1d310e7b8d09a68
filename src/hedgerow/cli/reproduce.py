"""``hedgerow reproduce``."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from hedgerow.data import DataError
from hedgerow.paper import ExperimentSettings, Source, machine, run, write_tables
from hedgerow.paper.figures import write_figures
from hedgerow.paper.published import known_data
from hedgerow.storage.container import ModelFileError

from .failures import ExitCode, Failure, failing_as
from .terminal import cell, plain, progress_bar

_COLUMN = 11  # letters that a figure with its deviation takes


def run_reproduce(
    data: list[str], ood: list[str], out: Path, settings: ExperimentSettings, threads: int
) -> None:
    """Do the experiments that are not done, and write tables and figures of all."""
    sources = [source for text in data if (source := _present(text))]
    strangers = [source for text in ood if (source := _present(text))]
    if not sources:
        raise Failure(ExitCode.DATA, "none of the data sets is there; nothing was done")
    if settings.deep is not None:
        with failing_as(ExitCode.USAGE, ValueError, ImportError):
            settings.deep.check()
    with failing_as(ExitCode.WRITE):
        out.mkdir(parents=True, exist_ok=True)
    n_jobs = threads or -1
    try:
        with (
            progress_bar(whole=True) as report,
            failing_as(ExitCode.DATA, DataError, ModelFileError, ValueError, TypeError),
        ):
            experiments = run(sources, strangers, out, settings, n_jobs, report)
    except KeyboardInterrupt:
        raise Failure(
            ExitCode.INTERRUPTED, f"what is done is kept in {out}; the same command goes on from there"
        ) from None
    with failing_as(ExitCode.WRITE):
        tables = write_tables(experiments, out, settings, machine(n_jobs))
        missing = write_figures(experiments, out / "figures")
    console = Console(highlight=False)
    for table in tables:
        # Wider ones are for a page, not for a terminal.
        if len(table.header) * _COLUMN <= console.width:
            console.print(Markdown(table.to_markdown()))
    console.print(cell(f"Written: {out}/tables.md, tables.tex, tables.json and figures/"), soft_wrap=True)
    if missing:
        print(f"hedgerow: {missing}", file=sys.stderr)


def _present(text: str) -> Source | None:
    """The data, or None where they are known but not there: then it is told where they come from."""
    source = Source.parse(text)
    if source.path.exists():
        return source
    known = known_data(source.path)
    if known is None:
        raise Failure(ExitCode.DATA, f"{source.path}: there is no such file or folder")
    print(f"hedgerow: {plain(source.path)} is not there, and left out. {known.origin}.", file=sys.stderr)
    return None
