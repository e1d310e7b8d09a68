"""The maps of calibration: from counts of right labels by probability to increasing functions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from hedgerow import _native

__all__ = ["BINS", "EDGES", "OTHERS", "concave", "fit_isotonic", "fit_sigmoid", "shrunk", "sigmoid"]

Floats = npt.NDArray[np.float64]

EDGES: Floats = _native.calibration_edges()
CENTRES: Floats = (EDGES[1:] + EDGES[:-1]) / 2
BINS = len(CENTRES)
# Labels that are not among the best of their input count less: see `calibration`.
OTHERS = 0.05
# With this many true labels, the map of a group counts as much as that of all labels.
_SHRINKAGE = 100.0
# A map rises at least this steeply, so that labels do not become equal by rounding: where many probabilities
# are nearly 1, as steeply as they do themselves, which moves none by more than 0.001.
_LEAST_SLOPE = 0.01
_NEARLY_1 = 1 - 2.0**-10


def fit_isotonic(counts: Floats, method: str) -> Floats:
    """Knots of shape (k, 2): between the centres of the blocks of isotonic regression, maps are straight."""
    filled = np.flatnonzero(counts[:, 0])
    all_, true = counts[filled].T
    centres = CENTRES[filled]
    fitted = IsotonicRegression(y_min=0, y_max=1).fit_transform(centres, true / all_, sample_weight=all_)
    starts = np.flatnonzero(np.concatenate([[True], np.diff(fitted) > 0]))
    size = np.add.reduceat(all_, starts)
    hits = np.add.reduceat(true, starts)
    x = np.add.reduceat(centres * all_, starts) / size
    rate = hits / size
    # In the first block all labels may be wrong, in the last one all right: avoid rates of 0 and 1.
    rate[hits == 0] = min(OTHERS / 2 / size[0], rate[hits > 0].min(initial=1.0) / 2)
    rate[hits == size] = max((size[-1] - 0.5) / size[-1], rate[hits < size].max(initial=0.0))
    rate = np.maximum.accumulate(rate)
    return _steep(_distinct(np.concatenate([[0.0], x, [1.0]]), np.concatenate([[0.0], rate, rate[-1:]])))


def _steep(knots: Floats) -> Floats:
    """Knots lifted where the map would rise too little."""
    x = np.union1d(knots[:, 0], _NEARLY_1)
    slope = np.where(x[1:] > _NEARLY_1, 1.0, _LEAST_SLOPE)
    least = np.concatenate([[0.0], np.cumsum(slope * np.diff(x))])
    y = least + np.maximum.accumulate(np.interp(x, *knots.T) - least)
    return np.column_stack([x, y / max(1.0, y[-1])])


def _distinct(x: Floats, y: Floats) -> Floats:
    kept = np.concatenate([[True], np.diff(x) > 0])
    return np.column_stack([x[kept], y[kept]])


def fit_sigmoid(counts: Floats, method: str) -> Floats:
    """a, b and c of the sigmoid of a ln p - b ln(1 - p) + c, by maximum likelihood."""
    filled = np.flatnonzero(counts[:, 0])
    all_, true = counts[filled].T
    low, high = np.log(CENTRES[filled]), -np.log1p(-CENTRES[filled])
    scale = max(1.0, true.sum())

    def whole(free: Floats) -> Floats:
        if method == "temperature":
            return np.array([np.exp(free[0]), np.exp(free[0]), 0.0])
        if method == "platt":
            return np.array([np.exp(free[0]), np.exp(free[0]), free[1]])
        return np.array([np.exp(free[0]), np.exp(free[1]), free[2]])

    def loss(free: Floats) -> tuple[float, Floats]:
        a, b, c = whole(free)
        z = a * low + b * high + c
        value = (all_ * np.logaddexp(0.0, z) - true * z).sum() / scale
        slope = all_ * expit(z) - true
        of_a, of_b, of_c = (slope * low * a).sum(), (slope * high * b).sum(), slope.sum()
        gradient = {
            "temperature": [of_a + of_b],
            "platt": [of_a + of_b, of_c],
            "beta": [of_a, of_b, of_c],
        }[method]
        return float(value), np.array(gradient) / scale

    free = {"temperature": 1, "platt": 2, "beta": 3}[method]
    bounds = [(-5.0, 5.0), (-5.0, 5.0), (-50.0, 50.0)]
    bounds = {1: bounds[:1], 2: [bounds[0], bounds[2]], 3: bounds}[free]
    found = minimize(loss, np.zeros(free), jac=True, method="L-BFGS-B", bounds=bounds)
    return whole(found.x)


def sigmoid(p: Floats, a: float, b: float, c: float) -> Floats:
    """The map that `fit_sigmoid` fits."""
    inside = np.clip(p, np.finfo(np.float64).tiny, 1 - 2.0**-25)
    value = expit(a * np.log(inside) - b * np.log1p(-inside) + c)
    return np.where(p > 0, value, 0.0)


def shrunk(own: Floats, everything: Floats, positives: float) -> Floats:
    """The map of a group, drawn towards that of all labels if it has few true ones."""
    weight = positives / (positives + _SHRINKAGE)
    if own.ndim == 1:
        return weight * own + (1 - weight) * everything
    x = np.union1d(own[:, 0], everything[:, 0])
    y = weight * np.interp(x, *own.T) + (1 - weight) * np.interp(x, *everything.T)
    return np.column_stack([x, y])


def concave(x: Floats, y: Floats) -> Floats:
    """The least concave function above the points and 0 at 0, at x."""
    hull: list[tuple[float, float]] = [(0.0, 0.0)]
    for point in zip(x.tolist(), y.tolist(), strict=True):
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (point[0] - hull[-2][0]) <= (
            point[1] - hull[-2][1]
        ) * (hull[-1][0] - hull[-2][0]):
            hull.pop()
        hull.append(point)
    return np.asarray(np.interp(x, *np.array(hull).T))
