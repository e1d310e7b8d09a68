"""Fits the calibration of a model, on held-out data or on what its members were not trained on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.inputs.parameters import check_integer
from hedgerow.inputs.rows import take
from hedgerow.inputs.training_record import Hashes, hash_data, unseen_rows
from hedgerow.judge.broader import BroaderCalibration
from hedgerow.judge.calibration import GROUPINGS, METHODS, TARGETS, Calibration, check_choice
from hedgerow.progress import Progress, stage
from hedgerow.vocabulary.ancestry import above_labels
from hedgerow.vocabulary.vocabulary import Vocabulary
from hedgerow.votes.batches import answer_batches
from hedgerow.votes.broader import known_labels
from hedgerow.votes.source import VoteSource

__all__ = ["CalibrationSettings", "calibrate", "calibrate_broader", "calibrate_out_of_bag", "label_values"]


@dataclass(frozen=True)
class CalibrationSettings:
    """The family of maps, which labels share one, and whether they apply to the mean or to each member."""

    method: str = "isotonic"
    by: str = "all"
    of: str = "mean"

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        check_choice("by", self.by, GROUPINGS)
        check_choice("of", self.of, TARGETS)


def calibrate(
    source: VoteSource, X: Any, Y: Any, settings: CalibrationSettings, progress: Progress | None = None
) -> Calibration:
    """Fit on inputs that the model was not trained on; see `HedgerowClassifier.calibrate`."""
    _check(source, settings)
    inputs, truth = source.inputs_and_truth(X, Y)
    hashes = source.hashes(inputs)
    kept = unseen_rows(
        source.seen(hashes),
        "where its probabilities are too high; calibrate with other data, or use calibrate_out_of_bag",
    )
    held_out = _Rows(inputs, truth, hashes).take(kept)
    return _fit(source, held_out, settings, progress, seen=len(hashes) - len(kept))


def calibrate_out_of_bag(
    source: VoteSource,
    X: Any,
    Y: Any,
    settings: CalibrationSettings,
    *,
    costs: npt.NDArray[np.float32] | None,
    most: int,
    progress: Progress | None = None,
) -> Calibration:
    """Fit on the training data; see `HedgerowClassifier.calibrate_out_of_bag`."""
    _check(source, settings)
    check_integer("most", most, 1)
    inputs, truth = source.inputs_and_truth(X, Y)
    hashes = source.hashes(inputs)
    rows = np.unique(np.linspace(0, len(hashes) - 1, min(int(most), len(hashes))).astype(np.int64))
    unseen = source.unseen_by_members(hashes, truth, costs, rows)
    return _fit(source, _Rows(inputs, truth, hashes).take(rows), settings, progress, allowed=unseen)


def calibrate_broader(
    source: VoteSource, X: Any, Y: Any, vocabulary: Vocabulary, progress: Progress | None = None
) -> BroaderCalibration:
    """Fit for broader terms on inputs that the model was not trained on."""
    ancestry, names = above_labels(vocabulary, source.classes)
    if not ancestry.child.size:
        raise ValueError(
            "the vocabulary has nothing broader than any label of the model, so there are no broader terms to"
            " answer with; give one whose ids are the labels and that has broader terms"
        )
    inputs, truth = source.inputs_and_truth(X, Y)
    hashes = source.hashes(inputs)
    kept = unseen_rows(source.seen(hashes), "where its probabilities are too high; calibrate with other data")
    held_out = _Rows(inputs, truth, hashes).take(kept)
    batches = answer_batches(source, held_out.inputs, progress=stage(progress, "calibrating"))
    learned = BroaderCalibration.learn(
        (answer.votes for _, answer in batches),
        known_labels(held_out.truth, len(source.classes)),
        ancestry,
        seen=len(hashes) - len(kept),
        fingerprint=hash_data(held_out.hashes, held_out.truth),
        n_jobs=source.threads or None,
    )
    return replace(learned, names=names)


def label_values(source: VoteSource, by: str) -> npt.NDArray[Any] | None:
    """What labels are grouped by: frequency in training, or mean depth over the members' trees."""
    if by == "all":
        return None
    return source.label_counts if by == "frequency" else source.label_depths()


@dataclass(frozen=True, eq=False)
class _Rows:
    """Inputs with their labels and hashes."""

    inputs: Any
    truth: sp.csr_array
    hashes: Hashes

    def take(self, rows: npt.NDArray[np.int64]) -> _Rows:
        if len(rows) == len(self.hashes):
            return self
        return _Rows(take(self.inputs, rows), self.truth[rows], self.hashes[rows])


def _check(source: VoteSource, settings: CalibrationSettings) -> None:
    if settings.by == "frequency" and source.label_counts is None:
        raise ValueError(
            "the model was imported or its file is old, so it does not know how often its labels occur in"
            " training; use by='all'"
        )


def _fit(
    source: VoteSource,
    data: _Rows,
    settings: CalibrationSettings,
    progress: Progress | None,
    **options: Any,
) -> Calibration:
    report = stage(progress, "calibrating")
    batches = answer_batches(source.uncalibrated(), data.inputs, progress=report)
    return Calibration.learn(
        (answer.votes for _, answer in batches),
        data.truth,
        method=settings.method,
        by=settings.by,
        of=settings.of,
        label_values=label_values(source, settings.by),
        fingerprint=hash_data(data.hashes, data.truth),
        n_jobs=source.threads or None,
        **options,
    )
