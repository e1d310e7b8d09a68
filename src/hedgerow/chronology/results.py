"""What was found in each period."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from .plan import Plan

__all__ = ["JudgedPeriod", "KeptInPeriod", "OverTime", "PeriodSummary"]


@dataclass(frozen=True)
class KeptInPeriod:
    """What was guaranteed from the past, and what came of it in a period.

    Attributes
    ----------
    kind : {"wrong", "missed"}
        Wrong labels among those accepted, or right labels that the model knows and misses.
    of : {"labels", "answered", "inputs"} or None
        What the share is of, where the kind is "wrong".
    asked : float
        The share that was not to be exceeded.
    refused : str or None
        Why it could not be guaranteed.
    achieved : float or None
        The share in the period; None where it was refused, or nothing was accepted.
    kept : bool or None
        Whether that is at most what was asked; None where there is nothing to count.
    p_value : float or None
        How likely so much is, or more, if the guarantee was kept on average: a one-sided test that counts the
        inputs that set the threshold as well as those of the period.
    broken : bool
        Whether that is too unlikely to be chance (at most 1 % for all guarantees of the period together).
    inputs : int
        Inputs that count.
    counted, failed : int
        Accepted labels and how many of them are wrong; or right labels that the model knows and how many of
        them are missed.
    """

    kind: str
    of: str | None
    asked: float
    refused: str | None
    achieved: float | None
    kept: bool | None
    p_value: float | None
    broken: bool
    inputs: int
    counted: int
    failed: int


@dataclass(frozen=True)
class JudgedPeriod:
    """How the model of one strategy did in one period that it had not seen.

    Attributes
    ----------
    strategy, period : str
        Which.
    trained : int
        Records that the model was trained on.
    known_labels : int
        Labels that these have.
    inputs, true_labels : int
        Size of the period.
    unknown_labels : int
        Of the true labels, those that the model was never trained on.
    precision, ndcg : dict of str to float
        At 1, 3 and 5; empty where no record of the period has a label.
    ece : float or None
        Calibration error of the best five labels.
    ood : int or None
        Inputs that are flagged as out-of-distribution at a false alarm rate of 5 %.
    shifted : bool
        Whether a test says that the inputs are not like those that the model was calibrated on.
    guarantees : tuple of KeptInPeriod
        One for each that was asked for.
    seconds : float
        To make the model, and to judge it.
    """

    strategy: str
    period: str
    trained: int
    known_labels: int
    inputs: int
    true_labels: int
    unknown_labels: int
    precision: Mapping[str, float]
    ndcg: Mapping[str, float]
    ece: float | None
    ood: int | None
    shifted: bool
    guarantees: tuple[KeptInPeriod, ...]
    seconds: float

    @property
    def words(self) -> str:
        """The strategy, for people."""
        return self.strategy.replace("-", " ")

    @property
    def unknown(self) -> float | None:
        """The share of unknown labels; None without any label."""
        return self.unknown_labels / self.true_labels if self.true_labels else None

    @property
    def flagged(self) -> float | None:
        """The share of inputs that are flagged as out-of-distribution."""
        return None if self.ood is None else self.ood / self.inputs

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings."""
        return asdict(self) | {"guarantees": [asdict(one) for one in self.guarantees]}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Self:
        """Take back what `to_dict` gave."""
        return cls(**found | {"guarantees": tuple(KeptInPeriod(**one) for one in found["guarantees"])})


@dataclass(frozen=True)
class PeriodSummary:
    """A period, whatever the model.

    Attributes
    ----------
    name, first, last : str
        What it is called, and its first and last time.
    inputs, true_labels : int
        Its size.
    new_labels : int
        Of the true labels, those that no earlier period has.
    """

    name: str
    first: str
    last: str
    inputs: int
    true_labels: int
    new_labels: int


@dataclass(frozen=True)
class OverTime:
    """Strategies side by side, period by period.

    Attributes
    ----------
    plan : Plan
        What was compared.
    periods : tuple of PeriodSummary
        In order of time; the first one was only learned from.
    judged : dict of str to tuple of JudgedPeriod
        For each strategy, all periods but the first.
    """

    plan: Plan
    periods: tuple[PeriodSummary, ...]
    judged: Mapping[str, tuple[JudgedPeriod, ...]]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and dictionaries, as ``hedgerow evaluate --over-time --json`` writes them.

        ``plan``, ``periods`` and, by strategy, ``judged``, each with what the classes have; shares are
        between 0 and 1.
        """
        return {
            "plan": self.plan.to_dict(),
            "periods": [asdict(period) for period in self.periods],
            "judged": {name: [one.to_dict() for one in of] for name, of in self.judged.items()},
        }
