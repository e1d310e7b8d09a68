"""Shift beside plain computations and random streams: false alarms are as rare as said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from hedgerow.decisions.risk import RiskCurve
from hedgerow.shift import AdaptiveThreshold, ConformalMartingale
from hedgerow.shift.kept import Achieved, kept_tests
from hedgerow.shift.observing import BINS, SIGNALS, UNSEEN

STREAMS = 500


def some_bins(random: np.random.Generator, rows: int, signals: int = 3, middle: float = 0.0) -> np.ndarray:
    """Signals that depend on each other, rounded so that many are equal."""
    shared = random.normal(middle, 1, rows)
    columns = [SIGNALS["ood"].bins(np.round(shared + random.normal(0, 0.5, rows), 1)) for _ in range(signals)]
    return np.stack(columns, axis=1)


class Naive:
    """The composite jumper of one signal, on plain lists, without logarithms."""

    def __init__(self, reference: list[int]) -> None:
        self.seen = list(reference)
        stakes = [-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0]
        self.gamblers = [
            (rate, {stake: 1 / len(stakes) for stake in stakes}) for rate in (1e-4, 1e-3, 1e-2, 0.1, 1.0)
        ]
        self.p_values: list[float] = []
        self.capitals: list[float] = []

    def add(self, value: int, tie: float) -> None:
        self.seen.append(value)
        above = sum(other > value for other in self.seen)
        equal = sum(other == value for other in self.seen)
        p = (above + tie * equal) / len(self.seen)
        self.p_values.append(p)
        for rate, capital in self.gamblers:
            whole = sum(capital.values())
            for stake in capital:
                kept = (1 - rate) * capital[stake] + rate * whole / len(capital)
                capital[stake] = kept * (1 + stake * (p - 0.5))
        self.capitals.append(sum(sum(own.values()) for _, own in self.gamblers) / len(self.gamblers))


def test_martingale_then_is_what_a_plain_gambler_wins() -> None:
    random = np.random.default_rng(0)
    reference, stream = some_bins(random, 60, 2), some_bins(random, 80, 2, middle=0.8)
    stream[::7, 1] = UNSEEN
    watch = ConformalMartingale(reference, seed=5)
    watch.add(stream)
    ties = np.random.default_rng(5).random(stream.shape)
    plain = [Naive(column.tolist()) for column in reference.T]
    for row, own in zip(stream, ties, strict=True):
        for place, gambler in enumerate(plain):
            if row[place] != UNSEEN:
                gambler.add(int(row[place]), own[place])
    highest = [max(1.0, *gambler.capitals) for gambler in plain]
    assert 10**watch.by_signal == pytest.approx(highest, rel=1e-9)
    assert 10**watch.highest_log10 == pytest.approx(max(highest) / 2, rel=1e-9)
    assert 10**watch.log10 == pytest.approx(max(gambler.capitals[-1] for gambler in plain) / 2, rel=1e-9)
    assert watch.inputs == 80


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1), st.integers(0, 99))
def test_martingale_in_any_batches_then_has_the_same_bits(sizes: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    reference, stream = some_bins(random, 50), some_bins(random, sum(sizes), middle=0.3)
    whole, parts = ConformalMartingale(reference), ConformalMartingale(reference)
    whole.add(stream)
    for part in np.split(stream, np.cumsum(sizes)[:-1]):
        parts.add(part)
    assert whole.log10 == parts.log10
    assert whole.by_signal.tobytes() == parts.by_signal.tobytes()


def test_p_values_of_exchangeable_inputs_then_are_uniform_and_do_not_depend_on_those_before() -> None:
    values = []
    for seed in range(200):
        random = np.random.default_rng(seed)
        gambler = Naive(some_bins(random, 20, 1)[:, 0].tolist())
        for value in some_bins(random, 20, 1)[:, 0].tolist():
            gambler.add(value, random.random())
        values.append(gambler.p_values)
    found = np.array(values)
    assert kstest(found.ravel(), "uniform").pvalue > 0.001
    assert abs(np.corrcoef(found[:, :-1].ravel(), found[:, 1:].ravel())[0, 1]) < 0.05


def test_exchangeable_streams_then_at_most_one_in_a_hundred_ever_alarms() -> None:
    alarms, tens = 0, 0
    for seed in range(STREAMS):
        random = np.random.default_rng(seed)
        watch = ConformalMartingale(some_bins(random, 60), seed)
        watch.add(some_bins(random, 120))
        alarms += watch.alarmed
        tens += watch.highest >= 10
    # 500 streams at a chance of 1 % have more than 12 alarms in one case of a thousand.
    assert alarms <= 12
    assert tens <= 0.1 * STREAMS + 21


def test_fixed_held_out_inputs_that_are_few_then_a_long_stream_still_does_not_alarm() -> None:
    """p-values against the held-out inputs alone would find every small difference of the sample."""
    alarms = 0
    for seed in range(10):
        random = np.random.default_rng(seed)
        watch = ConformalMartingale(some_bins(random, 40, 1), seed)
        watch.add(some_bins(random, 2000, 1))
        alarms += watch.alarmed
    assert alarms <= 1


@pytest.mark.parametrize("middle", [-0.7, 0.5, 1.0])
def test_shifted_streams_then_alarm(middle: float) -> None:
    alarms = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        watch = ConformalMartingale(some_bins(random, 500), seed)
        watch.add(some_bins(random, 200, middle=middle))
        alarms += watch.alarmed
    assert alarms >= 19


def test_stream_that_shifts_late_then_alarms_after_it_shifts() -> None:
    random = np.random.default_rng(1)
    watch = ConformalMartingale(some_bins(random, 500))
    watch.add(some_bins(random, 2000))
    assert not watch.alarmed
    watch.add(some_bins(random, 200, middle=1.0))
    assert watch.alarmed


def test_far_longer_shift_then_the_martingale_stays_a_number() -> None:
    random = np.random.default_rng(0)
    watch = ConformalMartingale(some_bins(random, 4000, 1))
    watch.add(some_bins(random, 3000, 1, middle=9.0))
    assert watch.highest_log10 > 300
    assert watch.highest == math.inf


@pytest.mark.parametrize("signal", SIGNALS.values(), ids=list(SIGNALS))
def test_bins_then_ascend_with_the_values_and_values_lie_in_their_bins(signal) -> None:
    low, high = {"share": (0, 1), "score": (-50, 50)}.get(signal.kind, (0, 500))
    values = np.linspace(low, high, 5000)
    bins = signal.bins(values)
    assert (np.diff(bins.astype(int)) >= 0).all()
    assert bins.max() < BINS
    every = np.arange(BINS)
    assert (signal.bins(signal.values(every)) == every).all()
    assert signal.bins([math.inf if signal.kind == "score" else high])[0] < BINS


def test_counts_then_small_whole_numbers_have_bins_of_their_own() -> None:
    assert len(set(SIGNALS["given"].bins(np.arange(25)).tolist())) == 25


# --- guarantees beside what came of them ---


def test_kept_guarantees_then_at_most_one_in_a_hundred_is_called_broken() -> None:
    """Thresholds are chosen on held-out inputs as conformal risk control does, with all its luck."""
    called = 0
    for seed in range(STREAMS):
        random = np.random.default_rng(seed)
        grid = np.linspace(0, 1, 101)
        held, new = random.random(200), random.random(1000)  # the loss of an input: 1 below the threshold
        losses = (held[:, None] < grid).sum(axis=0)
        threshold = grid[np.flatnonzero(losses + 1 <= 0.1 * 201)[-1]]
        reached = float((new < threshold).mean())
        called += kept_tests([Achieved("labels", "missed", 0.1, reached, 1000)], 200)[0].broken
    assert called <= 12


def test_guarantee_that_is_missed_by_far_then_is_called_broken() -> None:
    (test,) = kept_tests([Achieved("an input's accepted labels", "wrong", 0.1, 0.3, 400)], 400)
    assert test.broken
    assert test.p_value < 1e-5
    assert "at most 10 % of an input's accepted labels were to be wrong, and 30.0 % are" in test.sentence


@pytest.mark.parametrize(("reached", "rows"), [(0.1, 400), (0.05, 400), (math.nan, 400), (0.9, 0), (1.0, 2)])
def test_guarantee_that_may_have_been_kept_then_is_not_called_broken(reached: float, rows: int) -> None:
    assert not kept_tests([Achieved("labels", "wrong", 0.1, reached, rows)], 300)[0].broken


@given(st.floats(0.01, 0.5), st.floats(0, 1), st.integers(1, 2000), st.integers(10, 2000))
def test_p_values_of_guarantees_then_fall_with_the_loss(
    asked: float, reached: float, rows: int, held: int
) -> None:
    first, second = kept_tests(
        [Achieved("labels", "wrong", asked, reached, rows), Achieved("labels", "wrong", asked, 1.0, rows)],
        held,
    )
    assert 0 <= second.p_value <= first.p_value + 1e-6 <= 1 + 1e-6


# --- adaptive thresholds ---

CURVE = RiskCurve(
    np.append(np.linspace(0, 1, 101), np.inf).astype(np.float32),
    np.append(np.linspace(1, 0, 101) * 500, 0),
    500,
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.02, 0.4), st.floats(0.005, 0.5), st.integers(1, 400))
def test_adaptive_threshold_under_any_drift_then_the_mean_loss_is_at_most_its_bound(
    seed: int, target: float, rate: float, rounds: int
) -> None:
    """An opponent who knows the threshold makes every answer wrong half of the time, in any pattern."""
    random = np.random.default_rng(seed)
    adaptive = AdaptiveThreshold.of_wrong(CURVE, target, rate)
    losses = []
    for _ in range(rounds):
        mean = random.random()
        loss = float(random.random() < mean) if math.isfinite(adaptive.threshold) else 0.0
        losses.append(loss)
        adaptive = adaptive.updated(loss)
        assert np.mean(losses) <= adaptive.bound + 1e-9
        assert adaptive.mean_loss == pytest.approx(np.mean(losses))


def test_adaptive_threshold_where_all_goes_wrong_then_accepts_nothing_and_tries_again() -> None:
    adaptive = AdaptiveThreshold.of_wrong(CURVE, 0.1, 0.1)
    adaptive = adaptive.updated(1.0).updated(1.0)
    assert adaptive.threshold == math.inf
    for _ in range(40):
        adaptive = adaptive.updated(0.0)
    assert adaptive.threshold < 1


def test_adaptive_threshold_without_mistakes_then_rises_no_further_than_it_can_use() -> None:
    adaptive = AdaptiveThreshold.of_wrong(CURVE, 0.1, 0.5)
    for _ in range(500):
        adaptive = adaptive.updated(0.0)
    assert adaptive.level == 1.0
    assert adaptive.threshold == 0.0


def test_adaptive_threshold_of_missed_labels_then_a_low_threshold_is_cautious() -> None:
    rising = RiskCurve(CURVE.thresholds, CURVE.totals[::-1].copy(), 500)
    adaptive = AdaptiveThreshold.of_missed(rising, 0.2, 0.1)
    assert adaptive.threshold == pytest.approx(0.21)
    assert adaptive.updated(1.0).threshold < adaptive.threshold < adaptive.updated(0.0).threshold


def test_adaptive_threshold_that_is_stored_then_goes_on_where_it_was() -> None:
    first = AdaptiveThreshold.of_wrong(CURVE, 0.1, 0.05)
    moved = first.updated(0.5).updated(0.0).updated(1.0)
    again = first.restored(moved.to_dict())
    assert (again.level, again.rounds, again.lost) == (moved.level, 3, 1.5)
    assert again.threshold == moved.threshold


@pytest.mark.parametrize(
    "change",
    [
        {"level": 5.0},
        {"level": -3.0},
        {"level": math.nan},
        {"rounds": -1},
        {"rounds": 1.5},
        {"lost": 7.0},
        {"lost": "1"},
        {"target": 0.3},
        {"rate": 0.5},
        {"more": 1},
    ],
    ids=str,
)
def test_adaptive_threshold_of_a_damaged_state_then_is_refused(change: dict) -> None:
    first = AdaptiveThreshold.of_wrong(CURVE, 0.1, 0.05)
    with pytest.raises(ValueError, match="adaptive threshold"):
        first.restored(first.updated(1.0).to_dict() | change)
    with pytest.raises(ValueError, match="not whole"):
        first.restored(None)


@pytest.mark.parametrize("rate", [0, -1, 2, math.nan, True, "1"])
def test_adaptive_threshold_at_an_impossible_rate_then_is_refused(rate) -> None:
    with pytest.raises(ValueError, match="rate is"):
        AdaptiveThreshold.of_wrong(CURVE, 0.1, rate)
    with pytest.raises(ValueError, match="loss is"):
        AdaptiveThreshold.of_wrong(CURVE, 0.1).updated(rate if rate else 2)
