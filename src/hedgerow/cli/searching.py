"""Searches settings, for ``hedgerow tune`` and for ``hedgerow fit --time``, and says how it goes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .duration import say_duration
from .failures import ExitCode, Failure, failing_as, option_words, reason
from .terminal import Report, plain

if TYPE_CHECKING:
    from hedgerow import HedgerowClassifier, Trial, Tuning
    from hedgerow.estimators.settings_search import Start


@dataclass(frozen=True)
class SearchTask:
    """How long to search, by which measure, where trials are kept, and where to start."""

    seconds: float
    by: str
    journal: Path
    start: Start | None = None

    @property
    def left_behind(self) -> str | None:
        """What an interrupt leaves; None if nothing."""
        from hedgerow.estimators.trials import count_trials

        done = count_trials(self.journal)
        if not done:
            return None
        trials = "1 trial is" if done == 1 else f"{done} trials are"
        return f"{trials} kept in {self.journal}; the same command continues from there"


@dataclass(frozen=True, eq=False)
class Searched:
    """A search for settings, and how long it took; without what it found, why there was none."""

    seconds: float
    found: Tuning | None
    refused: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """What differs from the settings that it started from."""
        return {} if self.found is None else self.found.parameters

    @property
    def sentence(self) -> str:
        """For people."""
        found = self.found
        if found is None:
            return f"No settings were searched: {self.refused}."
        trials = "1 trial" if len(found.trials) == 1 else f"{len(found.trials)} trials"
        end = "the time ended it" if found.out_of_time else "there was nothing more to try"
        said = (
            f"Searched settings for {say_duration(self.seconds)}, until {end}: {trials} on"
            f" {len(found.data.validation):,} held-out rows."
        )
        if not found.changes:
            return f"{said} Nothing was better."
        changes = ", ".join(f"{change.name} {change.before} -> {change.after}" for change in found.changes)
        gain = difference(found.gain.difference, found.gain.standard_error)
        return f"{said} Changed: {changes}; {found.by} on these rows {gain} (expect less on others)."

    def describe(self) -> dict[str, Any]:
        """For programs."""
        about: dict[str, Any] = {"seconds": round(self.seconds, 3)}
        found = self.found
        if found is None:
            return about | {"trials": 0, "ended": "too little data", "changes": {}}
        return about | {
            "trials": len(found.trials),
            "ended": "time" if found.out_of_time else "nothing more to try",
            "changes": {change.name: [change.before, change.after] for change in found.changes},
            "by": found.by,
            "difference": found.gain.difference,
            "standard_error": found.gain.standard_error,
        }


def search(task: SearchTask, classifier: HedgerowClassifier, inputs: Any, Y: Any, report: Report) -> Tuning:
    """Search settings, with a line on stderr for each trial."""
    import hedgerow
    from hedgerow.estimators.trials import JournalError
    from hedgerow.estimators.validation_part import TooFewInputsError
    from hedgerow.inputs.parameters import ParameterError

    told: list[Trial] = []

    def finished(trial: Trial) -> None:
        told.append(trial)
        print(f"hedgerow: {len(told):2}. {plain(_line(trial, task.by))}", file=sys.stderr, flush=True)

    try:
        # What a disk refuses here are trials, not data.
        with failing_as(ExitCode.WRITE):
            return hedgerow.tune(
                classifier,
                inputs,
                Y,
                seconds=task.seconds,
                by=task.by,
                journal=task.journal,
                progress=report,
                finished=finished,
                start=task.start,
            )
    except JournalError as error:
        raise Failure(ExitCode.WRITE, option_words(reason(error), {"by"})) from error
    except TooFewInputsError:
        raise
    except (ValueError, TypeError) as error:
        usage = isinstance(error, ParameterError)
        raise Failure(ExitCode.USAGE if usage else ExitCode.DATA, reason(error)) from error


def lines_of_trials() -> Report:
    """Tell on stderr that a trial begins; how long it will take, nobody knows."""
    last = ""

    def report(share: float, what: str) -> None:
        nonlocal last
        if what != last:
            passed = f"{100 * share:.0f} % of the time is over"
            print(f"hedgerow: {plain(what)}; {passed}", file=sys.stderr, flush=True)
            last = what

    return report


def difference(value: float, error: float) -> str:
    """A difference of a measure, in points, and its standard error."""
    return f"{100 * value:+.2f} ± {100 * error:.2f}"


def _line(trial: Trial, by: str) -> str:
    """A finished trial on one line."""
    outcome = trial.outcome
    took = f"{say_duration(outcome.seconds)}{', from the earlier run' if trial.resumed else ''}"
    if outcome.failed is not None:
        return f"{trial.change}: not possible, {outcome.failed} ({took})"
    figure = f"{by} {100 * outcome.figures[by]:.2f}"
    if trial.comparison is None:
        return f"{trial.change}: {figure} ({took})"
    gained = difference(trial.comparison.difference, trial.comparison.standard_error)
    return f"{trial.change}: {figure}, {gained}: {'kept' if trial.kept else 'not kept'} ({took})"
