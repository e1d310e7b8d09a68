"""What beam search costs and what it loses, against a search through all labels; and the paper's theorems."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.inputs.rows import count
from hedgerow.model import Model
from hedgerow.progress import Stage
from hedgerow.trees.tree_model import TreeClassifier
from hedgerow.votes.measures import label_uncertainty
from hedgerow.votes.truth import Assessment, assess

Floats = npt.NDArray[np.floating[Any]]

BEAMS = (5, 10, 20, 50)
_BLOCK = 64
_REPEATS = 3


@dataclass(frozen=True)
class BeamCost:
    """One way to search: a beam of this width, or None for all labels.

    `seconds` is the best of three runs over all inputs, with uncertainty; `auroc` the mean AUROC of
    misclassification by measure.
    """

    beam: int | None
    seconds: float
    auroc: dict[str, float]


@dataclass(frozen=True)
class TheoremChecks:
    """The paper's theorems in figures: both errors vanish as the beam widens. Lists go along `beams`.

    `regret` is, for each beam and layer, how much probability the nodes in the beam lack on average against
    the best there are. The errors are the mean distance of total uncertainty from the one over all labels,
    for a label and for an input, and `certificate` the mean bound on the latter that the search itself gives.
    """

    beams: list[int]
    regret: list[list[float]]
    label_error: list[float]
    input_error: list[float]
    certificate: list[float]


def beam_costs(
    model: HedgerowClassifier,
    X: Any,
    Y: Any,
    beams: Sequence[int] = BEAMS,
    progress: Stage | None = None,
) -> list[BeamCost]:
    """Search through all labels, then by beams of several widths; X and Y are as `evaluate` takes them."""
    ways: list[tuple[int | None, dict[str, Any]]] = [(None, {"candidates": "all"})]
    # A member that did not score a candidate gives it 0, as in the paper: going there costs more than a beam.
    ways += [(beam, {"candidates": "scored", "missing": "delta", "beam": beam}) for beam in beams]
    costs = []
    source = model.source
    inputs = source.inputs(X)
    for number, (beam, search) in enumerate(ways):
        own = replace(source, search=replace(source.search, **search))
        seconds = min(_seconds(own, inputs) for _ in range(_REPEATS))
        costs.append(BeamCost(beam, seconds, _mean_aurocs(own, inputs, Y)))
        if progress:
            progress((number + 1) / len(ways))
    return costs


def check_theorems(
    model: HedgerowClassifier, X: Any, beams: Sequence[int] = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50)
) -> TheoremChecks:
    """Follow the regret of the first member and the error of total uncertainty as the beam widens.

    Arrays over all labels are made, a block at a time: give some hundred inputs.
    """
    source = model.source
    inputs = source.inputs(X)
    member, features = source.forest.trees[0], source.reader.plain_features(inputs, source.threads)
    sizes = member.tree.layer_sizes
    exact = {
        layer: _node_probabilities(member, features, layer, 2**30, beams) for layer in range(1, len(sizes))
    }
    regret, label_error, input_error, certificate = [], [], [], []
    true_totals = [totals for totals, _ in _totals(source, inputs, candidates="all")]
    labels = true_totals[0].shape[1]
    for beam in beams:
        regret.append(
            [
                float((exact[layer][:, :k] - _node_probabilities(member, features, layer, beam, [k])).mean())
                for layer in range(1, len(sizes))
                for k in [min(beam, sizes[layer])]
            ]
        )
        errors, missed = [], []
        found = _totals(source, inputs, candidates="scored", missing="delta", beam=beam)
        for (totals, bound), true in zip(found, true_totals, strict=True):
            errors.append(np.abs(totals - true).sum(axis=1))
            missed.append(bound)
        error = float(np.concatenate(errors).mean())
        input_error.append(error)
        label_error.append(error / labels)
        certificate.append(float(np.concatenate(missed).mean()))
    return TheoremChecks(list(beams), regret, label_error, input_error, certificate)


def _seconds(source: Model, inputs: Any) -> float:
    start = time.perf_counter()
    source.uncertain(inputs, 1)
    return time.perf_counter() - start


def _mean_aurocs(source: Model, inputs: Any, Y: Any) -> dict[str, float]:
    parts = []
    for begin in range(0, Y.shape[0], _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        parts.append(assess(source.answer(inputs[rows]).votes, Y[rows], k=1, n_jobs=source.threads or None))
    return Assessment.concatenate(parts).mean_auroc()


def _node_probabilities(
    member: TreeClassifier, features: Any, layer: int, beam: int, wanted: Sequence[int]
) -> Floats:
    """Probabilities of the best nodes of a layer that a beam finds."""
    k = min(max(wanted), member.tree.layer_sizes[layer])
    return np.asarray(np.exp(member.best_nodes(features, layer, k, beam)[1]))


def _totals(source: Model, inputs: Any, **search: Any) -> Iterator[tuple[Floats, Floats]]:
    """Total uncertainty of every label, as dense blocks, and the certificates."""
    own = replace(source, search=replace(source.search, **search))
    for begin in range(0, count(inputs), _BLOCK):
        votes = own.answer(inputs[begin : begin + _BLOCK]).votes
        block = np.zeros((len(votes), votes.n_labels))
        rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
        block[rows, votes.labels] = label_uncertainty(votes).total
        yield block, np.zeros(len(votes)) if votes.missed is None else votes.missed
