"""``hedgerow explain``."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.loading import load
from hedgerow.estimators.text import HedgerowTextClassifier
from hedgerow.explanation import Explanation, FeatureEffect, explain, label_number
from hedgerow.storage.container import ModelFileError

from .failures import ExitCode, Failure, failing_as
from .inputs import read_inputs
from .terminal import cell, print_json, progress_bar

_VOTES_SHOWN = 20


def run_explain(
    model: Path,
    text_or_file: str,
    label: str | None,
    n: int,
    row: int | None,
    part_name: str | None,
    threads: int,
    as_json: bool,
) -> None:
    """Load, find the one input, explain and print."""
    with failing_as(ExitCode.MODEL, ModelFileError):
        classifier = load(model)
    classifier.set_params(n_jobs=threads or -1)
    wanted = None if label is None else _as_label(classifier, label)
    x = _input(model, classifier, text_or_file, row, part_name, threads)
    with failing_as(ExitCode.DATA, ValueError, TypeError):
        explanation = explain(classifier, x, wanted)
    reads_text = isinstance(classifier, HedgerowTextClassifier)
    if as_json:
        print_json(_to_json(explanation, n))
    else:
        print_explanation(Console(highlight=False), explanation, n, "words" if reads_text else "features")


def _as_label(classifier: HedgerowClassifier, label: str) -> Any:
    wanted: Any = label
    if classifier.classes_.dtype != object:
        try:
            wanted = int(label)
        except ValueError:
            raise Failure(
                ExitCode.USAGE, f"--label {label}: the labels of this model are numbers; give one"
            ) from None
    with failing_as(ExitCode.USAGE, ValueError):
        label_number(classifier, wanted)
    return wanted


def _input(
    model: Path,
    classifier: HedgerowClassifier,
    text_or_file: str,
    row: int | None,
    part_name: str | None,
    threads: int,
) -> Any:
    if isinstance(classifier, HedgerowTextClassifier) and row is None:
        if text_or_file == "-":
            with failing_as(ExitCode.DATA, ValueError):
                return sys.stdin.read()
        if os.path.isfile(text_or_file):
            raise Failure(
                ExitCode.USAGE,
                f"{text_or_file} is a file; choose one of its texts with --row, or give a text:"
                " on the command line, or on stdin with -",
            )
        return text_or_file
    data = Path(text_or_file)
    with progress_bar() as report:
        part, inputs = read_inputs(model, classifier, data, part_name, threads, report)
    if row is None and part.n > 1:
        raise Failure(ExitCode.USAGE, f"{data} has {part.n:,} inputs; choose one with --row, from 0")
    row = row or 0
    if row >= part.n:
        raise Failure(ExitCode.USAGE, f"--row is {row}, but {data} has rows 0 to {part.n - 1}")
    return inputs[row] if isinstance(classifier, HedgerowTextClassifier) else inputs[[row]]


def _to_json(explanation: Explanation, n: int) -> dict[str, Any]:
    place = {feature: number for number, feature in enumerate(explanation.features.tolist())}

    def effects(found: list[FeatureEffect]) -> list[dict[str, Any]]:
        return [
            {
                "feature": one.feature,
                "value": one.value,
                "effect": one.effect,
                "disagreement": one.disagreement,
                "effects": _known(explanation.effects[place[one.feature]].tolist()),
            }
            for one in found
        ]

    return {
        "label": explanation.label,
        "probability": explanation.probability,
        "votes": explanation.votes,
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


def print_explanation(console: Console, explanation: Explanation, n: int, what: str) -> None:
    """Print the label with its votes, and what speaks for it, against it, and is disputed."""
    console.print(
        Text.assemble(
            cell(explanation.label, "bold"), cell(f"  probability {_percent(explanation.probability)}")
        )
    )
    several = explanation.members > 1
    if several:
        console.print(cell(_votes(explanation), "dim"), soft_wrap=True)
    if explanation.without_dropout:
        console.print(cell("Explained is the single model, without dropout.", "dim"))
    if not len(explanation):
        console.print(
            cell(f"The model knows none of the input's {what}; it says this of every such input."),
            soft_wrap=True,
        )
        return
    console.print()
    sections = [
        (f"{what} for it", explanation.for_(n)),
        (f"{what} against it", explanation.against(n)),
    ]
    if several:
        sections.append((f"{what} on which the members disagree", explanation.disputed(n)))
    for title, found in sections:
        console.print(cell(title.capitalize(), "bold"))
        console.print(_effects(found, several) if found else cell("  none", "dim"))
    console.print(
        cell(
            f"Effect: how much the logarithm of the probability would fall without it; {len(explanation)}"
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
    return f"{explanation.members} members vote {' '.join(votes)}{more} %{unknown}"


def _effects(found: list[FeatureEffect], several: bool) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=True, show_header=several)
    table.add_column("")
    table.add_column(cell("effect", "dim"), justify="right")
    if several:
        table.add_column(cell("between members", "dim"), justify="right")
        table.add_column(cell("members", "dim"))
    for one in found:
        sides = [
            f"{count} {side}"
            for count, side in ((one.members_for, "for"), (one.members_against, "against"))
            if count
        ]
        table.add_row(
            cell(f"{one.feature}"),
            cell(f"{one.effect:+.3f}", "green" if one.effect > 0 else "red"),
            *([cell(f"± {one.disagreement:.3f}"), cell(", ".join(sides), "dim")] if several else []),
        )
    return table
