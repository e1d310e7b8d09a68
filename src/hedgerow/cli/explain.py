"""``hedgerow explain``."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import hedgerow.cli.options as options

from .failures import ExitCode, Failure, failing_as
from .terminal import cell, print_json, show_progress

if TYPE_CHECKING:
    from hedgerow import Explanation
    from hedgerow.explanation import FeatureEffect
    from hedgerow.vocabulary.naming import Naming

    from .inputs import OpenModel, Selection
    from .terminal import Report

_VOTES_SHOWN = 20


def explain(
    model: options.ModelFile,
    text_or_file: Annotated[
        str,
        typer.Argument(
            help="A text (or a JSON object of several), - for one on stdin, or with --row a file.",
            metavar="TEXT_OR_FILE",
        ),
    ],
    label: Annotated[
        str | None, typer.Option(help="The label to explain. Default: the most probable one.")
    ] = None,
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="Words to show of each kind.")] = 10,
    row: Annotated[int | None, typer.Option(min=0, help="Explain this row of a file, from 0.")] = None,
    only: options.Only = None,
    exclude: options.Exclude = None,
    only_scheme: options.OnlyScheme = None,
    only_subtree: options.OnlySubtree = None,
    exclude_scheme: options.ExcludeScheme = None,
    exclude_subtree: options.ExcludeSubtree = None,
    lang: options.Lang = None,
    part: options.PartName = None,
    threads: options.Threads = 0,
    json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Show which words speak for or against a label of one input.

    It also shows on which words the members of an ensemble disagree and, of a model with a judge, what the
    judge saw and how that moved its answer; where names of a vocabulary are asked for, where they stand and
    what they changed. The effect of a word is how much the logarithm of the label's probability would fall
    without it, names left out. With --only... or --exclude..., the most probable of the labels
    that are left is explained.

    \b
    Examples:
      hedgerow explain tags.hedgerow "an address book for the terminal"
      hedgerow explain tags.hedgerow - --label role::program < description.txt
      hedgerow explain eurlex.hedgerow eurlex-4k/ --row 17 --json
    """  # noqa: D301
    import hedgerow

    from .allowed import Allowed, LabelChoice
    from .inputs import Selection, open_model

    allowed = Allowed(
        LabelChoice.from_options(only, only_scheme, only_subtree),
        LabelChoice.from_options(exclude, exclude_scheme, exclude_subtree),
    )
    if label is not None and allowed != Allowed():
        raise Failure(
            ExitCode.USAGE, "--label names the label to explain; leave out --only... and --exclude..."
        )
    opened = open_model(model, threads)
    naming = opened.naming(lang)
    wanted = None if label is None else _as_label(opened, label)
    labels = allowed.labels_for(opened.classifier)
    if opened.reads_texts and row is None:
        x: Any = _one_input(opened, _one_text(text_or_file))
    else:
        with show_progress(verbose) as report:
            x = _one_row(opened, Selection(Path(text_or_file), part, threads=threads), row, report)
    with failing_as(ExitCode.DATA, ValueError, TypeError):
        if allowed != Allowed():
            inputs = [x] if opened.reads_texts else x
            wanted = opened.classifier.top(inputs, 1, **labels).labels.tolist()[0][0]
        explanation = hedgerow.explain(opened.classifier, x, wanted)
    if json:
        print_json(_to_json(explanation, n, naming))
    else:
        what = "words" if opened.reads_texts else "features"
        print_explanation(Console(highlight=False), explanation, n, what, naming)


def _as_label(model: OpenModel, label: str) -> Any:
    from hedgerow.explanation import label_number

    wanted: Any = label
    if model.classifier.classes_.dtype != object:
        try:
            wanted = int(label)
        except ValueError:
            raise Failure(
                ExitCode.USAGE, f"--label {label}: the labels of this model are numbers; give one"
            ) from None
    with failing_as(ExitCode.USAGE, ValueError):
        label_number(model.classifier.source, wanted)
    return wanted


def _one_text(text_or_file: str) -> str:
    if text_or_file == "-":
        with failing_as(ExitCode.DATA, ValueError):
            return sys.stdin.read()
    if os.path.isfile(text_or_file):
        raise Failure(
            ExitCode.USAGE,
            f"{text_or_file} is a file; choose one of its texts with --row, or give a text: on the command"
            " line, or on stdin with -",
        )
    return text_or_file


def _one_input(model: OpenModel, text: str) -> Any:
    """A text, or the texts of a record as JSON."""
    fields = model.classifier.source.reader.text_fields
    if fields is None or not text.lstrip().startswith("{"):
        return text
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _one_row(model: OpenModel, rows: Selection, row: int | None, report: Report) -> Any:
    part, inputs = model.read_inputs(rows, report)
    if row is None and part.n > 1:
        raise Failure(ExitCode.USAGE, f"{rows.path} has {part.n:,} inputs; choose one with --row, from 0")
    row = row or 0
    if row >= part.n:
        raise Failure(ExitCode.USAGE, f"--row is {row}, but {rows.path} has rows 0 to {part.n - 1}")
    return inputs[row] if model.reads_texts else inputs[[row]]


