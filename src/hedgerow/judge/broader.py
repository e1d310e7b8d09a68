"""Calibrated votes on broader terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.judge.calibration import Calibration
from hedgerow.vocabulary.ancestry import Ancestry, above_labels
from hedgerow.vocabulary.vocabulary import Vocabulary
from hedgerow.votes.broader import Above, broader_truth, broader_votes
from hedgerow.votes.votes import Votes

__all__ = ["BroaderCalibration"]

_PREFIX = "broader."  # of sections in a model file


@dataclass(frozen=True, eq=False)
class BroaderCalibration:
    """Votes on broader terms whose probabilities were made true on held-out inputs.

    `broader_votes` takes labels to be right independently of each other. They are not: of similar labels
    often only one is right. A map corrects that on average, for each member as much as for the mean, so that
    their disagreement remains. A term is never less probable than what is below it.

    Attributes
    ----------
    ancestry : Ancestry
        Its first entries are the labels.
    calibration : Calibration
        From the probabilities of `broader_votes` to calibrated ones.
    names : object array, shape (entries,), optional
        The labels, and the ids of all that is broader.
    """

    ancestry: Ancestry
    calibration: Calibration
    names: npt.NDArray[np.object_] | None = None

    @property
    def term_names(self) -> npt.NDArray[np.object_]:
        """The names, or the numbers of the entries where there are none."""
        return np.arange(self.ancestry.entries).astype(object) if self.names is None else self.names

    @classmethod
    def learn(
        cls, votes: Iterable[Votes], truth: sp.csr_array, ancestry: Ancestry, **options: Any
    ) -> BroaderCalibration:
        """Learn from votes on labels of inputs that the model was not trained on.

        Parameters
        ----------
        votes : iterable of Votes
            On labels, calibrated where the model is.
        truth : sparse indicator matrix, shape (n, entries or fewer)
            True labels, as entries of the hierarchy.
        ancestry : Ancestry
            Its first entries are the labels.
        options
            As of `Calibration.learn`.

        Returns
        -------
        BroaderCalibration
        """
        learned = Calibration.learn(
            (broader_votes(batch, ancestry) for batch in votes), broader_truth(truth, ancestry), **options
        )
        return cls(ancestry, learned)

    def apply(self, votes: Votes, above: Above | None = None) -> Votes:
        """Calibrated votes on the broader terms of all candidates; `votes` are on labels."""
        above = above or Above.candidates(votes, self.ancestry)
        made = self.calibration.apply(broader_votes(votes, self.ancestry, above))
        least = np.maximum(made.probs, above.highest(votes.probs))
        probs = np.maximum(least, above.highest_below(self.ancestry, least))
        return made.but(probs=probs, bound=None, missed=None)

    def to_file(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Header and arrays for a model file; the broader terms are those of its vocabulary."""
        arrays = self.calibration.to_sections()
        return self.calibration.to_header(), {f"{_PREFIX}{name}": array for name, array in arrays.items()}

    @classmethod
    def from_file(
        cls,
        header: Mapping[str, Any],
        sections: Mapping[str, npt.NDArray[Any]],
        vocabulary: Vocabulary | None,
        labels: npt.NDArray[Any],
    ) -> BroaderCalibration:
        """Take back what `to_file` gave, after checking it."""
        if vocabulary is None:
            raise ValueError("the model has a calibration of broader terms, but no vocabulary")
        if header["of"] != "mean" or header["by"] != "all":
            raise ValueError("the calibration of broader terms is not one map of the mean")
        ancestry, names = above_labels(vocabulary, labels)
        own = {
            name.removeprefix(_PREFIX): array for name, array in sections.items() if name.startswith(_PREFIX)
        }
        return cls(ancestry, Calibration.from_sections(header, own, ancestry.entries, 1), names)
