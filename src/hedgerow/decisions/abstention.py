"""Which predictions to withhold: the most uncertain ones, up to a guaranteed risk or coverage."""

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

__all__ = ["INPUT_MEASURES", "LABEL_MEASURES", "Abstention", "answer_limit", "certainty", "input_uncertainty"]

Floats = npt.NDArray[np.float64]

# The most that a label can have of each.
_HIGHEST = {"total": math.log(2), "data": math.log(2), "knowledge": math.log(2), "variance": 0.25}
LABEL_MEASURES = ("probability", *_HIGHEST)
INPUT_MEASURES = ("top", "expected", "total", "data", "knowledge", "variance", "ood")
_KNOTS = 500
# Tests start where some predictions may be wrong: the surest ones alone would decide too much.
_START = 4


def certainty(measures: Measures, by: str) -> npt.NDArray[np.float32]:
    """How certain predicted labels are, from 0 to 1: the probability, or the absence of uncertainty.

    Examples
    --------
    >>> labels = Measures(*np.array([[0.5, 1.0], [np.log(2), 0.0], [0.0, 0.0], [0.0, 0.0], [0.25, 0.0]]))
    >>> certainty(labels, "total"), certainty(labels, "variance")
    (array([0., 1.], dtype=float32), array([0., 1.], dtype=float32))
    """
    if by not in LABEL_MEASURES:
        raise ValueError(f"by is {by!r}; it must be one of {', '.join(LABEL_MEASURES)}")
    values = np.asarray(getattr(measures, by), dtype=np.float64)
    if by != "probability":
        values = 1 - values / _HIGHEST[by]
    return np.clip(values, 0, 1).astype(np.float32)


