"""What a model was asked since it was loaded: a running test for shift, and shares for alarms."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.decisions.rules import ACCEPT, REVIEW
from hedgerow.model import Model
from hedgerow.shift.observing import best_probabilities
from hedgerow.shift.report import ShiftReport
from hedgerow.votes.signals import OODScores
from hedgerow.votes.source import Answer

__all__ = ["RECENT", "WatchedInputs", "WatchedShares"]

RECENT = 1000  # inputs that shares are of
_FALSE_ALARM = 0.05


@dataclass(frozen=True)
class WatchedShares:
    """Shares of the last inputs, NaN where there are none, and the martingale of all of them.

    `ood` is the share of inputs with an OOD p-value of at most 5 %; `accepted` and `reviewed` that of inputs
    that were decided on and are given a label, or one to review; `best` the mean probability of the best
    label.
    """

    ood: float
    accepted: float
    reviewed: float
    best: float
    log10: float
    highest_log10: float


class WatchedInputs:
    """Watches what a model is asked; safe to call from several threads."""

    def __init__(self, model: Model) -> None:
        self._watch = model.watch(in_order=True)
        self._lock = Lock()
        self._recent: dict[str, deque[float]] = {
            name: deque(maxlen=RECENT) for name in ("ood", "accepted", "reviewed", "best")
        }

    def add(
        self,
        answer: Answer,
        scores: OODScores | None,
        codes: npt.NDArray[np.int8] | None,
        some_labels: bool,
    ) -> None:
        """Add inputs: what was found, their OOD scores, and the decisions on their candidates, if any."""
        votes = answer.votes
        found: dict[str, Any] = {}
        if not some_labels:
            found["best"] = best_probabilities(votes)
        if scores is not None:
            found["ood"] = scores.p_value <= _FALSE_ALARM
        if codes is not None:
            rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
            for name, code in (("accepted", ACCEPT), ("reviewed", REVIEW)):
                found[name] = np.bincount(rows[codes == code], minlength=len(votes)) > 0
        with self._lock:
            for name, values in found.items():
                self._recent[name].extend(values.astype(np.float64).tolist())
            if self._watch is not None:
                self._watch.add(answer, some_labels)

    def report(self) -> ShiftReport | None:
        """What the test for shift found so far; None where the model guarantees nothing."""
        with self._lock:
            return None if self._watch is None else self._watch.report()

    def shares(self) -> WatchedShares:
        """The shares of now."""
        report = self.report()
        tested = report is not None and report.untested is None
        with self._lock:
            means = {
                name: sum(values) / len(values) if values else math.nan
                for name, values in self._recent.items()
            }
        return WatchedShares(
            **means,
            log10=report.now_log10 if report is not None and tested else math.nan,
            highest_log10=report.log10 if report is not None and tested else math.nan,
        )

    def describe(self) -> dict[str, Any] | None:
        """The test for shift as the API has it."""
        report = self.report()
        if report is None:
            return None
        names = ("broken", "words", "inputs", "log10")
        return {name: getattr(report, name) for name in names} | {
            "evidence": [asdict(one) for one in report.evidence]
        }

    def warning(self) -> str | None:
        """What clients are told where guarantees are not supported."""
        report = self.report()
        return report.words if report is not None and report.broken else None
