"""``hedgerow calibrate``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import hedgerow.cli.options as options

from .failures import ExitCode, Failure, failing_as, option_words
from .options import GOALS, expert_option, expert_share, search_settings
from .targets import check_new_file
from .terminal import cell, figures_table, print_json, say, show_progress

if TYPE_CHECKING:
    from hedgerow import Learned, Policy

    from .inputs import LabelledRows, OpenModel

# What each kind of guarantee is about, before its words.
_NAMES = {"wrong": "Accepted:", "missed": "Missed:", "review": "To review:"}


def calibrate(
    context: typer.Context,
    model: options.ModelFile,
    data: Annotated[
        Path,
        typer.Argument(
            help="Labelled data that MODEL was not trained on: a file, or a folder (its test part).",
            metavar="DATA",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write another model file. Default: replace MODEL.")
    ] = None,
    out_of_bag: Annotated[
        Path | None,
        typer.Option(
            metavar="TRAIN",
            help="Calibrate on the training data (of a folder: its train part) instead, each row by the"
            " members that have not seen it. Leaves more of DATA for the guarantees. MODEL must be trained"
            " with hedgerow fit --method bagging or boosted-bagging.",
        ),
    ] = None,
    centroids: Annotated[
        Path | None,
        typer.Option(
            metavar="TRAIN",
            help="Training data of MODEL (of a folder: its train part): OOD detection then also asks how"
            " close an input is to any label, and finds more inputs that use familiar words. Adds 3 to 4 % to"
            " the file of an ensemble. A model with a judge knows some of it without.",
        ),
    ] = None,
    part: options.PartName = None,
    labels_field: options.LabelsField = "labels",
    seed: options.Seed = 0,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    json: options.AsJson = False,
    verbose: options.Verbose = False,
    method: Annotated[
        options.CalibrationMethod, expert_option(help="The kind of calibration map.")
    ] = options.CalibrationMethod.isotonic,
    by: Annotated[
        options.CalibrationGroups,
        expert_option(
            help="One map for all labels, or one per group: by depth in the label tree, or by frequency."
        ),
    ] = options.CalibrationGroups.all,
    of: Annotated[
        options.CalibrationTarget, expert_option(help="Calibrate the mean of the members, or each member.")
    ] = options.CalibrationTarget.mean,
    share: Annotated[
        float | None,
        expert_share(
            "Share of the rows that fits calibration and OOD detection; the rest sets the thresholds."
            " Default: 0.5, and 0.2 with --out-of-bag."
        ),
    ] = None,
    broader: Annotated[
        bool,
        typer.Option("--broader", help="Also learn to answer with broader terms of MODEL's vocabulary."),
    ] = False,
    least_depth: Annotated[
        int,
        expert_option(
            min=0,
            help="With --broader: answer with terms at this depth or below; 1 leaves out those that nothing"
            " is broader than.",
        ),
    ] = 1,
    beam: options.Beam = None,
    candidates: options.Candidates = None,
    missing: options.MissingVotes = None,
) -> None:
    """Calibrate MODEL on held-out DATA and save it.

    The rows are split in two at random. One part fits the calibration of probabilities and the detection of
    out-of-distribution (OOD) inputs; the other sets the thresholds that `hedgerow decide` needs for its
    guarantees, and learns what `hedgerow predict --quality` tells. Rows that the model was trained on are
    left out.

    The guarantees hold for the search that was calibrated: MODEL keeps --beam, --candidates and --missing.
    To check the guarantees, run `hedgerow evaluate` on further data.

    \b
    Examples:
      hedgerow calibrate tags.hedgerow held-out.jsonl
      hedgerow calibrate tags.hedgerow held-out.jsonl --centroids train.jsonl
      hedgerow calibrate eurlex.hedgerow held-out/ --out-of-bag eurlex-4k/ --out calibrated.hedgerow
    """  # noqa: D301
    if out is not None:
        check_new_file(out, overwrite)
    from hedgerow import learn_from_held_out

    from .inputs import Selection, open_model

    opened = open_model(model, threads, **search_settings(beam, candidates, missing))
    if out_of_bag is not None:
        _check_bagged(opened)
    training: tuple[Any, Any] | None = None
    near: tuple[Any, Any] | None = None
    with show_progress(verbose) as report:
        held_out = opened.read_truth(Selection(data, part, labels_field, threads), report)
        if out_of_bag is not None:
            own = "train" if out_of_bag.is_dir() else None
            rows = opened.read_truth(Selection(out_of_bag, own, labels_field, threads), report)
            training = rows.inputs, rows.truth
        if centroids is not None:
            own = "train" if centroids.is_dir() else None
            rows = opened.read_truth(Selection(centroids, own, labels_field, threads), report)
            near = rows.inputs, rows.truth
        with failing_as(ExitCode.DATA, ValueError, TypeError, options=context.params):
            learned = learn_from_held_out(
                opened.classifier,
                held_out.inputs,
                held_out.truth,
                method=method.value,
                by=by.value,
                of=of.value,
                training=training,
                share=share,
                seed=seed,
                least_depth=least_depth if broader else None,
                centroids=near,
                progress=report,
            )
    kept = out_of_bag is None and _keep(
        opened,
        held_out,
        {
            "method": method.value,
            "by": by.value,
            "of": of.value,
            "share": share,
            "seed": seed,
            "least_depth": least_depth if broader else None,
            "centroids": centroids is not None,
        },
    )
    target = out or model
    with failing_as(ExitCode.WRITE):
        opened.classifier.save(target, overwrite=out is None or overwrite)
    policy, coarser = opened.classifier.policy_, opened.classifier.source.coarser
    if json:
        counts = {f"rows_{name}": value for name, value in asdict(learned).items() if type(value) is int}
        errors = {
            name: {str(k): value for k, value in of_cut.items()}
            for name, of_cut in (("ece_before", learned.before), ("ece_after", learned.after))
        }
        found = {"model": str(target), **counts, "quality": learned.quality, **errors}
        found["policy"] = policy.describe()
        print_json(found | ({} if coarser is None else {"broader": coarser.describe()}))
    else:
        _print(policy, learned)
        if coarser is not None:
            say("With decide --broader:")
            for guarantee in coarser.describe()["guarantees"]:
                say(guarantee["words"], "dim")
        if learned.quality:
            say("hedgerow predict --quality tells how many labels of an input are expected to be right.")
        if kept:
            say(f"{target}.data keeps these rows, so that hedgerow update can learn from them again.", "dim")
        say(f"Saved {target}")


def _keep(opened: OpenModel, rows: LabelledRows, settings: dict[str, Any]) -> bool:
    """Keep held-out rows with the records of the model, if it has any; whether it has."""
    from hedgerow.records.file import NoRecordsError

    names = [*opened.classifier.classes_.tolist(), *rows.unknown]
    truth = rows.truth
    labels = [
        [names[column] for column in truth.indices[begin:end].tolist()]
        for begin, end in zip(truth.indptr[:-1], truth.indptr[1:], strict=True)
    ]
    try:
        opened.classifier.keep_held_out(rows.inputs, labels, settings)
    except NoRecordsError:
        return False
    return True


def _check_bagged(model: OpenModel) -> None:
    method = model.classifier.method
    if "bagging" not in method:
        raise Failure(
            ExitCode.MODEL,
            f"--out-of-bag: {model.path} was trained with --method {method}, so every member has seen all"
            " training data; leave --out-of-bag out, or train with hedgerow fit --method bagging",
        )


def _print(policy: Policy, learned: Learned) -> None:
    if learned.out_of_bag:
        fitted = f"{learned.out_of_bag:,} training rows fit calibration; {learned.first:,} rows OOD detection"
    else:
        fitted = f"{learned.first:,} rows fit calibration and OOD detection"
    say(f"{fitted}; {learned.second:,} others set the thresholds.")
    if policy.left_out:
        say(f"{policy.left_out:,} of those were left out: the model was trained on them.")
    table = figures_table("Calibration error, %", [f"@{k}" for k in learned.before])
    for name, errors in (("before", learned.before), ("after", learned.after)):
        table.add_row(cell(name), *(cell(f"{100 * error:.2f}") for error in errors.values()))
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    for of in policy.standard():
        console.print(
            cell(f"{_NAMES[of.kind]} ", "bold")
            + cell(option_words(of.words, GOALS), "red" if of.refused else "")
        )
    console.print(cell(policy.limits(), "dim"))
    for note in policy.notes:
        say(note, "dim")
