"""How reliable confidence is: risk and coverage, and calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Reliability", "RiskCoverage", "brier_score", "reliability", "risk_coverage"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """How wrong the predictions are if only the least uncertain are made.

    Attributes
    ----------
    coverage : array, shape (points,)
        The share of predictions made, rising to 1.
    risk : array, shape (points,)
        The share of them that is wrong.
    area : float
        Mean risk over all numbers of predictions made (AURC), of the whole curve. Low is good.
    """

    coverage: Floats
    risk: Floats
    area: float


@dataclass(frozen=True, eq=False)
class Reliability:
    """Probabilities next to the share of right labels, in groups of equal width.

    Attributes
    ----------
    edges : array, shape (bins + 1,)
        Group i holds the probabilities above ``edges[i]`` and up to ``edges[i + 1]``; the first also holds 0.
    mean_probability : array, shape (bins,)
        Mean of the probabilities in each group; NaN where there is none.
    share_right : array, shape (bins,)
        The share of them that is right; NaN where there is none.
    count : int array, shape (bins,)
        How many there are.
    ece : float
        Expected calibration error: the mean distance of the two, weighted by count.
    """

    edges: Floats
    mean_probability: Floats
    share_right: Floats
    count: npt.NDArray[np.int64]
    ece: float


def risk_coverage(uncertainty: npt.ArrayLike, wrong: npt.ArrayLike, points: int = 200) -> RiskCoverage:
    """The risk of making only the predictions with the least uncertainty.

    Predictions with equal uncertainty have no order: the risk is what is expected over all orders, so that
    the order of the input does not matter.

    Parameters
    ----------
    uncertainty : array, shape (n,)
        How uncertain each prediction is.
    wrong : array of bool, shape (n,)
        Whether it is wrong.
    points : int
        How many points of the curve to keep at most, evenly spread; the area is that of all.

    Examples
    --------
    >>> curve = risk_coverage([0.1, 0.5, 0.5, 0.9], [False, True, False, True])
    >>> curve.risk.round(3), round(curve.area, 4)
    (array([0.   , 0.25 , 0.333, 0.5  ]), 0.2708)
    """
    ordered, failures = _pairs("uncertainty", uncertainty, "wrong", wrong)
    if points < 2:
        raise ValueError(f"points is {points}; a curve needs at least 2")
    _, group, sizes = np.unique(ordered, return_inverse=True, return_counts=True)
    failed = np.bincount(group, weights=failures)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    made = np.arange(1, len(ordered) + 1)
    risk = np.interp(made, ends, np.concatenate([[0], np.cumsum(failed)])) / made
    kept = np.unique(np.linspace(0, len(made) - 1, min(points, len(made))).round().astype(np.int64))
    return RiskCoverage(made[kept] / len(made), risk[kept], float(risk.mean()))


def reliability(probability: npt.ArrayLike, right: npt.ArrayLike, bins: int = 15) -> Reliability:
    """Compare probabilities with the share of right labels.

    For the best k labels of each input, give both arrays of shape (n, k). Groups have equal width, as is
    usual for the calibration error.

    Parameters
    ----------
    probability : array
        Probabilities, from 0 to 1.
    right : array of bool, of the same shape
        Whether each label is right.
    bins : int
        Number of groups.

    Examples
    --------
    >>> found = reliability([0.2, 0.4, 0.9, 0.7], [False, True, True, True], bins=2)
    >>> found.mean_probability, found.share_right, round(found.ece, 4)
    (array([0.3, 0.8]), array([0.5, 1. ]), 0.2)
    """
    p, came_true = _pairs("probability", np.ravel(probability), "right", np.ravel(right))
    _check_probabilities(p)
    if bins < 1:
        raise ValueError(f"bins is {bins}; it must be at least 1")
    edges = np.linspace(0, 1, bins + 1)
    group = np.searchsorted(edges[1:-1], p)
    count = np.bincount(group, minlength=bins)
    probabilities = np.bincount(group, weights=p, minlength=bins)
    successes = np.bincount(group, weights=came_true, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean, share = probabilities / count, successes / count
    return Reliability(edges, mean, share, count, float(np.abs(probabilities - successes).sum() / len(p)))


def brier_score(probability: npt.ArrayLike, right: npt.ArrayLike) -> float:
    """Mean squared distance of probabilities to the truth. Low is good.

    Unlike the calibration error, it also rewards probabilities that separate right from wrong labels.

    Parameters
    ----------
    probability : array
        Probabilities, from 0 to 1; for Brier@k those of the best k labels of each input.
    right : array of bool, of the same shape
        Whether each label is right.

    Examples
    --------
    >>> round(brier_score([0.8, 0.4], [True, False]), 3)
    0.1
    """
    p, came_true = _pairs("probability", np.ravel(probability), "right", np.ravel(right))
    _check_probabilities(p)
    return float(((p - came_true) ** 2).mean())


def _check_probabilities(p: Floats) -> None:
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"probability has the value {p[~((p >= 0) & (p <= 1))][0]}; it must be from 0 to 1")


def _pairs(
    name: str, values: npt.ArrayLike, other: str, flags: npt.ArrayLike
) -> tuple[Floats, npt.NDArray[Any]]:
    if np.iscomplexobj(values):
        raise ValueError(f"{name} has complex numbers; give real ones")
    numbers, truths = np.asarray(values, dtype=np.float64), np.asarray(flags)
    if numbers.ndim != 1 or not numbers.size or truths.shape != numbers.shape:
        raise ValueError(
            f"{name} has shape {numbers.shape} and {other} has {truths.shape}; both must be vectors of one"
            " length, with at least one entry"
        )
    if np.isnan(numbers).any():
        raise ValueError(f"{name}[{int(np.flatnonzero(np.isnan(numbers))[0])}] is NaN; leave it out")
    if not np.isin(truths, (0, 1)).all():
        raise ValueError(f"{other} has the value {truths[~np.isin(truths, (0, 1))][0]}; it must be 0 or 1")
    return numbers, truths.astype(np.float64)
