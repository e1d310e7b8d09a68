"""Learns the judge from candidates whose truth is known."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import LinearConstraint, minimize
from scipy.special import expit
from threadpoolctl import threadpool_limits

from hedgerow.judge.judging import MOST_SURPRISE, Floats, Judge, LeftOut, NoJudge, term_count, terms
from hedgerow.judge.maps import OTHERS

__all__ = ["LEAST_TRUE", "Candidates", "learn_judge", "ranking_qualities", "ranking_quality"]

# Less evidence than this would teach chance.
LEAST_TRUE = 200
_PENALTY = 1.0
_RANKED = 5
# Newton steps end where they gain less of the log-likelihood than this, or become this short.
_CONVERGED, _SHORTEST = 1e-5, 1e-6


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates of held-out inputs: what the judge sees of each, whether it is true, and of which input."""

    evidence: Floats
    true: npt.NDArray[np.bool_]
    inputs: npt.NDArray[np.int64]


def learn_judge(
    candidates: Candidates,
    scorers: tuple[str, ...],
    label_counts: npt.NDArray[np.int64],
    source: str,
) -> Judge | NoJudge:
    """The judge that makes the truth most likely, if it ranks better than the members alone.

    Whether it does is decided on inputs that it was not learned from: a judge of every other input judges the
    rest. The judge that is given is learned from all of them.
    """
    with threadpool_limits(1, user_api="blas"):  # on matrices this small, threads only wait for each other
        return _learn(candidates, scorers, label_counts, source)


def _learn(
    candidates: Candidates, scorers: tuple[str, ...], label_counts: npt.NDArray[np.int64], source: str
) -> Judge | NoJudge:
    evidence, true, inputs = candidates.evidence, candidates.true, candidates.inputs
    if true.sum() < LEAST_TRUE:
        return NoJudge(LeftOut.TOO_LITTLE)
    # Candidates that nobody believes in are not learned from, but must keep their order, too.
    highest = np.minimum(MOST_SURPRISE, 2 * evidence.max(axis=0))
    highest[-1] = np.log1p(label_counts.max())
    known = np.column_stack([np.zeros(len(highest)), highest])
    before, after = [], []
    unseen = np.empty(len(true))  # log-odds by the judge that was not learned from the input
    for half in (0, 1):
        learn, judge = inputs % 2 == half, inputs % 2 != half
        found = _fit(evidence[learn], true[learn], known)
        unseen[judge] = terms(evidence[judge]) @ found
        before.append(ranking_quality(-evidence[judge, 0], true[judge], inputs[judge]))
        after.append(ranking_quality(unseen[judge], true[judge], inputs[judge]))
    if np.mean(after) <= np.mean(before):
        return NoJudge(LeftOut.NOT_BETTER, float(np.mean(before)), float(np.mean(after)))
    scale, shift = _calibrated(unseen, true, inputs)
    coefficients = scale * _fit(evidence, true, known)
    coefficients[0] += shift
    rows = len(np.unique(inputs))
    return Judge(
        scorers,
        coefficients,
        known,
        label_counts,
        source,
        rows,
        float(np.mean(before)),
        float(np.mean(after)),
    )


