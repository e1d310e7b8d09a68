"""From what users ask of decisions to the rule that gives it, and what it guarantees, in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from hedgerow.decisions.costs import Costs
from hedgerow.decisions.policy import CAP, PREDICTED, Policy
from hedgerow.decisions.risk import as_share
from hedgerow.decisions.rules import Rule

__all__ = ["Goal", "about_inputs", "rule_for"]


@dataclass(frozen=True)
class Goal:
    """What is asked of decisions; see `HedgerowClassifier.decide` for the meaning of each."""

    risk: float | None = None
    costs: Costs | None = None
    size: float | None = None
    by: str = "probability"
    coverage: float | None = None
    groups: bool = False
    confidence: float = 0.9
    inputs_by: str | None = None
    inputs_risk: float | None = None
    inputs_coverage: float | None = None

    def __post_init__(self) -> None:
        asked = [name for name in ("risk", "costs", "size") if getattr(self, name) is not None]
        if len(asked) > 1:
            raise ValueError(f"{' and '.join(asked)} are given; decide by one of them")
        if self.risk is None and self.costs is None and self.size is None:
            object.__setattr__(self, "risk", 0.1)  # the one time that a frozen object changes
        if self.costs is not None and not isinstance(self.costs, Costs):
            raise TypeError(f"costs is {self.costs!r}; give Costs(wrong=..., missed=..., look=...)")
        if self.risk is None and (self.groups or self.coverage is not None or self.by != "probability"):
            raise ValueError("groups, coverage and by go with risk, and not with costs or size")
        if self.coverage is not None and self.inputs_by is not None:
            raise ValueError("coverage counts the labels of all inputs, and inputs_by leaves some; use one")
        if self.inputs_by is None and (self.inputs_risk is not None or self.inputs_coverage is not None):
            raise ValueError("inputs_risk and inputs_coverage need inputs_by: what inputs are doubted by")


def rule_for(goal: Goal, policy: Policy | None, counts: npt.NDArray[np.int64] | None) -> tuple[Rule, str]:
    """The rule that meets a goal, and what it guarantees.

    Parameters
    ----------
    goal : Goal
        What is asked for.
    policy : Policy or None
        What was learned of the model's mistakes; costs do without.
    counts : int array, shape (n_labels,), or None
        How often labels occur in training, for groups.

    Returns
    -------
    Rule, str
    """
    if goal.costs is not None:
        reject, accept = goal.costs.thresholds()
        return Rule(costs=goal.costs), (
            f"Each label is treated as costs least on average: rejected below {reject:.3g}, accepted from"
            f" {accept:.3g} on. That is as good as the probabilities are; nothing is guaranteed."
        )
    if policy is None:
        raise NotFittedError(
            "the model has no policy; call learn_policy with inputs that it was not trained on, or hedgerow"
            " calibrate"
        )
    if goal.size is not None:
        least = policy.shortlist_from(goal.size)
        return Rule(least, least, most=CAP), (
            f"Labels from {least:.3g} on are accepted, at most {CAP} of an input: on average at most"
            f" {goal.size:g}."
        )
    risk = as_share("risk", goal.risk)
    if goal.coverage is not None:
        accept = policy.accept_share(goal.coverage, goal.by)
        accepted = (
            f"on average at least {100 * goal.coverage:g} % of the labels of an input that have a probability"
            " of one half or more are accepted, over inputs that have such labels"
        )
    else:
        accept = policy.accept_from(risk, goal.confidence, goal.by)
        accepted = (
            f"with a confidence of {100 * goal.confidence:g} %, on average at most {100 * risk:g} % of the"
            " labels that an input is given are wrong, where an input that is given none counts as 0"
        )
    least_sure = accept if goal.by == "probability" else PREDICTED
    below: float | npt.NDArray[np.float32]
    if goal.groups:
        thresholds = policy.reject_below_by_group(risk)
        if counts is None:
            raise ValueError("the model does not know how frequent its labels are, so there are no groups")
        edges = [group.lowest for group in policy.groups]
        place = np.searchsorted(edges, counts, side="right") - 1
        below = np.minimum(np.array(thresholds, dtype=np.float32)[place], np.float32(least_sure))
        rejected = "true labels of each group of frequency, over inputs that have such labels,"
    else:
        below = min(policy.reject_below(risk), least_sure)
        rejected = "true labels of an input"
    return Rule(below, accept, goal.by), (
        f"On average at most {100 * risk:g} % of the {rejected} are rejected; {accepted}. This holds on"
        f" average"
        " over inputs like the held-out ones, not for each label, and not for inputs of another kind."
    )


def about_inputs(goal: Goal) -> str:
    """What is guaranteed of inputs that are answered, and of those that are not."""
    left = " What would have been accepted for the others is to be reviewed."
    if goal.inputs_coverage is not None:
        return f" On average at least {100 * goal.inputs_coverage:g} % of the inputs are answered.{left}"
    return (
        f" With a confidence of {100 * goal.confidence:g} %, at most {100 * (goal.inputs_risk or 0):g} % of"
        f" the inputs that are answered have a wrong best label.{left}"
    )
