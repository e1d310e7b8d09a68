"""``hedgerow update``."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import hedgerow.cli.options as options

from .failures import ExitCode, Failure, failing_as
from .targets import check_new_file
from .terminal import print_json, say, show_progress

if TYPE_CHECKING:
    from hedgerow import HedgerowClassifier, UpdateReport

    from .inputs import OpenModel, Selection
    from .terminal import Report

_SHOWN = 10  # labels that are named


def update(
    context: typer.Context,
    model: options.ModelFile,
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            help="New and corrected records: files, or folders (their train part).", metavar="[DATA]..."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write another model file. Default: replace MODEL.")
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Train no longer on the record with this id. It stays in MODEL.data until the next full"
            " fit.",
        ),
    ] = None,
    forget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Remove the record with this id from MODEL and MODEL.data without a trace. Takes as long as"
            " a fit; the files have the bytes that they would have if the record had never been there.",
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW", help="Rename a label; merge it with NEW, where records have that already."
        ),
    ] = None,
    remove_label: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="Take a label from all records.")
    ] = None,
    successors: Annotated[
        bool,
        typer.Option(
            "--successors", help="Rename labels that MODEL's vocabulary has withdrawn to their successors."
        ),
    ] = False,
    records: Annotated[
        Path | None,
        typer.Option(
            metavar="TRAIN",
            help="The data that MODEL was trained on, where MODEL.data is missing: the same records in the"
            " same order.",
        ),
    ] = None,
    fail_on_drop: Annotated[
        bool,
        typer.Option(
            "--fail-on-drop",
            help=f"End with status {int(ExitCode.DROPPED)} if calibration or guarantees had to be dropped.",
        ),
    ] = False,
    labels_field: options.LabelsField = "labels",
    label_separator: options.LabelSeparator = None,
    later_wins: options.LaterWins = False,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> int:
    """Teach MODEL new records, corrections and labels without a full fit.

    A record whose id is known corrects that record. Labels may be new. Only what changes enough is trained
    again; the rest of MODEL stays as it is. When a quarter of the records has changed since the last full
    fit, everything is trained again.

    The records are in MODEL.data, beside MODEL, which hedgerow fit writes. If hedgerow calibrate was run,
    its data are there, too, and calibration and guarantees are learned again from them. MODEL is replaced
    when all is done: a kill at any moment leaves the old model or the new one.

    \b
    Examples:
      hedgerow update tags.hedgerow new.jsonl
      hedgerow update tags.hedgerow reviewed.jsonl --out candidate.hedgerow
      hedgerow update tags.hedgerow --rename colour=color --remove-label obsolete
      hedgerow update tags.hedgerow --forget record-17
    """  # noqa: D301
    asked = (data, remove, forget, rename, remove_label, successors)
    if not any(asked):
        raise typer.BadParameter(
            "there is nothing to do; give DATA, or say what to remove, rename or forget", ctx=context
        )
    if forget and any((data, remove, rename, remove_label, successors)):
        raise typer.BadParameter(
            "it is done alone, so that it leaves no trace; run hedgerow update again for the rest",
            ctx=context,
            param_hint="--forget",
        )
    pairs = _pairs(context, rename or [])
    target = model if out is None else out
    check_new_file(target, overwrite or out is None)
    from .inputs import Selection, open_model

    opened = open_model(model, threads)
    classifier = opened.classifier
    training = Selection(
        data or [],
        None,
        labels_field,
        threads,
        label_separator=label_separator,
        unique_ids=True,
        later_wins=later_wins,
    )
    with show_progress(verbose) as report:
        if records is not None:
            _adopt(opened, replace(training, data=records), report)
        if successors:
            pairs = _successors(classifier) | pairs
        with failing_as(ExitCode.DATA, ValueError, TypeError):
            if forget:
                done = classifier.forget(forget, progress=report)
            else:
                name = partial(_as_label, classifier)
                inputs, labels, ids = None, None, None
                if data:
                    inputs, labels, ids = _read(opened, replace(training, data=data), report)
                done = classifier.update(
                    inputs,
                    labels,
                    ids=ids,
                    remove=remove or (),
                    rename={
                        _as_label(classifier, old): _as_label(classifier, new) for old, new in pairs.items()
                    },
                    remove_labels=[name(label) for label in remove_label or []],
                    progress=report,
                )
        report(0.0, "saving")
        with failing_as(ExitCode.WRITE):
            classifier.save(target, overwrite=overwrite or out is None)
    if json:
        print_json({"model": str(target), **asdict(done)})
    else:
        _print(done, target, forget is not None)
    return int(ExitCode.DROPPED) if fail_on_drop and done.dropped else int(ExitCode.OK)


def _pairs(context: typer.Context, texts: list[str]) -> dict[str, str]:
    """Labels and their new names."""
    pairs: dict[str, str] = {}
    for text in texts:
        old, sign, new = text.partition("=")
        if not (old and sign and new):
            raise typer.BadParameter(f"{text!r} is not OLD=NEW", ctx=context, param_hint="--rename")
        if pairs.setdefault(old, new) != new:
            raise typer.BadParameter(
                f"{old!r} is renamed twice, to {pairs[old]!r} and to {new!r}; choose one",
                ctx=context,
                param_hint="--rename",
            )
    return pairs


def _as_label(classifier: HedgerowClassifier, text: str) -> Any:
    """A label as the model has it: a string, or a number."""
    if classifier.classes_.dtype == object:
        return text
    try:
        return int(text)
    except ValueError:
        raise Failure(ExitCode.USAGE, f"{text!r} is no label: those of the model are numbers") from None


def _successors(classifier: HedgerowClassifier) -> dict[str, str]:
    """The labels that the vocabulary has withdrawn, with what follows them in the end."""
    vocabulary = classifier.source.vocabulary
    if vocabulary is None:
        raise Failure(
            ExitCode.MODEL,
            "--successors: the model has no vocabulary; give it one with hedgerow vocabulary set",
        )
    counts = classifier.label_counts_
    found: dict[str, str] = {}
    for place, label in enumerate(classifier.classes_.tolist()):
        if counts is not None and counts[place] == 0:
            continue
        last, seen = str(label), {str(label)}
        while last in vocabulary and (after := vocabulary.successor(last)) is not None and after not in seen:
            last = after
            seen.add(last)
        if last != label:
            found[label] = last
    return found


def _adopt(opened: OpenModel, rows: Selection, report: Report) -> None:
    """Take training data that the user names for the records."""
    part, inputs = opened.read_inputs(rows, report, default_part="train")
    labels = rows.labels_of(part, "learn from")
    with failing_as(ExitCode.DATA, ValueError):
        opened.classifier.adopt_records(inputs, labels, classes=part.label_names, ids=part.ids)


def _read(
    opened: OpenModel, rows: Selection, report: Report
) -> tuple[Any, list[list[Any]], list[str | None]]:
    """New records, their labels as lists, and their ids."""
    import numpy as np

    part, inputs = opened.read_inputs(rows, report, default_part="train")
    Y = rows.labels_of(part, "learn from")
    names = range(Y.shape[1]) if part.label_names is None else part.label_names
    labels = [[names[column] for column in piece.tolist()] for piece in np.split(Y.indices, Y.indptr[1:-1])]
    return inputs, labels, [None] * part.n if part.ids is None else [*part.ids]


def _print(done: UpdateReport, target: Path, forgotten: bool) -> None:
    event = done.event
    if forgotten:
        say(f"Forgotten without a trace; {event.records:,} records are left.")
    else:
        counts = (
            (event.added, "added"),
            (event.corrected, "corrected"),
            (event.removed, "removed"),
        )
        said = ", ".join(f"{count:,} {what}" for count, what in counts if count) or "none changed"
        say(f"Records: {said}; the model now knows {event.records:,}.")
    if done.labels_added:
        shown = ", ".join(map(str, done.labels_added[:_SHOWN]))
        more = ", ..." if len(done.labels_added) > _SHOWN else ""
        say(f"New labels ({len(done.labels_added):,}): {shown}{more}")
    if event.labels_renamed or event.labels_removed:
        say(f"Labels: {event.labels_renamed:,} renamed, {event.labels_removed:,} removed.")
    if done.refitted is not None and not forgotten:
        say(f"Everything was trained again: {done.refitted}.")
    if done.learned_again:
        say(f"Learned again from the held-out data that were kept: {', '.join(done.learned_again)}.")
    if done.dropped:
        say(
            "Dropped, because the held-out data were not kept, or too few of them are left:"
            f" {', '.join(done.dropped)}. Probabilities are not calibrated, and decide guarantees nothing. To"
            " learn them again: hedgerow calibrate"
            f" {target} HELD_OUT_DATA",
            "red",
        )
    say(f"Saved {target}")
