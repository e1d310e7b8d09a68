"""Chooses labels of many inputs together, so that an expected macro measure is high."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["MEASURES", "Choice", "Objective", "choose"]

Floats = npt.NDArray[np.float64]

# As xCOLUMNs has it: a millionth of the inputs in the denominator keeps 0 / 0 from arising.
_ALMOST_NOTHING = 1e-6
_TOLERANCE = 1e-6
_PASSES = 100


def _f1(true: Floats, chosen: Floats, expected: Floats, least: float) -> Floats:
    return 2 * true / (chosen + expected + least)


def _precision(true: Floats, chosen: Floats, expected: Floats, least: float) -> Floats:
    return true / (chosen + least)


def _recall(true: Floats, chosen: Floats, expected: Floats, least: float) -> Floats:
    return true / (expected + least)


# Of a label: how many of the inputs that it is given to have it (expected), how many it is given to, and how
# many have it (expected).
MEASURES: dict[str, Callable[[Floats, Floats, Floats, float], Floats]] = {
    "macro-f1": _f1,
    "macro-precision": _precision,
    "macro-recall": _recall,
}


@dataclass(frozen=True)
class Objective:
    """A measure of each label, of which the mean over labels is to be high, with k labels for each input.

    Examples
    --------
    >>> Objective.parse("macro-f1@5")
    Objective(measure='macro-f1', k=5)
    """

    measure: str
    k: int

    @classmethod
    def parse(cls, words: object) -> Objective:
        """Read a measure and a number of labels, such as "macro-f1@5"."""
        found = re.fullmatch(r"([a-z0-9-]+)@([1-9][0-9]{0,4})", words) if isinstance(words, str) else None
        if found is None or found[1] not in MEASURES:
            known = ", ".join(f"{name}@5" for name in MEASURES)
            raise ValueError(f"optimise is {words!r}; it must be a measure and a number of labels: {known}")
        return cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return f"{self.measure}@{self.k}"


@dataclass(frozen=True, eq=False)
class Choice:
    """Which candidates are chosen.

    Attributes
    ----------
    chosen : bool array, shape (entries,)
        In the order of the candidates.
    value : float
        The expected measure, the mean over all labels.
    start : float
        The same of the most probable labels of each input.
    passes : int
        How often all inputs were gone through.
    """

    chosen: npt.NDArray[np.bool_]
    value: float
    start: float
    passes: int


def choose(
    indptr: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int32],
    probability: npt.NDArray[np.floating],
    n_labels: int,
    objective: Objective,
    expected: Floats | None = None,
) -> Choice:
    """Choose k candidates of each input by block coordinate ascent on the expected measure.

    Starts from the most probable labels; then, one input after the other, gives each the k labels that gain
    most while those of all other inputs stay as they are, until a pass gains less than a millionth. This is
    the algorithm of Schultheis, Wydmuch, Kotlowski, Babbar and Dembczynski, "Generalized test utilities for
    long-tail performance in extreme multi-label classification" (NeurIPS 2023), as in their library xCOLUMNs.
    The result is a local optimum. Memory grows with the candidates and the number of labels.

    Parameters
    ----------
    indptr, labels, probability
        Candidates of each input, labels ascending, and their probabilities, as of `Votes`.
    n_labels : int
        Number of all labels.
    objective : Objective
        What is to be high.
    expected : float64 array, shape (n_labels,), optional
        How many inputs have each label; the sums of the probabilities, if not given.

    Returns
    -------
    Choice

    Examples
    --------
    Label 0 is the most probable of both inputs. One of them gets label 1, which would be given to none:

    >>> indptr, labels = np.array([0, 2, 4]), np.array([0, 1, 0, 1], dtype=np.int32)
    >>> found = choose(indptr, labels, np.array([0.9, 0.1, 0.6, 0.5]), 2, Objective("macro-f1", 1))
    >>> found.chosen
    array([ True, False, False,  True])
    """
    p = np.asarray(probability, dtype=np.float64)
    measure, k = MEASURES[objective.measure], objective.k
    rows = len(indptr) - 1
    least = _ALMOST_NOTHING * max(1, rows)
    if expected is None:
        expected = np.bincount(labels, weights=p, minlength=n_labels).astype(np.float64)
    chosen = np.zeros(len(p), dtype=bool)
    ends = list(zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True))
    for begin, end in ends:
        chosen[begin + _best(p[begin:end], k)] = True
    value = start = -np.inf
    passes = 0
    while True:
        # From the start, so that rounding does not add up.
        true = np.bincount(labels[chosen], weights=p[chosen], minlength=n_labels).astype(np.float64)
        given = np.bincount(labels[chosen], minlength=n_labels).astype(np.float64)
        before, value = value, float(measure(true, given, expected, least).sum()) / max(1, n_labels)
        if not passes:
            start = value
        elif passes == _PASSES or value - before < _TOLERANCE:
            return Choice(chosen, value, start, passes)
        passes += 1
        for begin, end in ends:
            if end - begin <= k:
                continue  # all are given
            own, chance, now = labels[begin:end], p[begin:end], chosen[begin:end]
            true[own[now]] -= chance[now]
            given[own[now]] -= 1
            others, times, prior = true[own], given[own], expected[own]
            gain = measure(others + chance, times + 1, prior, least) - measure(others, times, prior, least)
            best = _best(gain, k)
            now[:] = False
            now[best] = True
            true[own[best]] += chance[best]
            given[own[best]] += 1


def _best(values: Floats, k: int) -> npt.NDArray[np.intp]:
    """The places of the k highest values; of equals, the first."""
    return np.argsort(-values, kind="stable")[:k]
