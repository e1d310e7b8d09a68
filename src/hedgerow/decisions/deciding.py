"""Decides on the labels of inputs: accept, review or reject."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from hedgerow.decisions.abstention import input_uncertainty
from hedgerow.decisions.coarser import BroaderVotes, CoarserPolicy, Ladder
from hedgerow.decisions.goals import Goal
from hedgerow.decisions.planning import Plan, about_subset, answer_plan, plan_for
from hedgerow.decisions.policy import Policy
from hedgerow.decisions.results import BroaderAnswers, Decisions, Quality, Shift
from hedgerow.decisions.risk import as_share
from hedgerow.decisions.rules import ACCEPT, REJECT, REVIEW, best_places
from hedgerow.inputs.parameters import check_integer
from hedgerow.inputs.search import SearchSettings
from hedgerow.inputs.subset import LabelSubset
from hedgerow.progress import Progress, stage
from hedgerow.votes.batches import answer_batches
from hedgerow.votes.measures import label_uncertainty
from hedgerow.votes.signals import Detector
from hedgerow.votes.source import Answer, VoteSource
from hedgerow.votes.votes import Votes

__all__ = ["DecidingSource", "Watch", "accepted_broader", "check_search", "decide", "decide_on", "flag_from"]


class Watch(Protocol):
    """Compares inputs with the held-out ones, by what was computed anyway."""

    def add(self, answer: Answer) -> None:
        """Add the next inputs."""

    def report(self) -> Shift:
        """What was found."""


class BroaderSource(Protocol):
    """A model that may answer with broader terms."""

    @property
    def broader(self) -> BroaderVotes | None:
        """How it votes on broader terms."""

    @property
    def coarser(self) -> CoarserPolicy | None:
        """What it learned from mistakes with broader terms."""

    def watch(self, *, some_labels: bool = False, in_order: bool = False) -> Watch | None:
        """What compares inputs with those that the policy was learned from."""


class DecidingSource(VoteSource, BroaderSource, Protocol):
    """A model that may have a policy."""

    @property
    def policy(self) -> Policy | None:
        """What it learned from its mistakes on held-out inputs."""

    @property
    def forecasts(self) -> bool:
        """Whether it has learned how good answers are, for this search."""

    def expected(self, inputs: Any, answer: Answer, k: int) -> Quality | None:
        """How good its best labels are expected to be, from an answer that held k; None where not learned."""


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
    plan = plan_for(goal, policy, source.label_counts, source.coarser)
    tolerance = None
    if policy is not None:
        tolerance = policy.search.tolerance
        check_search(policy, replace(source.search, tolerance=tolerance))
    limit = math.inf
    if goal.inputs_by is not None:
        limit, of_inputs = answer_plan(goal, policy)
        plan = plan.but((of_inputs,))
    if subset is not None:
        plan = plan.but(remarks=(about_subset(goal, len(subset)),))
    if detector is None and goal.inputs_by == "ood":
        raise NotFittedError("the model cannot detect OOD inputs yet; call learn_ood")
    flagged_from = flag_from(false_alarm, detector) if detector is not None else None
    parts = []
    watch = source.watch(some_labels=subset is not None)
    batches = answer_batches(
        source,
        inputs,
        tolerance=tolerance,
        signals=detector is not None or (source.forecasts and subset is None),
        subset=subset,
        progress=stage(progress, "deciding"),
    )
    for rows, answer in batches:
        if watch is not None:
            watch.add(answer)
        scores = detector.judge(answer.signals) if detector and answer.signals is not None else None
        answered = np.ones(len(answer.votes), dtype=bool)
        if goal.inputs_by is not None:
            uncertainty = input_uncertainty(answer.votes, None if scores is None else scores.score)
            answered = uncertainty[goal.inputs_by] <= limit
        found = decide_on(answer, plan, source.classes, k, answered)
        if goal.broader:
            accepted = accepted_broader(answer.votes, source, plan.rule.accept_from, answered)
            found = replace(found, broader=accepted)
        if scores is not None:
            is_ood = None if flagged_from is None else scores.p_value <= flagged_from
            found = replace(found, is_ood=is_ood, p_value=scores.p_value)
        if subset is None:
            found = replace(found, quality=source.expected(inputs[rows], answer, 1))
        parts.append(found)
    if not parts:
        nothing = np.empty((0, 1), dtype=np.float32)
        empty = Votes(np.zeros(1, np.int64), np.empty(0, np.int32), nothing, len(source.classes))
        nobody = np.ones(0, dtype=bool)
        found = decide_on(Answer(empty), plan, source.classes, k, nobody)
        if goal.broader:
            found = replace(found, broader=accepted_broader(empty, source, plan.rule.accept_from, nobody))
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
    answer: Answer, plan: Plan, classes: npt.NDArray[Any], k: int, answered: npt.NDArray[np.bool_]
) -> Decisions:
    """Decide on a batch; at least k labels of each input are listed, if it has that many candidates."""
    votes, rule = answer.votes, plan.rule
    mean = votes.means()
    ranking = mean if answer.ranking is None else answer.ranking
    codes = rule.codes(votes, mean, ranking)
    rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
    codes[(codes == ACCEPT) & ~answered[rows]] = REVIEW
    best = np.zeros(len(codes), dtype=bool)
    best[best_places(votes, ranking, k)[0]] = True
    listed = np.flatnonzero((codes != REJECT) | best)
    few = votes.chosen(listed)
    measures = label_uncertainty(few)
    order = np.lexsort((few.labels, -mean[listed], -ranking[listed], rows[listed]))
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
        guarantees=plan.guarantees,
        remarks=plan.remarks,
    )


def accepted_broader(
    votes: Votes,
    source: BroaderSource,
    accept_from: float,
    answered: npt.NDArray[np.bool_] | None = None,
) -> BroaderAnswers:
    """The broader terms of a batch that are accepted, best first; none of inputs that are not answered."""
    broader, coarser = source.broader, source.coarser
    if broader is None or coarser is None:
        raise NotFittedError("the model has no policy for broader terms; call calibrate_broader")
    terms = broader.apply(votes)
    chosen = Ladder.of(votes, terms, broader.ancestry, coarser.least_depth).answers(accept_from)
    rows = np.repeat(np.arange(len(terms)), np.diff(terms.indptr))
    if answered is not None:
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
