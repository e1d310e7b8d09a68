"""What a report says, apart from how it looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy.typing as npt

Numbers: TypeAlias = Sequence[float] | npt.NDArray[Any]
Kind = Literal["line", "points", "bars", "band", "diagonal"]
Scale = Literal["linear", "log"]


@dataclass(frozen=True)
class Headline:
    """A number to see first: its name, its value as text, and one line that explains it."""

    name: str
    value: str
    explanation: str


@dataclass(frozen=True)
class Setting:
    """A name and a value, for the list of settings."""

    name: str
    value: str


@dataclass(frozen=True)
class Series:
    """A curve, a set of points or bars, or a band of a figure.

    Values that are not finite, and those not above 0 on a logarithmic axis, are gaps. The points of a line or
    a band ascend in x; `low` and `high` are the edges of a band, and its y, if any, a line in it. Bars stand
    on 0 and are centred at x. A diagonal has no points.
    """

    name: str
    x: Numbers = ()
    y: Numbers = ()
    kind: Kind = "line"
    low: Numbers = ()
    high: Numbers = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            known = ", ".join(get_args(Kind))
            raise ValueError(f"series {self.name!r} is of kind {self.kind!r}; it must be one of {known}")
        expected = {"diagonal": {}, "band": {"low": self.low, "high": self.high}}.get(
            self.kind, {"y": self.y}
        )
        if self.kind == "band" and len(self.y):
            expected["y"] = self.y
        for name, values in expected.items():
            if len(values) != len(self.x):
                raise ValueError(
                    f"series {self.name!r} has {len(self.x)} values of x and {len(values)} of {name}"
                )


@dataclass(frozen=True)
class Figure:
    """A chart, named in links by an id of its own.

    Without limits all values fit. `x_ticks` are places on the x axis and their names, in place of numbers;
    `alternative` describes the figure to those who cannot see it, by default the caption.
    """

    id: str
    title: str
    caption: str
    x_title: str
    y_title: str
    series: Sequence[Series]
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    x_ticks: Sequence[tuple[float, str]] = ()
    alternative: str = ""

    def __post_init__(self) -> None:
        for axis, scale, limits in (
            ("x", self.x_scale, self.x_limits),
            ("y", self.y_scale, self.y_limits),
        ):
            if scale not in get_args(Scale):
                raise ValueError(
                    f"figure {self.id!r} has {axis}_scale {scale!r}; it must be 'linear' or 'log'"
                )
            if limits is None:
                continue
            if not limits[0] < limits[1]:
                raise ValueError(f"figure {self.id!r} has {axis}_limits {limits}; the first must be smaller")
            if scale == "log" and limits[0] <= 0:
                raise ValueError(
                    f"figure {self.id!r} has {axis}_limits {limits}; on a log scale they must be above 0"
                )


@dataclass(frozen=True)
class Prediction:
    """A predicted label: its mean probability, uncertainty in nats, and the probability of each member.

    `reasons` are sentences that say how a judge came to the probability.
    """

    label: str
    probability: float
    total: float
    data: float
    knowledge: float
    votes: Numbers
    is_true: bool
    reasons: Sequence[str] = ()


@dataclass(frozen=True)
class Example:
    """An input with its labels, the most probable first, and a sentence why it is shown.

    `text` is None where the model reads features, `expected` the expected number of labels, `total` and
    `knowledge` the uncertainty of its best five labels, and `ood` the p-value of its OOD score.
    """

    id: str
    text: str | None
    true_labels: Sequence[str]
    predicted: Sequence[Prediction]
    expected: float
    total: float
    knowledge: float
    ood: float | None
    why: str


@dataclass(frozen=True)
class KnownLabel:
    """How well a label is known: how many training and test inputs have it, and how it fares in the latter.

    `found` is the share of these test inputs for which it is predicted; probability and knowledge uncertainty
    are means where it is true. None stands for what does not exist.
    """

    label: str
    training_count: int
    test_count: int
    found: float | None
    probability: float | None
    knowledge: float | None


@dataclass(frozen=True)
class LabelName:
    """What people call a label."""

    label: str
    name: str


@dataclass(frozen=True)
class Content:
    """All that a report says; parts that are empty are left out of the page.

    `uncertain` are the inputs with the highest total uncertainty, `wrong` those that are wrong with the
    highest probability, and `labels` begin with the worst. `names` are those of the labels that occur, where
    they have any; the page shows them in place of the labels.
    """

    title: str
    subtitle: str = ""
    headline: Sequence[Headline] = ()
    figures: Sequence[Figure] = ()
    uncertain: Sequence[Example] = ()
    wrong: Sequence[Example] = ()
    labels: Sequence[KnownLabel] = ()
    settings: Sequence[Setting] = ()
    notes: Sequence[str] = ()
    names: Sequence[LabelName] = ()

    def __post_init__(self) -> None:
        ids = [figure.id for figure in self.figures]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ValueError(f"two figures have the id {twice[0]!r}; give each its own")
