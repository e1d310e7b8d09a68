"""The signals that out-of-distribution (OOD) scores are computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Detector", "OODScores", "Signals"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Signals:
    """What the OOD score is computed from. Arrays of shape (n,).

    Attributes
    ----------
    first_layer : float64 array
        How certain the members are of where the input belongs in the first layer of their trees: the
        energies (see `energy`) of the two most probable nodes there, the mean over the members. Low for OOD
        inputs.
    second_layer : float64 array
        The same of the four most probable ones among the children of the best nodes. In a tree that is not so
        deep, here and below, these are energies of labels.
    third_layer : float64 array
        The same of the eight most probable ones, a layer further down.
    words : float64 array or None
        Number of words: not part of the score, but the weight of the signals below. None, like all below,
        for models that do not read texts.
    unknown_words : float64 array or None
        Share of the words that the vocabulary does not have; 0 for a text without words. Part of the score
        only for vocabularies without pairs.
    unknown_pairs : float64 array or None
        Share of the pairs of neighbouring words that the vocabulary does not have; 0 for a text without
        pairs, None for a vocabulary without them.
    rarity : float64 array or None
        Mean idf of the different words of the text.
    nearest_label : float64 array or None
        The highest cosine of the input and the centroid of any label's training inputs. Low for OOD inputs.
        None, like the one below, where the model has no centroids.
    nearest_labels : float64 array or None
        The mean of the ten highest.
    """

    first_layer: Floats
    second_layer: Floats
    third_layer: Floats
    words: Floats | None = None
    unknown_words: Floats | None = None
    unknown_pairs: Floats | None = None
    rarity: Floats | None = None
    nearest_label: Floats | None = None
    nearest_labels: Floats | None = None

    def columns(self) -> dict[str, Floats]:
        """The signals that there are, by name."""
        found = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: values for name, values in found.items() if values is not None}

    def __len__(self) -> int:
        return len(self.first_layer)

    def __getitem__(self, rows: slice | npt.NDArray[np.integer[Any]]) -> Signals:
        return Signals(**{name: values[rows] for name, values in self.columns().items()})

    @staticmethod
    def concatenate(parts: Sequence[Signals]) -> Signals:
        """Those of several batches, one after the other."""
        names = parts[0].columns()
        return Signals(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


@dataclass(frozen=True, eq=False)
class OODScores:
    """How far inputs are from the training data. Arrays of shape (n,).

    Attributes
    ----------
    score : float64 array
        High for OOD inputs; 0 is the mean of in-distribution inputs. It is a mean over wording, trees and
        nearest labels of how far out in the tail a signal is: minus the logarithm of its p-value, less 1. In
        detectors of older files it is a mean of deviations.
    p_value : float64 array
        Share of in-distribution inputs with a score at least as high. Of inputs like the held-out ones, on
        average at most a share a has a p-value of a or less.
    signals : Signals
        What the score is computed from.
    parts : dict of str to float64 array
        What each signal adds to the score; they add up to it.
    """

    score: Floats
    p_value: Floats
    signals: Signals
    parts: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.score)


class Detector(Protocol):
    """Scores inputs by their signals; see `OODDetector`."""

    @property
    def scores(self) -> Floats:
        """Scores of held-out inputs, ascending."""

    def judge(self, signals: Signals) -> OODScores:
        """Score inputs."""
