"""``hedgerow map``."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from hedgerow.data import DataError, map_data

from .failures import ExitCode, failing_as
from .terminal import cell, human_bytes, progress_bar


def run_map(data: Path, folder: Path, part: str, threads: int, overwrite: bool) -> None:
    """Write the arrays and tell."""
    with progress_bar() as report, failing_as(ExitCode.DATA, DataError), failing_as(ExitCode.WRITE):
        map_data(
            data,
            folder,
            part,
            overwrite=overwrite,
            threads=threads,
            progress=lambda share: report(share, "mapping"),
        )
    size = sum(path.stat().st_size for path in folder.glob("*.npy"))
    console = Console(soft_wrap=True, highlight=False)
    console.print(cell(f"Saved {folder} ({human_bytes(size)})."))
    console.print(cell(f"Next: hedgerow fit {folder} MODEL --memory 8GB", "dim"))
