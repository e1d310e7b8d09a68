"""What a report says, apart from how it looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy.typing as npt

__all__ = ["Content", "Example", "Figure", "Headline", "KnownLabel", "Prediction", "Series", "Setting"]

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

    Values that are not finite, and those not above 0 on a logarithmic axis, are gaps.

    Attributes
    ----------
    name : str
        Its name in the legend.
    x, y : sequence of float
        The points; those of a line or a band in ascending order of x. A diagonal has none. A band may go
        without y: then no line runs in it.
    kind : {"line", "points", "bars", "band", "diagonal"}
        How it is drawn. Bars stand on 0 and are centred at x.
    low, high : sequence of float
        The edges of a band.

    Examples
    --------
    >>> Series("mean", [1, 2], [0.5])
    Traceback (most recent call last):
        ...
    ValueError: series 'mean' has 2 values of x and 1 of y
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
        expected = {"diagonal": (), "band": ("low", "high")}.get(self.kind, ("y",))
        for name in expected:
            self._check_length(name)
        if self.kind == "band" and len(self.y):
            self._check_length("y")

    def _check_length(self, name: str) -> None:
        if len(getattr(self, name)) != len(self.x):
            raise ValueError(
                f"series {self.name!r} has {len(self.x)} values of x and {len(getattr(self, name))} of {name}"
            )


@dataclass(frozen=True)
class Figure:
    """A chart.

    Attributes
    ----------
    id : str
        Names the figure in links; no two figures of a report have the same.
    title, caption : str
        What it is, and a sentence or two on what to see in it.
    x_title, y_title : str
        What the axes show.
    series : sequence of Series
        What is drawn.
    x_scale, y_scale : {"linear", "log"}
        The scales of the axes.
    x_limits, y_limits : pair of float, optional
        The ends of the axes; by default all values fit.
    x_ticks : sequence of (float, str)
        Places on the x axis and their names, in place of numbers.
    alternative : str
        What the figure shows, for those who cannot see it; by default the caption. A table of values is
        always added.
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
    """A predicted label.

    Attributes
    ----------
    label : str
        Its name.
    probability : float
        Mean over the members.
    total, data, knowledge : float
        Its doubt in nats: all of it, and its two parts.
    votes : sequence of float
        The probability that each member gives it.
    is_true : bool
        If the input has it.
    """

    label: str
    probability: float
    total: float
    data: float
    knowledge: float
    votes: Numbers
    is_true: bool


@dataclass(frozen=True)
class Example:
    """An input with its labels.

    Attributes
    ----------
    id : str
        Its name.
    text : str or None
        Its text; None where the model reads features.
    true_labels : sequence of str
        The labels it has.
    predicted : sequence of Prediction
        The best labels, best first.
    expected, total, knowledge : float
        Of the input as a whole: expected number of labels, total doubt and doubt from lack of knowledge, in
        nats.
    ood : float or None
        The p-value of the input among inputs like those of the training; small means unlike them.
    why : str
        A sentence: why it is shown.
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
    """How well a label is known.

    Attributes
    ----------
    label : str
        Its name.
    training_count, test_count : int
        How many inputs have it.
    found : float or None
        The share of these test inputs for which it is predicted; None where there are none.
    probability, knowledge : float or None
        Its mean probability, and mean doubt from lack of knowledge, where it is true.
    """

    label: str
    training_count: int
    test_count: int
    found: float | None
    probability: float | None
    knowledge: float | None


@dataclass(frozen=True)
class Content:
    """All that a report says; parts that are empty are left out of the page.

    Attributes
    ----------
    title, subtitle : str
        Over the page: what it is, and of which model and data.
    headline : sequence of Headline
        The numbers to see first.
    figures : sequence of Figure
        The charts, in reading order.
    uncertain, wrong : sequence of Example
        The inputs with the most doubt, and those that are wrong with the least.
    labels : sequence of KnownLabel
        How well labels are known, worst first.
    settings : sequence of Setting
        How the figures were made.
    notes : sequence of str
        Paragraphs for the end.
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

    def __post_init__(self) -> None:
        ids = [figure.id for figure in self.figures]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ValueError(f"two figures have the id {twice[0]!r}; give each its own")
