"""How unlike the training data an input is: a score that is high for out-of-distribution inputs, and a
p-value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["NEEDED", "OODDetector", "OODScores", "Signals"]

Floats = npt.NDArray[np.float64]

NEEDED = 40  # held-out inputs: with half as many for the p-values, the smallest is just below 0.05

# What the score is made of, and where the odd side is. Unknown words stand in for unknown pairs where a
# vocabulary has no pairs.
_ODD_SIDE = {
    "unknown_pairs": 1.0,
    "unknown_words": 1.0,
    "rarity": 1.0,
    "first_layer": -1.0,
    "second_layer": -1.0,
    "third_layer": -1.0,
}
_OF_WORDS = ("unknown_pairs", "unknown_words", "rarity")
# A text of so many words counts half of what a long one counts: shares of few words are mostly chance.
_HALF_WORDS = 5.0


@dataclass(frozen=True, eq=False)
class Signals:
    """What is looked at to tell how out-of-distribution inputs are. Arrays of shape (n,).

    Attributes
    ----------
    first_layer : float64 array
        How sure the members are where the input belongs in the first layer of their trees: the energies (see
        `energy`) of the two most probable nodes there, the mean over the members. Low for
        out-of-distribution inputs.
    second_layer : float64 array
        The same of the four most probable ones among the children of the best nodes. In a tree that is not so
        deep, here and below, these are energies of labels.
    third_layer : float64 array
        The same of the eight most probable ones, a layer further down.
    words : float64 array or None
        Number of words. It is no part of the score, but says how much the others weigh. None, like all below,
        for models that do not read texts.
    unknown_words : float64 array or None
        Share of the words that the vocabulary does not have; 0 for a text without words. Part of the score
        only for vocabularies without pairs.
    unknown_pairs : float64 array or None
        Share of the pairs of neighbouring words that the vocabulary does not have; 0 for a text without
        pairs, None for a vocabulary without them.
    rarity : float64 array or None
        Mean idf of the different words of the text.
    """

    first_layer: Floats
    second_layer: Floats
    third_layer: Floats
    words: Floats | None = None
    unknown_words: Floats | None = None
    unknown_pairs: Floats | None = None
    rarity: Floats | None = None

    def columns(self) -> dict[str, Floats]:
        """The signals that there are, by name."""
        found = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: values for name, values in found.items() if values is not None}

    def __len__(self) -> int:
        return len(self.first_layer)

    def __getitem__(self, rows: slice | npt.NDArray[np.integer[Any]]) -> Signals:
        return Signals(**{name: values[rows] for name, values in self.columns().items()})


@dataclass(frozen=True, eq=False)
class OODScores:
    """How unlike the training data inputs are. Arrays of shape (n,).

    Attributes
    ----------
    score : float64 array
        High for out-of-distribution inputs; 0 is usual, and 1 is one standard deviation odd in all respects.
    p_value : float64 array
        Share of familiar inputs that are at least as odd. Of inputs that are like the held-out ones, at most
        a share a has a p-value of a or less.
    signals : Signals
        What the score is made of.
    parts : dict of str to float64 array
        What each signal adds to the score; they add up to it.
    """

    score: Floats
    p_value: Floats
    signals: Signals
    parts: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.score)


@dataclass(frozen=True, eq=False)
class OODDetector:
    """What familiar inputs look like, learned from inputs that were held out from training.

    Half of them tell what is usual: mean and deviation of every signal. The score of an input is the mean
    of its deviations from that, all turned so that high is odd: one half of it tells the wording, one half
    the way down the trees. The other half have had no part in this, so
    their scores are what scores of further familiar inputs look like, and p-values keep their guarantee.

    Attributes
    ----------
    names : tuple of str
        The signals that count.
    mean, deviation : float64 array, shape (len(names),)
        What is usual.
    scores : float64 array
        Scores of the other half, ascending.

    Examples
    --------
    >>> usual = np.linspace(0.8, 1.0, 60)
    >>> familiar = OODDetector.learn(Signals(first_layer=usual, second_layer=usual, third_layer=usual))
    >>> odd = np.array([0.9, 0.1])
    >>> found = familiar.judge(Signals(first_layer=odd, second_layer=odd, third_layer=odd))
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
        Familiar
        """
        if len(signals) < NEEDED:
            raise ValueError(
                f"there are {len(signals)} held-out inputs, and at least {NEEDED} are needed to tell what is"
                " familiar; some hundred are better"
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
        OOD score
        """
        parts = self._parts(signals)
        score = self._score(parts)
        as_odd = len(self.scores) - np.searchsorted(self.scores, score, side="left")
        p_value: Floats = (1.0 + as_odd.astype(np.float64)) / (1.0 + len(self.scores))
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
            raise ValueError("the signals of familiar inputs are not a list of names")
        if len(set(names)) != len(names) or not set(names) <= set(_ODD_SIDE):
            raise ValueError(f"familiar inputs have unknown or repeated signals: {', '.join(names)}")
        mean, deviation, scores = (sections[f"familiar.{part}"] for part in ("mean", "deviation", "scores"))
        for array in (mean, deviation, scores):
            if array.dtype != np.float64 or array.ndim != 1 or not np.isfinite(array).all():
                raise ValueError("what is known of familiar inputs is not a vector of finite numbers")
        if not len(mean) == len(deviation) == len(names) or not (deviation > 0).all():
            raise ValueError("what is known of familiar inputs does not fit its signals")
        if len(scores) < NEEDED // 2 or (np.diff(scores) < 0).any():
            raise ValueError("the scores of familiar inputs are too few or not sorted")
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

    # One signal after the other: a matrix product may round otherwise in another batch.
    def _score(self, parts: Mapping[str, Floats]) -> Floats:
        score = np.zeros(len(next(iter(parts.values()))))
        for part in parts.values():
            score += part
        return score


def _departures(signals: Signals, name: str, mean: float) -> Floats:
    """How far a signal is from its mean; less, where few words tell it."""
    departures: Floats = getattr(signals, name) - mean
    if name in _OF_WORDS and signals.words is not None:
        departures *= signals.words / (signals.words + _HALF_WORDS)
    return departures
