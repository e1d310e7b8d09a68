"""What a comparison of two models finds."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from hedgerow.comparison.bootstrap import Interval
from hedgerow.comparison.figures import ACCURACY
from hedgerow.comparison.label_changes import LABEL_TEST, LabelChange
from hedgerow.comparison.verdict import Verdict
from hedgerow.inputs.parameters import ParameterError

__all__ = [
    "Comparison",
    "ComparisonSettings",
    "Difference",
    "GroupDifference",
    "GuaranteeDifference",
    "SeenRows",
]


@dataclass(frozen=True)
class ComparisonSettings:
    """What decides, and how often rows are drawn.

    Attributes
    ----------
    by : str
        The measure that the verdict is about: "precision@1", "precision@3", "precision@5", "ndcg@5",
        "ndcg@10", "f1@5" (of each input, then the mean) or "recall@5".
    margin : float
        How much worse still counts as no worse, in points: 0.5 is a share of 0.005.
    draws : int
        Draws of the bootstrap.
    seed : int
        Of the draws.
    """

    by: str = "ndcg@5"
    margin: float = 0.5
    draws: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.by not in ACCURACY:
            raise ParameterError(f"by is {self.by!r:.60}; it must be one of {', '.join(ACCURACY)}")
        if not 0 <= self.margin < 100:
            raise ParameterError(f"margin is {self.margin!r}; it must be a number of points from 0 to 100")
        for name, least in (("draws", 100), ("seed", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ParameterError(f"{name} is {value!r}; it must be an integer of at least {least}")


@dataclass(frozen=True)
class Difference:
    """One figure of both models, and the 95 % interval of its difference, new - old.

    Attributes
    ----------
    name : str
        Such as "ndcg@5".
    kind : {"accuracy", "calibration", "uncertainty"}
        What it is about.
    higher_is_better : bool
        False for calibration error and log loss.
    is_share : bool
        Whether it is a share between 0 and 1; log loss is not.
    old, new, difference, low, high : float
        NaN where it is not defined.
    """

    name: str
    kind: str
    higher_is_better: bool
    is_share: bool
    old: float
    new: float
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class GuaranteeDifference:
    """What both models guarantee, and what that is on these rows.

    Attributes
    ----------
    title : str
        What it is about.
    kind, of, asked
        As of `Guarantee`.
    old_kept, new_kept : bool or None
        Whether each model kept its guarantee here, by the labels that it knows; None where it is refused.
    interval : Interval or None
        The shares and their difference, missed labels among all true ones; None where a model refuses.
    """

    title: str
    kind: str
    of: str | None
    asked: float
    old_kept: bool | None
    new_kept: bool | None
    interval: Interval | None


@dataclass(frozen=True)
class GroupDifference:
    """The measure that decides, in one group of rows; no interval where these are fewer than 100."""

    group: str
    rows: int
    old: float
    new: float
    difference: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class SeenRows:
    """How many of all rows each model was trained on, and how many were left out, seen by either.

    `forgotten` are the models ("old", "new") that do not remember their training.
    """

    old: int
    new: int
    left_out: int
    forgotten: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """What `compare` finds. Differences are new - old.

    Attributes
    ----------
    verdict : Verdict
        The result in a word and a sentence.
    rows : int
        Rows compared; those with labels count for accuracy.
    labelled : int
        Rows with labels.
    seen : SeenRows
        What was left out.
    differences : tuple of Difference
        Accuracy, calibration, and how well total uncertainty finds wrong labels.
    guarantees : tuple of GuaranteeDifference
        What both models guarantee; none where one has no policy.
    labels : tuple of LabelChange
        Labels about which the models differ, those that gained most first.
    groups : tuple of GroupDifference
        By the groups that were given, the largest first.
    shared, only_old, only_new : int
        Labels that both models know, or one alone.
    remarks : tuple of str
        What else to know before relying on it.
    settings : ComparisonSettings
        What decides, and the draws.
    """

    verdict: Verdict
    rows: int
    labelled: int
    seen: SeenRows
    differences: tuple[Difference, ...]
    guarantees: tuple[GuaranteeDifference, ...]
    labels: tuple[LabelChange, ...]
    groups: tuple[GroupDifference, ...]
    shared: int
    only_old: int
    only_new: int
    remarks: tuple[str, ...]
    settings: ComparisonSettings

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and dictionaries, as ``hedgerow compare --json`` writes them.

        The keys are the attributes; what is not defined is None. ``labels`` is a dictionary with the name of
        its ``test`` and the ``changes``, each with ``clear``: whether it is beyond chance.
        """
        found = asdict(self)
        changes = [asdict(label) | {"clear": label.is_clear} for label in self.labels]
        found["labels"] = {"test": LABEL_TEST, "changes": changes}
        return _plain(found)  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    """JSON knows no NaN and no tuples."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and math.isnan(value) else value
