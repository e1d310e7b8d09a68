"""Goes from settings to better ones, one change at a time, while there is time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.parameters import plain_parameters
from hedgerow.estimators.trials import Journal, Outcome, Trial, compare
from hedgerow.estimators.validation_part import SplitData
from hedgerow.estimators.variations import Change, relative_cost, variations
from hedgerow.evaluation import RankingMeasure
from hedgerow.features.tfidf import NoWordsError
from hedgerow.progress import Progress

__all__ = ["START", "Budget", "Search", "Start", "Trainer"]

START = "balanced"
_SHOWN = ("precision@1", "precision@5", "recall@5", "ndcg@5")


@dataclass(frozen=True)
class Start:
    """Where a search for settings begins, other than at the preset "balanced".

    Attributes
    ----------
    name : str
        What the first trial is called: the settings that the estimator has.
    fixed : frozenset of str
        Parameters that are not changed.
    then_fit : bool
        Whether the time must also suffice for a fit to all data with the settings that are found.
    """

    name: str
    fixed: frozenset[str] = frozenset()
    then_fit: bool = False


class Budget:
    """The time that is left. Trials of earlier runs count as if they were run now."""

    def __init__(self, seconds: float, clock: Callable[[], float], progress: Progress | None = None) -> None:
        self._seconds, self._clock, self._progress = seconds, clock, progress
        self._begin, self._earlier = clock(), 0.0

    @property
    def spent(self) -> float:
        """Seconds since the begin of the search."""
        return self._earlier + self._clock() - self._begin

    def allows(self, seconds: float) -> bool:
        """Whether this much time is left."""
        return self.spent + seconds <= self._seconds

    def count_earlier(self, seconds: float) -> None:
        """Count the time of a trial that an earlier run finished."""
        self._earlier += seconds

    def report(self, what: str) -> None:
        """Report the share of the time that is over, and what is being done."""
        if self._progress is not None:
            self._progress(min(1.0, self.spent / self._seconds), what)

    def timed(self, train: Callable[[], Outcome]) -> Outcome:
        """An outcome with the seconds that it took."""
        begin = self._clock()
        outcome = train()
        return Outcome(outcome.figures, outcome.scores, self._clock() - begin, outcome.failed)


@dataclass(frozen=True, eq=False)
class Trainer:
    """Fits classifiers to one part of the data and measures them on the other."""

    data: SplitData
    measure: RankingMeasure

    def __call__(self, classifier: HedgerowClassifier, progress: Progress) -> Outcome:
        """Train and measure; data that have no words under these settings are told as a failure."""
        try:
            classifier.fit(*self.data.fitting_part(), progress=progress)
        except NoWordsError as error:
            return Outcome({}, np.empty(0), 0.0, str(error))
        inputs, truth = self.data.validation_part()
        measures = [RankingMeasure.parse(name) for name in dict.fromkeys((str(self.measure), *_SHOWN))]
        found = _best_labels(classifier, inputs, max(measure.k for measure in measures))
        figures = {str(measure): float(measure.of_inputs(found, truth).mean()) for measure in measures}
        return Outcome(figures, self.measure.of_inputs(found, truth), 0.0)


class Search:
    """Tries changes of a classifier, and goes on from those that are better."""

    def __init__(
        self,
        start: HedgerowClassifier,
        trainer: Trainer,
        journal: Journal,
        budget: Budget,
        begin: Start,
        finished: Callable[[Trial], None] | None = None,
    ) -> None:
        self._start, self._trainer, self._begin = start, trainer, begin
        # The time of the fit afterwards, as a multiple of a trial's.
        self._afterwards = 0.0
        self._journal, self._budget, self._finished = journal, budget, finished
        self._told: set[int] = set()  # outcomes, by identity; the journal keeps them alive
        self._earlier: set[int] = set()  # those of an earlier run
        self._kept: list[Change] = []
        self.trials: list[Trial] = []
        self.found: dict[str, Any] = {}
        self.out_of_time = False

    def run(self) -> None:
        """Search until nothing is better, or there is no time for what is left to try."""
        self.best = self._try(self._begin.name, self._start)
        if self.best.failed is not None:
            raise NoWordsError(self.best.failed)
        self._tell(
            Trial(self._begin.name, {}, self.best, None, kept=True, resumed=id(self.best) in self._earlier)
        )
        better = True
        while better:
            better, self.out_of_time = False, False
            for name in dict.fromkeys(change.name for change in self._around()):
                better |= self._vary(name)

    def reserve(self, parameters: Mapping[str, Any]) -> None:
        """Leave time for a fit to all data with what is found, but with these other parameters."""
        now, data = self._parameters(), self._trainer.data
        rows = data.size.rows / len(data.fitting)
        self._afterwards = rows * max(1.0, relative_cost({**now, **parameters}, now, data.size))

    def changes(self) -> list[Change]:
        """What differs from the start, by name."""
        first = {change.name: change.before for change in reversed(self._kept)}
        last = {change.name: change for change in self._kept}
        return [
            Change(name, first[name], change.after, change.parameters)
            for name, change in last.items()
            if first[name] != change.after
        ]

    def _vary(self, name: str) -> bool:
        """Try what is around the best settings in one direction; True if something is better."""
        for change in [one for one in self._around() if one.name == name]:
            outcome = self._try_in_time(change)
            if outcome is None:
                self.out_of_time = True
            elif self._is_better(change, outcome):
                self.found |= change.parameters
                self.best = outcome
                self._kept.append(change)
                return True
        return False

    def _around(self) -> list[Change]:
        fixed = self._begin.fixed
        found = variations(self._parameters(), self._trainer.data.size.labels)
        return [change for change in found if not fixed & change.parameters.keys()]

    def _parameters(self) -> dict[str, Any]:
        return dict(self._start.get_params(deep=False)) | self.found

    def _is_better(self, change: Change, outcome: Outcome) -> bool:
        """Compare with the best so far; what was tried before is told again only if it is better now."""
        compared = None if outcome.failed else compare(outcome.scores, self.best.scores)
        kept = compared is not None and compared.is_gain
        if kept or id(outcome) not in self._told:
            resumed = id(outcome) in self._earlier
            self._tell(Trial(str(change), change.parameters, outcome, compared, kept, resumed))
        return kept

    def _try_in_time(self, change: Change) -> Outcome | None:
        """Try a change, unless it is expected to take longer than there is time."""
        now = self._parameters()
        then = now | change.parameters
        classifier = clone(self._start).set_params(**then)
        if self._journal.find(plain_parameters(classifier)) is None:
            slower = relative_cost(then, now, self._trainer.data.size)
            # Much of a trial does not depend on the settings, so nothing is expected to be quicker.
            if not self._budget.allows(self.best.seconds * max(1.0, slower) * (1 + self._afterwards)):
                return None
        return self._try(str(change), classifier)

    def _try(self, what: str, classifier: HedgerowClassifier) -> Outcome:
        """Train, or take the outcome from the journal."""
        parameters = plain_parameters(classifier)
        found = self._journal.find(parameters)
        if found is not None:
            if id(found) not in self._told:
                self._earlier.add(id(found))
                self._budget.count_earlier(found.seconds)
            return found
        said = f"trial {len(self.trials) + 1}: {what}"
        self._budget.report(said)
        outcome = self._budget.timed(
            lambda: self._trainer(clone(classifier), lambda share, _: self._budget.report(said))
        )
        self._journal.add(what, parameters, outcome)
        return outcome

    def _tell(self, trial: Trial) -> None:
        self._told.add(id(trial.outcome))
        self.trials.append(trial)
        if self._finished is not None:
            self._finished(trial)


def _best_labels(classifier: HedgerowClassifier, inputs: Any, k: int) -> npt.NDArray[np.int64]:
    """The columns of the best k labels; -1 where the model knows fewer."""
    known = min(k, classifier.source.known)
    best = classifier.top(inputs, k=known).labels.astype(np.int64)
    return np.pad(best, ((0, 0), (0, k - known)), constant_values=-1)
