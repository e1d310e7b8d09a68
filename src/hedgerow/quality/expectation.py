"""How good the best labels of each input are expected to be, with intervals that hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from hedgerow.inputs.parameters import check_real
from hedgerow.inputs.search import SearchSettings
from hedgerow.quality.evidence import OF_SIGNALS, OF_VOTES

__all__ = ["NEEDED", "ExpectedQuality", "Forecast", "QualityModel", "TooFewInputs"]

Floats = npt.NDArray[np.float64]

NEEDED = 40  # held-out inputs: one half of them fits, the other gives the intervals
_PENALTY = 30.0
_CONVERGED = 1e-10
_SHORTEST = 1e-6
# The spread of a share is that of a coin, sqrt(m (1 - m)), but never nothing.
_SPREAD = 0.01
_ROUNDING = 1 + 1e-9
_WHOLE = 1e-9
_NUMBERS = ("no", "one", "two", "three", "four", "five")


class TooFewInputs(ValueError):  # noqa: N818 - the name says the cause
    """There are too few held-out inputs to learn the expected quality."""


@dataclass(frozen=True, eq=False)
class ExpectedQuality:
    """How good the best k labels of each input are expected to be. Arrays of shape (n,), of shares.

    Attributes
    ----------
    k : int
        How many labels are meant: 5, or all where the model knows fewer.
    confidence : float
        The share of inputs like the held-out ones whose precision is within its interval, on average, and
        the same for recall. An interval says nothing of one kind of inputs alone.
    precision : float64 array
        Expected share of right labels among the best k.
    precision_low, precision_high : float64 array
        Its interval.
    recall : float64 array
        Expected share of the input's true labels that are among the best k. Only true labels that the model
        knows count; inputs that have none are left out.
    recall_low, recall_high : float64 array
        Its interval.
    """

    k: int
    confidence: float
    precision: Floats
    precision_low: Floats
    precision_high: Floats
    recall: Floats
    recall_low: Floats
    recall_high: Floats

    def __len__(self) -> int:
        return len(self.precision)

    def columns(self) -> dict[str, Floats]:
        """The arrays by name."""
        return {name: values for name, values in vars(self).items() if isinstance(values, np.ndarray)}

    def right(self, row: int) -> tuple[int, int, int]:
        """How many of the best k labels of an input are expected to be right: about, at least, at most.

        A whole number of labels is in this range whenever its share is in the interval.
        """
        about = math.floor(self.k * float(self.precision[row]) + 0.5)
        low = math.ceil(self.k * float(self.precision_low[row]) - _WHOLE)
        high = math.floor(self.k * float(self.precision_high[row]) + _WHOLE)
        return about, min(low, about), max(high, about)

    def words(self, row: int) -> str:
        """The same in words.

        Examples
        --------
        >>> shares = [np.array([share]) for share in (0.62, 0.4, 0.81, 0.5, 0.3, 0.7)]
        >>> ExpectedQuality(5, 0.9, *shares).words(0)
        'Of the best five labels, about 3 are right (2 to 4).'
        """
        about, low, high = self.right(row)
        best = "Of the best label" if self.k == 1 else f"Of the best {_NUMBERS[self.k]} labels"
        return f"{best}, about {about} {'is' if about == 1 else 'are'} right ({low} to {high})."

    @staticmethod
    def concatenate(parts: Sequence[ExpectedQuality]) -> ExpectedQuality:
        """Those of several batches, one after the other."""
        if not parts:
            raise ValueError("there is nothing to concatenate")
        joined = {name: np.concatenate([vars(part)[name] for part in parts]) for name in parts[0].columns()}
        return ExpectedQuality(parts[0].k, parts[0].confidence, **joined)


@dataclass(frozen=True, eq=False)
class Forecast:
    """The expected share of one kind, as a logistic regression, and how far held-out inputs were from it.

    Where little speaks for anything else, it says what the votes alone do: see `learn`.

    Attributes
    ----------
    weights : float64 array, shape (1 + names,)
        The constant, and the weight of each standardised number.
    misses : float64 array
        How far the shares of further held-out inputs were from the expected one, over its spread; ascending.
    """

    weights: Floats
    misses: Floats

    @classmethod
    def learn(
        cls, standard: Floats, shares: Floats, fitting: npt.NDArray[np.bool_], before: Floats
    ) -> Forecast:
        """Fit to some rows of standardised numbers; the others tell how far it is off.

        Weights are pulled towards those `before`.
        """
        weights = _fit(standard[fitting], shares[fitting], before)
        others = cls(weights, np.empty(0))
        expected = others.expected(standard[~fitting])
        misses = np.abs(shares[~fitting] - expected) / _spread(expected)
        return cls(weights, np.sort(misses))

    def expected(self, standard: Floats) -> Floats:
        """The expected share of each row of standardised numbers."""
        score = np.full(len(standard), self.weights[0])
        for weight, column in zip(self.weights[1:].tolist(), standard.T, strict=True):
            score += weight * column
        return np.asarray(expit(score), dtype=np.float64)

    def interval(self, expected: Floats, confidence: float) -> tuple[Floats, Floats]:
        """The lowest and highest share (split conformal prediction)."""
        rows = len(self.misses)
        place = math.ceil(confidence * (rows + 1) - 1e-9)
        if place > rows:
            raise ValueError(
                f"confidence is {confidence:g}, but the intervals were learned from {rows} held-out inputs,"
                f" which allow at most {rows / (rows + 1):.3g}; ask for less, or calibrate with more inputs"
            )
        half = float(self.misses[place - 1]) * _ROUNDING * _spread(expected)
        return np.maximum(expected - half, 0.0), np.minimum(expected + half, 1.0)


@dataclass(frozen=True, eq=False)
class QualityModel:
    """Predicts the precision and recall of the best k labels of an input; learned from held-out inputs.

    Attributes
    ----------
    k : int
        How many labels.
    names : tuple of str
        The numbers that it reads; see `evidence_of`.
    centre, scale : float64 array, shape (len(names),)
        Their means and standard deviations.
    precision, recall : Forecast
        What is predicted.
    search : SearchSettings
        The search that it was learned with; its intervals hold for no other.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> evidence = {"best": random.normal(size=400), **{name: np.zeros(400) for name in OF_VOTES[1:]}}
    >>> evidence["label_1"] = evidence["best"]
    >>> share = (random.random(400) < 1 / (1 + np.exp(-3 * evidence["best"]))).astype(float)
    >>> learned = QualityModel.learn(evidence, share, share, 1, SearchSettings())
    >>> new = {name: np.repeat(values[:1] * 0, 2) for name, values in evidence.items()}
    >>> new["best"] = new["label_1"] = np.array([-1.0, 1.0])
    >>> learned.predict(new).precision.round(1)
    array([0.1, 0.8])
    """

    k: int
    names: tuple[str, ...]
    centre: Floats
    scale: Floats
    precision: Forecast
    recall: Forecast
    search: SearchSettings

    @classmethod
    def learn(
        cls, evidence: Mapping[str, Floats], precision: Floats, recall: Floats, k: int, search: SearchSettings
    ) -> QualityModel:
        """Learn from held-out inputs; where the recall is NaN, it has no meaning."""
        defined = np.isfinite(recall)
        if defined.sum() < NEEDED:
            raise TooFewInputs(
                f"{int(defined.sum())} held-out inputs with labels that the model knows are too few to learn"
                f" the expected quality; at least {NEEDED} are needed, and some hundred are better"
            )
        names = tuple(evidence)
        table = np.column_stack([evidence[name] for name in names])
        # At random, but always the same: neighbours are often alike.
        fitting = np.zeros(len(table), dtype=bool)
        fitting[np.random.default_rng(0).permutation(len(table))[: len(table) // 2]] = True
        centre = table[fitting].mean(axis=0)
        spread = table[fitting].std(axis=0)
        scale = np.where(spread > 1e-9, spread, 1.0)
        standard = _standard(evidence, names, centre, scale)
        return cls(
            k,
            names,
            centre,
            scale,
            Forecast.learn(standard, precision, fitting, _before(names, centre, scale, "best")),
            Forecast.learn(
                standard[defined],
                recall[defined],
                fitting[defined],
                _before(names, centre, scale, "share"),
            ),
            search,
        )

    def predict(self, evidence: Mapping[str, Floats], confidence: float = 0.9) -> ExpectedQuality:
        """What is expected of inputs, by what is known of them."""
        check_real("confidence", confidence, above=0, below=1)
        standard = _standard(evidence, self.names, self.centre, self.scale)
        found: dict[str, Floats] = {}
        for name, forecast in (("precision", self.precision), ("recall", self.recall)):
            expected = forecast.expected(standard)
            low, high = forecast.interval(expected, float(confidence))
            found |= {name: expected, f"{name}_low": low, f"{name}_high": high}
        return ExpectedQuality(self.k, float(confidence), **found)

    def describe(self) -> dict[str, Any]:
        """What it was learned from, for people and programs."""
        return {
            "labels": self.k,
            "reads": list(self.names),
            "inputs_for_intervals_of_precision": len(self.precision.misses),
            "inputs_for_intervals_of_recall": len(self.recall.misses),
        }

    def to_sections(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Header and arrays for a model file."""
        header = {"k": self.k, "names": list(self.names), "search": self.search.to_dict()}
        return header, {
            "quality.scaling": np.stack([self.centre, self.scale]),
            "quality.weights": np.stack([self.precision.weights, self.recall.weights]),
            "quality.precision": self.precision.misses,
            "quality.recall": self.recall.misses,
        }

    @classmethod
    def from_sections(cls, header: Any, sections: Mapping[str, npt.NDArray[Any]]) -> QualityModel:
        """Take back what `to_sections` gave, after checking it."""
        if not isinstance(header, dict) or set(header) != {"k", "names", "search"}:
            raise ValueError("what is known of the expected quality is incomplete")
        k, names, search = header["k"], header["names"], header["search"]
        if type(k) is not int or not 1 <= k <= 5:
            raise ValueError(f"the expected quality is that of {k!r} labels")
        known = {*OF_VOTES, *OF_SIGNALS, *(f"label_{place + 1}" for place in range(k))}
        if not isinstance(names, list) or not set(names) <= known or len(set(names)) != len(names):
            raise ValueError("the expected quality has unknown or repeated numbers")
        if not isinstance(search, dict) or set(search) - {"floor"} != {
            *("beam", "candidates", "missing", "tolerance")
        }:
            raise ValueError("the search settings of the expected quality are missing or incomplete")
        scaling, weights = sections["quality.scaling"], sections["quality.weights"]
        for table, width in ((scaling, len(names)), (weights, 1 + len(names))):
            if table.dtype != np.float64 or table.shape != (2, width) or not np.isfinite(table).all():
                raise ValueError("the tables of the expected quality have the wrong type or shape")
        if not (scaling[1] > 0).all():
            raise ValueError("the scale of the expected quality is not positive")
        forecasts = []
        for row, name in enumerate(("precision", "recall")):
            misses = sections[f"quality.{name}"]
            if misses.dtype != np.float64 or misses.ndim != 1 or not np.isfinite(misses).all():
                raise ValueError("the misses of the expected quality are not vectors of finite numbers")
            if not len(misses) or misses[0] < 0 or (np.diff(misses) < 0).any():
                raise ValueError("the misses of the expected quality do not ascend from 0")
            forecasts.append(Forecast(weights[row], misses))
        precision, recall = forecasts
        return cls(k, tuple(names), scaling[0], scaling[1], precision, recall, SearchSettings(**search))


