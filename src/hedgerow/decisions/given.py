"""How many labels held-out inputs are given, how many of those are wrong, and what that proves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.decisions.risk import GRID, TooFewRows, fixed_sequence

__all__ = ["LADDER", "RATIOS", "Given", "GivenLearner", "betting_p_values", "most_labels", "pairs_of"]

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

# Each fourth threshold on probabilities is enough to accept labels, and saves three quarters of the counts.
LADDER: npt.NDArray[np.float32] = np.concatenate([GRID[1:-2:4], GRID[-2:]])
RATIOS = ("labels", "answered")
_MANY, _USUAL = 20, 5  # labels that an input may be given
# Where tests begin, and their parts of the level: if at most a share a may be wrong, a label of probability
# 1 - a is well within it. The others are for probabilities that are too low, or too high.
_STARTS = ((0.75, lambda share: 1 - share), (0.125, lambda _: 0.5), (0.125, lambda share: 1 - share / 8))
_SPREADS = 2.0 ** np.arange(-3, 4)
_NEVER_ALL = 0.9  # the share of the capital that one input may cost


def most_labels(counts: npt.NDArray[np.int64] | None, rows: int | None) -> int:
    """How many labels an input may be given: as many as training inputs have on average, rounded up.

    Without a limit, nothing can be proven about the share of wrong ones among all labels: one further input
    could be given any number of them. The lower it is, the fewer held-out inputs a proof takes.

    Examples
    --------
    >>> most_labels(np.array([20, 33]), 10), most_labels(None, None)
    (6, 5)
    """
    if counts is None or not rows:
        return _USUAL
    return min(_MANY, max(1, math.ceil(int(counts.sum()) / rows)))


def betting_p_values(counts: Counts, gains: Floats, share: float, level: float) -> Floats:
    """p-values for "the expected gain is below 0", from how often each gain was drawn.

    Somebody who bets a fixed share of the capital on each input gains nothing on average if the expected gain
    is below 0, so the capital reaches 1/a with a probability of at most a (Waudby-Smith and Ramdas). The
    capital here is the mean over several shares, each of which suits gains of another spread.

    Parameters
    ----------
    counts : int array, shape (tests, gains)
        How many inputs had each gain, for each test. No test depends on the others.
    gains : float array, shape (gains,)
        What an input can gain.
    share : float
        The share of wrong ones that is tested, which says how much gains vary.
    level : float
        The level at which the tests are to have power.

    Examples
    --------
    >>> betting_p_values(np.array([[40, 0], [36, 4]]), np.array([0.1, -0.9]), 0.1, 0.1).round(3)
    array([0.032, 1.   ])
    """
    rows = int(counts[0].sum())
    capital = np.zeros(len(counts))
    for spread in _SPREADS:
        stake = _stake(rows, gains, spread * share * (1 - share), level)
        capital += np.exp(np.minimum((counts * np.log1p(stake * gains)).sum(axis=1), 700)) / len(_SPREADS)
    return np.minimum(1.0, 1 / np.maximum(capital, 1e-300))


@dataclass(frozen=True, eq=False)
class Given:
    """At each threshold, how many inputs are given how many labels, and how many of those are wrong.

    An input is given its best labels that reach the threshold, at most `most`.

    Attributes
    ----------
    counts : int64 array, shape (thresholds, pairs)
        Inputs by their numbers of given and of wrong labels.
    most : int
        The most labels that an input is given.
    """

    counts: Counts
    most: int

    @cached_property
    def given(self) -> Floats:
        """Labels that an input of each pair is given."""
        return _pairs(self.most)[0].astype(np.float64)

    @cached_property
    def wrong(self) -> Floats:
        """How many of those are wrong."""
        return _pairs(self.most)[1].astype(np.float64)

    @property
    def rows(self) -> int:
        """Number of inputs."""
        return int(self.counts[0].sum())

    def accept_from(self, of: str, wrong_at_most: float, confidence: float) -> float:
        """The lowest threshold that is shown to keep the share of wrong labels, testing from above.

        Each test asks whether more would be wrong; those of one start are made one after the other, until the
        first that cannot say no (Learn then Test).

        Parameters
        ----------
        of : {"labels", "answered"}
            The share is of all labels that are given, or is the mean over the inputs that are given any.
        wrong_at_most : float
            The share.
        confidence : float
            The probability that the guarantee is kept.

        Returns
        -------
        float
            Infinite if nothing can be given.
        """
        gains, level = self._gains(of, wrong_at_most), 1 - confidence
        best = math.log1p(_NEVER_ALL * wrong_at_most / (1 - wrong_at_most))  # no input can bring more
        needed = math.ceil(-math.log(_STARTS[0][0] * level) / best)
        if self.rows < needed:
            raise TooFewRows(
                f"{self.rows} held-out inputs are too few for wrong_at_most={wrong_at_most:g} with a"
                f" confidence of {confidence:g}, which needs at least {needed}; calibrate with more, or allow"
                " more wrong labels"
            )
        lowest = math.inf
        for part, begins in _STARTS:
            start = int(np.searchsorted(LADDER, np.float32(begins(wrong_at_most))))
            p_values = betting_p_values(self.counts[start::-1], gains, wrong_at_most, part * level)
            passed = fixed_sequence(p_values, part * level)
            if passed:
                lowest = min(lowest, float(LADDER[start - passed + 1]))
        return lowest

    def reached(self, of: str, threshold: float) -> float | None:
        """The share of wrong labels on the inputs here; None where nothing is given."""
        if not math.isfinite(threshold):
            return None
        counts = self.counts[int(np.searchsorted(LADDER, np.float32(threshold)))]
        if of == "labels":
            wrong, every = counts @ self.wrong, counts @ self.given
        else:
            wrong = counts @ (self.wrong / np.maximum(self.given, 1))
            every = counts @ (self.given > 0)
        return float(wrong / every) if every else None

    def accepted(self, threshold: float) -> float:
        """How many labels an input is given, on average."""
        counts = self.counts[int(np.searchsorted(LADDER, np.float32(threshold)))]
        return float(counts @ self.given / max(1, self.rows))

    def to_arrays(self) -> npt.NDArray[np.uint32]:
        """The counts, as small as they can be."""
        return self.counts.astype(np.uint32)

    @classmethod
    def from_arrays(cls, counts: npt.NDArray[Any], most: Any) -> Given:
        """Take back what `to_arrays` gave, after checking it."""
        if type(most) is not int or not 1 <= most <= 1000:
            raise ValueError(f"the policy has {most!r} as the most labels of an input")
        shape = (len(LADDER), len(_pairs(most)[0]))
        if counts.dtype != np.uint32 or counts.shape != shape:
            raise ValueError("the numbers of given labels of the policy have the wrong type or number")
        wide = counts.astype(np.int64)
        rows = wide.sum(axis=1)
        if (rows != rows[0]).any():
            raise ValueError("the numbers of given labels of the policy are not of the same inputs")
        return cls(wide, most)

    def _gains(self, of: str, share: float) -> Floats:
        """What inputs gain in a bet that the share of wrong ones is lower."""
        if of == "labels":
            return share * self.given - self.wrong
        if of == "answered":
            return (self.given > 0) * share - self.wrong / np.maximum(self.given, 1)
        raise ValueError(f"of is {of!r}; it must be one of {', '.join(RATIOS)}")


class GivenLearner:
    """Counts labels that are given, batch by batch."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts = np.zeros((len(LADDER), len(_pairs(most)[0])), dtype=np.int64)

    def add(self, rows: int, best: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add the next inputs, as of `pairs_of`."""
        entries = np.arange(len(LADDER)) * self._counts.shape[1] + pairs_of(rows, best)
        found = np.bincount(entries.ravel(), minlength=self._counts.size)
        self._counts += found.reshape(self._counts.shape)

    def finish(self) -> Given:
        """The counts of all inputs added."""
        return Given(self._counts, self._most)


def pairs_of(rows: int, best: Mapping[str, npt.NDArray[Any]]) -> Counts:
    """For each input and threshold, the place of its numbers of given and of wrong labels.

    Parameters
    ----------
    rows : int
        How many inputs.
    best : mapping
        Of the best labels of each, no more than it may be given: "row", "value" (its probability) and
        "right".

    Returns
    -------
    int64 array, shape (rows, thresholds)
    """
    place = np.searchsorted(LADDER, best["value"], side="right") - 1
    kept = place >= 0
    row, place, right = best["row"][kept], place[kept], best["right"][kept]
    given, good = (_reached(rows, row[own], place[own]) for own in (np.ones_like(right), right))
    return np.asarray(given * (given + 1) // 2 + given - good)


def _stake(rows: int, gains: Floats, spread: float, level: float) -> float:
    """What to bet on each input, so that the capital should reach 1 / level where it can at all."""
    return min(math.sqrt(2 * math.log(1 / level) / (max(1, rows) * spread)), _NEVER_ALL / -float(gains.min()))


def _pairs(most: int) -> tuple[Counts, Counts]:
    """All numbers of given and of wrong labels, up to `most`."""
    given, wrong = np.tril_indices(most + 1)
    return given, wrong


def _reached(rows: int, row: Counts, place: Counts) -> Counts:
    """For each input and threshold, how many reach it."""
    counts = np.bincount(row * len(LADDER) + place, minlength=rows * len(LADDER))
    return np.asarray(np.cumsum(counts.reshape(rows, len(LADDER))[:, ::-1], axis=1)[:, ::-1])