def _places(
    scores: Floats, inputs: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The candidates input by input, best first; their places, from 0; and where each input begins."""
    order = np.lexsort((-scores, inputs))
    _, begins, sizes = np.unique(inputs[order], return_index=True, return_counts=True)
    return order, np.arange(len(order)) - np.repeat(begins, sizes), begins


def _calibrated(
    log_odds: Floats, true: npt.NDArray[np.bool_], inputs: npt.NDArray[np.int64]
) -> tuple[float, float]:
    """A factor and a shift of log-odds that make probabilities true, above all those of the best labels.

    The many candidates that are hardly probable would else decide how sure the judge is of the few others.
    """
    order, place, _ = _places(log_odds, inputs)
    weight = np.empty(len(order))
    weight[order] = np.where(place < _RANKED, 1.0, OTHERS)
    positive = true.astype(np.float64)

    def loss(free: Floats) -> tuple[float, Floats]:
        z = np.exp(free[0]) * log_odds + free[1]
        off = weight * (expit(z) - positive)
        value = weight @ (np.logaddexp(0.0, z) - positive * z)
        gradient = [off @ log_odds * np.exp(free[0]), off.sum()]
        return float(value / weight.sum()), np.array(gradient) / weight.sum()

    found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(-2.0, 2.0), (-5.0, 5.0)])
    return float(np.exp(found.x[0])), float(found.x[1])


def ranking_quality(scores: Floats, true: npt.NDArray[np.bool_], inputs: npt.NDArray[np.int64]) -> float:
    """How well the best five candidates are ranked (nDCG), the mean over inputs that have a true one."""
    return float(ranking_qualities(scores, true, inputs)[1].mean())


def ranking_qualities(
    scores: Floats,
    true: npt.NDArray[np.bool_],
    inputs: npt.NDArray[np.int64],
    truths: npt.NDArray[np.integer[Any]] | None = None,
) -> tuple[npt.NDArray[np.int64], Floats]:
    """The inputs that have a true candidate, and how well the best five candidates of each are ranked (nDCG).

    With `truths`, how many true labels each input has, those that are no candidates count as missed.
    """
    order, place, begins = _places(scores, inputs)
    gains = np.where(place < _RANKED, 1 / np.log2(place + 2), 0.0)
    own = inputs[order[begins]]
    most = np.add.reduceat(true[order].astype(np.int64), begins) if truths is None else truths[own]
    ideal = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(_RANKED) + 2))])[np.minimum(most, _RANKED)]
    found = np.add.reduceat(gains * true[order], begins)
    return own[most > 0], found[most > 0] / ideal[most > 0]


def _fit(evidence: Floats, true: npt.NDArray[np.bool_], known: Floats) -> Floats:
    """Penalised maximum likelihood; log-odds never rise with the surprise of members or scorers."""
    features = terms(evidence)
    positive = true.astype(np.float64)
    penalty = np.full(features.shape[1], _PENALTY)
    penalty[0] = 0.0

    def loss(weights: Floats) -> tuple[float, Floats]:
        z = features @ weights
        value = np.logaddexp(0.0, z).sum() - positive @ z + 0.5 * (penalty * weights) @ weights
        return float(value), features.T @ (expit(z) - positive) + penalty * weights

    def curvature(weights: Floats) -> Floats:
        p = expit(features @ weights)
        return (features * (p * (1 - p))[:, None]).T @ features + np.diag(penalty + 1e-9)

    weights = np.zeros(features.shape[1])
    for _ in range(50):
        value, gradient = loss(weights)
        step = np.linalg.solve(curvature(weights), gradient)
        if gradient @ step < _CONVERGED:
            break
        size = 1.0
        while loss(weights - size * step)[0] > value and size > _SHORTEST:
            size /= 2
        weights = weights - size * step
    slopes = _slopes(known)
    if (slopes @ weights <= 0).all():
        return weights
    # The nearest rising judge, in the metric of the likelihood.
    metric = curvature(weights)
    scale = float(np.trace(metric)) / len(metric)

    def distance(other: Floats) -> tuple[float, Floats]:
        apart = other - weights
        return float(0.5 * apart @ metric @ apart / scale), metric @ apart / scale

    found = minimize(
        distance,
        weights,
        jac=True,
        method="SLSQP",
        constraints=[LinearConstraint(slopes, -np.inf, 0.0)],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return np.asarray(found.x)


def _slopes(known: Floats) -> Floats:
    """Bounds of the slopes of log-odds in each surprise over all that can be seen, by the coefficients.

    A slope is linear in the other numbers, so their corners are enough, and a quadratic of its own number. It
    lies between the least and the largest of its three Bernstein coefficients: the values at both ends, and
    where the tangent of one end is in the middle.
    """
    count = len(known)
    places = [(i, j) for i in range(count) for j in range(i, count)]
    rows = []
    for of in range(count - 1):
        low, high = known[of].tolist()
        others = [[0.0] if i == of else known[i].tolist() for i in range(count)]
        for corner in itertools.product(*others):
            # Of the own number x: its value, and that of x squared, in the Bernstein basis.
            for own, square in ((low, low * low), ((low + high) / 2, low * high), (high, high * high)):
                row = np.zeros(term_count(count))
                row[1 + of] = 1.0
                at = [own if i == of else corner[i] for i in range(count)]
                for number, (i, j) in enumerate(places):
                    row[1 + count + number] = (i == of) * at[j] + (j == of) * at[i]
                row[1 + count + len(places) + of] = 3 * square
                rows.append(row)
    return np.array(rows)
