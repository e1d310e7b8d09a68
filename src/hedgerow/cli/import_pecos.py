"""``hedgerow import-pecos``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from .failures import ExitCode, failing_as
from .options import AsJson, NewModelFile, Overwrite, Verbose
from .targets import check_new_file
from .terminal import print_json, say, show_progress


def import_pecos(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders written by PECOS's XLinearModel.save.", metavar="DIR")
    ],
    model: NewModelFile,
    overwrite: Overwrite = False,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Turn trained PECOS XR-Linear models into one model.

    Each DIR becomes a member of an ensemble: several of them give uncertainty without training again.
    Scores are those of PECOS. All must have the same features and labels, and the post-processor l3-hinge
    (PECOS's default) or sigmoid.

    Inputs are used as they are, as in PECOS: if it was trained on rows scaled to length 1, give such rows to
    predict, too.

    \b
    Examples:
      hedgerow import-pecos pecos-model/ tags.hedgerow
      hedgerow import-pecos seed-0/ seed-1/ seed-2/ ensemble.hedgerow
    """  # noqa: D301
    check_new_file(model, overwrite)
    import hedgerow
    from hedgerow.data import DataError

    start = time.perf_counter()
    with show_progress(verbose) as report:
        with failing_as(ExitCode.MODEL, DataError, ValueError):
            classifier = hedgerow.import_pecos(folders, progress=report)
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
    if json:
        print_json(summary)
        return
    members = "1 member" if len(folders) == 1 else f"{len(folders):,} members"
    say(
        f"Saved {model} ({decimal(summary['bytes'])}): {members}, {summary['labels']:,} labels,"
        f" {summary['features']:,} features, in {summary['seconds']:.1f} s."
    )
    say("Inputs are used as in PECOS: give rows scaled to length 1 if PECOS was trained on such.")
    say(f"Next: hedgerow predict {model} INPUT, or hedgerow inspect {model}", "dim")
