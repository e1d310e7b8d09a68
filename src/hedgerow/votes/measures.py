"""Measures of uncertainty, read from votes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.votes.votes import Votes, check_votes

__all__ = ["Measures", "energy", "instance_uncertainty", "joint_energy", "label_uncertainty"]

Array = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Measures:
    """The measures of labels, or their sums over the labels of an input.

    Attributes
    ----------
    probability : array
        Mean over the members; summed up, the expected number of labels.
    total : array
        Total uncertainty: the entropy of the mean.
    data : array
        Data uncertainty: the mean of the members' entropies. More data would not help.
    knowledge : array
        Knowledge uncertainty, total - data: how much the members disagree. More data would help.
    variance : array
        Variance of the members' probabilities.
    """

    probability: Array
    total: Array
    data: Array
    knowledge: Array
    variance: Array


def _entropy(p: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -(p * np.log(p) + (1 - p) * np.log1p(-p))
    return np.where((p > 0) & (p < 1), entropy, 0.0)


def label_uncertainty(votes: Votes) -> Measures:
    """The measures of every candidate.

    Parameters
    ----------
    votes : Votes
        What the members say.

    Returns
    -------
    Measures
        Arrays in the order of ``votes.labels``.

    Examples
    --------
    Two members that agree, and two that do not:

    >>> from scipy.sparse import csr_array
    >>> votes = Votes.from_members([csr_array([[0.5, 0.9]]), csr_array([[0.5, 0.1]])])
    >>> measures = label_uncertainty(votes)
    >>> measures.total.round(3), measures.knowledge.round(3)
    (array([0.693, 0.693]), array([0.   , 0.368]))
    """
    check_votes(votes)
    p = votes.probs.astype(np.float64)
    mean = p.mean(axis=1)
    total = _entropy(mean)
    # Rounding must not make knowledge negative.
    data = np.minimum(_entropy(p).mean(axis=1), total)
    return Measures(mean, total, data, total - data, ((p - mean[:, None]) ** 2).mean(axis=1))


def instance_uncertainty(votes: Votes) -> Measures:
    """The measures of every input: sums over its candidates.

    Parameters
    ----------
    votes : Votes
        What the members say.

    Returns
    -------
    Measures
        Arrays of shape (n,).
    """
    labels = label_uncertainty(votes)
    return Measures(*(_sums(getattr(labels, part.name), votes.indptr) for part in fields(Measures)))


def energy(votes: Votes, transform: str) -> Array:
    """Energy of every candidate, ln(1 + exp(z)), for its logit z: a baseline for single models.

    Parameters
    ----------
    votes : Votes
        What a model says; of several members, the mean counts.
    transform : {"l3-hinge", "sigmoid"}
        How the model turns logits into probabilities; z is the logit that alone would give the label's
        probability.

    Returns
    -------
    array
        In the order of ``votes.labels``.
    """
    check_votes(votes)
    return energy_of(votes.probs.mean(axis=1, dtype=np.float64), transform)


def energy_of(probability: Array, transform: str) -> Array:
    """Energy of labels with these probabilities; see `energy`."""
    p = np.clip(probability.astype(np.float64), np.finfo(np.float32).tiny, 1 - 1e-7)
    if transform == "l3-hinge":
        logits = 1 - np.cbrt(-np.log(p))
    elif transform == "sigmoid":
        logits = np.log(p) - np.log1p(-p)
    else:
        raise ValueError(f"transform is {transform!r}; it must be 'l3-hinge' or 'sigmoid'")
    return np.asarray(np.logaddexp(0, logits))


def joint_energy(votes: Votes, transform: str) -> Array:
    """JointEnergy of every input: the sum of its candidates' energies.

    Parameters
    ----------
    votes : Votes
        What a model says.
    transform : {"l3-hinge", "sigmoid"}
        As of `energy`.

    Returns
    -------
    array, shape (n,)
    """
    return _sums(energy(votes, transform), votes.indptr)


def _sums(values: Array, indptr: npt.NDArray[np.int64]) -> Array:
    sums = np.zeros(len(indptr) - 1)
    filled = np.flatnonzero(np.diff(indptr))
    if filled.size:
        sums[filled] = np.add.reduceat(values, indptr[filled], dtype=np.float64)
    return sums
