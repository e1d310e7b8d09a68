"""``hedgerow fit --time``: what is left of the time after the fit goes into a search for settings."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .searching import Searched, SearchTask, lines_of_trials, search
from .terminal import Report, plain

if TYPE_CHECKING:
    from hedgerow import HedgerowClassifier

    from .presets import Chosen

_BY = "ndcg@5"


@dataclass(frozen=True)
class GivenTime:
    """How long a fit may take, when it began, and where trials are kept beside the model."""

    seconds: float
    begin: float
    model: Path

    @property
    def journal(self) -> Path:
        """Where finished trials are kept."""
        return Path(f"{self.model}.trials")

    @property
    def left_behind(self) -> str | None:
        """What an interrupt leaves; None if nothing."""
        return SearchTask(self.seconds, _BY, self.journal).left_behind

    def forget_trials(self) -> None:
        """Delete the trials, once the model is saved."""
        with contextlib.suppress(FileNotFoundError):
            self.journal.unlink()

    def spend(
        self,
        chosen: Chosen,
        classifier: HedgerowClassifier,
        data: tuple[Any, Any],
        fixed: frozenset[str],
        report: Report,
        verbose: bool,
    ) -> Chosen:
        """Better settings than those chosen, if there is time to search them; `fixed` ones are kept."""
        if chosen.warning is not None:
            print(f"hedgerow: {plain(chosen.warning)}", file=sys.stderr, flush=True)
        begin = time.perf_counter()
        left = self.seconds - (begin - self.begin)
        if not chosen.leaves_time or left <= 0:
            return chosen
        from hedgerow.estimators.settings_search import Start
        from hedgerow.estimators.validation_part import TooFewInputsError

        task = SearchTask(left, _BY, self.journal, Start(chosen.preset, fixed, then_fit=True))
        watched = lines_of_trials() if verbose else report
        try:
            found, refused = search(task, classifier, *data, watched), ""
        except TooFewInputsError as error:
            found, refused = None, str(error).partition(";")[0]
        return chosen.with_search(Searched(time.perf_counter() - begin, found, refused))
