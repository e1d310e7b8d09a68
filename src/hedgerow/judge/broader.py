"""Calibrated votes on broader terms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from hedgerow.judge.calibration import Calibration
from hedgerow.vocabulary.ancestry import Ancestry
from hedgerow.votes.broader import Above, broader_truth, broader_votes
from hedgerow.votes.votes import Votes

__all__ = ["BroaderCalibration"]


@dataclass(frozen=True, eq=False)
class BroaderCalibration:
    """Votes on broader terms whose probabilities were made true on held-out inputs.

    `broader_votes` takes labels to be right independently of each other. They are not: of similar labels
    often only one is right. A map corrects that on average, for each member as much as for the mean, so that
    their disagreement remains. A term is never less probable than what is below it.

    Attributes
    ----------
    hierarchy : Ancestry
        Its first entries are the labels.
    calibration : Calibration
        From the probabilities of `broader_votes` to calibrated ones.
    """

    hierarchy: Ancestry
    calibration: Calibration

    @classmethod
    def learn(
        cls, votes: Iterable[Votes], truth: sp.csr_array, hierarchy: Ancestry, **options: Any
    ) -> BroaderCalibration:
        """Learn from votes on labels of inputs that the model was not trained on.

        Parameters
        ----------
        votes : iterable of Votes
            On labels, calibrated where the model is.
        truth : sparse indicator matrix, shape (n, entries or fewer)
            True labels, as entries of the hierarchy.
        hierarchy : Ancestry
            Its first entries are the labels.
        options
            As of `Calibration.learn`.

        Returns
        -------
        BroaderCalibration
        """
        learned = Calibration.learn(
            (broader_votes(batch, hierarchy) for batch in votes), broader_truth(truth, hierarchy), **options
        )
        return cls(hierarchy, learned)

    def apply(self, votes: Votes, above: Above | None = None) -> Votes:
        """Calibrated votes on the broader terms of all candidates; `votes` are on labels."""
        above = above or Above.candidates(votes, self.hierarchy)
        made = self.calibration.apply(broader_votes(votes, self.hierarchy, above))
        least = np.maximum(made.probs, above.highest(votes.probs))
        probs = np.maximum(least, above.highest_below(self.hierarchy, least))
        return made.but(probs=probs, bound=None, missed=None)
