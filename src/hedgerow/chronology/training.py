"""Trains a model on the past, and calibrates it on the end of that."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.held_out import learn_from_held_out
from hedgerow.familiarity.detector import NEEDED as NEEDED_FOR_OOD
from hedgerow.judge.calibration import NEEDED as NEEDED_FOR_CALIBRATION
from hedgerow.progress import Progress

from .stream import Rows, Stream

__all__ = ["Make", "TooFewRecordsError", "Trainer"]

Make = Callable[[Any, Any], HedgerowClassifier]
"""Takes inputs and labels to learn from; returns a classifier for them that is not fitted."""

_HALVES = 2  # one for calibration and OOD detection, one for the thresholds


class TooFewRecordsError(ValueError):
    """The past has too few records to learn from it and to calibrate on its end."""


@dataclass(frozen=True, eq=False)
class Trainer:
    """Makes models of rows of a stream; the last `share` of them is held out for calibration."""

    stream: Stream
    make: Make
    share: float
    seed: int
    progress: Progress | None = None

    @property
    def least_held_out(self) -> int:
        """The fewest records that a model can be calibrated on."""
        return _HALVES * max(NEEDED_FOR_OOD, NEEDED_FOR_CALIBRATION)

    def train(self, rows: Rows) -> HedgerowClassifier:
        """A model of these rows, which are in order of time."""
        fitting, held_out = self.split(rows)
        return self.calibrated(self.fit(fitting), held_out)

    def split(self, rows: Rows) -> tuple[Rows, Rows]:
        """The rows to learn from, and the end of them to calibrate on."""
        held_out = round(self.share * len(rows))
        if held_out < self.least_held_out:
            first, last = (self.stream.times.show(self.stream.times.values[row]) for row in rows[[0, -1]])
            raise TooFewRecordsError(
                f"the {len(rows):,} records from {first} to {last} are too few to learn from: {held_out} of"
                f" them are held out for calibration, and {self.least_held_out} are needed; give more"
                " records, fewer periods, a later start, or a larger held_out="
            )
        return rows[:-held_out], rows[-held_out:]

    def fit(self, rows: Rows) -> HedgerowClassifier:
        """A model that was trained on all of these rows."""
        inputs = self.stream.take(rows)
        labels, names = self.stream.learnable(rows)
        if not names:
            raise TooFewRecordsError(
                f"none of the first {len(rows):,} records has a label, so there is nothing to learn; give a"
                " later start"
            )
        return self.make(inputs, labels).fit(inputs, labels, classes=names, progress=self.progress)

    def updatable(self, model: HedgerowClassifier, rows: Rows) -> HedgerowClassifier:
        """The same model with the records of these rows, on which it was trained."""
        new = copy.copy(model)
        labels, names = self.stream.learnable(rows)
        new.adopt_records(self.stream.take(rows), labels, classes=names)
        return new

    def update(self, model: HedgerowClassifier, rows: Rows) -> None:
        """Let a model learn further rows; it loses what it had learned from held-out ones."""
        model.update(self.stream.take(rows), self.stream.lists(rows), progress=self.progress)

    def calibrated(self, model: HedgerowClassifier, rows: Rows) -> HedgerowClassifier:
        """The same model, calibrated on these rows; those that it was trained on are left out."""
        new = copy.copy(model)
        rows = rows[~new.seen_in_training(self.stream.take(rows))]
        if len(rows) < self.least_held_out:
            raise TooFewRecordsError(
                f"only {len(rows)} records are left to calibrate on, as the others are in the training data,"
                f" too; {self.least_held_out} are needed: give more records, or a larger held_out="
            )
        truth = self.stream.truth(rows, new.classes_)
        learn_from_held_out(new, self.stream.take(rows), truth, seed=self.seed, progress=self.progress)
        return new
