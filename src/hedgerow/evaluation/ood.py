"""How well a score separates out-of-distribution (OOD) from in-distribution inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Detection", "RocCurve", "detection", "roc_curve_points"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Detection:
    """How well a score detects out-of-distribution inputs.

    Attributes
    ----------
    auroc : float
        The chance that an OOD input scores higher than an in-distribution input, ties counted half.
    aupr : float
        Average precision of finding OOD inputs. It depends on how many there are of each kind.
    fpr95 : float
        The share of in-distribution inputs that are flagged at the highest threshold that flags at least 95 %
        of the OOD inputs; what reaches the threshold is flagged.
    """

    auroc: float
    aupr: float
    fpr95: float


@dataclass(frozen=True, eq=False)
class RocCurve:
    """Points of a ROC curve, from (0, 0) to (1, 1).

    Attributes
    ----------
    false_positive : array, shape (points,)
        The share of in-distribution inputs flagged, rising.
    true_positive : array, shape (points,)
        The share of OOD inputs flagged, rising.
    """

    false_positive: Floats
    true_positive: Floats


def detection(ood_scores: npt.ArrayLike, in_distribution_scores: npt.ArrayLike) -> Detection:
    """How well a score that should be high for OOD inputs detects them.

    Parameters
    ----------
    ood_scores : array, shape (n,)
        The scores of what should be detected.
    in_distribution_scores : array, shape (m,)
        The scores of what should not.

    Returns
    -------
    Detection
        Exact, with ties: the order of equal scores does not matter.

    Examples
    --------
    >>> detection([0.9, 0.8, 0.3], [0.1, 0.3, 0.2, 0.4])
    Detection(auroc=0.875, aupr=0.8666666666666667, fpr95=0.5)
    """
    ood, inside = _steps(ood_scores, in_distribution_scores)
    all_ood, all_inside = int(ood[-1]), int(inside[-1])
    # Trapezia in whole halves: exact.
    doubled = np.sum(np.diff(inside) * (ood[1:] + ood[:-1]))
    precision = ood[1:] / (ood[1:] + inside[1:])
    caught = np.searchsorted(100 * ood, 95 * all_ood)
    return Detection(
        float(doubled / (2 * all_ood * all_inside)),
        float(np.sum(np.diff(ood) * precision) / all_ood),
        float(inside[caught] / all_inside),
    )


def roc_curve_points(
    ood_scores: npt.ArrayLike, in_distribution_scores: npt.ArrayLike, points: int = 200
) -> RocCurve:
    """The ROC curve, thinned for a figure.

    Points are kept at equal distances along the curve, so that no point left out is further than
    2 / (points - 1) from the next one kept, in either direction.

    Parameters
    ----------
    ood_scores, in_distribution_scores
        As of `detection`.
    points : int
        How many points to keep at most.

    Examples
    --------
    >>> curve = roc_curve_points([3, 2], [1, 2])
    >>> curve.false_positive, curve.true_positive
    (array([0. , 0. , 0.5, 1. ]), array([0. , 0.5, 1. , 1. ]))
    """
    if points < 2:
        raise ValueError(f"points is {points}; a curve needs at least 2")
    ood, inside = _steps(ood_scores, in_distribution_scores)
    across, up = inside / inside[-1], ood / ood[-1]
    kept = np.arange(len(across))
    if len(across) > points:
        # Of each of points - 1 stretches of equal length the last point, and the first of all.
        stretch = np.minimum((across + up) / 2 * (points - 1), points - 2).astype(np.int64)
        kept = np.concatenate([[0], np.flatnonzero(np.diff(stretch, append=points - 1))])
        kept = np.unique(kept)
    return RocCurve(across[kept], up[kept])


def _steps(
    ood_scores: npt.ArrayLike, in_distribution_scores: npt.ArrayLike
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """How many OOD and in-distribution inputs reach each threshold, from none to all."""
    ood = _scores("ood_scores", ood_scores)
    inside = _scores("in_distribution_scores", in_distribution_scores)
    levels = np.unique(np.concatenate([ood, inside]))[::-1]

    def reach(scores: Floats) -> npt.NDArray[np.int64]:
        ordered = np.sort(scores)
        return np.concatenate([[0], len(ordered) - np.searchsorted(ordered, levels, side="left")])

    return reach(ood), reach(inside)


def _scores(name: str, values: npt.ArrayLike) -> Floats:
    if np.iscomplexobj(values):
        raise ValueError(f"{name} has complex numbers; give real ones")
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or not scores.size:
        raise ValueError(f"{name} has shape {scores.shape}; it must be a vector of at least one score")
    if np.isnan(scores).any():
        raise ValueError(f"{name}[{int(np.flatnonzero(np.isnan(scores))[0])}] is NaN; leave such inputs out")
    return scores
