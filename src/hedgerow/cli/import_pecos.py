"""``hedgerow import-pecos``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Console

from hedgerow.data import DataError
from hedgerow.pecos import import_pecos

from .failures import ExitCode, failing_as
from .fit import check_new_file
from .terminal import cell, human_bytes, print_json, progress_bar


def run_import_pecos(folders: list[Path], model: Path, overwrite: bool, as_json: bool) -> None:
    """Read the folders, save one model and tell."""
    check_new_file(model, overwrite)
    start = time.perf_counter()
    with progress_bar() as report:
        with failing_as(ExitCode.MODEL, DataError, ValueError):
            classifier = import_pecos(folders, progress=report)
        report(0.0, "saving")
        with failing_as(ExitCode.WRITE):
            classifier.save(model, overwrite=overwrite)
    summary: dict[str, Any] = {
        "model": str(model),
        "bytes": model.stat().st_size,
        "members": len(folders),
        "labels": len(classifier.classes_),
        "features": classifier.n_features_in_,
        "beam": classifier.beam,
        "seconds": round(time.perf_counter() - start, 3),
    }
    if as_json:
        print_json(summary)
        return
    console = Console(soft_wrap=True, highlight=False)
    members = "1 member" if len(folders) == 1 else f"{len(folders):,} members"
    console.print(
        cell(f"Saved {model} ({human_bytes(summary['bytes'])}): {members}, {summary['labels']:,} labels,")
        + cell(f" {summary['features']:,} features, in {summary['seconds']:.1f} s.")
    )
    console.print(
        cell("It takes inputs as PECOS did: rows scaled to length 1 only if PECOS was trained on such rows.")
    )
    console.print(cell(f"Next: hedgerow predict {model} INPUT, or hedgerow inspect {model}", "dim"))
