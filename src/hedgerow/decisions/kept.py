"""What a policy guarantees, next to what it achieves on labelled data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.decisions.given import RATIOS, betting_p_values
from hedgerow.decisions.goals import Goal
from hedgerow.decisions.guarantees import Guarantee
from hedgerow.decisions.matched import Matched
from hedgerow.decisions.planning import plan_for
from hedgerow.decisions.policy import Policy
from hedgerow.decisions.rules import ACCEPT, REJECT, Rule
from hedgerow.inputs.search import SearchSettings
from hedgerow.votes.source import Answer

__all__ = ["FALSE_ALARM", "GuaranteeTally", "KeptGuarantee", "ratio_p_value"]

FALSE_ALARM = 0.05
_BROKEN = 1e-3  # the level at which bets against a guarantee should win

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class KeptGuarantee:
    """One thing that is guaranteed, and what decisions achieved.

    Attributes
    ----------
    guarantee : Guarantee
        What is guaranteed.
    achieved : float or None
        The same share on the labelled data; None where it is refused, or there is nothing to count.
    labels : float or None
        How many labels of an input are accepted, or, for the other kinds, listed; the mean.
    inputs : int
        How many inputs count: those that have labels that the model knows, or, for wrong ones, those whose
        accepted labels are counted.
    counted, failed : int
        Of the right labels that the model knows, or, for wrong ones, of the accepted labels: how many there
        are, and how many of them were missed, or are wrong.
    p_value : float or None
        For a share of all accepted labels, or of those of answered inputs: how likely so much or more is if
        it was kept, from what a gambler won who bet against it. None for the other kinds.
    """

    guarantee: Guarantee
    achieved: float | None
    labels: float | None
    inputs: int = 0
    counted: int = 0
    failed: int = 0
    p_value: float | None = None

    @property
    def kept(self) -> bool | None:
        """Whether it was achieved; None where nothing was."""
        return None if self.achieved is None else self.guarantee.keeps(self.achieved)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers: what is guaranteed, and what is achieved."""
        found = {"achieved": self.achieved, "kept": self.kept, "labels": self.labels}
        return self.guarantee.to_dict() | found


class GuaranteeTally:
    """Adds up what decisions achieve at each of the usual goals, or of those given, batch by batch.

    Without a policy, or with another search than that of the policy, nothing is guaranteed.
    """

    def __init__(
        self,
        policy: Policy | None,
        search: SearchSettings,
        counts: npt.NDArray[np.int64] | None,
        guarantees: tuple[Guarantee, ...] | None = None,
    ) -> None:
        self._counts = counts
        self._guarantees: tuple[Guarantee, ...] = ()
        if policy is not None and policy.search.to_dict() == search.to_dict():
            self._guarantees = policy.standard() if guarantees is None else guarantees
        self._rules = [_rule(of, policy, counts) for of in self._guarantees]
        self._parts: list[list[Floats]] = [[] for _ in self._rules]

    def add(self, answer: Answer, truth: sp.csr_array) -> None:
        """Add the next inputs."""
        if not self._guarantees:
            return
        votes = answer.votes
        found = Matched(votes, truth, self._known(truth.shape[1], votes.n_labels))
        known = np.bincount(found.true_row[found.known], minlength=found.rows)
        for rule, parts in zip(self._rules, self._parts, strict=True):
            if rule is not None:
                codes = rule.codes(votes, found.mean, answer.ranking)
                kept = codes == ACCEPT if rule.listed == 0 else codes != REJECT
                number, right = (
                    np.bincount(found.row[own], minlength=found.rows) for own in (kept, kept & found.right)
                )
                parts.append(np.column_stack([known, number, right]).astype(np.float64))

    def finish(self) -> list[KeptGuarantee]:
        """All guarantees; none where nothing is guaranteed."""
        found = []
        for guarantee, rule, parts in zip(self._guarantees, self._rules, self._parts, strict=True):
            if not parts:
                found.append(KeptGuarantee(guarantee, None, None))
                continue
            rows = np.concatenate(parts)
            achieved, inputs = _achieved(guarantee, rows)
            base = rows[:, 1] if guarantee.kind == "wrong" else rows[:, 0]
            counted, failed = int(base.sum()), int((base - rows[:, 2]).sum())
            p_value = None
            if achieved is not None and rule is not None and rule.most is not None:
                p_value = ratio_p_value(guarantee, rows[:, 1], rows[:, 2], rule.most)
            mean = float(rows[:, 1].mean())
            found.append(KeptGuarantee(guarantee, achieved, mean, inputs, counted, failed, p_value))
        return found

    def counts(self) -> list[Floats | None]:
        """Of each guarantee and input: its known, its kept and its right labels; None where it is refused."""
        return [np.concatenate(parts) if parts else None for parts in self._parts]

    def _known(self, columns: int, labels: int) -> npt.NDArray[np.bool_]:
        known = np.arange(columns) < labels
        if self._counts is not None:
            known[: len(self._counts)] &= self._counts > 0
        return known


def _rule(guarantee: Guarantee, policy: Policy | None, counts: npt.NDArray[np.int64] | None) -> Rule | None:
    """The rule that keeps this guarantee alone; None where it is refused."""
    if guarantee.refused is not None:
        return None
    if guarantee.kind == "wrong":
        goal = Goal(wrong_at_most=guarantee.asked, wrong_of=guarantee.of)
        rule = plan_for(goal, policy, counts).rule
        return Rule(rule.reject_below, rule.accept_from, most=rule.most, listed=0)
    if guarantee.kind == "missed":
        return plan_for(Goal(missed_at_most=guarantee.asked), policy, counts).rule
    return plan_for(Goal(review_at_most=int(guarantee.asked)), policy, counts).rule


def ratio_p_value(guarantee: Guarantee, given: Floats, right: Floats, most: int) -> float | None:
    """The p-value of "a ratio of two means is kept", by bets on each input; None where there is no ratio.

    `given` is how many labels each input is given, at most `most`, and `right` how many of these are right.
    """
    if guarantee.kind != "wrong" or guarantee.of not in RATIOS:
        return None
    wrong = given - right
    if guarantee.of == "answered":
        wrong, given, most = wrong / np.maximum(given, 1), (given > 0).astype(np.float64), 1
    # Who bets against a guarantee gains by wrong labels, and nothing on average if it is kept.
    gains, counts = np.unique(wrong - guarantee.asked * given, return_counts=True)
    # What can be lost at most limits the stakes, whether it occurs or not: they must not depend on the data.
    gains, counts = np.append(gains, -guarantee.asked * most), np.append(counts, 0)
    return float(betting_p_values(counts[None], gains, guarantee.asked, _BROKEN)[0])


def _achieved(guarantee: Guarantee, rows: Floats) -> tuple[float | None, int]:
    """The share that is guaranteed, of inputs with their known, their kept and their right labels.

    Also how many inputs count.
    """
    known, number, right = rows.T
    if guarantee.kind == "wrong":
        if guarantee.of == "labels":
            share = float(1 - right.sum() / number.sum()) if number.any() else None
            return share, int(np.count_nonzero(number))
        wrong = (number - right) / np.maximum(number, 1)
        own = wrong[number > 0] if guarantee.of == "answered" else wrong
    else:
        found = right / np.maximum(known, 1)
        own = (found if guarantee.kind == "review" else 1 - found)[known > 0]
    return float(own.mean()) if own.size else None, own.size
