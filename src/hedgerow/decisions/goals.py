"""What decisions should achieve."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.decisions.costs import Costs
from hedgerow.decisions.guarantees import SHARES_OF
from hedgerow.decisions.policy import check_number
from hedgerow.decisions.risk import as_share

__all__ = ["REVIEW_AT_MOST", "WRONG_AT_MOST", "Goal"]

# What is asked for where nothing else is.
WRONG_AT_MOST, REVIEW_AT_MOST = 0.1, 10


@dataclass(frozen=True)
class Goal:
    """What decisions should achieve; see `HedgerowClassifier.decide` for the meaning of each field."""

    wrong_at_most: float | None = None
    wrong_of: str | None = None
    missed_at_most: float | None = None
    review_at_most: int | None = None
    costs: Costs | None = None
    size: float | None = None
    by: str = "probability"
    coverage: float | None = None
    groups: bool = False
    confidence: float = 0.9
    inputs_by: str | None = None
    inputs_wrong_at_most: float | None = None
    inputs_coverage: float | None = None
    broader: bool = False

    def __post_init__(self) -> None:
        limits = [name for name in ("wrong_at_most", "missed_at_most", "review_at_most") if self.has(name)]
        asked = [*limits[:1], *(name for name in ("costs", "size") if self.has(name))]
        if len(asked) > 1:
            raise ValueError(f"{' and '.join(asked)} are given; give only one of them")
        if not asked:
            # The default, set before anybody can read it.
            if self.coverage is None:
                object.__setattr__(self, "wrong_at_most", WRONG_AT_MOST)
            if not self.groups:
                object.__setattr__(self, "review_at_most", REVIEW_AT_MOST)
        self._check_values()
        self._check_together()
        if self.wrong_of is None and self.wrong_at_most is not None:
            apart = self.broader or self.by != "probability" or self.inputs_by is not None
            object.__setattr__(self, "wrong_of", "inputs" if apart else "labels")

    def has(self, name: str) -> bool:
        """Whether something is asked for."""
        return getattr(self, name) is not None

    def _check_values(self) -> None:
        for name in ("wrong_at_most", "missed_at_most"):
            if self.has(name):
                as_share(name, getattr(self, name))
        if self.review_at_most is not None:
            check_number(self.review_at_most)
        if self.costs is not None and not isinstance(self.costs, Costs):
            raise TypeError(f"costs is {self.costs!r}; give Costs(wrong=..., missed=..., look=...)")
        if self.wrong_of is not None and self.wrong_of not in SHARES_OF:
            raise ValueError(f"wrong_of is {self.wrong_of!r}; it must be one of {', '.join(SHARES_OF)}")

    def _check_together(self) -> None:
        other = self.costs is not None or self.size is not None
        if other and (self.groups or self.coverage is not None or self.by != "probability" or self.wrong_of):
            raise ValueError("wrong_of, groups, coverage and by do not work with costs or size")
        if self.wrong_of is not None and self.wrong_at_most is None and not other:
            raise ValueError("wrong_of says what a share of wrong labels is of, so it needs wrong_at_most")
        if self.coverage is not None and self.wrong_at_most is not None:
            raise ValueError(
                "coverage and wrong_at_most are given; both choose what is accepted, so give only one of them"
            )
        if self.by != "probability" and self.wrong_at_most is None and self.coverage is None:
            raise ValueError("by chooses what is accepted, so it needs wrong_at_most or coverage")
        if self.groups and (self.missed_at_most is None or self.review_at_most is not None):
            raise ValueError(
                "groups have thresholds of their own for missed labels: they need missed_at_most, and do not"
                " work with review_at_most"
            )
        if self.broader and (self.wrong_at_most is None or self.by != "probability"):
            raise ValueError(
                "broader terms are accepted by their probability, with a guarantee for wrong_at_most; they do"
                " not work with costs, size, coverage or another measure by="
            )
        apart = self.broader or self.by != "probability" or self.inputs_by is not None
        if self.wrong_of not in (None, "inputs") and apart:
            raise ValueError(
                f"wrong_of={self.wrong_of!r} holds where all inputs are answered, and for labels by their"
                " probability; with inputs_by, broader terms or another measure by= use wrong_of='inputs'"
            )
        if self.coverage is not None and self.inputs_by is not None:
            raise ValueError(
                "coverage counts the labels of all inputs, and inputs_by withholds some; use one of them"
            )
        if self.inputs_by is None and (
            self.inputs_wrong_at_most is not None or self.inputs_coverage is not None
        ):
            raise ValueError(
                "inputs_wrong_at_most and inputs_coverage need inputs_by, the measure of uncertainty of"
                " inputs"
            )
