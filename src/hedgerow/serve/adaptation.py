"""A threshold for accepted labels that follows what reviewers say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hedgerow.decisions.goals import Goal
from hedgerow.decisions.guarantees import Guarantee
from hedgerow.shift.adaptive import AdaptiveThreshold

from .queue_store import QueueError, QueueItem, QueueStore
from .served_model import ServedModel
from .verdicts import Sorting

__all__ = ["Adaptation"]

_NAME = "adaptive threshold"


class Adaptation:
    """Adaptive conformal inference from reviews: in the long run, at most the target share is wrong.

    That is the mean over reviewed texts of the share of wrong labels among those that would be accepted. What
    was learned is stored beside the queue, in one transaction with the review that it comes from. Another
    model, or another target, begins anew.
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
        if current is None:
            return sorting
        plan, accept = sorting.plan, current.threshold
        listing = plan.rule.listed is not None or sorting.goal.missed_at_most is not None
        # What is neither accepted nor listed for review is rejected, as without reviews.
        below = min(float(plan.rule.reject_below), accept) if listing else accept
        rule = replace(plan.rule, accept_from=accept, reject_below=below)
        guarantees = tuple(_followed(of, current) if of.kind == "wrong" else of for of in plan.guarantees)
        return replace(sorting, plan=replace(plan, rule=rule, guarantees=guarantees))

    def review(self, served: ServedModel, number: int, state: str, labels: Sequence[str | int]) -> bool:
        """Store a review and learn from it, all or nothing; return whether the text exists."""
        new = self._stored

        def learned(item: QueueItem) -> Any:
            nonlocal new
            current = self._current(served)
            if item.model == served.id and state != "skipped" and current is not None:
                moved = current.updated(_loss(item, current.threshold, labels))
                new = {"model": served.id, **moved.to_dict()}
            return new

        exists = self._store.decide(number, state, labels, learn=(_NAME, learned))
        self._stored = new  # only now is it in the file
        return exists

    def describe(self, served: ServedModel) -> dict[str, Any] | None:
        """What it is now, as the API has it."""
        current = self._current(served)
        if current is None:
            return None
        return {
            "target": self.target,
            "accept_from": current.threshold if math.isfinite(current.threshold) else None,
            "reviews": current.rounds,
            "wrong": current.mean_loss if current.rounds else None,
            "at_most": current.bound,
        }

    def _current(self, served: ServedModel) -> AdaptiveThreshold | None:
        policy, stored = served.model.policy, self._stored
        if policy is None:
            return None
        first = AdaptiveThreshold.of_wrong(policy.wrong["probability"], self.target)
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
    return goal.wrong_at_most == target and goal.wrong_of == "inputs"


def _followed(of: Guarantee, current: AdaptiveThreshold) -> Guarantee:
    """What is guaranteed instead, where the threshold follows reviews."""
    found = f", {100 * current.mean_loss:.1f} % so far" if current.rounds else ""
    words = (
        f"In the long run, at most {100 * of.asked:g} % of an input's accepted labels are wrong, mean over"
        " reviewed inputs, where those that are given none count as 0 % (adaptive conformal inference: the"
        f" threshold follows reviews, {current.rounds:,} of them{found})."
    )
    reached = current.mean_loss if current.rounds else None
    return replace(of, promised=of.asked, confidence=None, reached=reached, words=words, refused=None)


def _loss(item: QueueItem, threshold: float, labels: Sequence[str | int]) -> float:
    """The share of wrong labels among those of a text that would be accepted; 0 if none would be."""
    right = set(labels)
    given = [one["label"] for one in item.prediction["labels"] if one["probability"] >= threshold]
    return sum(label not in right for label in given) / max(1, len(given))
