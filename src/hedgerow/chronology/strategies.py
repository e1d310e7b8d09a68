"""Ways to keep a model up to date, or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from hedgerow.estimators.features import HedgerowClassifier

from .stream import Rows
from .training import Trainer

__all__ = ["KEEPERS", "Keeper", "Past", "Strategy"]


class Strategy(StrEnum):
    """What becomes of a model when a period is over."""

    NEVER_UPDATED = "never-updated"
    CALIBRATED_AGAIN = "calibrated-again"
    UPDATED = "updated"
    FITTED_AGAIN = "fitted-again"

    @property
    def words(self) -> str:
        """For people."""
        return self.value.replace("-", " ")


@dataclass(frozen=True, eq=False)
class Past:
    """What is known when a period begins.

    Attributes
    ----------
    first : int64 array
        The rows of the first period.
    rows : int64 array
        Those of all periods that are over, in order of time.
    newest : int64 array
        Those of the last of these periods.
    ends : tuple of int
        How many rows were over when each of these periods was.
    """

    first: Rows
    rows: Rows
    newest: Rows
    ends: tuple[int, ...]

    @property
    def is_first(self) -> bool:
        """Whether only the first period is over."""
        return len(self.rows) == len(self.first)


class Keeper(Protocol):
    """Keeps the model of one strategy. It is asked once for each period, in order.

    A run that resumes skips periods that were judged before, so a keeper that goes step by step has to catch
    up with `past` by itself, and may not depend on what it was asked before.
    """

    def model_for(self, past: Past) -> HedgerowClassifier:
        """The calibrated model that judges the period after this past."""


class FirstModel:
    """The model of the first period, which all strategies begin with; trained when it is first asked for."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._model: HedgerowClassifier | None = None

    def of(self, past: Past) -> HedgerowClassifier:
        """The model."""
        if self._model is None:
            self._model = self._trainer.train(past.first)
        return self._model


class NeverUpdated:
    """The model of the first period stays."""

    def __init__(self, trainer: Trainer, first: FirstModel) -> None:
        self._first = first

    def model_for(self, past: Past) -> HedgerowClassifier:
        """The first model."""
        return self._first.of(past)


class CalibratedAgain:
    """The model of the first period stays, and calibration and thresholds come from the newest records."""

    def __init__(self, trainer: Trainer, first: FirstModel) -> None:
        self._trainer, self._first = trainer, first

    def model_for(self, past: Past) -> HedgerowClassifier:
        """The first model, calibrated on the newest period, or on some more where that is short.

        Nothing depends on what was asked before, so that a run that resumes gives the same.
        """
        model = self._first.of(past)
        later = past.rows[len(past.first) :]
        least = self._trainer.least_held_out
        if len(later) < least:
            return model
        return self._trainer.calibrated(model, later[-max(len(past.newest), least) :])


class Updated:
    """The model of the first period is updated with each period that is over.

    It has then learned from the same records as a model that is fitted again, and is calibrated on the same.
    """

    def __init__(self, trainer: Trainer, first: FirstModel) -> None:
        self._trainer, self._first = trainer, first
        self._model: HedgerowClassifier | None = None
        self._learned = 0  # rows, from the first on

    def model_for(self, past: Past) -> HedgerowClassifier:
        """The model with all updates so far; those of periods that were skipped come one by one, too."""
        held_out = past.rows[:0]
        for end in past.ends:
            fitting, held_out = self._trainer.split(past.rows[:end])
            if self._model is None:
                self._model = self._trainer.updatable(self._first.of(past), fitting)
            elif len(fitting) > self._learned:
                self._trainer.update(self._model, fitting[self._learned :])
            self._learned = max(self._learned, len(fitting))
        if past.is_first or self._model is None:
            return self._first.of(past)
        return self._trainer.calibrated(self._model, held_out)


class FittedAgain:
    """A new model of all records so far."""

    def __init__(self, trainer: Trainer, first: FirstModel) -> None:
        self._trainer, self._first = trainer, first

    def model_for(self, past: Past) -> HedgerowClassifier:
        """A model of the whole past."""
        return self._first.of(past) if past.is_first else self._trainer.train(past.rows)


KEEPERS: Mapping[Strategy, Callable[[Trainer, FirstModel], Keeper]] = {
    Strategy.NEVER_UPDATED: NeverUpdated,
    Strategy.CALIBRATED_AGAIN: CalibratedAgain,
    Strategy.UPDATED: Updated,
    Strategy.FITTED_AGAIN: FittedAgain,
}
