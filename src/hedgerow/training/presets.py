"""Settings for those who do not want to choose any, by the size of the data and a measured cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hedgerow.inputs.parameters import ParameterError, check_choice
from hedgerow.training.settings import Method
from hedgerow.training.shape import Shape, wide_shape

__all__ = ["PRESETS", "Choice", "DataSize", "choose_settings"]

PRESETS = ("fast", "balanced", "best", "paper")

# Nanoseconds of a processor for one entry of an input and one child of a node that the input is shown to,
# until the classifiers are solved: measured on eurlex-4k (1.0 to 1.3) and tibkat (1.6) at a tolerance of 1.
_NANOSECONDS = 1.5
# How much longer a tighter tolerance takes, that some inputs are held out for the judge, and what else there
# is to do per entry: reading, clustering, centroids.
_TIGHT = {1.0: 1.0, 0.3: 1.45, 0.1: 2.0}
_ASKED = 1.4
_OTHER_NANOSECONDS = 150.0
# What a label is told apart from: at most this many others by default, and a share of all there are.
_RIVALS = {"balanced": (1500, 1 / 3), "best": (4000, 1 / 2)}
# A fit of `balanced` takes about as long as this, at most, in processor seconds; that of `best` three times.
_MOST_SECONDS = {"balanced": 3600.0, "best": 4 * 3600.0}
_PAPER = Shape(8, 100)


@dataclass(frozen=True)
class DataSize:
    """What the cost of training depends on: inputs, labels in use, entries of inputs, labels of inputs."""

    rows: int
    labels: int
    entries: int
    pairs: int

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
    """The parameters of a preset for this data; with `seconds`, the best that processors can do in that time.

    A single model has wide leaves itself. The members of an ensemble are the small trees of the paper, which
    differ most where the data says least, with one wide tree beside them for the judge.
    """
    check_choice("preset", preset, PRESETS)
    if seconds is not None and not seconds > 0:
        raise ParameterError(f"seconds is {seconds!r}; it must be a number above 0")
    if preset == "paper":
        return Choice(preset, {}, members_cost(size, _PAPER, method, members, 0.1))
    fast = Choice("fast", {"tolerance": 1.0}, members_cost(size, _PAPER, method, members, 1.0))
    if preset == "fast":
        return fast
    most, share = _RIVALS[preset]
    tolerance = 1.0 if preset == "balanced" else 0.3
    within = _MOST_SECONDS[preset] if seconds is None else seconds
    rivals = max(1, min(most, int(size.labels * share)))
    if seconds is not None:
        rivals, tolerance = size.labels, 0.3
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
    shape = wide_shape(size.labels, rivals)
    judged = {"tolerance": tolerance, "judge": True}
    cost = _ASKED * tree_cost(size, shape, tolerance)
    if method.trains_members:
        cost += members_cost(size, _PAPER, method, members, tolerance)
        return Choice(preset, judged | {"wide": rivals}, cost)
    return Choice(preset, judged | shape.describe(), cost)


def members_cost(size: DataSize, shape: Shape, method: Method, members: int, tolerance: float) -> float:
    """Processor seconds of all members."""
    if not method.trains_members:
        return tree_cost(size, shape, tolerance)
    # A bootstrap has some two thirds of the inputs.
    return members * tree_cost(size, shape, tolerance) * (0.65 if method.bootstraps else 1.0)


def tree_cost(size: DataSize, shape: Shape, tolerance: float) -> float:
    """Processor seconds of one tree."""
    shown = shape.children_shown(size.labels, size.labels_each)
    tight = _TIGHT.get(tolerance, 1.0)
    return 1e-9 * size.entries * (_NANOSECONDS * shown * tight + _OTHER_NANOSECONDS)
