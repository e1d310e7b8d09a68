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

__all__ = ["ACCEPT", "DECISIONS", "REJECT", "REVIEW", "Rule", "best_places"]

Floats = npt.NDArray[np.float32]

DECISIONS = ("reject", "review", "accept")
REJECT, REVIEW, ACCEPT = range(3)


@dataclass(frozen=True, eq=False)
class Rule:
    """How to decide on candidates: by thresholds on the probability (one, or one per label) or by costs.

    Labels whose certainty, measured by `by`, is at least `accept_from` are accepted; measures other than the
    probability accept only labels with a probability of one half or more. Costs replace the thresholds and
    may be restricted to some `choices`. At most `most` labels of an input are accepted, the best; what else
    reaches the threshold is reviewed. Of the labels that are to be reviewed, only those among the best
    `listed` of their input are; the others are rejected.
    """

    reject_below: float | npt.NDArray[np.float32] = 0.0
    accept_from: float = math.inf
    by: str = "probability"
    costs: Costs | None = None
    choices: tuple[int, ...] = (REJECT, REVIEW, ACCEPT)
    most: int | None = None
    listed: int | None = None

    def codes(self, votes: Votes, mean: Floats, order: Floats | None = None) -> npt.NDArray[np.int8]:
        """What to do with each candidate, as places in `DECISIONS`.

        `order` is by what the best labels are chosen; the mean, if not given.
        """
        if self.costs is not None:
            choices = np.array(self.choices)
            # Of equal costs the first counts: no review where it gains nothing, and accept before reject.
            preferred = choices[np.argsort([{ACCEPT: 0, REJECT: 1, REVIEW: 2}[code] for code in choices])]
            costs = self.costs.of_choices(mean)[:, preferred]
            return np.asarray(preferred[np.argmin(costs, axis=1)], dtype=np.int8)
        below = self.reject_below
        if isinstance(below, np.ndarray):
            below = below[votes.labels]
        codes = np.where(mean < np.asarray(below, dtype=np.float32), REJECT, REVIEW).astype(np.int8)
        accepted = np.zeros(len(codes), dtype=bool)
        accepted[self._accepted(votes, mean)] = True
        limits = [limit for limit in (self.most, self.listed) if limit is not None]
        if limits:
            places, rank = best_places(votes, mean if order is None else order, max(limits))
            if self.most is not None:
                accepted &= _among(places[rank < self.most], len(codes))
            if self.listed is not None:
                codes[~_among(places[rank < self.listed], len(codes))] = REJECT
        codes[accepted] = ACCEPT
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


def _among(places: npt.NDArray[np.intp], entries: int) -> npt.NDArray[np.bool_]:
    chosen = np.zeros(entries, dtype=bool)
    chosen[places] = True
    return chosen


def best_places(votes: Votes, order: Floats, k: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Places of the k best candidates of each input, best first, and their ranks, from 0.

    They are best by `order`, then by the mean probability; among equals, the lower label comes first.
    """
    mean = votes.means()
    places, ranks = [], []
    for begin, end in zip(votes.indptr[:-1].tolist(), votes.indptr[1:].tolist(), strict=True):
        own = np.arange(begin, end)
        if len(own) > 4 * k:  # too many to sort
            least = np.partition(order[begin:end], len(own) - k)[len(own) - k] if k else np.inf
            own = own[order[begin:end] >= least]
        best = own[np.lexsort((own, -mean[own], -order[own]))[:k]]
        places.append(best)
        ranks.append(np.arange(len(best)))
    nothing = np.empty(0, dtype=np.intp)
    return np.concatenate([nothing, *places]), np.concatenate([nothing, *ranks])