def input_uncertainty(votes: Votes, ood: Floats | None = None) -> dict[str, Floats]:
    """The uncertainty of inputs by each of `INPUT_MEASURES`; high is uncertain.

    "top" is 1 minus the highest probability; "expected" is the negative expected number of labels; "ood" is
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
    """Which inputs to answer, learned from the uncertainty of held-out inputs and their wrong answers.

    Knots are uncertainties at evenly spread ranks, ascending; the last is infinite. For each knot: how many
    inputs are at most as uncertain, had no two been equal (`ranks`), how many are below, and how many of
    those were answered wrongly.

    Examples
    --------
    >>> uncertainty = np.arange(1000) / 1000
    >>> rule = Abstention.learn(uncertainty, uncertainty > 0.8)
    >>> rule.for_coverage(0.5), round(rule.for_risk(0.1), 2)
    (0.501, 0.87)
    """

    knots: Floats
    ranks: npt.NDArray[np.int64]
    below: npt.NDArray[np.int64]
    wrong: npt.NDArray[np.int64]

    @classmethod
    def learn(cls, uncertainty: npt.ArrayLike, wrong: npt.ArrayLike) -> Abstention:
        """Learn from how uncertain each held-out input is, and whether its answer is wrong."""
        values, mistakes = np.asarray(uncertainty, dtype=np.float64), np.asarray(wrong, dtype=bool)
        if values.ndim != 1 or not values.size or mistakes.shape != values.shape:
            raise ValueError(
                f"uncertainty has shape {values.shape} and wrong has {mistakes.shape}; both must be vectors"
                " of one length, with at least one entry"
            )
        if not np.isfinite(values).all():
            raise ValueError(
                f"uncertainty has the value {values[~np.isfinite(values)][0]}; it must be finite"
            )
        order = np.argsort(values, kind="stable")
        ascending = values[order]
        n = len(values)
        ranks = np.unique(np.ceil(np.linspace(0, n, min(n, _KNOTS) + 1)[1:]).astype(np.int64))
        knots = np.append(ascending[ranks - 1], np.inf)
        below = np.append(np.searchsorted(ascending, knots[:-1], side="left"), n)
        mistaken = np.concatenate([[0], np.cumsum(mistakes[order])])
        return cls(knots, np.append(ranks, n + 1), below.astype(np.int64), mistaken[below].astype(np.int64))

    @property
    def rows(self) -> int:
        """Number of inputs it was learned from."""
        return int(self.below[-1])

    def for_coverage(self, coverage: float) -> float:
        """The highest uncertainty to answer, so that on average at least this share of inputs is answered."""
        coverage = as_share("coverage", coverage)
        return float(self.knots[np.argmax(self.ranks >= coverage * (self.rows + 1))])

    def for_risk(self, risk: float, confidence: float = 0.9) -> float:
        """The highest uncertainty of an answered input, so that at most this share of the answers is wrong.

        The guarantee (Learn then Test) holds with this confidence over the inputs learned from.
        """
        risk, confidence = as_share("inputs_wrong_at_most", risk), as_share("confidence", confidence)
        needed = rows_needed(risk, confidence)
        if self.rows < needed:
            raise TooFewRows(
                f"{self.rows} inputs are too few for inputs_wrong_at_most={risk:g} with a confidence of"
                f" {confidence:g}: it needs at least {needed}, and more if some answers are wrong"
            )
        # Enough inputs must be below the knot: those as uncertain as the knot do not count.
        start = int(np.argmax(self.below >= min(_START * needed, self.rows)))
        # Given a knot that is one of the values, the values below it are a sample of what is below it.
        p_values = binom.cdf(self.wrong[start:], self.below[start:], risk)
        passed = fixed_sequence(p_values, 1 - confidence)
        if not passed:
            share = self.wrong[start] / max(1, self.below[start])
            raise Unreachable(
                f"inputs_wrong_at_most={risk:g} cannot be guaranteed with a confidence of {confidence:g}:"
                f" even of the {self.below[start]} least uncertain of {self.rows} inputs,"
                f" {100 * share:.1f} % are answered wrongly; allow more, or learn from more inputs"
            )
        return float(np.nextafter(self.knots[start + passed - 1], -np.inf))

    def to_arrays(self) -> Floats:
        """The knots with what is known of them, shape (knots, 4)."""
        return np.column_stack([self.knots, self.ranks, self.below, self.wrong]).astype(np.float64)

    @classmethod
    def from_arrays(cls, table: npt.NDArray[Any]) -> Abstention:
        """Take back what `to_arrays` gave, after checking it."""
        if table.dtype != np.float64 or table.ndim != 2 or table.shape[1] != 4 or not 1 < len(table) <= 2000:
            raise ValueError("the uncertainties of inputs are not a table of four columns")
        knots, counts = table[:, 0], table[:, 1:]
        if not np.isfinite(knots[:-1]).all() or knots[-1] != np.inf or (np.diff(knots[:-1]) < 0).any():
            raise ValueError("the uncertainties of inputs do not ascend")
        if not np.isfinite(counts).all() or (counts < 0).any() or counts.max() >= 2**53:
            raise ValueError("the uncertainties of inputs have impossible counts")
        ranks, below, wrong = counts.astype(np.int64).T
        whole = (counts == counts.astype(np.int64)).all()
        if (
            not whole
            or (np.diff(counts, axis=0) < 0).any()
            or (wrong > below).any()
            or (below >= ranks).any()
        ):
            raise ValueError("the uncertainties of inputs have impossible counts")
        return cls(np.array(knots), ranks.copy(), below.copy(), wrong.copy())


def answer_limit(
    rules: Mapping[str, Abstention], by: str, risk: float | None, coverage: float | None, confidence: float
) -> float:
    """The highest uncertainty of an input that is answered."""
    if by not in INPUT_MEASURES:
        raise ValueError(f"inputs_by is {by!r}; it must be one of {', '.join(INPUT_MEASURES)}")
    if by not in rules:
        raise ValueError(
            f"the policy was learned without {by} of inputs; call learn_ood with other inputs, then"
            " learn_policy"
        )
    if (risk is None) == (coverage is None):
        raise ValueError("inputs_by needs either inputs_wrong_at_most or inputs_coverage")
    if coverage is not None:
        return rules[by].for_coverage(coverage)
    return rules[by].for_risk(risk if risk is not None else 0.1, confidence)
