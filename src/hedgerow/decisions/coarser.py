"""A broader term where no narrower one can be accepted, with a guarantee for all that is accepted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.decisions.guarantees import Guarantee, about_wrong
from hedgerow.decisions.matched import Matched
from hedgerow.decisions.policy import SHARES
from hedgerow.decisions.risk import GRID, RiskCurve, TooFewRows, as_share, rows_needed
from hedgerow.inputs.parameters import check_integer
from hedgerow.vocabulary.ancestry import Ancestry
from hedgerow.votes.broader import Above
from hedgerow.votes.votes import Votes

__all__ = ["BroaderVotes", "CoarserLearner", "CoarserPolicy", "Ladder"]

Floats = npt.NDArray[np.float32]


class BroaderVotes(Protocol):
    """Who votes on broader terms: `BroaderCalibration`."""

    @property
    def ancestry(self) -> Ancestry:
        """Which terms are above which; the labels come first."""

    @property
    def term_names(self) -> npt.NDArray[np.object_]:
        """The labels, and the ids of all that is broader."""

    def apply(self, votes: Votes) -> Votes:
        """Calibrated votes on the broader terms of all candidates."""


@dataclass(frozen=True, eq=False)
class Ladder:
    """Candidates of a batch and the broader terms above them, and when each is an answer.

    At a threshold, every label that reaches it is accepted. A broader term is an answer if it reaches the
    threshold, is deep enough, and nothing at or below it is accepted or an answer: it is the narrowest.

    Attributes
    ----------
    votes : Votes
        On labels.
    broader : Votes
        On the broader terms of all candidates.
    allowed : bool array, shape (terms,)
        Which of them are deep enough to be an answer.
    hidden_to : float32 array, shape (terms,)
        Up to this threshold, something narrower is accepted in place of the term.
    """

    votes: Votes
    broader: Votes
    allowed: npt.NDArray[np.bool_]
    hidden_to: Floats

    @classmethod
    def of(cls, votes: Votes, broader: Votes, ancestry: Ancestry, least_depth: int) -> Ladder:
        """From votes on labels and on the terms above them."""
        above = Above.candidates(votes, ancestry)
        if not np.array_equal(above.terms, broader.labels) or not np.array_equal(
            above.indptr, broader.indptr
        ):
            raise ValueError("the votes on broader terms are not those above these candidates")
        allowed = ancestry.depths[broader.labels] >= least_depth
        answers = np.where(allowed, broader.means(), np.float32(0))
        hidden = np.maximum(above.highest(votes.means()), above.highest_below(ancestry, answers))
        return cls(votes, broader, allowed, hidden)

    def answers(self, threshold: float) -> npt.NDArray[np.intp]:
        """Places of the broader terms that are answers at a threshold."""
        least = np.float32(threshold)
        return np.flatnonzero(self.allowed & (self.broader.means() >= least) & (self.hidden_to < least))

    def at_each_threshold(self, chosen: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.int64]:
        """How many broader terms are answers of each input at each threshold of `GRID`.

        Parameters
        ----------
        chosen : bool array, shape (terms,), optional
            Count only these.

        Returns
        -------
        int64 array, shape (n, thresholds)
        """
        first = np.searchsorted(GRID, self.hidden_to, side="right")  # the first threshold above
        last = np.searchsorted(GRID, self.broader.means(), side="right")  # the same: the first not reached
        some = self.allowed & (first < last)
        if chosen is not None:
            some &= chosen
        n, width = len(self.broader), len(GRID) + 1
        begin = np.repeat(np.arange(n), np.diff(self.broader.indptr))[some] * width
        steps = np.bincount(begin + first[some], minlength=n * width)
        steps -= np.bincount(begin + last[some], minlength=n * width)
        return np.asarray(np.cumsum(steps.reshape(n, width), axis=1)[:, :-1])

    def losses(
        self, truth: sp.csr_array, true_terms: sp.csr_array
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """What is accepted of each input at each threshold of `GRID`: the share of wrong ones, and how much.

        A label is wrong if it is not true, a broader term if no true label is at or below it.
        """
        labels, terms = _matched(self.votes, truth), _matched(self.broader, true_terms)
        accepted = labels.reached(labels.row, labels.mean)
        right = labels.reached(labels.row[labels.right], labels.mean[labels.right])
        every = accepted + self.at_each_threshold()
        wrong = accepted - right + self.at_each_threshold(~terms.right)
        return wrong / np.maximum(every, 1), every


@dataclass(frozen=True, eq=False)
class CoarserPolicy:
    """How often answers with broader terms are wrong on held-out inputs, and the guarantee that follows.

    It is learned together with a `Policy`, and holds for the same search.

    Attributes
    ----------
    wrong : RiskCurve
        Over all inputs: the share of wrong ones among the labels and broader terms that are accepted at the
        threshold; 0 where none is. A label is wrong if it is not true, a broader term if no true label is at
        or below it.
    answered : float64 array, shape (thresholds,)
        The share of the inputs with at least one label or broader term accepted.
    least_depth : int
        Broader terms at this depth of the hierarchy or below are answers; 0 allows all, 1 leaves out those
        that nothing is broader than.
    """

    wrong: RiskCurve
    answered: npt.NDArray[np.float64]
    least_depth: int

    @property
    def rows(self) -> int:
        """Number of held-out inputs."""
        return self.wrong.rows

    def accept_from(self, wrong_at_most: float, confidence: float = 0.9) -> float:
        """The probability from which on labels and broader terms are accepted.

        Parameters
        ----------
        wrong_at_most : float
            The mean share of an input's accepted labels and broader terms that may be wrong.
        confidence : float
            The chance, over the held-out inputs, that the guarantee is kept.

        Returns
        -------
        float
            Infinite if the guarantee can only be kept by accepting nothing.
        """
        share, confidence = as_share("wrong_at_most", wrong_at_most), as_share("confidence", confidence)
        place = self.wrong.tested(share, confidence)
        if place is None:
            raise TooFewRows(
                f"{self.rows} held-out inputs are too few for wrong_at_most={share:g} with a confidence of"
                f" {confidence:g}, which needs at least {rows_needed(share, confidence)}; calibrate with"
                " more, or allow more wrong labels"
            )
        return float(self.wrong.thresholds[place])

    def describe(self) -> dict[str, Any]:
        """What it was learned from and what it can guarantee, for people and programs."""
        guarantees = []
        for share in SHARES:
            try:
                guarantees.append(self.wrong_guarantee(share)[1])
            except ValueError as error:
                guarantees.append(Guarantee("wrong", "inputs", share, None, 0.9, None, "").refuse(str(error)))
        return {
            "inputs": self.rows,
            "least_depth": self.least_depth,
            "guarantees": [of.to_dict() for of in guarantees],
        }

    def to_sections(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Header and arrays for a model file."""
        header = {"rows": self.rows, "least_depth": self.least_depth}
        return header, {"coarser.wrong": self.wrong.totals, "coarser.answered": self.answered}

    @classmethod
    def from_sections(cls, header: Any, sections: Mapping[str, npt.NDArray[Any]]) -> CoarserPolicy:
        """Take back what `to_sections` gave, after checking it."""
        if not isinstance(header, dict):
            raise ValueError("the policy for broader terms is not an object")
        wrong, answered = sections["coarser.wrong"], sections["coarser.answered"]
        for values in (wrong, answered):
            if values.dtype != np.float64 or values.shape != GRID.shape or not np.isfinite(values).all():
                raise ValueError("the curves of the policy for broader terms are not numbers by threshold")
        rows, least_depth = header["rows"], header["least_depth"]
        if type(rows) is not int or rows < 1 or type(least_depth) is not int or least_depth < 0:
            raise ValueError(f"the policy for broader terms has impossible counts: {rows!r}, {least_depth!r}")
        if wrong.min() < 0 or wrong.max() > rows * (1 + 1e-6):
            raise ValueError("the policy for broader terms has impossible losses")
        if answered.min() < 0 or answered.max() > 1:
            raise ValueError("the policy for broader terms has impossible shares of inputs")
        return cls(RiskCurve(GRID, wrong, rows), answered, least_depth)

    def wrong_guarantee(self, share: float, confidence: float = 0.9) -> tuple[float, Guarantee]:
        """The probability of `accept_from`, and what it guarantees."""
        accept = self.accept_from(share, confidence)
        reached = None
        if math.isfinite(accept):
            reached = float(self.wrong.losses[np.searchsorted(GRID, np.float32(accept))])
        found = about_wrong("inputs", float(share), float(confidence), reached, "labels and broader terms")
        if reached is None:
            return accept, found
        more = (
            " A broader term is accepted where nothing narrower is, and wrong if no true label is at or below"
            " it."
        )
        return accept, replace(found, words=found.words + more)


