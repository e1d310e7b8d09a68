"""Learns the calibration of a model, from held-out data or from what its members have not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow import _native
from hedgerow.inputs.rows import take
from hedgerow.inputs.training_record import Hashes, hash_data, unseen_rows
from hedgerow.judge.calibration import GROUPINGS, METHODS, TARGETS, Calibration, check_choice
from hedgerow.training.members import TrainingData, as_costs, drawn_for
from hedgerow.votes.batches import vote_batches

if TYPE_CHECKING:
    from hedgerow.estimators.features import HedgerowClassifier

__all__ = ["calibrate", "calibrate_out_of_bag", "label_values"]

Progress = Callable[[float, str], None]


def calibrate(
    model: HedgerowClassifier,
    X: Any,
    Y: Any,
    *,
    method: str,
    by: str,
    of: str,
    progress: Progress | None,
) -> Calibration:
    """Learn from inputs that the model was not trained on; see `HedgerowClassifier.calibrate`."""
    _check(model, method, by, of)
    X, truth = model._inputs_and_truth(X, Y)
    hashes = model._hashes(X)
    kept = unseen_rows(
        model._is_seen(hashes),
        "so its probabilities are too good on them; calibrate with other data, or with calibrate_out_of_bag",
    )
    seen = len(hashes) - len(kept)
    return _learn(model, X, truth, kept, hashes, progress, method=method, by=by, of=of, seen=seen)


def calibrate_out_of_bag(
    model: HedgerowClassifier,
    X: Any,
    Y: Any,
    *,
    method: str,
    by: str,
    of: str,
    sample_weight: npt.ArrayLike | None,
    most: int,
    progress: Progress | None,
) -> Calibration:
    """Learn from the training data; see `HedgerowClassifier.calibrate_out_of_bag`."""
    _check(model, method, by, of)
    if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1:
        raise ValueError(f"most is {most!r}; it must be a positive integer")
    model._check_out_of_bag()
    X, truth = model._inputs_and_truth(X, Y)
    hashes = model._hashes(X)
    record = model.training_
    if record is None or hash_data(hashes, truth) != record.fingerprint:
        raise ValueError(
            "these are not the data that the model was fitted to, in the same order; give those, or"
            " calibrate with held-out data"
        )
    rows = np.unique(np.linspace(0, len(hashes) - 1, min(int(most), len(hashes))).astype(np.int64))
    view = _native.Rows(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), None, 1)
    data = TrainingData(view, view, truth, model.n_features_in_, as_costs(sample_weight, len(hashes)))
    unseen = np.empty((len(rows), model._ensemble.members), dtype=bool)
    _, same = np.unique(hashes, return_inverse=True)  # a member that drew its twin has seen an input, too
    for member in range(model._ensemble.members):
        costs = drawn_for(member, record.seed, data, True)[1]
        unseen[:, member] = np.bincount(same, weights=costs)[same[rows]] == 0
    return _learn(model, X, truth, rows, hashes, progress, allowed=unseen, method=method, by=by, of=of)


def label_values(model: HedgerowClassifier, by: str) -> npt.NDArray[Any] | None:
    """What labels are grouped by: frequency in training, or mean depth over the members' trees."""
    if by == "frequency":
        return model.label_counts_
    if by == "all":
        return None
    depth = np.zeros(len(model.classes_))
    trees = model._ensemble.trees
    for tree in trees:
        depth[tree.tree.labels] += len(tree.tree.begins) * tree.members
    return depth / sum(tree.members for tree in trees)


def _check(model: HedgerowClassifier, method: str, by: str, of: str) -> None:
    check_choice("method", method, METHODS)
    check_choice("by", by, GROUPINGS)
    check_choice("of", of, TARGETS)
    if by == "frequency" and model.label_counts_ is None:
        raise ValueError(
            "the model does not know how frequent its labels are, as it was imported or its file is old;"
            " use by='all'"
        )


def _learn(
    model: HedgerowClassifier,
    X: Any,
    truth: sp.csr_array,
    rows: npt.NDArray[np.int64],
    hashes: Hashes,
    progress: Progress | None,
    *,
    by: str,
    **options: Any,
) -> Calibration:
    if len(rows) < len(hashes):
        X, truth, hashes = take(X, rows), truth[rows], hashes[rows]
    batches = vote_batches(model.uncalibrated(), X, "calibrating", progress=progress)
    return Calibration.learn(
        (votes for _, votes in batches),
        truth,
        by=by,
        label_values=label_values(model, by),
        fingerprint=hash_data(hashes, truth),
        n_jobs=model.n_jobs,
        **options,
    )
