"""How to decide on labels: by thresholds, or by least expected cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.decisions.abstention import certainty
from hedgerow.decisions.costs import Costs
from hedgerow.decisions.policy import PREDICTED
from hedgerow.votes.measures import label_uncertainty
from hedgerow.votes.votes import Votes

__all__ = ["ACCEPT", "DECISIONS", "REJECT", "REVIEW", "Rule", "among_best"]

Floats = npt.NDArray[np.float32]

DECISIONS = ("reject", "review", "accept")
REJECT, REVIEW, ACCEPT = range(3)


@dataclass(frozen=True, eq=False)
class Rule:
    """How to decide on candidates: by thresholds on the probability (one, or one per label) or by costs.

    Labels whose certainty, measured by `by`, is at least `accept_from` are accepted; measures other than the
    probability accept only labels with a probability of one half or more. Costs replace the thresholds and
    may be restricted to some `choices`. At most `most` labels of an input are accepted, the most probable.
    """

    reject_below: float | npt.NDArray[np.float32] = 0.0
    accept_from: float = math.inf
    by: str = "probability"
    costs: Costs | None = None
    choices: tuple[int, ...] = (REJECT, REVIEW, ACCEPT)
    most: int | None = None

    def codes(self, votes: Votes, mean: Floats) -> npt.NDArray[np.int8]:
        """What to do with each candidate, as places in `DECISIONS`."""
        if self.costs is not None:
            choices = np.array(self.choices)
            # Of equal costs the first counts: no review where it gains nothing, and accept before reject.
            order = choices[np.argsort([{ACCEPT: 0, REJECT: 1, REVIEW: 2}[code] for code in choices])]
            costs = self.costs.of_choices(mean)[:, order]
            return np.asarray(order[np.argmin(costs, axis=1)], dtype=np.int8)
        below = self.reject_below
        if isinstance(below, np.ndarray):
            below = below[votes.labels]
        codes = np.where(mean < np.asarray(below, dtype=np.float32), REJECT, REVIEW).astype(np.int8)
        codes[self._accepted(votes, mean)] = ACCEPT
        if self.most is not None:
            codes[(codes == ACCEPT) & ~among_best(votes.indptr, mean, self.most)] = REJECT
        return codes

    def expected_cost(
        self, votes: Votes, mean: Floats, codes: npt.NDArray[np.int8]
    ) -> npt.NDArray[np.float64]:
        """The expected cost of each input: the sum over its candidates."""
        costs = (self.costs or Costs()).of_choices(mean)[np.arange(len(codes)), codes]
        rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
        return np.bincount(rows, weights=costs, minlength=len(votes)).astype(np.float64)

    def _accepted(self, votes: Votes, mean: Floats) -> npt.NDArray[np.intp]:
        if self.by == "probability":
            return np.flatnonzero(mean >= np.float32(self.accept_from))
        predicted = np.flatnonzero(mean >= PREDICTED)
        sure = certainty(label_uncertainty(votes.chosen(predicted)), self.by)
        return predicted[sure >= np.float32(self.accept_from)]


def among_best(indptr: npt.NDArray[np.int64], mean: Floats, k: int) -> npt.NDArray[np.bool_]:
    """Whether a candidate is among the k most probable of its input; among equals, the lower label is."""
    best = np.zeros(len(mean), dtype=bool)
    for begin, end in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
        own = mean[begin:end]
        if len(own) <= k:
            best[begin:end] = True
        elif k:
            least = np.partition(own, len(own) - k)[len(own) - k]
            above, equal = np.flatnonzero(own > least), np.flatnonzero(own == least)
            best[begin + above] = True
            best[begin + equal[: k - len(above)]] = True
    return best
