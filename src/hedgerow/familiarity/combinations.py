"""How signals are added up to one OOD score: by their tails, or, in older files, by their deviations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow.votes.signals import Signals

__all__ = ["ODD_SIDE", "Combination", "Deviations", "Tails", "usable"]

Floats = npt.NDArray[np.float64]

# The signals of the score, and the side on which OOD inputs are. Unknown words stand in for unknown pairs
# where a vocabulary has no pairs.
ODD_SIDE = {
    "unknown_pairs": 1.0,
    "unknown_words": 1.0,
    "rarity": 1.0,
    "first_layer": -1.0,
    "second_layer": -1.0,
    "third_layer": -1.0,
    "nearest_label": -1.0,
    "nearest_labels": -1.0,
}
_OF_WORDS = ("unknown_pairs", "unknown_words", "rarity")
_OF_LABELS = ("nearest_label", "nearest_labels")
# A text of this many words counts half as much as a long one: shares of few words are mostly chance.
_HALF_WORDS = 5.0
_MOST_KNOTS = 1024


class Combination(Protocol):
    """Says what each signal of an input adds to its score."""

    def parts(self, signals: Signals) -> dict[str, Floats]:
        """What each signal adds."""

    def to_sections(self) -> dict[str, Floats]:
        """Arrays for a model file."""


@dataclass(frozen=True, eq=False)
class Tails:
    """Adds up how far out in its tail each signal is: minus the logarithm of its p-value, less 1.

    This is Fisher's combination of p-values, but that wording, trees and nearest labels count the same,
    however many signals there are of each. Less 1, because that is the mean for in-distribution inputs.

    Attributes
    ----------
    names : tuple of str
        The signals.
    mean : float64 array, shape (len(names),)
        Of each over in-distribution inputs.
    knots : float64 array, shape (len(names), inputs)
        Of each, how far in-distribution inputs are from the mean towards the odd side, ascending.
    """

    names: tuple[str, ...]
    mean: Floats
    knots: Floats

    @classmethod
    def learn(cls, names: Sequence[str], usual: Signals) -> Tails:
        """From the signals of in-distribution inputs, of which some thousand are kept."""
        mean = np.array([getattr(usual, name).mean() for name in names])
        odd = [np.sort(_odd(usual, name, centre)) for name, centre in zip(names, mean, strict=True)]
        kept = np.unique(
            np.linspace(0, len(usual) - 1, min(len(usual), _MOST_KNOTS)).round().astype(np.int64)
        )
        return cls(tuple(names), mean, np.stack(odd)[:, kept])

    def parts(self, signals: Signals) -> dict[str, Floats]:
        """What each signal adds: its weight times its surprise."""
        return {
            name: self._weight(name) * (_surprise(_odd(signals, name, mean), knots) - 1.0)
            for name, mean, knots in zip(self.names, self.mean.tolist(), self.knots, strict=True)
        }

    def to_sections(self) -> dict[str, Floats]:
        """Arrays for a model file."""
        return {"familiar.mean": self.mean, "familiar.knots": self.knots}

    def _weight(self, name: str) -> float:
        groups = [_group(other) for other in self.names]
        return 1 / (len(set(groups)) * groups.count(_group(name)))


@dataclass(frozen=True, eq=False)
class Deviations:
    """Adds up signals in standard deviations; wording and trees count the same. What older files hold.

    Attributes
    ----------
    names : tuple of str
        The signals.
    mean, deviation : float64 array, shape (len(names),)
        Of each over in-distribution inputs.
    """

    names: tuple[str, ...]
    mean: Floats
    deviation: Floats

    def parts(self, signals: Signals) -> dict[str, Floats]:
        """What each signal adds: its weight times its deviation towards the odd side."""
        return {
            name: self._weight(name) * ODD_SIDE[name] * _departures(signals, name, mean) / deviation
            for name, mean, deviation in zip(self.names, self.mean, self.deviation, strict=True)
        }

    def to_sections(self) -> dict[str, Floats]:
        """Arrays for a model file."""
        return {"familiar.mean": self.mean, "familiar.deviation": self.deviation}

    def _weight(self, name: str) -> float:
        like = [(other in _OF_WORDS) == (name in _OF_WORDS) for other in self.names]
        return 1 / (sum(like) * (1 if all(like) else 2))


def usable(found: Mapping[str, Any]) -> tuple[str, ...]:
    """The signals of the score among those that there are."""
    return tuple(
        name
        for name in ODD_SIDE
        if name in found and not (name == "unknown_words" and "unknown_pairs" in found)
    )


def _group(name: str) -> str:
    return "words" if name in _OF_WORDS else "labels" if name in _OF_LABELS else "trees"


def _odd(signals: Signals, name: str, mean: float) -> Floats:
    return ODD_SIDE[name] * _departures(signals, name, mean)


def _surprise(odd: Floats, knots: Floats) -> Floats:
    """Minus the logarithm of the share of knots that are as odd; beyond them all, it goes on to rise."""
    at_least = len(knots) - np.searchsorted(knots, odd, side="left")
    spread = float(knots.std())
    beyond = np.maximum(odd - knots[-1], 0.0) / (spread if spread > 0 else 1.0)
    return np.asarray(beyond - np.log((1.0 + at_least) / (1.0 + len(knots))))


def _departures(signals: Signals, name: str, mean: float) -> Floats:
    """How far a signal is from its mean; shrunk where it comes from few words."""
    departures: Floats = getattr(signals, name) - mean
    if name in _OF_WORDS and signals.words is not None:
        departures *= signals.words / (signals.words + _HALF_WORDS)
    return departures
