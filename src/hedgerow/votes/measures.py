"""Measures of uncertainty, read from votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native
from hedgerow.votes.votes import Votes, check_votes

__all__ = [
    "Measures",
    "VoteMeasures",
    "energy",
    "energy_of",
    "instance_uncertainty",
    "joint_energy",
    "label_uncertainty",
    "measure_votes",
]

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
        Data uncertainty: the mean of the members' entropies.
    knowledge : array
        Knowledge uncertainty, total - data: how much the members disagree. Where there is one member, all
        uncertainty about a label that it has learned nothing of.
    variance : array
        Variance of the members' probabilities.
    """

    probability: Array
    total: Array
    data: Array
    knowledge: Array
    variance: Array


@dataclass(frozen=True, eq=False)
class VoteMeasures:
    """The measures of every candidate, in the order of ``votes.labels``, and their sums over each input."""

    labels: Measures
    inputs: Measures


def measure_votes(votes: Votes) -> VoteMeasures:
    """What `label_uncertainty` and `instance_uncertainty` give, in one pass."""
    check_votes(votes)
    found = _native.measure_votes(votes.indptr, votes.probs, votes.marks())
    return VoteMeasures(_measures(found.labels), _measures(found.inputs))


def _measures(found: _native.LabelMeasures) -> Measures:
    return Measures(found.probability, found.total, found.data, found.knowledge, found.variance)


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
    return measure_votes(votes).labels


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
    return measure_votes(votes).inputs


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
    energies = energy(votes, transform)
    rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
    return np.bincount(rows, weights=energies, minlength=len(votes)).astype(np.float64)
