"""A test martingale: how strongly a stream speaks against being like the held-out inputs, at any time."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hedgerow.shift.observing import BINS, UNSEEN, Bins

__all__ = ["ALARM", "ConformalMartingale"]

Floats = npt.NDArray[np.float64]

ALARM = 100.0  # reached with a chance of at most 1 % without shift, however long one watches
# Stakes and rates at which the bet changes; every pair starts with the same share of the capital.
_STAKES = np.array([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0])
_RATES = np.array([1e-4, 1e-3, 1e-2, 1e-1, 1.0])
_LN10 = math.log(10)


class ConformalMartingale:
    """Conformal test martingales of several signals, each started from held-out inputs.

    Each new input gets a smoothed conformal p-value for each signal: the share of what was seen so far, the
    held-out inputs and this one included, that is higher, where ties are broken at random. If held-out and
    new inputs are exchangeable, the p-values of a signal are independent and uniform (Vovk, Gammerman and
    Shafer 2005). A gambler bets against that: the composite simple jumper of Vovk et al., "Retrain or not
    retrain: conformal test martingales for change-point detection" (2021), here with more stakes. Without
    shift, its capital ever reaches C times what it began with with a chance of at most 1/C (Ville).

    p-values of one signal are independent of each other, but need not be independent of the earlier ones of
    *other* signals: the mean of several such martingales is an e-value at each fixed time, but not a
    martingale. So the highest is divided by their number: a union bound, which holds at every time.

    (Bates, Candès, Lei, Romano and Sesia 2023 show why p-values against the held-out inputs alone do not do:
    these share the held-out inputs, so they depend on each other, and a long stream would always end in an
    alarm. Here every new input joins those that the next is compared with.)

    Parameters
    ----------
    reference : uint16 array, shape (rows, signals)
        Bins of the held-out inputs.
    seed : int
        Of the random numbers that break ties.

    Examples
    --------
    >>> usual = np.random.default_rng(0).integers(0, 1024, (500, 1)).astype(np.uint16)
    >>> watch = ConformalMartingale(usual)
    >>> watch.add(np.random.default_rng(1).integers(0, 1024, (500, 1)).astype(np.uint16))
    >>> watch.highest < ALARM
    True
    >>> watch.add(np.random.default_rng(2).integers(0, 300, (100, 1)).astype(np.uint16))
    >>> watch.highest > ALARM
    True
    """

    def __init__(self, reference: Bins, seed: int = 0) -> None:
        signals = reference.shape[1]
        self._counts = np.zeros((signals, BINS), dtype=np.int64)
        for place, column in enumerate(reference.T):
            self._counts[place] = np.bincount(column[column < BINS], minlength=BINS)
        self._sizes = self._counts.sum(axis=1)
        self._random = np.random.default_rng(seed)
        self._capital = np.full((signals, len(_RATES), len(_STAKES)), 1 / len(_STAKES))
        self._logs = np.zeros((signals, len(_RATES)))
        self._highest_logs = np.zeros(signals)
        self.inputs = 0

    def add(self, bins: Bins) -> None:
        """Bet on the next inputs, in their order; the result does not depend on how they are batched."""
        ties = self._random.random(bins.shape)
        for row, own in zip(bins, ties, strict=True):
            seen = np.flatnonzero(row != UNSEEN)
            if seen.size:
                self._bet(seen, row[seen].astype(np.int64), own[seen])
        self.inputs += len(bins)

    def _bet(self, signals: npt.NDArray[np.int64], bins: npt.NDArray[np.int64], ties: Floats) -> None:
        equal = self._counts[signals, bins]
        above = self._sizes[signals] - equal
        for place, (signal, place_of_bin) in enumerate(zip(signals.tolist(), bins.tolist(), strict=True)):
            above[place] -= int(self._counts[signal, :place_of_bin].sum())
        p_values = (above + ties * (equal + 1)) / (self._sizes[signals] + 1)
        self._counts[signals, bins] += 1
        self._sizes[signals] += 1
        rates = _RATES[:, None]
        capital = (1 - rates) * self._capital[signals] + rates / len(_STAKES)
        capital *= (1 + _STAKES * (p_values[:, None] - 0.5))[:, None, :]
        gain = capital.sum(axis=2)
        self._capital[signals] = capital / gain[:, :, None]
        self._logs[signals] += np.log(gain)
        now = self._of_signals()
        np.maximum(self._highest_logs, now, out=self._highest_logs)

    def _of_signals(self) -> Floats:
        """The logarithm of the capital of each signal: the mean over the rates."""
        top = self._logs.max(axis=1)
        return np.asarray(top + np.log(np.exp(self._logs - top[:, None]).mean(axis=1)))

    @property
    def log10(self) -> float:
        """The decimal logarithm of the martingale now, all signals together."""
        return self._together(self._of_signals())

    @property
    def highest_log10(self) -> float:
        """The highest that it has been."""
        return self._together(self._highest_logs)

    @property
    def highest(self) -> float:
        """The same as a number; infinite where it is too large for one."""
        return 10.0**self.highest_log10 if self.highest_log10 < 300 else math.inf

    @property
    def by_signal(self) -> Floats:
        """The decimal logarithm of the highest capital of each signal, before it is divided."""
        return self._highest_logs / _LN10

    @property
    def alarmed(self) -> bool:
        """Whether it has ever reached `ALARM`."""
        return self.highest_log10 >= math.log10(ALARM) - 1e-12

    def _together(self, logs: Floats) -> float:
        if not logs.size:
            return 0.0
        return float(logs.max() / _LN10 - math.log10(len(logs)))
