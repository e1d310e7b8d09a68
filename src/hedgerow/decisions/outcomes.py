"""Decisions next to the truth: what they missed, got wrong and cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.decisions.costs import Costs
from hedgerow.decisions.matched import Matched
from hedgerow.decisions.rules import ACCEPT, REJECT, REVIEW, Rule
from hedgerow.inputs.matrices import as_truth
from hedgerow.votes.votes import Votes

__all__ = ["CostComparison", "CostTally", "Outcome", "Tally", "compare_costs"]


@dataclass(frozen=True)
class Outcome:
    """What decisions achieved, as means over inputs.

    Attributes
    ----------
    missed : float
        The share of an input's true labels that were rejected, over inputs that have labels.
    wrong : float
        The share of an input's accepted labels that are wrong; 0 if none was accepted.
    precision : float
        The share of right labels among all accepted labels; NaN if none was accepted.
    accepted, reviewed, rejected : float
        Candidates per input.
    recall : float
        The share of all true labels that were accepted.
    cost, expected_cost : float
        What the decisions cost and, if they were made by costs, what they were expected to cost.
    inputs : int
        Number of inputs.
    """

    missed: float
    wrong: float
    precision: float
    accepted: float
    reviewed: float
    rejected: float
    recall: float
    cost: float
    expected_cost: float
    inputs: int


class Tally:
    """Adds up what a rule achieves, batch by batch; costs are by default those of the rule."""

    def __init__(self, rule: Rule, costs: Costs | None = None) -> None:
        self._rule = rule
        self._costs = costs or rule.costs or Costs()
        self._parts: list[npt.NDArray[np.float64]] = []

    def add(self, votes: Votes, truth: sp.csr_array) -> None:
        """Add votes and true labels of the next inputs."""
        self.add_matched(votes, Matched(votes, truth, np.ones(truth.shape[1], dtype=bool)))

    def add_matched(self, votes: Votes, found: Matched) -> None:
        """The same with candidates and truth already matched."""
        n, row, right, mean = found.rows, found.row, found.right, found.mean
        codes = self._rule.codes(votes, mean)

        def number(chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
            return np.bincount(row[chosen], minlength=n).astype(np.float64)

        accepted, reviewed = number(codes == ACCEPT), number(codes == REVIEW)
        rejected = np.diff(votes.indptr) - accepted - reviewed
        good = number((codes == ACCEPT) & right)
        kept = number((codes != REJECT) & right)
        true = np.bincount(found.true_row, minlength=n).astype(np.float64)
        costs = self._costs
        cost = (accepted - good) * costs.wrong + (true - kept) * costs.missed + reviewed * costs.look
        expected = np.zeros(n)
        if self._rule.costs is not None:
            expected = Rule(costs=costs).expected_cost(votes, mean, codes)
        self._parts.append(np.column_stack([true, kept, accepted, reviewed, rejected, good, cost, expected]))

    def finish(self) -> Outcome:
        """All that was added."""
        true, kept, accepted, reviewed, rejected, good, cost, expected = np.concatenate(self._parts).T
        has = true > 0
        given = accepted.sum()
        return Outcome(
            missed=float(1 - (kept[has] / true[has]).mean()) if has.any() else float("nan"),
            wrong=float(((accepted - good) / np.maximum(accepted, 1)).mean()),
            precision=float(good.sum() / given) if given else float("nan"),
            accepted=float(accepted.mean()),
            reviewed=float(reviewed.mean()),
            rejected=float(rejected.mean()),
            recall=float(good.sum() / true.sum()) if has.any() else float("nan"),
            cost=float(cost.mean()),
            expected_cost=float(expected.mean()),
            inputs=len(true),
        )


@dataclass(frozen=True)
class CostComparison:
    """Deciding at least expected cost, compared with never and with always asking a person.

    Attributes
    ----------
    best : Outcome
        Accept, ask or reject, whatever is expected to cost least.
    never_asking : Outcome
        The same without asking.
    always_asking : Outcome
        The same without accepting: a person reviews every label that is not rejected.
    """

    best: Outcome
    never_asking: Outcome
    always_asking: Outcome


class CostTally:
    """Adds up costs, batch by batch."""

    def __init__(self, costs: Costs) -> None:
        if not isinstance(costs, Costs):
            raise TypeError(f"costs is {costs!r:.60}; give Costs(wrong=..., missed=..., look=...)")
        choices = ((REJECT, REVIEW, ACCEPT), (REJECT, ACCEPT), (REJECT, REVIEW))
        self._tallies = [Tally(Rule(costs=costs, choices=own)) for own in choices]

    def add(self, votes: Votes, truth: sp.csr_array) -> None:
        """Add the next inputs; see `Tally.add`."""
        found = Matched(votes, truth, np.ones(truth.shape[1], dtype=bool))
        for tally in self._tallies:
            tally.add_matched(votes, found)

    def finish(self) -> CostComparison:
        """All that was added."""
        return CostComparison(*(tally.finish() for tally in self._tallies))


def compare_costs(batches: Iterable[tuple[Votes, Any]], costs: Costs) -> CostComparison:
    """What deciding at least expected cost achieves, per input.

    Parameters
    ----------
    batches : iterable of (Votes, csr_array)
        Votes with calibrated probabilities, and the truth.
    costs : Costs
        What mistakes and reviews cost.

    Returns
    -------
    CostComparison

    Examples
    --------
    >>> votes = Votes([0, 2], [0, 1], [[0.95], [0.5]], 2)
    >>> found = compare_costs([(votes, sp.csr_array([[1, 0]]))], Costs(wrong=1, missed=1, look=0.1))
    >>> found.best.cost, found.never_asking.cost, found.always_asking.cost
    (0.1, 1.0, 0.2)
    """
    tally = CostTally(costs)
    for votes, truth in batches:
        tally.add(votes, as_truth(truth, len(votes), votes.n_labels))
    return tally.finish()