class CoarserLearner:
    """Adds up how often answers with broader terms are wrong, batch by batch.

    Parameters
    ----------
    ancestry : Ancestry
        Its first entries are the labels.
    least_depth : int
        As of `CoarserPolicy`.
    """

    def __init__(self, ancestry: Ancestry, least_depth: int = 1) -> None:
        check_integer("least_depth", least_depth, 0)
        self._ancestry, self._least_depth = ancestry, int(least_depth)
        self._wrong = np.zeros(len(GRID))
        self._answered = np.zeros(len(GRID), dtype=np.int64)
        self._rows = 0

    def add(self, votes: Votes, broader: Votes, truth: sp.csr_array, true_terms: sp.csr_array) -> None:
        """Add votes on the next inputs, which the model was not trained on.

        Parameters
        ----------
        votes, broader : Votes
            On labels, and on the broader terms of all candidates.
        truth : csr_array, shape (n, n_labels or more)
            The true labels.
        true_terms : csr_array, shape (n, entries)
            What `broader_truth` makes of them.
        """
        ladder = Ladder.of(votes, broader, self._ancestry, self._least_depth)
        wrong, every = ladder.losses(truth, true_terms)
        # One input after the other, so that the sum does not depend on the size of batches.
        for loss in wrong:
            self._wrong += loss
        self._answered += (every > 0).sum(axis=0)
        self._rows += len(votes)

    def finish(self) -> CoarserPolicy:
        """The policy from all inputs added."""
        if not self._rows:
            raise ValueError("there are no inputs, so no policy can be learned; give held-out inputs")
        curve = RiskCurve(GRID, self._wrong, self._rows)
        return CoarserPolicy(curve, self._answered / self._rows, self._least_depth)


def _matched(votes: Votes, truth: sp.csr_array) -> Matched:
    return Matched(votes, truth, np.ones(truth.shape[1], dtype=bool))
