"""What is watched of each input: a few numbers that a prediction gives anyway, on fixed scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hedgerow.decisions.policy import PREDICTED
from hedgerow.votes.measures import instance_uncertainty
from hedgerow.votes.signals import OODScores
from hedgerow.votes.votes import Votes

__all__ = ["BINS", "SIGNALS", "UNSEEN", "Bins", "Signal", "best_probabilities", "binned", "observe"]

Floats = npt.NDArray[np.float64]
Bins = npt.NDArray[np.uint16]

BINS = 1024
UNSEEN = np.uint16(0xFFFF)  # a signal that was not computed for an input
_LONG = 32.0  # words of a text in the middle of the scale


@dataclass(frozen=True)
class Signal:
    """A number of each input, and how it is cut into bins.

    The bins do not depend on any data: then values of held-out and of new inputs are exchangeable after
    binning if they were before, which a test that is exact needs. `kind` says what the values are: a "share"
    from 0 to 1, a "sum" or a number of "words" from 0 on, or any "score". `about_input` marks what does not
    depend on which labels may be answered.
    """

    name: str
    words: str
    kind: Literal["share", "sum", "words", "score"]
    about_input: bool = False

    def bins(self, values: npt.ArrayLike) -> Bins:
        """The bin of each value.

        Examples
        --------
        >>> SIGNALS["best"].bins([0.0, 0.5, 1.0])
        array([   0,  512, 1023], dtype=uint16)
        """
        found = np.asarray(values, dtype=np.float64)
        if self.kind == "score":
            place = 0.5 + np.arctan(found) / np.pi
        elif self.kind == "share":
            place = found
        else:
            scale = 1.0 if self.kind == "sum" else _LONG
            place = found / (scale + found)
        return np.clip(np.floor(place * BINS), 0, BINS - 1).astype(np.uint16)

    def values(self, bins: npt.NDArray[Any]) -> Floats:
        """A value within each bin, for people: that of a whole number where it is one."""
        place = (np.asarray(bins, dtype=np.float64) + 0.5) / BINS
        if self.kind == "score":
            return np.asarray(np.tan(np.pi * (place - 0.5)))
        if self.kind == "share":
            return place
        scale = 1.0 if self.kind == "sum" else _LONG
        return np.asarray(scale * place / (1 - place))


SIGNALS = {
    signal.name: signal
    for signal in (
        Signal("ood", "OOD score", "score", about_input=True),
        Signal("unknown_words", "share of unknown words", "share", about_input=True),
        Signal("words", "words of a text", "words", about_input=True),
        Signal("best", "probability of the best label", "share"),
        Signal("expected", "expected number of labels", "sum"),
        Signal("total", "total uncertainty", "sum"),
        Signal("given", "labels with a probability of 0.5 or more", "sum"),
    )
}


def observe(votes: Votes, scores: OODScores | None = None) -> dict[str, Floats]:
    """The watched numbers of inputs, from votes and OOD scores that were computed anyway.

    Parameters
    ----------
    votes : Votes
        On any number of inputs.
    scores : OODScores, optional
        Of the same inputs, with the signals that they were computed from.

    Returns
    -------
    dict of str to float64 array, shape (n,)
        Those of `SIGNALS` that can be computed.
    """
    sums = instance_uncertainty(votes)
    mean = votes.means()
    rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
    found: dict[str, Floats] = {
        "best": best_probabilities(votes),
        "expected": np.asarray(sums.probability, dtype=np.float64),
        "total": np.asarray(sums.total, dtype=np.float64),
        "given": np.bincount(rows[mean >= PREDICTED], minlength=len(votes)).astype(np.float64),
    }
    if scores is not None:
        found["ood"] = np.asarray(scores.score, dtype=np.float64)
        for name in ("unknown_words", "words"):
            values = getattr(scores.signals, name)
            if values is not None:
                found[name] = values
    return found


def binned(observed: dict[str, Floats], names: Sequence[str], rows: int) -> Bins:
    """The bins of some signals, a column each; `UNSEEN` where a signal was not computed."""
    table = np.full((rows, len(names)), UNSEEN)
    for place, name in enumerate(names):
        if name in observed:
            table[:, place] = SIGNALS[name].bins(observed[name])
    return table


def best_probabilities(votes: Votes) -> Floats:
    """The probability of the most probable label of each input; 0 where it has no candidate."""
    best = np.zeros(len(votes))
    filled = np.flatnonzero(np.diff(votes.indptr))
    if filled.size:
        best[filled] = np.maximum.reduceat(votes.means(), votes.indptr[filled])
    return best
