"""From a goal for decisions to the rule that meets it, and what the rule guarantees, in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from hedgerow.decisions.coarser import CoarserPolicy
from hedgerow.decisions.costs import Costs
from hedgerow.decisions.policy import CAP, NOT_GUARANTEED, PREDICTED, Policy
from hedgerow.decisions.risk import as_share
from hedgerow.decisions.rules import Rule

__all__ = ["Goal", "about_inputs", "about_subset", "rule_for"]


@dataclass(frozen=True)
class Goal:
    """What decisions should achieve; see `HedgerowClassifier.decide` for the meaning of each field."""

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
    broader: bool = False

    def __post_init__(self) -> None:
        asked = [name for name in ("risk", "costs", "size") if getattr(self, name) is not None]
        if len(asked) > 1:
            raise ValueError(f"{' and '.join(asked)} are given; give only one of them")
        if self.risk is None and self.costs is None and self.size is None:
            object.__setattr__(self, "risk", 0.1)  # the default, set before anybody can read it
        if self.costs is not None and not isinstance(self.costs, Costs):
            raise TypeError(f"costs is {self.costs!r}; give Costs(wrong=..., missed=..., look=...)")
        if self.risk is None and (self.groups or self.coverage is not None or self.by != "probability"):
            raise ValueError("groups, coverage and by need risk; they do not work with costs or size")
        if self.broader and (self.risk is None or self.coverage is not None or self.by != "probability"):
            raise ValueError(
                "broader terms are accepted by their probability, with a guarantee for a risk; they do not"
                " work with costs, size, coverage or another measure by="
            )
        if self.coverage is not None and self.inputs_by is not None:
            raise ValueError(
                "coverage counts the labels of all inputs, and inputs_by withholds some; use one of them"
            )
        if self.inputs_by is None and (self.inputs_risk is not None or self.inputs_coverage is not None):
            raise ValueError(
                "inputs_risk and inputs_coverage need inputs_by, the measure of uncertainty of inputs"
            )


def rule_for(
    goal: Goal,
    policy: Policy | None,
    counts: npt.NDArray[np.int64] | None,
    coarser: CoarserPolicy | None = None,
) -> tuple[Rule, str]:
    """The rule that meets a goal, and what it guarantees; costs need no policy.

    Label counts in training are needed only for groups, and `coarser` only for broader terms.
    """
    if goal.costs is not None:
        reject, accept = goal.costs.thresholds()
        return Rule(costs=goal.costs), (
            "Each label gets the decision of least expected cost: it is rejected if its probability is below"
            f" {reject:.3g} and accepted from {accept:.3g} on. It is as good as the probabilities are;"
            " nothing is guaranteed."
        )
    if policy is None:
        raise NotFittedError(
            "the model has no policy, so it cannot guarantee anything; call learn_policy with inputs that it"
            " was not trained on, or run hedgerow calibrate"
        )
    if goal.size is not None:
        least = policy.shortlist_from(goal.size)
        return Rule(least, least, most=CAP), (
            f"On average over inputs like the held-out ones, at most {goal.size:g} labels of an input are"
            f" accepted (conformal risk control): those with a probability of {least:.3g} or more, never"
            f" more than {CAP}. This does not hold for each single input, nor for"
            " out-of-distribution inputs."
        )
    risk = as_share("risk", goal.risk)
    if goal.coverage is not None:
        accept = policy.accept_share(goal.coverage, goal.by)
        accepted = (
            f"and at least {100 * goal.coverage:g} % of its labels with a probability of 0.5 or more are"
            " accepted (counting only inputs that have such labels)"
        )
    elif goal.broader:
        if coarser is None:
            raise NotFittedError(
                "the model has no policy for broader terms; call calibrate_broader and then learn_policy with"
                " inputs that it was not trained on, or run hedgerow calibrate --broader"
            )
        accept = coarser.accept_from(risk, goal.confidence)
        accepted = (
            f"and, with a confidence of {100 * goal.confidence:g} %, at most {100 * risk:g} % of its accepted"
            " labels and broader terms are wrong (Learn then Test; 0 % if nothing is accepted); a broader"
            " term is wrong if no true label is at or below it"
        )
    else:
        accept = policy.accept_from(risk, goal.confidence, goal.by)
        accepted = (
            f"and, with a confidence of {100 * goal.confidence:g} %, at most {100 * risk:g} % of its accepted"
            " labels are wrong (Learn then Test; 0 % if none is accepted)"
        )
    least_sure = accept if goal.by == "probability" else PREDICTED
    below: float | npt.NDArray[np.float32]
    if goal.groups:
        thresholds = policy.reject_below_by_group(risk)
        if counts is None:
            raise ValueError(
                "groups are not possible: the model does not know how often its labels occur in training"
            )
        edges = [group.lowest for group in policy.groups]
        place = np.searchsorted(edges, counts, side="right") - 1
        below = np.minimum(np.array(thresholds, dtype=np.float32)[place], np.float32(least_sure))
        rejected = "an input's true labels in each frequency group"
    else:
        below = min(policy.reject_below(risk), least_sure)
        rejected = "an input's true labels"
    return Rule(below, accept, goal.by), (
        f"On average over inputs like the held-out ones, at most {100 * risk:g} % of {rejected} are rejected"
        f" (conformal risk control) {accepted}. {NOT_GUARANTEED}"
    )


def about_inputs(goal: Goal) -> str:
    """What is guaranteed about the inputs that are answered."""
    left = " For the other inputs nothing is accepted: those labels are to be reviewed."
    if goal.inputs_coverage is not None:
        return f" On average, at least {100 * goal.inputs_coverage:g} % of the inputs are answered.{left}"
    return (
        f" With a confidence of {100 * goal.confidence:g} %, the best label is wrong for at most"
        f" {100 * (goal.inputs_risk or 0):g} % of the inputs that are answered (Learn then Test).{left}"
    )


def about_subset(goal: Goal, labels: int) -> str:
    """What holds where only some labels may be answered; refuses goals that compare sums over all labels."""
    if goal.inputs_by not in (None, "ood"):
        raise ValueError(
            f"inputs_by is {goal.inputs_by!r}, and its threshold was set for the uncertainty over all labels,"
            " not over those that only and exclude leave; leave inputs_by out, or use inputs_by='ood'"
        )
    if goal.costs is not None:
        return f" Only {labels:,} labels were allowed."
    return (
        f" Only {labels:,} labels were allowed, and the thresholds are those for all labels. So the guarantee"
        " is about all labels together: of the allowed labels alone, a larger share can be missed or wrong."
    )
