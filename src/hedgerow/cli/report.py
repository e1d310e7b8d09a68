"""``hedgerow report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

import hedgerow.cli.options as options

from .failures import ExitCode, failing_as
from .targets import check_new_file
from .terminal import say, show_progress


def report(
    model: options.ModelFile,
    data: options.LabelledData,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")],
    ood: options.Ood = None,
    part: options.PartName = None,
    labels_field: options.LabelsField = "labels",
    label_separator: options.LabelSeparator = None,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    verbose: options.Verbose = False,
    lang: options.Lang = None,
) -> None:
    """Write a web page about MODEL on DATA.

    It draws the figures of `hedgerow evaluate`, and shows the inputs that are most uncertain, those where
    the model is sure and wrong, with the votes of its members, and the labels that it knows least. Labels
    are shown by their names, where the model has a vocabulary. The page is one file and needs no network.

    \b
    Examples:
      hedgerow report eurlex.hedgerow eurlex-4k/ --out eurlex.html
      hedgerow report tags.hedgerow packages/ --labels-field tags --ood reuters/ --out tags.html
    """  # noqa: D301
    check_new_file(out, overwrite)
    import hedgerow
    from hedgerow.report import render
    from hedgerow.report.composition import EvaluatedData, compose
    from hedgerow.storage.atomic_file import atomic_file

    from .inputs import Selection, open_model

    opened = open_model(model, threads)
    classifier, naming = opened.classifier, opened.naming(lang)
    with show_progress(verbose) as progress:
        rows = opened.read_truth(
            Selection(data, part, labels_field, threads, label_separator=label_separator), progress
        )
        others = opened.read_ood(ood or [], threads, progress)
        with failing_as(ExitCode.DATA, ValueError, TypeError):
            found = hedgerow.evaluate(classifier, rows.inputs, rows.truth, ood=others, progress=progress)
            progress(0.0, "composing")
            content = compose(
                classifier,
                EvaluatedData(rows.inputs, rows.part.whole_texts, rows.part.ids, rows.unknown),
                found,
                title=f"{model.stem} on {', '.join(path.resolve().name for path in data)}",
                subtitle=f"{classifier.method}, {found.settings['members']} members,"
                f" {found.settings['labels']:,} labels; {rows.part.n:,} inputs",
                naming=naming,
            )
    page = render(content).encode()
    with failing_as(ExitCode.WRITE), atomic_file(out, overwrite=overwrite) as file:
        file.write(page)
    say(f"Written {out} ({decimal(len(page))}); open it in a browser.")
