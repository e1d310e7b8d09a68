"""``hedgerow drift``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.filesize import decimal

import hedgerow.cli.options as options

from .failures import ExitCode, failing_as
from .shift import FailOnShift, end_on_shift, note_no_shift, warn_of_shift
from .targets import check_new_file
from .terminal import cell, figures_table, print_json, say, show_progress

if TYPE_CHECKING:
    from hedgerow.shift import Drift
    from hedgerow.vocabulary.naming import Naming

    from .inputs import OpenModel


def drift(
    model: options.ModelFile,
    input: options.Inputs,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a web page with pictures to this file.")
    ] = None,
    part: options.PartName = None,
    labels_field: options.LabelsField = "labels",
    label_separator: options.LabelSeparator = None,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    json: options.AsJson = False,
    verbose: options.Verbose = False,
    lang: options.Lang = None,
    fail_on_shift: FailOnShift = False,
) -> None:
    """Compare new inputs with those that MODEL was calibrated on.

    Compared are inputs (OOD score, words), labels given (probability of 0.5 or more), and uncertainty; where
    the inputs have labels, also how many of these MODEL has never seen. The first line says if guarantees are
    not supported for such inputs. MODEL must have been calibrated with `hedgerow calibrate`.

    A test names what has drifted: the test of Kolmogorov and Smirnov for numbers, Fisher's exact test for
    labels. Without drift, anything is named in 1 % of the cases.

    \b
    Examples:
      hedgerow drift tags.hedgerow today.jsonl
      hedgerow drift tags.hedgerow today.jsonl --out drift.html
      hedgerow drift tags.hedgerow today.jsonl --fail-on-shift --json
    """  # noqa: D301
    if out is not None:
        check_new_file(out, overwrite)
    from hedgerow.report import render
    from hedgerow.report.drift import compose_drift
    from hedgerow.shift import drift as compare
    from hedgerow.storage.atomic_file import atomic_file

    from .inputs import Selection, open_model

    opened = open_model(model, threads)
    naming = opened.naming(lang)
    with failing_as(ExitCode.MODEL, ValueError):
        _check_calibrated(opened)
    with show_progress(verbose) as report:
        rows, inputs = opened.read_inputs(
            Selection(input, part, labels_field, threads, label_separator=label_separator), report
        )
        with failing_as(ExitCode.DATA, ValueError, TypeError):
            truth, strange = opened.truth_of(rows)
            found = compare(opened.classifier.source, inputs, truth, strange=strange, progress=report)
    warn_of_shift(found.shift, for_programs=json)
    if out is not None:
        page = render(
            compose_drift(found, f"{model.stem}: drift in {', '.join(path.name for path in input)}", naming)
        ).encode()
        with failing_as(ExitCode.WRITE), atomic_file(out, overwrite=overwrite) as file:
            file.write(page)
    if json:
        print_json(found.to_dict())
    else:
        _print(found, naming)
        if out is not None:
            say(f"Written {out} ({decimal(len(page))}); open it in a browser.")
    end_on_shift(found.shift, fail_on_shift)


def _check_calibrated(opened: OpenModel) -> None:
    from hedgerow.shift.watch import NO_REFERENCE

    source = opened.classifier.source
    if source.policy is None:
        raise ValueError("the model is not calibrated, so it remembers no inputs; run hedgerow calibrate")
    if source.reference is None:
        raise ValueError(NO_REFERENCE)


def _print(found: Drift, naming: Naming | None) -> None:
    from hedgerow.report.drift import label_sentences

    console = Console(highlight=False, soft_wrap=True)
    shift = found.shift
    title = f"{shift.inputs:,} inputs beside {shift.held_out:,} held-out ones, means"
    table = figures_table(title, ["held-out", "new", "p-value", ""])
    for signal in found.signals:
        mark = cell("drifted", "red") if signal.drifted else cell("")
        figures = (f"{signal.held_out:.3g}", f"{signal.new:.3g}", f"{signal.p_value:.2g}")
        table.add_row(cell(signal.words), *map(cell, figures), mark)
    if (unknown := found.unknown) is not None:
        mark = cell("drifted", "red") if unknown.drifted else cell("")
        shares = (f"{100 * unknown.held_out:.1f} %", f"{100 * unknown.new:.1f} %", f"{unknown.p_value:.2g}")
        table.add_row(cell("true labels never seen in training"), *map(cell, shares), mark)
    console.print(table)
    say(
        f"{found.labels_given:,} different labels have a probability of 0.5 or more; {found.never_given:,} of"
        " these no held-out input was given."
    )
    for count, what in (
        (found.given_not_in_vocabulary, "of these"),
        (unknown and unknown.not_in_vocabulary, "different true labels"),
    ):
        if count:
            say(f"{count:,} {what} are not in the vocabulary.")
    for sentence in label_sentences(found, naming):
        say(sentence)
    note_no_shift(shift)