def _standard(evidence: Mapping[str, Floats], names: Sequence[str], centre: Floats, scale: Floats) -> Floats:
    """Numbers of inputs, each less its mean and over its deviation."""
    missing = [name for name in names if name not in evidence]
    if missing:
        raise ValueError(f"the expected quality needs {', '.join(missing)} of each input")
    columns = zip(names, centre.tolist(), scale.tolist(), strict=True)
    return np.column_stack([(evidence[name] - mean) / deviation for name, mean, deviation in columns])


def _spread(expected: Floats) -> Floats:
    return np.asarray(np.sqrt(expected * (1 - expected) + _SPREAD))


def _before(names: Sequence[str], centre: Floats, scale: Floats, log_odds: str) -> Floats:
    """The weights with which one of the numbers says the log-odds of the share."""
    place = names.index(log_odds)
    weights = np.zeros(1 + len(names))
    weights[0], weights[1 + place] = centre[place], scale[place]
    return weights


def _fit(standard: Floats, shares: Floats, before: Floats) -> Floats:
    """Logistic regression on shares, with a penalty on what departs from weights; by Newton's method."""
    features = np.column_stack([np.ones(len(standard)), standard])
    penalty = np.full(features.shape[1], _PENALTY)
    penalty[0] = 1e-6

    # Not by matrix products: those add in another order on another number of processors.
    def scores(weights: Floats) -> Floats:
        return np.asarray(np.einsum("ij,j->i", features, weights))

    def loss(weights: Floats) -> float:
        z = scores(weights)
        moved = weights - before
        return float((np.logaddexp(0.0, z) - shares * z).sum() + 0.5 * (penalty * moved * moved).sum())

    weights = np.zeros(features.shape[1])
    for _ in range(50):
        p = expit(scores(weights))
        gradient = np.einsum("ij,i->j", features, p - shares) + penalty * (weights - before)
        curvature = np.einsum("ij,i,ik->jk", features, p * (1 - p), features) + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        if (gradient * step).sum() < _CONVERGED:
            break
        now, size = loss(weights), 1.0
        while loss(weights - size * step) > now and size > _SHORTEST:
            size /= 2
        weights = weights - size * step
    return weights
