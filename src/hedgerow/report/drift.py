"""From a comparison with held-out inputs to what a report says."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from hedgerow.shift.comparison import CHANCE, Drift
from hedgerow.vocabulary.naming import Naming

from .content import Content, Figure, Headline, Series

__all__ = ["compose_drift", "label_sentences"]

_ABOUT = tomllib.loads(resources.files(__package__).joinpath("figures.toml").read_text(encoding="utf-8"))
_LABELS = 10


def compose_drift(found: Drift, title: str, naming: Naming | None = None) -> Content:
    """What a page says of new data beside the held-out ones."""
    shift = found.shift
    drifted = found.drifted
    summary = [
        Headline(
            "Shift",
            "yes" if shift.broken else "no",
            "whether the inputs are unlike the held-out ones, so that guarantees are not supported",
        ),
        Headline("Drifted", str(len(drifted)), ", ".join(drifted) or "nothing that was compared"),
        Headline(
            "Labels never given before",
            f"{found.never_given:,} of {found.labels_given:,}",
            "labels with a probability of 0.5 or more here that no held-out input was given",
        ),
    ]
    if found.unknown is not None:
        summary.append(
            Headline(
                "Labels never seen in training",
                f"{100 * found.unknown.new:.1f} %",
                f"of the true labels; {100 * found.unknown.held_out:.1f} % on held-out inputs",
            )
        )
    return Content(
        title=title,
        subtitle=f"{shift.inputs:,} inputs beside {shift.held_out:,} held-out ones",
        headline=summary,
        figures=_figures(found),
        notes=[
            shift.words,
            f"Tests are set so that, without drift, anything is named in {100 * CHANCE:g} % of the cases.",
            *label_sentences(found, naming),
        ],
    )


def label_sentences(found: Drift, naming: Naming | None = None) -> list[str]:
    """Which labels changed most surely, a sentence each."""
    sentences = []
    for label in found.labels[:_LABELS]:
        if label.drifted:
            name = (naming and naming.of(label.label)) or label.label
            sentences.append(
                f"{name} is given to {100 * label.held_out:.1f} % of the held-out inputs and to"
                f" {100 * label.new:.1f} % of these (p = {label.p_value:.1g})."
            )
    return sentences


def _figures(found: Drift) -> list[Figure]:
    made = []
    for signal in found.signals:
        lines = [
            Series("held-out", signal.values, signal.held_out_at_most),
            Series("new", signal.values, signal.new_at_most),
        ]
        title = f"{signal.words[0].upper()}{signal.words[1:]}{': drifted' if signal.drifted else ''}"
        made.append(_figure("drift", lines, id=f"drift-{signal.name}", title=title, x_title=signal.words))
    if found.labels:
        shares = [(label.held_out, label.new) for label in found.labels]
        points = Series("labels", [one for one, _ in shares], [other for _, other in shares], "points")
        made.append(_figure("drift-labels", [Series("no drift", kind="diagonal"), points]))
    return made


def _figure(kind: str, series: Sequence[Series], **own: Any) -> Figure:
    about = {name: tuple(of) if isinstance(of, list) else of for name, of in _ABOUT[kind].items()}
    return Figure(**{"id": kind, "series": series, **about, **own})
