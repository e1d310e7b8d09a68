"""Detects out-of-distribution inputs: a score that is high for them, with a p-value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.votes.signals import OODScores, Signals

__all__ = ["NEEDED", "OODDetector"]

Floats = npt.NDArray[np.float64]

NEEDED = 40  # held-out inputs: with half as many for the p-values, the smallest is just below 0.05

# The signals of the score, and the side on which OOD inputs are. Unknown words stand in for unknown pairs
# where a vocabulary has no pairs.
_ODD_SIDE = {
    "unknown_pairs": 1.0,
    "unknown_words": 1.0,
    "rarity": 1.0,
    "first_layer": -1.0,
    "second_layer": -1.0,
    "third_layer": -1.0,
}
_OF_WORDS = ("unknown_pairs", "unknown_words", "rarity")
# A text of this many words counts half as much as a long one: shares of few words are mostly chance.
_HALF_WORDS = 5.0


@dataclass(frozen=True, eq=False)
class OODDetector:
    """Detects out-of-distribution (OOD) inputs; learned from in-distribution inputs held out from training.

    One half of these gives mean and standard deviation of every signal. The score of an input is the mean of
    its standardised signals, with the sign that makes OOD inputs high; wording and trees count one half each.
    The scores of the other half give the p-values: of in-distribution inputs, on average at most a share a
    has a p-value of a or less.

    Attributes
    ----------
    names : tuple of str
        The signals of the score.
    mean, deviation : float64 array, shape (len(names),)
        Of each signal over in-distribution inputs.
    scores : float64 array
        Scores of the other half, ascending.

    Examples
    --------
    >>> usual = np.linspace(0.8, 1.0, 60)
    >>> detector = OODDetector.learn(Signals(first_layer=usual, second_layer=usual, third_layer=usual))
    >>> new = np.array([0.9, 0.1])
    >>> found = detector.judge(Signals(first_layer=new, second_layer=new, third_layer=new))
    >>> found.p_value.round(2)
    array([0.52, 0.03])
    """

    names: tuple[str, ...]
    mean: Floats
    deviation: Floats
    scores: Floats

    @classmethod
    def learn(cls, signals: Signals) -> OODDetector:
        """Learn from the signals of held-out inputs.

        Parameters
        ----------
        signals : Signals
            Of at least 40 inputs that the model was not trained on.

        Returns
        -------
        OODDetector
        """
        if len(signals) < NEEDED:
            raise ValueError(
                f"{len(signals)} held-out inputs are too few to learn to detect OOD inputs; at least"
                f" {NEEDED} are needed, and some hundred are better"
            )
        found = signals.columns()
        names = tuple(
            name
            for name in _ODD_SIDE
            if name in found and not (name == "unknown_words" and "unknown_pairs" in found)
        )
        # Every other input, as neighbours are often alike.
        usual, others = signals[::2], signals[1::2]
        mean = np.array([usual.columns()[name].mean() for name in names])
        spread = [_departures(usual, name, centre).std() for name, centre in zip(names, mean, strict=True)]
        # A signal that is always the same has no spread to measure by.
        deviation = np.array([value if value > 0 else 1.0 for value in spread])
        unranked = cls(names, mean, deviation, np.empty(0))
        return cls(names, mean, deviation, np.sort(unranked._score(unranked._parts(others))))

    def judge(self, signals: Signals) -> OODScores:
        """Score inputs by their signals.

        Parameters
        ----------
        signals : Signals
            Of any inputs.

        Returns
        -------
        OODScores
        """
        parts = self._parts(signals)
        score = self._score(parts)
        at_least = len(self.scores) - np.searchsorted(self.scores, score, side="left")
        p_value: Floats = (1.0 + at_least.astype(np.float64)) / (1.0 + len(self.scores))
        return OODScores(score, p_value, signals, parts)

    def to_sections(self) -> dict[str, Floats]:
        """Arrays for a model file."""
        return {
            "familiar.mean": self.mean,
            "familiar.deviation": self.deviation,
            "familiar.scores": self.scores,
        }

    @classmethod
    def from_sections(cls, names: Sequence[str], sections: Mapping[str, npt.NDArray[Any]]) -> OODDetector:
        """Take back what `to_sections` gave, after checking it."""
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise ValueError("the signals of the OOD detector are not a list of names")
        if len(set(names)) != len(names) or not set(names) <= set(_ODD_SIDE):
            raise ValueError(f"the OOD detector has unknown or repeated signals: {', '.join(names)}")
        mean, deviation, scores = (sections[f"familiar.{part}"] for part in ("mean", "deviation", "scores"))
        for array in (mean, deviation, scores):
            if array.dtype != np.float64 or array.ndim != 1 or not np.isfinite(array).all():
                raise ValueError("the arrays of the OOD detector are not vectors of finite numbers")
        if not len(mean) == len(deviation) == len(names) or not (deviation > 0).all():
            raise ValueError("the arrays of the OOD detector do not fit its signals")
        if len(scores) < NEEDED // 2 or (np.diff(scores) < 0).any():
            raise ValueError("the scores of the OOD detector are too few or not sorted")
        return cls(tuple(names), mean, deviation, scores)

    def _parts(self, signals: Signals) -> dict[str, Floats]:
        return {
            name: self._weight(name) * _ODD_SIDE[name] * _departures(signals, name, mean) / deviation
            for name, mean, deviation in zip(self.names, self.mean, self.deviation, strict=True)
        }

    def _weight(self, name: str) -> float:
        """Words and trees count the same, however many signals there are of each."""
        like = [(other in _OF_WORDS) == (name in _OF_WORDS) for other in self.names]
        return 1 / (sum(like) * (1 if all(like) else 2))

    # One signal after the other: a matrix product may round differently in another batch.
    def _score(self, parts: Mapping[str, Floats]) -> Floats:
        score = np.zeros(len(next(iter(parts.values()))))
        for part in parts.values():
            score += part
        return score


def _departures(signals: Signals, name: str, mean: float) -> Floats:
    """How far a signal is from its mean; shrunk where it comes from few words."""
    departures: Floats = getattr(signals, name) - mean
    if name in _OF_WORDS and signals.words is not None:
        departures *= signals.words / (signals.words + _HALF_WORDS)
    return departures
