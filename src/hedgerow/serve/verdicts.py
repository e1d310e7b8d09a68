"""Accept, review or reject: how the server asks what `hedgerow.decisions` knows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .errors import ApiError
from .model_slot import ServedModel

__all__ = ["RISKS", "Thresholds", "Wish", "add_verdicts", "curves", "thresholds"]

# The risks that a slider can be moved to.
RISKS = tuple(round(0.005 * step, 3) for step in range(2, 101))


@dataclass(frozen=True)
class Wish:
    """By what labels are sorted: a risk, or the costs of a wrong label, a missed one and a look."""

    risk: float = 0.1
    costs: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class Thresholds:
    """Labels are accepted from `accept` on and rejected below `reject`; what is between is for a person."""

    accept: float
    reject: float

    def verdict(self, probability: float) -> str:
        """The decision on a label with this probability.

        Examples
        --------
        >>> [Thresholds(accept=0.8, reject=0.1).verdict(p) for p in (0.8, 0.1, 0.05)]
        ['accept', 'review', 'reject']
        """
        if probability >= self.accept:
            return "accept"
        return "review" if probability >= self.reject else "reject"


def thresholds(served: ServedModel, wish: Wish) -> Thresholds:
    """The thresholds that fulfil a wish.

    Parameters
    ----------
    served : ServedModel
        The model that predicts.
    wish : Wish
        What is asked for.

    Returns
    -------
    Thresholds

    Raises
    ------
    ApiError
        If the model has not learned what it would need for it, or cannot promise so much.
    """
    policy = getattr(served.model, "policy_", None)
    if wish.costs is None and policy is None:
        raise ApiError(
            422,
            "no_policy",
            "the model has not learned what it may decide; run hedgerow calibrate with held-out data",
            "decide",
        )
    raise ApiError(422, "no_policy", "decisions are not there yet", "decide")


def curves(served: ServedModel) -> dict[str, Any] | None:
    """The thresholds at every risk, or None where the model has not learned them."""
    return None


def add_verdicts(results: list[dict[str, Any]], rule: Thresholds | None, false_alarm: float) -> None:
    """Fill in what depends on the request alone: the decision on each label, and who is an outsider."""
    for result in results:
        if rule is not None:
            for label in result["labels"]:
                label["decision"] = rule.verdict(label["probability"])
        odd = result.get("unfamiliarity")
        if odd is not None:
            odd["outsider"] = bool(odd["p_value"] <= false_alarm)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