def _to_json(explanation: Explanation, n: int, naming: Naming | None) -> dict[str, Any]:
    from hedgerow.judge.name_verdict import name_entry
    from hedgerow.judge.verdict import verdict_entry

    names = explanation.features.tolist()
    fields = [None] * len(names) if explanation.fields is None else explanation.fields.tolist()
    place = {key: number for number, key in enumerate(zip(names, fields, strict=True))}

    def effects(found: list[FeatureEffect]) -> list[dict[str, Any]]:
        return [
            {
                "feature": one.feature,
                **({} if explanation.fields is None else {"field": one.field}),
                "value": one.value,
                "effect": one.effect,
                "disagreement": one.disagreement,
                **({} if one.members_effect is None else {"members_effect": one.members_effect}),
                **({} if one.wide_effect is None else {"wide_effect": one.wide_effect}),
                "effects": _known(explanation.effects[place[one.feature, one.field]].tolist()),
            }
            for one in found
        ]

    return {
        "label": explanation.label,
        **({} if naming is None else {"name": naming.of(explanation.label)}),
        "probability": explanation.probability,
        "votes": explanation.votes,
        "members_probability": explanation.members_probability,
        "calibrated": explanation.calibrated,
        "found": explanation.found,
        "judge": None if explanation.verdict is None else verdict_entry(explanation.verdict),
        "names": None if explanation.names is None else name_entry(explanation.names),
        "sentences": explanation.sentences(),
        "without_dropout": explanation.without_dropout,
        "features": len(explanation),
        "for": effects(explanation.for_(n)),
        "against": effects(explanation.against(n)),
        "disputed": effects(explanation.disputed(n)),
        "bias": _known(explanation.bias.tolist()),
        "paths": [
            None
            if path is None
            else {"nodes": path.nodes, "scores": path.scores, "probability": path.probability}
            for path in explanation.paths
        ],
    }


def _known(values: list[float]) -> list[float | None]:
    """JSON has no NaN."""
    return [None if math.isnan(value) else value for value in values]


def print_explanation(
    console: Console, explanation: Explanation, n: int, what: str, naming: Naming | None = None
) -> None:
    """Print the label with its votes, and what speaks for it, against it, and is disputed."""
    label = explanation.label if naming is None else naming.shown(explanation.label)
    console.print(
        Text.assemble(cell(label, "bold"), cell(f"  probability {_percent(explanation.probability)}"))
    )
    for sentence in explanation.sentences():
        console.print(cell(f"  {sentence}"), soft_wrap=True)
    several = explanation.members > 1
    if several:
        console.print(cell(_votes(explanation), "dim"), soft_wrap=True)
    if explanation.without_dropout:
        console.print(cell("This explains the single model, without dropout.", "dim"))
    if not len(explanation):
        console.print(
            cell(f"The model knows none of the input's {what}; it predicts the same for every such input."),
            soft_wrap=True,
        )
        return
    if explanation.names is not None and all(path is None for path in explanation.paths):
        console.print(cell(f"No member knows the label, so {what} say nothing of it.", "dim"))
        return
    console.print()
    sections = [(f"{what} for it", explanation.for_(n)), (f"{what} against it", explanation.against(n))]
    if several:
        sections.append((f"{what} on which the members disagree", explanation.disputed(n)))
    for title, found in sections:
        console.print(cell(title.capitalize(), "bold"))
        console.print(_effects(found, several) if found else cell("  none", "dim"))
    judged = explanation.verdict is not None
    whose = "the judge's probability" if judged else "the probability"
    if explanation.names is not None:
        whose += " without names"
    alone = "the trees alone" + (", and the wide classifier" if explanation.wide_effect is not None else "")
    apart = f"; beside it, the same for {alone}" if judged else ""
    console.print(
        cell(
            f"Effect: how much the logarithm of {whose} would fall without it{apart}; {len(explanation)}"
            f" {what} of the input are known.",
            "dim",
        ),
        soft_wrap=True,
    )


def _percent(probability: float) -> str:
    return f"{100 * probability:.1f} %"


def _votes(explanation: Explanation) -> str:
    votes = [f"{100 * vote:.0f}" for vote in explanation.votes.tolist()[:_VOTES_SHOWN]]
    more = " …" if explanation.members > _VOTES_SHOWN else ""
    lacking = sum(path is None for path in explanation.paths)
    unknown = f"; {lacking} of them never learned the label" if lacking else ""
    alone = " before the judge" if explanation.verdict is not None else ""
    if explanation.names is not None and not alone:
        alone = " without names"
    return f"{explanation.members} members vote {' '.join(votes)}{more} %{alone}{unknown}"


def _effects(found: list[FeatureEffect], several: bool) -> Table:
    heard = [
        (title, values)
        for title, values in (
            ("trees", [one.members_effect for one in found]),
            ("wide", [one.wide_effect for one in found]),
        )
        if found[0].members_effect is not None and values[0] is not None
    ]
    table = Table(box=None, padding=(0, 1), pad_edge=True, show_header=several or bool(heard))
    table.add_column("")
    for title in ("effect", *(title for title, _ in heard)):
        table.add_column(cell(title, "dim"), justify="right")
    if several:
        table.add_column(cell("between members", "dim"), justify="right")
        table.add_column(cell("members", "dim"))
    for row, one in enumerate(found):
        sides = [
            f"{count} {side}"
            for count, side in ((one.members_for, "for"), (one.members_against, "against"))
            if count
        ]
        table.add_row(
            cell(f"{one.feature}" if one.field is None else f"{one.feature} ({one.field})"),
            cell(f"{one.effect:+.3f}", "green" if one.effect > 0 else "red"),
            *(cell(f"{values[row]:+.3f}", "dim") for _, values in heard),
            *([cell(f"± {one.disagreement:.3f}"), cell(", ".join(sides), "dim")] if several else []),
        )
    return table
