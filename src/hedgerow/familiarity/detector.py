"""Detects out-of-distribution inputs: a score that is high for them, with a p-value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.familiarity.combinations import ODD_SIDE, Combination, Deviations, Tails, usable
from hedgerow.votes.signals import OODScores, Signals

__all__ = ["NEEDED", "OODDetector"]

Floats = npt.NDArray[np.float64]

NEEDED = 40  # held-out inputs: with half as many for the p-values, the smallest is just below 0.05


@dataclass(frozen=True, eq=False)
class OODDetector:
    """Detects out-of-distribution (OOD) inputs; learned from in-distribution inputs held out from training.

    One half of these says how each signal is distributed; see `Tails` for how signals become a score. The
    scores of the other half give the p-values: of in-distribution inputs, on average at most a share a has a
    p-value of a or less.

    Attributes
    ----------
    names : tuple of str
        The signals of the score.
    combination : Tails or Deviations
        How they are added up; deviations, in detectors of older files.
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
    combination: Combination
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
        names = usable(signals.columns())
        # Every other input, as neighbours are often alike.
        usual, others = signals[::2], signals[1::2]
        combination = Tails.learn(names, usual)
        return cls(names, combination, np.sort(_added(combination.parts(others))))

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
        parts = self.combination.parts(signals)
        score = _added(parts)
        at_least = len(self.scores) - np.searchsorted(self.scores, score, side="left")
        p_value: Floats = (1.0 + at_least.astype(np.float64)) / (1.0 + len(self.scores))
        return OODScores(score, p_value, signals, parts)

    def to_sections(self) -> dict[str, Floats]:
        """Arrays for a model file."""
        return {**self.combination.to_sections(), "familiar.scores": self.scores}

    @classmethod
    def from_sections(cls, names: Sequence[str], sections: Mapping[str, npt.NDArray[Any]]) -> OODDetector:
        """Take back what `to_sections` gave, after checking it. Older files hold deviations."""
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise ValueError("the signals of the OOD detector are not a list of names")
        if len(set(names)) != len(names) or not set(names) <= set(ODD_SIDE):
            raise ValueError(f"the OOD detector has unknown or repeated signals: {', '.join(names)}")
        mean, scores = _vector(sections["familiar.mean"]), _vector(sections["familiar.scores"])
        combination: Combination
        if "familiar.knots" in sections:
            knots = sections["familiar.knots"]
            if knots.dtype != np.float64 or knots.ndim != 2 or not np.isfinite(knots).all():
                raise ValueError("the knots of the OOD detector are not a table of finite numbers")
            if not len(mean) == len(knots) == len(names) or knots.shape[1] < NEEDED // 2:
                raise ValueError("the arrays of the OOD detector do not fit its signals")
            if (np.diff(knots, axis=1) < 0).any():
                raise ValueError("the knots of the OOD detector are not sorted")
            combination = Tails(tuple(names), mean, knots)
        else:
            deviation = _vector(sections["familiar.deviation"])
            if not len(mean) == len(deviation) == len(names) or not (deviation > 0).all():
                raise ValueError("the arrays of the OOD detector do not fit its signals")
            combination = Deviations(tuple(names), mean, deviation)
        if len(scores) < NEEDED // 2 or (np.diff(scores) < 0).any():
            raise ValueError("the scores of the OOD detector are too few or not sorted")
        return cls(tuple(names), combination, scores)


def _vector(array: npt.NDArray[Any]) -> Floats:
    if array.dtype != np.float64 or array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError("the arrays of the OOD detector are not vectors of finite numbers")
    return array


# One signal after the other: a matrix product may round differently in another batch.
def _added(parts: Mapping[str, Floats]) -> Floats:
    score = np.zeros(len(next(iter(parts.values()))))
    for part in parts.values():
        score += part
    return score
