"""Which predictions to withhold: those of the most doubt, up to a guaranteed risk or coverage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from hedgerow.decisions.risk import TooFewRows, Unreachable, as_share, fixed_sequence, rows_needed
from hedgerow.votes.measures import Measures, instance_uncertainty
from hedgerow.votes.votes import Votes

__all__ = ["INPUT_MEASURES", "LABEL_MEASURES", "Abstention", "answer_limit", "certainty", "input_doubts"]

Floats = npt.NDArray[np.float64]

# The most that a label can have of each.
_HIGHEST = {"total": math.log(2), "data": math.log(2), "knowledge": math.log(2), "variance": 0.25}
LABEL_MEASURES = ("probability", *_HIGHEST)
INPUT_MEASURES = ("top", "expected", "total", "data", "knowledge", "variance", "ood")
_KNOTS = 500
# Tests start where some predictions may be wrong: the surest ones alone would decide too much.
_START = 4


def certainty(measures: Measures, by: str) -> npt.NDArray[np.float32]:
    """How sure a measure is of labels that are predicted, from 0 to 1: the probability, or lack of doubt.

    Parameters
    ----------
    measures : Measures
        Of the labels.
    by : {"probability", "total", "data", "knowledge", "variance"}
        Which to take.

    Returns
    -------
    float32 array

    Examples
    --------
    >>> doubt = Measures(*np.array([[0.5, 1.0], [np.log(2), 0.0], [0.0, 0.0], [0.0, 0.0], [0.25, 0.0]]))
    >>> certainty(doubt, "total"), certainty(doubt, "variance")
    (array([0., 1.], dtype=float32), array([0., 1.], dtype=float32))
    """
    if by not in LABEL_MEASURES:
        raise ValueError(f"by is {by!r}; it must be one of {', '.join(LABEL_MEASURES)}")
    values = np.asarray(getattr(measures, by), dtype=np.float64)
    if by != "probability":
        values = 1 - values / _HIGHEST[by]
    return np.clip(values, 0, 1).astype(np.float32)


def input_doubts(votes: Votes, ood: Floats | None = None) -> dict[str, Floats]:
    """What makes inputs doubtful, by name; high is doubtful.

    "top" is 1 less the highest probability; "expected" is the negative expected number of labels; "ood" is
    the given score, if any; the others are sums over the candidates.
    """
    best = np.zeros(len(votes))
    filled = np.flatnonzero(np.diff(votes.indptr))
    if filled.size:
        best[filled] = np.maximum.reduceat(votes.means(), votes.indptr[filled])
    sums = instance_uncertainty(votes)
    found = {"top": 1 - best, "expected": -np.asarray(sums.probability, dtype=np.float64)}
    for name in _HIGHEST:
        found[name] = np.asarray(getattr(sums, name), dtype=np.float64)
    if ood is not None:
        found["ood"] = np.asarray(ood, dtype=np.float64)
    return found


@dataclass(frozen=True, eq=False)
class Abstention:
    """Which inputs to answer, learned from the doubts and mistakes of others.

    Attributes
    ----------
    knots : float64 array, shape (knots,)
        Doubts at evenly spread ranks, ascending; the last is infinite.
    ranks : int64 array, shape (knots,)
        How many doubts are at most as large as each knot, had no two been equal.
    below : int64 array, shape (knots,)
        How many doubts are below each knot.
    wrong : int64 array, shape (knots,)
        How many of those inputs were answered wrongly.

    Examples
    --------
    >>> doubt = np.arange(1000) / 1000
    >>> rule = Abstention.learn(doubt, doubt > 0.8)
    >>> rule.for_coverage(0.5), round(rule.for_risk(0.1), 2)
    (0.501, 0.87)
    """

    knots: Floats
    ranks: npt.NDArray[np.int64]
    below: npt.NDArray[np.int64]
    wrong: npt.NDArray[np.int64]

    @classmethod
    def learn(cls, doubt: npt.ArrayLike, wrong: npt.ArrayLike) -> Abstention:
        """Learn from inputs that the model was not trained on.

        Parameters
        ----------
        doubt : array, shape (n,)
            High is doubtful.
        wrong : array of bool, shape (n,)
            Whether the answer is wrong.

        Returns
        -------
        Abstention
        """
        doubts, mistakes = np.asarray(doubt, dtype=np.float64), np.asarray(wrong, dtype=bool)
        if doubts.ndim != 1 or not doubts.size or mistakes.shape != doubts.shape:
            raise ValueError(
                f"doubt has shape {doubts.shape} and wrong has {mistakes.shape}; both must be vectors of one"
                " length, with at least one entry"
            )
        if not np.isfinite(doubts).all():
            raise ValueError(f"doubt has the value {doubts[~np.isfinite(doubts)][0]}; it must be finite")
        order = np.argsort(doubts, kind="stable")
        ascending = doubts[order]
        n = len(doubts)
        ranks = np.unique(np.ceil(np.linspace(0, n, min(n, _KNOTS) + 1)[1:]).astype(np.int64))
        knots = np.append(ascending[ranks - 1], np.inf)
        below = np.append(np.searchsorted(ascending, knots[:-1], side="left"), n)
        mistaken = np.concatenate([[0], np.cumsum(mistakes[order])])
        return cls(knots, np.append(ranks, n + 1), below.astype(np.int64), mistaken[below].astype(np.int64))

    @property
    def rows(self) -> int:
        """How many inputs it was learned from."""
        return int(self.below[-1])

    def for_coverage(self, coverage: float) -> float:
        """The highest doubt with which inputs are answered, so that at least this share of them are.

        Parameters
        ----------
        coverage : float
            The share of further inputs, on average.

        Returns
        -------
        float
        """
        coverage = as_share("coverage", coverage)
        return float(self.knots[np.argmax(self.ranks >= coverage * (self.rows + 1))])

    def for_risk(self, risk: float, confidence: float = 0.9) -> float:
        """The highest doubt with which inputs are answered, so that at most this share of answers is wrong.

        Parameters
        ----------
        risk : float
            The share of wrong answers among those given.
        confidence : float
            The chance, over the inputs learned from, that the guarantee is kept.

        Returns
        -------
        float
        """
        risk, confidence = as_share("risk", risk), as_share("confidence", confidence)
        needed = rows_needed(risk, confidence)
        if self.rows < needed:
            raise TooFewRows(
                f"there are {self.rows} inputs; a risk of {risk:g} with a confidence of {confidence:g} needs"
                f" at least {needed}, and more where some are wrong"
            )
        # Enough inputs must be surely below: of doubts that are equal, none is.
        start = int(np.argmax(self.below >= min(_START * needed, self.rows)))
        # Below a knot that is one of the doubts, the others are a sample of what is below it.
        p_values = binom.cdf(self.wrong[start:], self.below[start:], risk)
        passed = fixed_sequence(p_values, 1 - confidence)
        if not passed:
            share = self.wrong[start] / max(1, self.below[start])
            raise Unreachable(
                f"of the {self.below[start]} least doubtful of {self.rows} inputs {100 * share:.1f} % are"
                f" answered wrongly; that does not show a risk of {risk:g} with a confidence of"
                f" {confidence:g}: ask for more risk, or learn from more inputs"
            )
        return float(np.nextafter(self.knots[start + passed - 1], -np.inf))

    def to_arrays(self) -> Floats:
        """The knots with what is known of them, shape (knots, 4)."""
        return np.column_stack([self.knots, self.ranks, self.below, self.wrong]).astype(np.float64)

    @classmethod
    def from_arrays(cls, table: npt.NDArray[Any]) -> Abstention:
        """Take back what `to_arrays` gave, after checking it."""
        if table.dtype != np.float64 or table.ndim != 2 or table.shape[1] != 4 or not 1 < len(table) <= 2000:
            raise ValueError("the doubts of inputs are no table of four columns")
        knots, counts = table[:, 0], table[:, 1:]
        if not np.isfinite(knots[:-1]).all() or knots[-1] != np.inf or (np.diff(knots[:-1]) < 0).any():
            raise ValueError("the doubts of inputs do not ascend")
        if not np.isfinite(counts).all() or (counts < 0).any() or counts.max() >= 2**53:
            raise ValueError("the doubts of inputs are counted wrongly")
        ranks, below, wrong = counts.astype(np.int64).T
        whole = (counts == counts.astype(np.int64)).all()
        if (
            not whole
            or (np.diff(counts, axis=0) < 0).any()
            or (wrong > below).any()
            or (below >= ranks).any()
        ):
            raise ValueError("the doubts of inputs are counted wrongly")
        return cls(np.array(knots), ranks.copy(), below.copy(), wrong.copy())


def answer_limit(
    rules: Mapping[str, Abstention], by: str, risk: float | None, coverage: float | None, confidence: float
) -> float:
    """The highest doubt of an input that is answered."""
    if by not in INPUT_MEASURES:
        raise ValueError(f"inputs_by is {by!r}; it must be one of {', '.join(INPUT_MEASURES)}")
    if by not in rules:
        raise ValueError(
            f"the policy has no {by} of inputs; call learn_ood with other inputs, then learn_policy"
        )
    if (risk is None) == (coverage is None):
        raise ValueError("inputs_by needs either inputs_risk or inputs_coverage")
    if coverage is not None:
        return rules[by].for_coverage(coverage)
    return rules[by].for_risk(risk if risk is not None else 0.1, confidence)
