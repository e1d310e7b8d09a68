"""Thresholds for accepted labels that follow what reviewers say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hedgerow.decisions.goals import Goal
from hedgerow.decisions.guarantees import Guarantee
from hedgerow.shift.adaptive import AdaptiveThreshold
from hedgerow.shift.adaptive_ratio import AdaptiveRatio

from .queue_store import QueueError, QueueItem, QueueStore
from .served_model import ServedModel
from .verdicts import Sorting

__all__ = ["Adaptation"]

_NAME = "adaptive threshold"
_LABELS = "labels"  # under which the share of all labels is stored; older versions have only the rest


@dataclass(frozen=True)
class _Thresholds:
    """Those that follow reviews: for the mean over inputs, and for the share of all accepted labels.

    Models that were calibrated by older versions have no share of all labels.
    """

    inputs: AdaptiveThreshold
    labels: AdaptiveRatio | None

    def of(self, kind: str | None) -> AdaptiveThreshold | AdaptiveRatio | None:
        """That of a kind of wrong labels."""
        return {"inputs": self.inputs, "labels": self.labels}.get(kind or "")

    def updated(self, item: QueueItem, right: Sequence[str | int]) -> _Thresholds:
        """After a review that found these labels right."""
        given, wrong = _given(item, self.inputs.threshold, right)
        labels = self.labels
        if labels is not None:
            labels = labels.updated(*_given(item, labels.threshold, right, labels.most))
        return _Thresholds(self.inputs.updated(wrong / max(1, given)), labels)

    def to_dict(self) -> dict[str, Any]:
        """What they have learned, to be stored."""
        labels = {} if self.labels is None else {_LABELS: self.labels.to_dict()}
        return {**self.inputs.to_dict(), **labels}

    def restored(self, state: dict[str, Any]) -> _Thresholds:
        """The same with what `to_dict` stored, after checking it."""
        own = {name: value for name, value in state.items() if name != _LABELS}
        labels = self.labels
        if labels is not None and _LABELS in state:
            labels = labels.restored(state[_LABELS])
        return _Thresholds(self.inputs.restored(own), labels)


class Adaptation:
    """Adaptive conformal inference from reviews: in the long run, at most the target share is wrong.

    That is the share of wrong labels among those that would be accepted: of all labels of the reviewed texts,
    or the mean over these texts; each has a threshold. What was learned is stored beside the queue, in one
    transaction with the review that it comes from. Another model, or another target, begins anew.
    """

    def __init__(self, store: QueueStore, target: float) -> None:
        self._store, self.target = store, target
        self._stored = store.state(_NAME)  # read here only; requests must not touch the file

    def check(self, served: ServedModel) -> None:
        """Raise `QueueError` if what is stored is damaged."""
        self._current(served)

    def sorting(self, served: ServedModel, sorting: Sorting) -> Sorting:
        """The sorting with the threshold as it is now, for goals with the same share of wrong labels."""
        if not _asks_for(sorting.goal, self.target):
            return sorting
        current = self._current(served)
        follows = None if current is None else current.of(sorting.goal.wrong_of)
        if follows is None:
            return sorting
        plan, accept = sorting.plan, follows.threshold
        listing = plan.rule.listed is not None or sorting.goal.missed_at_most is not None
        # What is neither accepted nor listed for review is rejected, as without reviews.
        below = min(float(plan.rule.reject_below), accept) if listing else accept
        rule = replace(plan.rule, accept_from=accept, reject_below=below)
        if isinstance(follows, AdaptiveRatio):
            rule = replace(rule, most=follows.most)
        guarantees = tuple(_followed(of, follows) if of.kind == "wrong" else of for of in plan.guarantees)
        return replace(sorting, plan=replace(plan, rule=rule, guarantees=guarantees))

    def review(self, served: ServedModel, number: int, state: str, labels: Sequence[str | int]) -> bool:
        """Store a review and learn from it, all or nothing; return whether the text exists."""
        new = self._stored

        def learned(item: QueueItem) -> Any:
            nonlocal new
            current = self._current(served)
            if item.model == served.id and state != "skipped" and current is not None:
                new = {"model": served.id, **current.updated(item, labels).to_dict()}
            return new

        exists = self._store.decide(number, state, labels, learn=(_NAME, learned))
        self._stored = new  # only now is it in the file
        return exists

    def describe(self, served: ServedModel) -> dict[str, Any] | None:
        """What it is now, as the API has it."""
        current = self._current(served)
        if current is None:
            return None
        inputs, labels = current.inputs, current.labels
        return {
            "target": self.target,
            "accept_from": _finite(inputs.threshold),
            "reviews": inputs.rounds,
            "wrong": inputs.mean_loss if inputs.rounds else None,
            "at_most": inputs.bound,
            "labels": None
            if labels is None
            else {
                "accept_from": _finite(labels.threshold),
                "reviews": labels.rounds,
                "accepted": labels.given,
                "wrong": labels.share if labels.given else None,
                "at_most": labels.bound,
            },
        }

    def _current(self, served: ServedModel) -> _Thresholds | None:
        policy, stored = served.model.policy, self._stored
        if policy is None:
            return None
        labels = None if policy.given is None else AdaptiveRatio.of_given(policy.given, self.target)
        first = _Thresholds(AdaptiveThreshold.of_wrong(policy.wrong["probability"], self.target), labels)
        if stored is None:
            return first
        if not isinstance(stored, dict):
            raise QueueError(f"{self._store.path}: the stored {_NAME} is damaged; name another --queue")
        own = {name: value for name, value in stored.items() if name != "model"}
        if stored.get("model") != served.id or own.get("target") != self.target:
            return first
        try:
            return first.restored(own)
        except ValueError as error:
            raise QueueError(f"{self._store.path}: {error}; name another file with --queue") from error


def _asks_for(goal: Goal, target: float) -> bool:
    if goal.broader or goal.by != "probability":
        return False
    return goal.wrong_at_most == target


def _finite(threshold: float) -> float | None:
    return threshold if math.isfinite(threshold) else None


def _followed(of: Guarantee, follows: AdaptiveThreshold | AdaptiveRatio) -> Guarantee:
    """What is guaranteed instead, where the threshold follows reviews."""
    if isinstance(follows, AdaptiveRatio):
        reached = follows.share if follows.given else None
        kept = f"at most {100 * of.asked:g} % of all accepted labels of reviewed inputs are wrong"
    else:
        reached = follows.mean_loss if follows.rounds else None
        kept = (
            f"at most {100 * of.asked:g} % of an input's accepted labels are wrong, mean over reviewed"
            " inputs, where those that are given none count as 0 %"
        )
    found = "" if reached is None else f", {100 * reached:.1f} % so far"
    words = (
        f"In the long run, {kept} (adaptive conformal inference: the threshold follows reviews,"
        f" {follows.rounds:,} of them{found})."
    )
    return replace(of, promised=of.asked, confidence=None, reached=reached, words=words, refused=None)


def _given(
    item: QueueItem, threshold: float, right: Sequence[str | int], most: int | None = None
) -> tuple[int, int]:
    """How many labels of a text would be accepted, and how many of them are wrong."""
    # Of the best `most` labels: which these are does not depend on the threshold.
    best = item.prediction["labels"][:most]
    given = [one["label"] for one in best if one["probability"] >= threshold]
    return len(given), len(set(given) - set(right))
