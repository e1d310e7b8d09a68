"""Accept, review or reject: how the server asks what the model has learned to decide."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hedgerow.decisions.deciding import check_search
from hedgerow.decisions.goals import Goal, rule_for
from hedgerow.decisions.policy import NOT_GUARANTEED
from hedgerow.decisions.rules import Rule
from hedgerow.model import Model

from .errors import ApiError

# The risks that a slider can be moved to.
RISKS = tuple(round(0.005 * step, 3) for step in range(2, 101))


@dataclass(frozen=True)
class Sorting:
    """How labels are sorted into accept, review and reject: of one model, the same for the same goal."""

    goal: Goal
    rule: Rule = field(compare=False)


def sorting(model: Model, goal: Goal) -> Sorting:
    """The rule that fulfils a goal, as `HedgerowClassifier.decide` finds it.

    Raises ApiError if the model is not calibrated for it, cannot guarantee it, or searches otherwise than
    when it was calibrated.
    """
    policy = model.policy
    if goal.costs is not None and not model.calibrated:
        raise ApiError(
            422,
            "not_calibrated",
            "costs weigh probabilities, and the model's are not calibrated; run hedgerow calibrate",
            "decide.costs",
        )
    if goal.costs is None and policy is None:
        raise ApiError(
            422,
            "no_policy",
            "the model has not learned what it may decide; run hedgerow calibrate with held-out data",
            "decide",
        )
    if goal.broader and model.coarser is None:
        raise ApiError(
            422,
            "no_broader",
            "the model has not learned to answer broader terms; run hedgerow calibrate --broader",
            "decide.broader",
        )
    try:
        rule, _ = rule_for(goal, policy, model.label_counts, model.coarser)
    except ValueError as error:
        raise ApiError(422, "no_guarantee", str(error), "decide.risk") from error
    if policy is not None:
        try:
            check_search(policy, replace(model.search, tolerance=policy.search.tolerance))
        except ValueError as error:
            raise ApiError(422, "other_search", str(error), "decide") from error
    return Sorting(goal, rule)


def curves(model: Model) -> dict[str, Any] | None:
    """The thresholds at every risk, as `ModelInfo` has them, or None where nothing can be guaranteed."""
    sortings = [_sorting_at(model, risk) for risk in RISKS]
    found = [None if one is None else one.rule for one in sortings]
    if model.policy is None or not any(found):
        return None
    return {
        "guarantee": (
            f"On average over inputs like the {model.policy.rows:,} calibration inputs, at most the chosen"
            " share of an input's true labels is rejected and, with a confidence of 90 %, at most that share"
            f" of its accepted labels is wrong (0 % if none is accepted). {NOT_GUARANTEED}"
        ),
        "risks": list(RISKS),
        "accept": [
            None if rule is None or math.isinf(rule.accept_from) else _as_compared(rule.accept_from)
            for rule in found
        ],
        "reject": [None if rule is None else _as_compared(rule.reject_below) for rule in found],
    }


def mildest(model: Model) -> Sorting | None:
    """The sorting of all risks that rejects least, or None where nothing can be guaranteed."""
    found = [one for risk in RISKS if (one := _sorting_at(model, risk)) is not None]
    return min(found, key=lambda one: one.rule.reject_below, default=None)


def flag_ood(results: list[dict[str, Any]], false_alarm: float) -> None:
    """Fill in which inputs are out-of-distribution."""
    for result in results:
        odd = result.get("ood")
        if odd is not None:
            odd["is_ood"] = bool(odd["p_value"] <= false_alarm)


def _sorting_at(model: Model, risk: float) -> Sorting | None:
    try:
        return sorting(model, Goal(risk=risk))
    except ApiError:
        return None


def _as_compared(threshold: Any) -> float:
    """Rounded as probabilities are, or a label that lies on a threshold might fall to the other side."""
    return float(np.float32(threshold))
