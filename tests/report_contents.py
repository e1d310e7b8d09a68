"""Contents of report pages: an ordinary one, and one that is full of traps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from hedgerow.report import (
    Content,
    Example,
    Figure,
    Headline,
    KnownLabel,
    LabelName,
    Prediction,
    Series,
    Setting,
)

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 1</script>",
    "<!-- <script>",
    "<img src=x onerror='window.hacked = 1'>",
    "javascript:window.hacked=1",
    "\"quotes\" 'and' `ticks` ${window.hacked = 1} \\",
    "line\u2028and\u2029paragraph",
    "emoji 🦔🌳 and 👩‍🔬",
    "עברית و العربية",
    "&lt;b&gt; &amp; &#x3c;",
    "\ud800 alone",
    "\x00\x07\x1b[31m",
)
MEMBERS = 10


def a_prediction(label: str, probability: float = 0.6, is_true: bool = True) -> Prediction:
    votes = np.clip(probability + np.linspace(-0.3, 0.3, MEMBERS), 0, 1)
    return Prediction(label, probability, 0.67, 0.5, 0.17, votes, is_true)


def an_example(name: str, text: str | None, labels: list[str]) -> Example:
    predicted = [a_prediction(label, 0.9 / (i + 1), i % 2 == 0) for i, label in enumerate(labels)]
    return Example(
        name, text, [labels[0], "missed label"], predicted, 2.5, 1.9, 0.6, 0.031, "Total uncertainty is high."
    )


def figures() -> list[Figure]:
    ranks = np.arange(1, 401)
    mean = 0.9 * ranks**-1.2
    steps = np.linspace(0, 1, 21)
    return [
        Figure(
            "tail",
            "Long tail",
            "Few labels hold most of the mass.",
            "rank",
            "probability",
            [Series("mean", ranks, mean, "band", mean - 1.2 * mean * (ranks > 100), 2 * mean)],
            "log",
            "log",
        ),
        Figure(
            "roc",
            "OOD",
            "Upper left is better.",
            "false alarms",
            "found",
            [
                Series("total", steps, steps**0.25),
                Series("knowledge", steps, np.sqrt(steps)),
                Series("chance", kind="diagonal"),
            ],
            x_limits=(0, 1),
            y_limits=(0, 1),
        ),
        Figure(
            "reliability",
            "Reliability",
            "On the diagonal is best.",
            "probability",
            "right",
            [
                Series("@1", [0.2, 0.4, 0.8], [0.2, 0.4, 0.8], "points"),
                Series("@3", [0.1, 0.5], [0.3, math.nan], "points"),
                Series("ideal", kind="diagonal"),
            ],
            x_limits=(0, 1),
            y_limits=(0, 1),
        ),
        Figure(
            "frequency",
            "By frequency",
            "Rare labels are more uncertain.",
            "training examples",
            "nats",
            [
                Series("data", range(4), [0.3, 0.2, 0.2, 0.1], "bars"),
                Series("knowledge", range(4), [0.3, 0.1, 0.05, 0.01], "bars"),
            ],
            x_ticks=[(0, "1"), (1, "2 to 3"), (2, "4 to 9"), (3, "10 to 99")],
        ),
        Figure(
            "theorem",
            "Theorem",
            "The error falls with the beam.",
            "beam",
            "error",
            [
                Series("measured", [1, 10, 100, 1000], [0.1, 0.01, 0.0, 1e-4]),
                Series("bound", [1, 10, 100, 1000], [0.2, 0.1, 0.01, 1e-3]),
            ],
            "log",
            "log",
        ),
        Figure("empty", "Nothing", "There is no data.", "x", "y", [Series("none", [], [])]),
    ]


def a_content() -> Content:
    labels = [
        KnownLabel(f"label {i}", 3 * i % 70, i % 5, i / 90 if i % 5 else None, i / 100, i / 1000)
        for i in range(80)
    ]
    return Content(
        "A report",
        "On a model",
        [Headline("P@1", "81.2 %", "of the first labels are right"), Headline("P@5", "58 %", "of five")],
        figures(),
        [
            an_example("first", "a terminal music player", ["sound", "terminal"]),
            an_example("second", "word " * 2000, ["text", "editor"]),
        ],
        [an_example("third", None, ["sound", "game"])],
        labels,
        [Setting("members", "10")],
        ["A note."],
    )


def a_hostile_content() -> Content:
    plain = a_content()
    nasty = [*HOSTILE, "x" * 10_000]
    return replace(
        plain,
        title=HOSTILE[1],
        subtitle=HOSTILE[0],
        headline=[Headline(text, text, text) for text in HOSTILE],
        figures=[
            replace(
                figure,
                title=HOSTILE[i],
                caption=HOSTILE[i],
                x_title=HOSTILE[i],
                y_title=HOSTILE[i],
                series=[replace(series, name=HOSTILE[i]) for series in figure.series],
            )
            for i, figure in enumerate(plain.figures)
        ],
        uncertain=[an_example(text, text * 40, [text, text + "!"]) for text in nasty],
        wrong=[an_example(text, text, [text]) for text in nasty],
        labels=[KnownLabel(text, 1, 1, 0.5, 0.5, 0.5) for text in nasty],
        settings=[Setting(text, text) for text in nasty],
        notes=nasty,
        names=[LabelName(text + "!", text) for text in nasty],
    )
