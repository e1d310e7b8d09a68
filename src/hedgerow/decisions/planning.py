"""From a goal for decisions to the rule that meets it, and what the rule guarantees."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from hedgerow.decisions.abstention import answer_limit
from hedgerow.decisions.coarser import CoarserPolicy
from hedgerow.decisions.goals import Goal
from hedgerow.decisions.guarantees import Guarantee, about_missed
from hedgerow.decisions.policy import CAP, PREDICTED, Policy
from hedgerow.decisions.rules import Rule

__all__ = ["Plan", "about_subset", "answer_plan", "plan_for"]

Thresholds = float | npt.NDArray[np.float32]


@dataclass(frozen=True)
class Plan:
    """How to decide, what that guarantees, and what is to be known besides, in words."""

    rule: Rule
    guarantees: tuple[Guarantee, ...]
    remarks: tuple[str, ...]

    def but(self, guarantees: tuple[Guarantee, ...] = (), remarks: tuple[str, ...] = ()) -> Plan:
        """The same with more to say."""
        return Plan(self.rule, self.guarantees + guarantees, self.remarks + remarks)


def plan_for(
    goal: Goal,
    policy: Policy | None,
    counts: npt.NDArray[np.int64] | None,
    coarser: CoarserPolicy | None = None,
) -> Plan:
    """The rule that meets a goal, and what it guarantees; costs need no policy.

    Label counts in training are needed only for groups, and `coarser` only for broader terms. What cannot be
    guaranteed does not stop the rest: its guarantee says why. It is an error if nothing is left.
    """
    if goal.costs is not None:
        reject, accept = goal.costs.thresholds()
        return Plan(
            Rule(costs=goal.costs),
            (),
            (
                "Each label gets the decision of least expected cost: it is rejected if its probability is"
                f" below {reject:.3g} and accepted from {accept:.3g} on. It is as good as the probabilities"
                " are; nothing is guaranteed.",
            ),
        )
    if policy is None:
        raise NotFittedError(
            "the model has no policy, so it cannot guarantee anything; call learn_policy with inputs that it"
            " was not trained on, or run hedgerow calibrate"
        )
    if goal.size is not None:
        least = policy.shortlist_from(goal.size)
        words = (
            f"On average over inputs, at most {goal.size:g} labels of an input are accepted (conformal risk"
            f" control): those with a probability of {least:.3g} or more, never more than {CAP}."
        )
        listed = Guarantee("size", None, float(goal.size), float(goal.size), None, None, words)
        return Plan(Rule(least, least, most=CAP, listed=0), (listed,), (policy.limits(),))
    planned = _Planned(goal, policy, counts, coarser)
    planned.accept()
    planned.reject()
    return planned.plan()


class _Planned:
    """Finds the thresholds of a goal, one after the other, and what each guarantees."""

    def __init__(
        self,
        goal: Goal,
        policy: Policy,
        counts: npt.NDArray[np.int64] | None,
        coarser: CoarserPolicy | None,
    ) -> None:
        self._goal, self._policy, self._counts, self._coarser = goal, policy, counts, coarser
        self._guarantees: list[Guarantee] = []
        self._errors: list[ValueError] = []
        self._accept_from = math.inf
        self._most: int | None = None
        self._reject_below: Thresholds = math.inf
        self._listed: int | None = None

    def accept(self) -> None:
        """From where on labels are accepted."""
        goal, policy = self._goal, self._policy
        if goal.coverage is not None:
            self._accept_from = policy.accept_share(goal.coverage, goal.by)
            words = (
                f"At least {100 * goal.coverage:g} % of an input's labels with a probability of 0.5 or more"
                " are accepted, mean over the inputs that have such labels (conformal risk control)."
            )
            coverage = float(goal.coverage)
            self._guarantees.append(Guarantee("coverage", None, coverage, coverage, None, None, words))
        if goal.wrong_at_most is None:
            return
        share, of = float(goal.wrong_at_most), str(goal.wrong_of)
        asked = Guarantee("wrong", of, share, None, goal.confidence, None, "")

        def found() -> Guarantee:
            if goal.broader:
                if self._coarser is None:
                    raise NotFittedError(
                        "the model has no policy for broader terms; call calibrate_broader and then"
                        " learn_policy with inputs that it was not trained on, or run hedgerow calibrate"
                        " --broader"
                    )
                self._accept_from, guarantee = self._coarser.wrong_guarantee(share, goal.confidence)
            else:
                self._accept_from, guarantee = policy.wrong_guarantee(share, goal.confidence, of, goal.by)
                if of != "inputs" and policy.given is not None:
                    self._most = policy.given.most
            return guarantee

        self._try(asked, found)

    def reject(self) -> None:
        """Below what labels are rejected, and how many are listed."""
        goal, policy = self._goal, self._policy
        share, number = goal.missed_at_most, goal.review_at_most
        if share is not None:
            asked = Guarantee("missed", None, float(share), None, None, None, "")
            self._try(asked, lambda: self._missed(float(share)))
        if number is not None:
            asked = Guarantee("review", None, float(number), None, goal.confidence, None, "")

            def found() -> Guarantee:
                # Fewer than that where fewer are enough.
                listed = number if self._listed is None else self._listed
                guarantee = policy.review_guarantee(listed, goal.confidence)
                self._listed, self._reject_below = listed, 0.0
                return replace(guarantee, asked=float(number))

            self._try(asked, found)

    def plan(self) -> Plan:
        """All of it; an error if nothing can be guaranteed."""
        if self._errors and len(self._errors) == len(self._guarantees):
            raise self._errors[0]
        goal, below = self._goal, self._reject_below
        # What is accepted is not rejected, and without a list nothing but that is kept.
        least_sure = self._accept_from if goal.by == "probability" else PREDICTED
        if self._listed is None:
            below = np.minimum(below, np.float32(least_sure))
            below = below if isinstance(below, np.ndarray) else float(below)
        rule = Rule(below, self._accept_from, goal.by, most=self._most, listed=self._listed)
        return Plan(rule, tuple(self._guarantees), (self._policy.limits(),))

    def _missed(self, share: float) -> Guarantee:
        policy, number = self._policy, self._goal.review_at_most
        if number is not None:
            # Both: as many of the best as it takes, if they are few enough.
            needed, guarantee = policy.few_missed_guarantee(share)
            if needed > number:
                raise ValueError(
                    f"at most {100 * share:g} % missed takes the {needed} best labels of an input, and"
                    f" review_at_most is {number}; allow more labels to review, or more missed ones"
                )
            self._listed = needed
            return guarantee
        if not self._goal.groups:
            self._reject_below, guarantee = policy.missed_guarantee(share)
            return guarantee
        if self._counts is None:
            raise ValueError(
                "groups are not possible: the model does not know how often its labels occur in training"
            )
        thresholds = policy.reject_below_by_group(share)
        edges = [group.lowest for group in policy.groups]
        place = np.searchsorted(edges, self._counts, side="right") - 1
        self._reject_below = np.array(thresholds, dtype=np.float32)[place]
        reached = [
            float(group.missed.losses[np.searchsorted(group.missed.thresholds, np.float32(below))])
            for group, below in zip(policy.groups, thresholds, strict=True)
        ]
        return about_missed(share, max(reached), policy.unseen, " in each frequency group")

    def _try(self, asked: Guarantee, work: Callable[[], Guarantee]) -> None:
        try:
            self._guarantees.append(work())
        except NotFittedError:
            raise
        except ValueError as error:
            self._errors.append(error)
            self._guarantees.append(asked.refuse(str(error)))


def answer_plan(goal: Goal, policy: Policy | None) -> tuple[float, Guarantee]:
    """The highest uncertainty of an input that is answered, and what is guaranteed of those inputs."""
    if policy is None or goal.inputs_by is None:
        raise NotFittedError("the model has no policy, so no answer can be withheld; call learn_policy")
    share, coverage = goal.inputs_wrong_at_most, goal.inputs_coverage
    limit = answer_limit(policy.inputs, goal.inputs_by, share, coverage, goal.confidence)
    left = "For the other inputs nothing is accepted: those labels are to be reviewed."
    if coverage is not None:
        words = f"On average, at least {100 * coverage:g} % of the inputs are answered. {left}"
        return limit, Guarantee("inputs", None, float(coverage), float(coverage), None, None, words)
    asked = float(share or 0)
    words = (
        f"With a confidence of {100 * goal.confidence:g} %, the best label is wrong for at most"
        f" {100 * asked:g} % of the inputs that are answered (Learn then Test). {left}"
    )
    return limit, Guarantee("inputs", None, asked, asked, goal.confidence, None, words)


def about_subset(goal: Goal, labels: int) -> str:
    """What holds where only some labels may be answered; refuses goals that compare sums over all labels."""
    if goal.inputs_by not in (None, "ood"):
        raise ValueError(
            f"inputs_by is {goal.inputs_by!r}, and its threshold was set for the uncertainty over all labels,"
            " not over those that only and exclude leave; leave inputs_by out, or use inputs_by='ood'"
        )
    if goal.costs is not None:
        return f"Only {labels:,} labels were allowed."
    return (
        f"Only {labels:,} labels were allowed, and the thresholds are those for all labels. So the guarantee"
        " is about all labels together: of the allowed labels alone, a larger share can be missed or wrong."
    )
