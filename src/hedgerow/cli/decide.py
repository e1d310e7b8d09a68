"""``hedgerow decide``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import hedgerow.cli.options as options

from .failures import ExitCode, failing_as, option_words
from .options import GOALS, cost_option, expert_option, expert_share, share_option
from .shift import FailOnShift, end_on_shift, note_no_shift, warn_of_shift
from .targets import check_table
from .terminal import cell, say, show_progress

if TYPE_CHECKING:
    from hedgerow import Decisions
    from hedgerow.vocabulary.naming import Naming

_SHOWN = 20
_LABELS = 6


def decide(
    context: typer.Context,
    model: options.ModelFile,
    input: options.Inputs,
    wrong_at_most: Annotated[
        float | None,
        share_option(
            "Accept labels, of which at most this share is wrong. Default, where no goal is given: 0.1."
        ),
    ] = None,
    wrong_of: Annotated[
        options.WrongOf | None,
        typer.Option(
            help="What --wrong-at-most is a share of: all accepted labels (labels); an input's accepted"
            " labels, mean over the inputs that are given any (answered), or over all inputs, where those"
            " that are given none count as 0 (inputs). Default: labels."
        ),
    ] = None,
    missed_at_most: Annotated[
        float | None,
        share_option(
            "List for review what it takes: at most this mean share of an input's right labels is missed, of"
            " those that the model knows."
        ),
    ] = None,
    review_at_most: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            help="List at most this many of the best labels for review, accepted ones included; says which"
            " share of the right labels they contain. Default, where no goal is given: 10.",
        ),
    ] = None,
    size: Annotated[
        float | None,
        typer.Option(help="Instead of these: accept at most this many labels per input on average."),
    ] = None,
    false_alarm: Annotated[
        float,
        share_option("Share of normal inputs that are flagged as out-of-distribution (OOD) by mistake."),
    ] = 0.05,
    k: Annotated[int, typer.Option("--k", "-k", min=0, help="List at least this many labels per input.")] = 5,
    out: options.LabelsOut = None,
    part: options.PartName = None,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines, for programs.")] = False,
    verbose: options.Verbose = False,
    wrong: Annotated[float | None, cost_option("The cost of accepting a wrong label. Default: 1.")] = None,
    missed: Annotated[float | None, cost_option("The cost of rejecting a true label. Default: 1.")] = None,
    look: Annotated[
        float | None, cost_option("The cost of a human who reviews a label. Default: 0.2.")
    ] = None,
    by: Annotated[
        options.LabelMeasure,
        expert_option(help="Accept labels of high probability, or of low uncertainty of this kind."),
    ] = options.LabelMeasure.probability,
    coverage: Annotated[
        float | None,
        expert_share(
            "Accept at least this mean share of the labels with a probability of one half or more,"
            " instead of what --wrong-at-most allows."
        ),
    ] = None,
    groups: Annotated[
        bool, expert_option("--groups", help="Keep --missed-at-most for rare and for frequent labels alike.")
    ] = False,
    confidence: Annotated[
        float, expert_share("The confidence with which --wrong-at-most and --review-at-most hold.")
    ] = 0.9,
    broader: Annotated[
        bool,
        typer.Option(
            "--broader",
            help="Where no narrow label can be accepted, accept the narrowest broader term that can be. MODEL"
            " needs a vocabulary, and hedgerow calibrate --broader.",
        ),
    ] = False,
    inputs_by: Annotated[
        options.InputMeasure | None,
        expert_option(
            help="Accept nothing for the inputs that are most uncertain by this: the best label is improbable"
            " (top), few labels are expected (expected), a sum over all labels is high (total, data,"
            " knowledge, variance), or the OOD score is (ood)."
        ),
    ] = None,
    inputs_wrong_at_most: Annotated[
        float | None,
        expert_share(
            "With --inputs-by: for at most this share of the other inputs, the best label is wrong."
        ),
    ] = None,
    inputs_coverage: Annotated[
        float | None, expert_share("With --inputs-by: accept labels for at least this share of the inputs.")
    ] = None,
    optimise: Annotated[
        str | None,
        typer.Option(
            metavar="MEASURE@K",
            help="Instead of a guarantee: accept K labels per input, chosen for all inputs together so that"
            " rare labels count like frequent ones: macro-f1@5, macro-precision@5 or macro-recall@5.",
        ),
    ] = None,
    only: options.Only = None,
    exclude: options.Exclude = None,
    only_scheme: options.OnlyScheme = None,
    only_subtree: options.OnlySubtree = None,
    exclude_scheme: options.ExcludeScheme = None,
    exclude_subtree: options.ExcludeSubtree = None,
    lang: options.Lang = None,
    fail_on_shift: FailOnShift = False,
) -> None:
    """Accept, review or reject each label, with a guarantee.

    MODEL must have been calibrated with `hedgerow calibrate`. Each of these guarantees can be asked for alone
    or with the others, and holds for inputs like those it was calibrated on:

    \b
      --wrong-at-most 0.1   of all labels that are accepted, at most 10 % are wrong
      --missed-at-most 0.2  of an input's right labels that the model knows, at most 20 % are neither accepted
                            nor listed for review, on average
      --review-at-most 10   the best 10 labels are listed, with the share of the right labels they contain

    Without any, it is --wrong-at-most 0.1 --review-at-most 10. Labels that are neither accepted nor listed
    for review are rejected. What cannot be guaranteed is said, with the reason, and does not stop the rest.
    With costs instead, each label is treated in the way that costs least, and nothing is guaranteed.

    With --only... or --exclude..., all other labels are rejected. The thresholds stay those for all labels,
    so the guarantees are about all labels together: of the labels that are left, a larger share can be missed
    or wrong.

    Guarantees hold for inputs like those that MODEL was calibrated on. The first line says so if these inputs
    are not (a test martingale, with at most 1 % of false alarms); --fail-on-shift makes that an exit status.

    JSON lines hold one object per input: {"id": ..., "labels": [{"label": ..., "decision": "accept",
    "probability": ..., ...}, ...], "input": {"is_ood": false, "p_value": ..., "precision": ..., ...}}. CSV
    and Parquet hold one row per label. The expected precision and recall of the best five labels, with
    intervals for 90 % of the inputs, are those of `hedgerow predict --quality`; they are there if MODEL has
    learned them. Labels of a model with a vocabulary have a name, too, and the table on a terminal shows
    that. Labels that are not listed are rejected. With --broader, terms that are accepted for all that is
    narrower have the decision "broader".

    \b
    Examples:
      hedgerow decide tags.hedgerow new.jsonl
      hedgerow decide tags.hedgerow new.jsonl --wrong-at-most 0.05 --missed-at-most 0.2
      hedgerow decide tags.hedgerow new.jsonl --wrong 1 --missed 2 --look 0.2 --out todo.csv
      hedgerow decide stw.hedgerow new.jsonl --wrong-at-most 0.1 --broader
      hedgerow decide tags.hedgerow new.jsonl --inputs-by ood --inputs-coverage 0.9
      hedgerow decide tags.hedgerow new.jsonl --optimise macro-f1@5
    """  # noqa: D301
    from hedgerow.decisions.costs import Costs
    from hedgerow.decisions.goals import Goal
    from hedgerow.decisions.planning import plan_for

    asked = {"wrong": wrong, "missed": missed, "look": look}
    costs = {name: value for name, value in asked.items() if value is not None}
    try:
        goal = Goal(
            wrong_at_most=wrong_at_most,
            wrong_of=wrong_of and wrong_of.value,
            missed_at_most=missed_at_most,
            review_at_most=review_at_most,
            costs=Costs(**costs) if costs else None,
            size=size,
            by=by.value,
            coverage=coverage,
            groups=groups,
            confidence=confidence,
            inputs_by=inputs_by and inputs_by.value,
            inputs_wrong_at_most=inputs_wrong_at_most,
            inputs_coverage=inputs_coverage,
            broader=broader,
        )
    except ValueError as error:
        raise typer.BadParameter(option_words(str(error), context.params), ctx=context) from error
    check_table(out, overwrite)
    from .allowed import Allowed, LabelChoice
    from .inputs import Selection, open_model
    from .label_files import LabelTable, print_labels, write_labels

    allowed = Allowed(
        LabelChoice.from_options(only, only_scheme, only_subtree),
        LabelChoice.from_options(exclude, exclude_scheme, exclude_subtree),
    )
    opened = open_model(model, threads)
    naming = opened.naming(lang)
    classifier = opened.classifier
    labels = allowed.labels_for(classifier)
    with failing_as(ExitCode.MODEL, ValueError, options=context.params):
        # Before any data are read: what cannot be guaranteed at all.
        source = classifier.source
        if optimise is None:
            plan_for(goal, source.policy, source.label_counts, source.coarser)
    with show_progress(verbose) as report:
        rows, inputs = opened.read_inputs(Selection(input, part, threads=threads), report)
        with failing_as(ExitCode.DATA, ValueError, TypeError, options=context.params):
            found = classifier.decide(
                inputs,
                **vars(goal),
                optimise=optimise,
                false_alarm=false_alarm,
                k=k,
                **labels,
                progress=report,
            )
    warn_of_shift(found.shift, for_programs=json and out is None)
    with failing_as(ExitCode.WRITE):
        table = LabelTable.of_decisions(found, rows.ids).named(naming)
        if out is not None:
            write_labels(out, table, overwrite)
        elif json:
            print_labels(table)
    if out is not None or not json:
        if out is None:
            Console(highlight=False).print(_table(found, rows.ids, naming))
        _print(found, out)
        note_no_shift(found.shift)
    end_on_shift(found.shift, fail_on_shift)


def _print(found: Decisions, out: str | None) -> None:
    if out is None and len(found) > _SHOWN:
        say(f"… and {len(found) - _SHOWN:,} more; --out FILE writes all, --json prints all", "dim")
    if not len(found):
        return
    means = ", ".join(f"{found.count(name).mean():.1f} to {name}" for name in ("accept", "review"))
    say(f"{len(found):,} inputs; labels per input on average: {means}")
    if (broader := found.broader) is not None:
        some = (found.count("accept") > 0) | (broader.indptr[1:] > broader.indptr[:-1])
        share = f"{some.mean():.0%} of the inputs have something accepted"
        say(f"Broader terms per input: {len(broader.terms) / len(found):.2f}; {share}")
    if found.is_ood is not None:
        say(f"{int(found.is_ood.sum()):,} inputs are out-of-distribution (OOD): check them")
    if not found.answered.all():
        say(f"{int((~found.answered).sum()):,} inputs are too uncertain to accept any label")
    if (quality := found.quality) is not None:
        right = quality.k * float(quality.columns()["precision"].mean())
        best = "the best label" if quality.k == 1 else f"the best {quality.k} labels"
        say(f"Of {best} of an input, {right:.1f} are expected to be right, on average")
    if found.expected_cost is not None:
        say(f"Expected cost of an input: {float(found.expected_cost.mean()):.4g}")
    for of in found.guarantees:
        say(option_words(of.words, GOALS), "red" if of.refused else "dim")
    for remark in found.remarks:
        say(remark, "dim")


def _table(found: Decisions, ids: Sequence[str | None] | None, naming: Naming | None) -> Table:
    table = Table(box=None, padding=(0, 1))
    broader = () if found.broader is None else ("broader",)
    for name in ("input", "accept", *broader, "review", "out-of-distribution"):
        table.add_column(cell(name, "dim"), overflow="fold")
    for row in range(min(_SHOWN, len(found))):
        of_input = found[row]
        flag = "" if not of_input.is_ood else f"yes, p = {of_input.p_value:.3f}"
        table.add_row(
            cell(row if ids is None or ids[row] is None else ids[row]),
            cell(_some(of_input.accept, naming), "green"),
            *(cell(_some(of_input.broader, naming), "green") for _ in broader),
            cell(_some(of_input.review, naming), "yellow"),
            cell(flag, "red"),
        )
    return table


def _some(labels: list[Any], naming: Naming | None) -> str:
    """The first few, by their names where they have one."""
    more = f" … {len(labels) - _LABELS} more" if len(labels) > _LABELS else ""
    shown = [(naming and naming.of(label)) or str(label) for label in labels[:_LABELS]]
    return ", ".join(shown) + more
