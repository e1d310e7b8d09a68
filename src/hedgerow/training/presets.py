"""Settings for those who do not want to choose any, by the size of the data and a measured cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hedgerow.inputs.parameters import ParameterError, check_choice
from hedgerow.training.settings import Method
from hedgerow.training.shape import MOST_FOR_MATCHER, Shape, wide_shape

__all__ = ["PAPER", "PRESETS", "Choice", "DataSize", "choose_settings"]

PRESETS = ("fast", "balanced", "best", "paper")
# The paper's settings, where they differ from the defaults of classifiers: its search has no floor.
PAPER: Mapping[str, Any] = {"floor": 0.0}

# Nanoseconds of a processor for one entry of an input and one child of a node that the input is shown to,
# until the classifiers are solved to a tolerance of 1: on eurlex-4k, whose 5,000 features stay in the cache,
# and on debian-depends and tibkat-en. In the same order, clustering for an entry and a layer of the tree.
_IN_CACHE, _FROM_MEMORY = 0.6, 1.3
_CLUSTERED_IN_CACHE, _CLUSTERED_FROM_MEMORY = 35.0, 150.0
_FEATURES_IN_CACHE = 20_000
# How much longer a tighter tolerance takes (one leaf of eurlex-4k), and holding inputs out for the judge.
_TIGHT = {2.0: 0.7, 1.0: 1.0, 0.3: 1.4, 0.1: 1.9}
# Members beside a wide tree only find: solved more loosely, they find as much and differ more.
_LOOSE = 2.0
_ASKED = 1.4
# Reading texts, per entry; and learning the judge, per input that is held out for it.
_READING_NANOSECONDS, _JUDGING_NANOSECONDS = 2000.0, 500_000.0
_HELD_OUT, _MOST_HELD_OUT = 0.15, 5000
# What a label is told apart from: at most this many others by default, and a share of all there are.
_RIVALS = {"balanced": (1500, 1 / 3), "best": (4000, 1 / 2)}
_MANY_RIVALS = {"balanced": 900, "best": 4000}  # the same of many labels
# More weights are dropped where ten members of many labels would fill gigabytes.
_MANY_THRESHOLD = 0.1
# The most processor seconds that a fit is meant to take.
_MOST_SECONDS = {"balanced": 3600.0, "best": 4 * 3600.0}
_PAPER = Shape(8, 100)


@dataclass(frozen=True)
class DataSize:
    """What the cost of training depends on: inputs, labels in use, entries of inputs, labels of inputs.

    `features` is the width of inputs; None where they are texts, which are still to be read.
    """

    rows: int
    labels: int
    entries: int
    pairs: int
    features: int | None = None

    @property
    def labels_each(self) -> float:
        """Labels of an input."""
        return self.pairs / max(1, self.rows)


@dataclass(frozen=True)
class Choice:
    """Parameters of a classifier, and the processor seconds that training is expected to take."""

    preset: str
    parameters: dict[str, Any]
    seconds: float


def choose_settings(
    preset: str, size: DataSize, method: Method, members: int, seconds: float | None = None
) -> Choice:
    """The parameters of a preset for this data; with `seconds`, the widest that they allow.

    Where nothing fits into that time, it is "fast", the quickest there is; see `Choice.seconds`.

    A single model of few labels has wide leaves itself. The members of an ensemble are the small trees of the
    paper, which differ most where the data says least, with one wide tree beside them for the judge. So is a
    single model of many labels: its leaves cannot be wide enough to find and to judge.
    """
    check_choice("preset", preset, PRESETS)
    if seconds is not None and not seconds > 0:
        raise ParameterError(f"seconds is {seconds!r}; it must be a number above 0")
    if preset == "paper":
        return Choice(preset, dict(PAPER), members_cost(size, _PAPER, method, members, 0.1))
    fast = Choice("fast", {"tolerance": 1.0}, members_cost(size, _PAPER, method, members, 1.0))
    if preset == "fast":
        return fast
    # Who gives a time starts from the widest.
    effort = preset if seconds is None else "best"
    most, share = _RIVALS[effort]
    # Of many labels, a tighter solution was no better.
    tolerance = 1.0 if effort == "balanced" or size.labels > MOST_FOR_MATCHER else 0.3
    within = _MOST_SECONDS[preset] if seconds is None else seconds
    rivals = max(1, min(most, int(size.labels * share)))
    if size.labels > MOST_FOR_MATCHER:
        rivals = _MANY_RIVALS[effort]
    while True:
        choice = _judged(preset, size, method, members, rivals, tolerance)
        if choice.seconds <= within:
            return choice
        if tolerance < 1.0:
            tolerance = 1.0
        elif rivals > 200:
            rivals = max(200, rivals // 2)
        else:
            return choice if seconds is None else fast


def _judged(
    preset: str, size: DataSize, method: Method, members: int, rivals: int, tolerance: float
) -> Choice:
    shape, many = wide_shape(size.labels, rivals), size.labels > MOST_FOR_MATCHER
    chosen: dict[str, Any] = {"tolerance": tolerance, "judge": True}
    held_out = min(_MOST_HELD_OUT, _HELD_OUT * size.rows)
    cost = _ASKED * tree_cost(size, shape, tolerance) + 1e-9 * _JUDGING_NANOSECONDS * held_out
    if method.trains_members:
        if tolerance == 1.0:
            chosen["tolerance"] = _LOOSE
        cost += members_cost(size, _PAPER, method, members, chosen["tolerance"])
        smaller = {"weight_threshold": _MANY_THRESHOLD} if many else {}
        return Choice(preset, chosen | smaller | {"wide": rivals}, cost)
    cost += _reading(size)
    if not many:
        return Choice(preset, chosen | shape.describe(), cost)
    cost += _ASKED * tree_cost(size, _PAPER, tolerance)
    return Choice(preset, chosen | {"wide": rivals}, cost)


def members_cost(size: DataSize, shape: Shape, method: Method, members: int, tolerance: float) -> float:
    """Processor seconds of all members."""
    if not method.trains_members:
        return _reading(size) + tree_cost(size, shape, tolerance)
    # A bootstrap has some two thirds of the inputs.
    return _reading(size) + members * tree_cost(size, shape, tolerance) * (0.65 if method.bootstraps else 1.0)


def tree_cost(size: DataSize, shape: Shape, tolerance: float) -> float:
    """Processor seconds of one tree."""
    shown = shape.children_shown(size.labels, size.labels_each)
    near = size.features is not None and size.features <= _FEATURES_IN_CACHE
    each = (_IN_CACHE if near else _FROM_MEMORY) * _TIGHT.get(tolerance, 1.0)
    clustered = (_CLUSTERED_IN_CACHE if near else _CLUSTERED_FROM_MEMORY) * shape.levels(size.labels)
    return 1e-9 * size.entries * (each * shown + clustered)


def _reading(size: DataSize) -> float:
    """Processor seconds until texts are features."""
    return 0.0 if size.features is not None else 1e-9 * size.entries * _READING_NANOSECONDS
