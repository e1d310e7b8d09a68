"""Accept, review or reject: how the server asks what the model has learned to decide."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hedgerow.decisions.deciding import check_search
from hedgerow.decisions.goals import REVIEW_AT_MOST, WRONG_AT_MOST, Goal
from hedgerow.decisions.planning import Plan, plan_for
from hedgerow.decisions.policy import NUMBERS
from hedgerow.model import Model

from .errors import ApiError

# The shares that a slider can be moved to.
SHARES = tuple(round(0.01 * step, 2) for step in range(1, 51))


@dataclass(frozen=True)
class Sorting:
    """How labels are sorted into accept, review and reject: of one model, the same for the same goal."""

    goal: Goal
    plan: Plan = field(compare=False)


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
        plan = plan_for(goal, policy, model.label_counts, model.coarser)
    except ValueError as error:
        raise ApiError(422, "no_guarantee", str(error), "decide") from error
    if policy is not None:
        try:
            check_search(policy, replace(model.search, tolerance=policy.search.tolerance))
        except ValueError as error:
            raise ApiError(422, "other_search", str(error), "decide") from error
    return Sorting(goal, plan)


def choices(model: Model) -> dict[str, Any] | None:
    """What can be chosen and is guaranteed, as `ModelInfo` has it, or None where nothing can be."""
    policy = model.policy
    if (
        policy is None
        or policy.given is None
        or sorting_or_none(model, Goal(review_at_most=NUMBERS[-1])) is None
    ):
        return None
    wrong = []
    for share in SHARES:
        found = sorting_or_none(model, Goal(wrong_at_most=share))
        if found is not None:
            (guarantee,) = found.plan.guarantees
            accept = found.plan.rule.accept_from
            # Rounded as probabilities are, or a label on a threshold might fall to the other side.
            least = float(np.float32(accept)) if guarantee.reached is not None else None
            wrong.append({"share": share, "accept_from": least, "words": guarantee.words})
    review = [policy.review_guarantee(number) for number in NUMBERS]
    return {
        "wrong": wrong,
        "most": policy.given.most,
        "review": [{"labels": int(of.asked), "share": of.promised, "words": of.words} for of in review],
        "default": {"wrong_at_most": WRONG_AT_MOST, "review_at_most": REVIEW_AT_MOST},
        "limits": policy.limits(),
    }


def sorting_or_none(model: Model, goal: Goal) -> Sorting | None:
    """The sorting, or None where it is refused."""
    try:
        return sorting(model, goal)
    except ApiError:
        return None


def flag_ood(results: list[dict[str, Any]], false_alarm: float) -> None:
    """Fill in which inputs are out-of-distribution."""
    for result in results:
        odd = result.get("ood")
        if odd is not None:
            odd["is_ood"] = bool(odd["p_value"] <= false_alarm)
