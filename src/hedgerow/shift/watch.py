"""Watches new inputs for shift, with what was computed for them anyway."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.shift.martingale import ConformalMartingale
from hedgerow.shift.observing import SIGNALS, UNSEEN, Bins, binned, observe
from hedgerow.shift.reference import Reference
from hedgerow.shift.report import Evidence, ShiftReport
from hedgerow.votes.signals import Detector
from hedgerow.votes.source import Answer

__all__ = ["NO_REFERENCE", "ShiftWatch", "UntestedShift"]

Floats = npt.NDArray[np.float64]

NO_REFERENCE = (
    "the model does not remember its held-out inputs, as it was calibrated by an older version; run hedgerow"
    " calibrate again"
)
_SEED = 0
_MOST = 100_000  # inputs of a set that are compared; more would take longer and show no more


class ShiftWatch:
    """Compares new inputs with the held-out ones of a model.

    Parameters
    ----------
    reference : Reference
        What the model remembers.
    detector : Detector or None
        Scores the inputs for OOD; of the same model.
    in_order : bool, default=False
        Whether the inputs come as a stream, so that the test goes on with each. Otherwise they are compared
        as a set, in a random but fixed order: a file that is sorted is no shift. Of more than 100,000, as
        many are drawn.
    """

    def __init__(self, reference: Reference, detector: Detector | None, in_order: bool = False) -> None:
        self._reference, self._detector, self._in_order = reference, detector, in_order
        self._martingale = ConformalMartingale(reference.scores.T, _SEED)
        self._sums = np.zeros(len(reference.names))
        self._seen = np.zeros(len(reference.names), dtype=np.int64)
        self._waiting: list[Bins] = []
        self.inputs = 0

    def add(self, answer: Answer, some_labels: bool = False) -> None:
        """Add the next inputs; where only some labels could be answered, only what is about the inputs."""
        bins = self.bins(answer)
        if some_labels:
            names = self._reference.names
            bins[:, [not SIGNALS[name].about_input for name in names]] = UNSEEN
        self.add_bins(bins)

    def bins(self, answer: Answer) -> Bins:
        """What is watched of inputs, a column for each signal of the reference."""
        scores = None
        if self._detector is not None and answer.signals is not None:
            scores = self._detector.judge(answer.signals)
        return binned(observe(answer.votes, scores), self._reference.names, len(answer.votes))

    def add_bins(self, bins: Bins) -> None:
        """Add the next inputs, whose bins are known."""
        for place, name in enumerate(self._reference.names):
            own = bins[:, place]
            own = own[own != UNSEEN]
            self._sums[place] += float(np.sum(SIGNALS[name].values(own)))
            self._seen[place] += len(own)
        self.inputs += len(bins)
        if self._in_order:
            self._martingale.add(bins)
        else:
            self._waiting.append(bins)

    @property
    def log10(self) -> float:
        """The decimal logarithm of the martingale after the last input of a stream."""
        return self._martingale.log10

    def report(self) -> ShiftReport:
        """What was found so far."""
        if self._waiting:
            table = np.concatenate(self._waiting)
            self._waiting = []
            order = np.random.default_rng(_SEED).permutation(len(table))[:_MOST]
            self._martingale.add(table[order])
        found, names = self._martingale, self._reference.names
        evidence = [
            Evidence(
                name,
                SIGNALS[name].words,
                float(found.by_signal[place]),
                float(SIGNALS[name].values(self._reference.scores[place]).mean()),
                float(self._sums[place] / max(1, self._seen[place])),
            )
            for place, name in enumerate(names)
            if self._seen[place]
        ]
        evidence.sort(key=lambda one: -one.log10)
        return ShiftReport(
            self.inputs, self._reference.rows, found.highest_log10, found.log10, tuple(evidence)
        )


class UntestedShift:
    """Stands where shift cannot be tested, and says why."""

    def __init__(self, reason: str) -> None:
        self._reason = reason
        self.inputs = 0
        self.log10 = 0.0

    def add(self, answer: Answer, some_labels: bool = False) -> None:
        """Count the next inputs."""
        self.inputs += len(answer.votes)

    def report(self) -> ShiftReport:
        """That nothing was tested, and why."""
        return ShiftReport(self.inputs, 0, untested=self._reason)
