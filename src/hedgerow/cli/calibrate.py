"""``hedgerow calibrate``."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import hedgerow.cli.options as options

from .failures import ExitCode, Failure, failing_as, option_words
from .options import GOALS, expert_option, expert_share, search_settings
from .targets import check_new_file
from .terminal import Report, cell, figures_table, print_json, say, show_progress

if TYPE_CHECKING:
    from hedgerow import Learned, Policy

    from .inputs import LabelledRows, OpenModel, Selection

_OWN = 0.95  # of a train part that MODEL was trained on; some rows may have been left out
# What each kind of guarantee is about, before its words.
_NAMES = {"wrong": "Accepted:", "missed": "Missed:", "review": "To review:"}


def calibrate(
    context: typer.Context,
    model: options.ModelFile,
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Labelled data that MODEL was not trained on: a file, or a folder (its test part). Name"
            " several to read all of them.",
            metavar="DATA",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write another model file. Default: replace MODEL.")
    ] = None,
    out_of_bag: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="TRAIN",
            help="Calibrate on the training data (of a folder: its train part) instead, each row by the"
            " members that have not seen it. Leaves more of DATA for the guarantees. MODEL must be trained"
            " with hedgerow fit --method bagging or boosted-bagging. Repeat for each file that it was trained"
            " on.",
        ),
    ] = None,
    centroids: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="TRAIN",
            help="Training data of MODEL (of a folder: its train part): OOD detection then also asks how"
            " close an input is to any label, and finds more inputs that use familiar words. Default: the"
            " records kept with MODEL, the train part of DATA if MODEL was trained on it, or --out-of-bag, if"
            " its trees grow by less than 20 %. Repeat for each file.",
        ),
    ] = None,
    no_centroids: Annotated[
        bool, expert_option("--no-centroids", help="Leave out what --centroids adds.")
    ] = False,
    part: options.PartName = None,
    labels_field: options.LabelsField = "labels",
    label_separator: options.LabelSeparator = None,
    later_wins: options.LaterWins = False,
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
    from hedgerow.estimators.centroid_learning import PAYS

    from .inputs import Selection, open_model

    opened = open_model(model, threads, **search_settings(beam, candidates, missing))
    if out_of_bag:
        _check_bagged(opened)
    labelled = Selection(
        data, None, labels_field, threads, label_separator=label_separator, later_wins=later_wins
    )
    training: tuple[Any, Any] | None = None
    near: tuple[Any, Any] | bool = not no_centroids
    at_most = math.inf
    if no_centroids and centroids is not None:
        raise typer.BadParameter("--centroids and --no-centroids exclude each other", ctx=context)
    with show_progress(verbose) as report:
        held_out = opened.read_truth(replace(labelled, data=data, part=part), report)
        if out_of_bag:
            rows = opened.read_truth(replace(labelled, data=out_of_bag), report, "train")
            training = rows.inputs, rows.truth
        if centroids:
            rows = opened.read_truth(replace(labelled, data=centroids), report, "train")
            near = rows.inputs, rows.truth
        elif near and training is None:
            folders = all(path.is_dir() for path in data)
            folder = replace(labelled, data=data, part="train") if folders else None
            near, at_most = _own_training_data(opened, folder, report), PAYS
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
                centroids_at_most=at_most,
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
            "centroids": learned.centroids is not None,
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
        found["centroids"] = learned.centroids
        found["policy"] = policy.describe()
        print_json(found | ({} if coarser is None else {"broader": coarser.describe()}))
    else:
        _print(policy, learned)
        if coarser is not None:
            say("With decide --broader:")
            for guarantee in coarser.describe()["guarantees"]:
                say(guarantee["words"], "dim")
        _say_centroids(opened, learned, no_centroids)
        if learned.quality:
            say("hedgerow predict --quality tells how many labels of an input are expected to be right.")
        if kept:
            say(f"{target}.data keeps these rows, so that hedgerow update can learn from them again.", "dim")
        say(f"Saved {target}")


def _own_training_data(model: OpenModel, folder: Selection | None, report: Report) -> tuple[Any, Any] | bool:
    """Its records, or the train part of a folder that it was trained on; else True, for what it has."""
    from hedgerow.records.file import NoRecordsError

    try:
        return model.classifier.training_data()
    except NoRecordsError:
        if folder is None:
            return True
    try:
        rows = model.read_truth(folder, report)
    except Failure:  # there is none, and nobody asked for it
        return True
    seen = model.classifier.seen_in_training(rows.inputs)
    return (rows.inputs, rows.truth) if seen.mean() >= _OWN else True


def _say_centroids(model: OpenModel, learned: Learned, unwanted: bool) -> None:
    """Whether OOD detection asks how close an input is to any label, or how to let it."""
    if learned.centroids is not None:
        say(
            "OOD detection also asks how close an input is to any label: the centroids of labels add"
            f" {100 * learned.centroids:.1f} % to the trees (--no-centroids leaves them out)."
        )
    elif not unwanted and model.classifier.source.forest.rows_each == 1:
        say(
            "With --centroids TRAIN, the training data, OOD detection would also ask how close an input is to"
            " any label, and find more inputs that use familiar words.",
            "dim",
        )


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
