"""``hedgerow evaluate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

import hedgerow.cli.options as options

from .failures import ExitCode, failing_as, option_words
from .options import GOALS, search_settings
from .shift import FailOnShift, end_on_shift, note_no_shift, warn_of_shift
from .targets import check_new_file
from .terminal import cell, figures_table, print_json, say, show_progress

if TYPE_CHECKING:
    from hedgerow import Evaluation
    from hedgerow.evaluation.results import Ranking

_MEASURES = {
    "variance": "variance",
    "total": "total uncertainty",
    "knowledge": "knowledge uncertainty",
    "data": "data uncertainty",
    "energy": "Energy",
}
_SCORES = {
    "ood": "OOD score",
    "variance": "variance",
    "total": "total uncertainty",
    "knowledge": "knowledge uncertainty",
    "joint_energy": "JointEnergy",
    "expected": "expected number of labels",
}


def evaluate(
    model: options.ModelFile,
    data: options.LabelledData,
    ood: options.Ood = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write all figures to this file; - prints them.")
    ] = None,
    part: options.PartName = None,
    labels_field: options.LabelsField = "labels",
    label_separator: options.LabelSeparator = None,
    later_wins: options.LaterWins = False,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    verbose: options.Verbose = False,
    beam: options.Beam = None,
    candidates: options.Candidates = None,
    missing: options.MissingVotes = None,
    fail_on_shift: FailOnShift = False,
    over_time: Annotated[
        bool,
        typer.Option(
            "--over-time",
            help="Judge no MODEL: train on the past of DATA and judge on what came later. Its options:"
            " hedgerow evaluate --over-time --help.",
        ),
    ] = False,
) -> None:
    """Measure how well MODEL ranks labels, and how good its uncertainty is.

    Good uncertainty finds wrong labels and, with --ood, out-of-distribution inputs. A label is wrong if it is
    true and not among the best ones, or among them and not true, where there are as many best labels as true
    ones. Labels of DATA that the model does not know count as missed.

    With --ood, the inputs of DATA2 are out-of-distribution (OOD). Their probabilities are low everywhere,
    so sums over labels (total, variance, JointEnergy, ...) are low for them; the OOD score is high.

    Of a calibrated MODEL, the first line says which guarantee DATA break, or that DATA are not like the
    held-out inputs, so that no guarantee is supported; --fail-on-shift makes that an exit status.

    \b
    Examples:
      hedgerow evaluate eurlex.hedgerow eurlex-4k/
      hedgerow evaluate tags.hedgerow packages/ --labels-field tags --ood reuters/ --json tags.json
      hedgerow evaluate --over-time records.jsonl --time-field year --out over-time.html
    """  # noqa: D301
    if json not in (None, "-"):
        check_new_file(str(json), overwrite)
    import orjson

    import hedgerow
    from hedgerow.storage.atomic_file import atomic_file

    from .inputs import Selection, open_model

    sources = ood or []
    opened = open_model(model, threads, **search_settings(beam, candidates, missing))
    with show_progress(verbose) as report:
        given = Selection(
            data, part, labels_field, threads, label_separator=label_separator, later_wins=later_wins
        )
        rows = opened.read_truth(given, report)
        others = opened.read_ood(sources, threads, report)
        with failing_as(ExitCode.DATA, ValueError, TypeError):
            found = hedgerow.evaluate(opened.classifier, rows.inputs, rows.truth, ood=others, progress=report)
    figures = found.to_dict()
    figures["settings"] |= {
        "model": str(model),
        "data": str(data[0]) if len(data) == 1 else [str(path) for path in data],
        "ood": {path.name: str(path) for path in sources},
    }
    warn_of_shift(found.shift, for_programs=json == "-")
    if json == "-":
        print_json(figures)
        end_on_shift(found.shift, fail_on_shift)
        return
    if json is not None:
        with failing_as(ExitCode.WRITE), atomic_file(json, overwrite=overwrite) as file:
            file.write(orjson.dumps(figures, option=orjson.OPT_INDENT_2) + b"\n")
    _print(found)
    note_no_shift(found.shift)
    end_on_shift(found.shift, fail_on_shift)


def _print(found: Evaluation) -> None:
    from hedgerow.inputs.training_record import MOST_SEEN

    console = Console(highlight=False)
    settings = found.settings
    unknown = settings["unknown_labels"]
    console.print(
        cell(f"{settings['inputs']:,} inputs, {settings['true_labels']:,} true labels")
        + cell(f", of which the model does not know {unknown:,}" if unknown else "", "dim"),
        soft_wrap=True,
    )
    if (seen := settings["seen_in_training"]) > MOST_SEEN * settings["inputs"]:
        say(f"The model was trained on {seen:,} of these inputs, so this says little about others.", "yellow")
    ranking = found.ranking
    rows: list[tuple[str, dict[int, float] | None]] = [
        ("precision", ranking.precision),
        ("recall", ranking.recall),
        ("nDCG", ranking.ndcg),
        ("propensity-scored precision", ranking.psp),
        ("macro-F1", ranking.macro_f1),
        *_hierarchical(ranking),
        ("calibration error", {k: found.reliability[k].ece for k in found.reliability}),
    ]
    table = figures_table("How well it ranks labels, %", [f"@{k}" for k in ranking.precision])
    for name, values in rows:
        if values is not None:
            table.add_row(cell(name), *(cell(f"{100 * value:.2f}") for value in values.values()))
    console.print(table)
    table = figures_table("How well uncertainty finds wrong labels, %", ["AUROC", "AUPR", "AURC"])
    for measure, of in found.misclassification.items():
        figures = (of.auroc, of.aupr, of.risk_coverage.area)
        table.add_row(cell(_MEASURES[measure]), *(cell(f"{100 * value:.2f}") for value in figures))
    console.print(table)
    for name, scores in found.ood.items():
        title = f"How well it detects out-of-distribution inputs: {name}, %"
        table = figures_table(title, ["OOD inputs score", "AUROC", "AUPR", "FPR@95"])
        for score, title in _SCORES.items():
            if score in scores:
                of_score = scores[score]
                detection = of_score.detection
                shares = (detection.auroc, detection.aupr, detection.fpr95)
                table.add_row(
                    cell(title), cell(of_score.direction), *(cell(f"{100 * share:.2f}") for share in shares)
                )
        console.print(table)
    if found.decisions:
        _print_decisions(console, found)
    seconds = found.seconds
    part = 100 * seconds["judge"] / seconds["predict"]
    say(f"Predicting took {seconds['predict']:.1f} s, judging {part:.0f} % of that.", "dim")


def _hierarchical(ranking: Ranking) -> list[tuple[str, dict[int, float] | None]]:
    """What hierarchical scores there are, a row each."""
    scores = ranking.hierarchical
    if scores is None:
        return []
    names = {"precision": "hierarchical precision", "recall": "hierarchical recall", "f1": "hierarchical F1"}
    return [(title, {k: getattr(of, name) for k, of in scores.items()}) for name, title in names.items()]


def _print_decisions(console: Console, found: Evaluation) -> None:
    """What the policy guarantees beside what was achieved, or why it guarantees nothing."""
    names = ["guaranteed, %", "achieved, %", "labels per input"]
    table = figures_table("What its policy guarantees, and what was achieved", names)
    for of in found.decisions:
        promised = of.guarantee
        figures = ["refused"]
        if promised.promised is not None:
            sign = "≥" if promised.is_kept_above else "≤"
            achieved = "" if of.achieved is None else f"{100 * of.achieved:.2f}"
            labels = "" if of.labels is None else f"{of.labels:.2f}"
            figures = [f"{sign} {100 * promised.promised:.4g}", achieved, labels]
        style = "" if of.kept is not False else "red"
        table.add_row(cell(promised.title), *(cell(figure, style) for figure in figures))
    console.print(table)
    if found.flagged is not None:
        say(f"{100 * found.flagged:.1f} % of the inputs are flagged as OOD; 5 % are expected.", "dim")
    for of in found.decisions:
        if of.guarantee.refused:
            say(f"{of.guarantee.title}: {option_words(of.guarantee.refused, GOALS)}", "dim")
