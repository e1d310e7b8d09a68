"""Accept, review or reject: how the server asks what the model has learned to decide."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.decisions import Costs
from hedgerow.estimator import HedgerowClassifier

from .errors import ApiError

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


def thresholds(model: HedgerowClassifier, wish: Wish) -> Thresholds:
    """The thresholds that fulfil a wish.

    Parameters
    ----------
    model : HedgerowClassifier
        Who predicts.
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
    if wish.costs is not None:
        if getattr(model, "calibration_", None) is None:
            raise ApiError(
                422,
                "not_calibrated",
                "costs weigh probabilities, and the model's are not calibrated; run hedgerow calibrate",
                "decide.costs",
            )
        reject, accept = Costs(*wish.costs).thresholds()
        return _as_compared(accept, reject)
    policy = getattr(model, "policy_", None)
    if policy is None:
        raise ApiError(
            422,
            "no_policy",
            "the model has not learned what it may decide; run hedgerow calibrate with held-out data",
            "decide",
        )
    try:
        accept = policy.accept_from(wish.risk)
        return _as_compared(accept, min(policy.reject_below(wish.risk), accept))
    except ValueError as error:
        raise ApiError(422, "no_promise", str(error), "decide.risk") from error


def curves(model: HedgerowClassifier) -> dict[str, Any] | None:
    """The thresholds at every risk, as `ModelInfo` has them, or None where the model has not learned them."""
    policy = getattr(model, "policy_", None)
    if policy is None:
        return None
    found: list[Thresholds | None] = []
    for risk in RISKS:
        try:
            found.append(thresholds(model, Wish(risk)))
        except ApiError:
            found.append(None)
    return {
        "guarantee": (
            "On average at most the share that you allow of the true labels is rejected, and with a"
            " confidence of 90 % on average at most that share of the accepted labels is wrong. Learned from"
            f" {policy.rows:,} inputs; it holds on average over inputs like these, not for each label, and"
            " not for inputs of another kind."
        ),
        "risks": list(RISKS),
        "accept": [None if rule is None or math.isinf(rule.accept) else rule.accept for rule in found],
        "reject": [None if rule is None else rule.reject for rule in found],
    }


def add_verdicts(results: list[dict[str, Any]], rule: Thresholds | None, false_alarm: float) -> None:
    """Fill in what depends on the request alone: the decision on each label, and who is an outsider."""
    for result in results:
        if rule is not None:
            for label in result["labels"]:
                label["decision"] = rule.verdict(float(label["probability"]))
        odd = result.get("unfamiliarity")
        if odd is not None:
            odd["outsider"] = bool(odd["p_value"] <= false_alarm)


def _as_compared(accept: float, reject: float) -> Thresholds:
    """Rounded as probabilities are, or a label that lies on a threshold might fall to the other side."""
    return Thresholds(float(np.float32(accept)), float(np.float32(reject)))
