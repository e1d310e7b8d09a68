"""Decides on the labels of inputs: accept, review or reject."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from hedgerow.decisions.abstention import answer_limit, input_uncertainty
from hedgerow.decisions.coarser import BroaderVotes, CoarserPolicy, Ladder
from hedgerow.decisions.goals import Goal, about_inputs, about_subset, rule_for
from hedgerow.decisions.policy import Policy
from hedgerow.decisions.results import BroaderAnswers, Decisions, Shift
from hedgerow.decisions.risk import as_share
from hedgerow.decisions.rules import ACCEPT, REJECT, REVIEW, Rule, among_best
from hedgerow.inputs.parameters import check_integer
from hedgerow.inputs.search import SearchSettings
from hedgerow.inputs.subset import LabelSubset
from hedgerow.progress import Progress, stage
from hedgerow.votes.batches import answer_batches
from hedgerow.votes.measures import label_uncertainty
from hedgerow.votes.signals import Detector
from hedgerow.votes.source import Answer, VoteSource
from hedgerow.votes.votes import Votes

__all__ = ["DecidingSource", "Watch", "check_search", "decide", "decide_on", "flag_from"]


class Watch(Protocol):
    """Compares inputs with the held-out ones, by what was computed anyway."""

    def add(self, answer: Answer) -> None:
        """Add the next inputs."""

    def report(self) -> Shift:
        """What was found."""


class DecidingSource(VoteSource, Protocol):
    """A model that may have a policy."""

    @property
    def policy(self) -> Policy | None:
        """What it learned from its mistakes on held-out inputs."""

    @property
    def broader(self) -> BroaderVotes | None:
        """How it votes on broader terms."""

    @property
    def coarser(self) -> CoarserPolicy | None:
        """What it learned from mistakes with broader terms."""

    def watch(self, *, some_labels: bool = False, in_order: bool = False) -> Watch | None:
        """What compares inputs with those that the policy was learned from."""


def decide(
    source: DecidingSource,
    inputs: Any,
    goal: Goal,
    *,
    false_alarm: float | None = 0.05,
    k: int = 5,
    subset: LabelSubset | None = None,
    progress: Progress | None = None,
) -> Decisions:
    """Decide on the labels of inputs; see `HedgerowClassifier.decide`."""
    check_integer("k", k, 0)
    policy, detector = source.policy, source.ood
    if goal.costs is not None and not source.calibrated:
        raise NotFittedError(
            "deciding by costs needs calibrated probabilities, and this model is not calibrated; call"
            " calibrate with inputs that it was not trained on"
        )
    rule, guarantee = rule_for(goal, policy, source.label_counts, source.coarser)
    tolerance = None
    if policy is not None:
        tolerance = policy.search.tolerance
        check_search(policy, replace(source.search, tolerance=tolerance))
    limit = math.inf
    if goal.inputs_by is not None:
        if policy is None:
            raise NotFittedError("the model has no policy, so no answer can be withheld; call learn_policy")
        limit = answer_limit(
            policy.inputs, goal.inputs_by, goal.inputs_risk, goal.inputs_coverage, goal.confidence
        )
        guarantee += about_inputs(goal)
    if subset is not None:
        guarantee += about_subset(goal, len(subset))
    if detector is None and goal.inputs_by == "ood":
        raise NotFittedError("the model cannot detect OOD inputs yet; call learn_ood")
    flagged_from = flag_from(false_alarm, detector) if detector is not None else None
    parts = []
    watch = source.watch(some_labels=subset is not None)
    batches = answer_batches(
        source,
        inputs,
        tolerance=tolerance,
        signals=detector is not None,
        subset=subset,
        progress=stage(progress, "deciding"),
    )
    for _, answer in batches:
        if watch is not None:
            watch.add(answer)
        scores = detector.judge(answer.signals) if detector and answer.signals is not None else None
        answered = np.ones(len(answer.votes), dtype=bool)
        if goal.inputs_by is not None:
            uncertainty = input_uncertainty(answer.votes, None if scores is None else scores.score)
            answered = uncertainty[goal.inputs_by] <= limit
        found = replace(decide_on(answer.votes, rule, source.classes, k, answered), guarantee=guarantee)
        if goal.broader:
            found = replace(found, broader=_broader(answer.votes, source, rule.accept_from, answered))
        if scores is not None:
            is_ood = None if flagged_from is None else scores.p_value <= flagged_from
            found = replace(found, is_ood=is_ood, p_value=scores.p_value)
        parts.append(found)
    if not parts:
        nothing = np.empty((0, 1), dtype=np.float32)
        empty = Votes(np.zeros(1, np.int64), np.empty(0, np.int32), nothing, len(source.classes))
        nobody = np.ones(0, dtype=bool)
        found = replace(decide_on(empty, rule, source.classes, k, nobody), guarantee=guarantee)
        if goal.broader:
            found = replace(found, broader=_broader(empty, source, rule.accept_from, nobody))
        return found
    return replace(Decisions.concatenate(parts), shift=None if watch is None else watch.report())


def check_search(policy: Policy, search: SearchSettings) -> None:
    """Refuse any search but the one that the policy was learned with: its guarantees hold for no other."""
    for part in fields(SearchSettings):
        name, before, value = part.name, getattr(policy.search, part.name), getattr(search, part.name)
        if before != value:
            raise ValueError(
                f"{name} is {value!r}, but the policy was learned with {before!r} and its guarantees"
                " hold for that search only; set it back, or learn the policy again"
            )


def decide_on(
    votes: Votes, rule: Rule, classes: npt.NDArray[Any], k: int, answered: npt.NDArray[np.bool_]
) -> Decisions:
    """Decide on a batch; at least k labels of each input are listed, if it has that many candidates."""
    mean = votes.means()
    codes = rule.codes(votes, mean)
    rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
    codes[(codes == ACCEPT) & ~answered[rows]] = REVIEW
    listed = np.flatnonzero((codes != REJECT) | among_best(votes.indptr, mean, k))
    few = votes.chosen(listed)
    measures = label_uncertainty(few)
    order = np.lexsort((few.labels, -mean[listed], rows[listed]))
    chosen = listed[order]
    of_labels = {
        part.name: getattr(measures, part.name)[order].astype(np.float32) for part in fields(measures)
    }
    of_labels["probability"] = mean[chosen]
    below = rule.reject_below
    reject, accept = rule.costs.thresholds() if rule.costs else (float(np.min(below)), rule.accept_from)
    return Decisions(
        indptr=few.indptr,
        labels=classes[votes.labels[chosen]],
        columns=votes.labels[chosen],
        **of_labels,
        decision=codes[chosen],
        answered=answered,
        is_ood=None,
        p_value=None,
        bound=votes.bound,
        expected_cost=None if rule.costs is None else rule.expected_cost(votes, mean, codes),
        reject_below=reject,
        accept_from=accept,
        guarantee="",
    )


def _broader(
    votes: Votes, source: DecidingSource, accept_from: float, answered: npt.NDArray[np.bool_]
) -> BroaderAnswers:
    """The broader terms of a batch that are accepted, best first."""
    broader, coarser = source.broader, source.coarser
    if broader is None or coarser is None:
        raise NotFittedError("the model has no policy for broader terms; call calibrate_broader")
    terms = broader.apply(votes)
    chosen = Ladder.of(votes, terms, broader.ancestry, coarser.least_depth).answers(accept_from)
    rows = np.repeat(np.arange(len(terms)), np.diff(terms.indptr))
    chosen = chosen[answered[rows[chosen]]]
    few = terms.chosen(chosen)
    measures, mean = label_uncertainty(few), few.means()
    order = np.lexsort((few.labels, -mean, rows[chosen]))
    of_terms = {
        part.name: getattr(measures, part.name)[order].astype(np.float32) for part in fields(measures)
    }
    of_terms["probability"] = mean[order]
    return BroaderAnswers(few.indptr, broader.term_names[few.labels[order]], **of_terms)


def flag_from(share: float | None, detector: Detector) -> float | None:
    """The p-value up to which an input is flagged as OOD; None flags none."""
    if share is None:
        return None
    share = as_share("false_alarm", share)
    scores = len(detector.scores)
    if share * (scores + 1) < 1:
        raise ValueError(
            f"false_alarm is {share:g}, but the OOD detector was learned from only {2 * scores} inputs, so no"
            f" p-value is below {1 / (scores + 1):.3g}; learn it from at least {2 * math.ceil(1 / share)}"
        )
    return share
