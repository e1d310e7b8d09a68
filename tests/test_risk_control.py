"""Thresholds that keep a guarantee, beside brute force and over simulated data."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from hedgerow.decisions.abstention import Abstention, certainty
from hedgerow.decisions.risk import (
    GRID,
    RiskCurve,
    TooFewRows,
    Unreachable,
    as_share,
    fixed_sequence,
    hoeffding_bentkus,
    rows_needed,
)
from hedgerow.votes.measures import Measures

RISKS = st.floats(0.01, 0.99)


def test_grid_of_thresholds_ascends_from_everything_to_nothing():
    assert GRID[0] == 0
    assert GRID[-2:].tolist() == [1, math.inf]
    assert (np.diff(GRID[:-1]) > 0).all()
    assert len(GRID) <= 1000


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), RISKS)
def test_conformal_threshold_given_any_losses_then_is_the_largest_by_exact_arithmetic(quarters, risk):
    # At threshold j of 5, an input loses a quarter of its labels if its number is below j.
    losses = [[Fraction(min(j, 4), 4) if q < j else Fraction(0) for j in range(5)] for q in quarters]
    totals = [sum(row[j] for row in losses) for j in range(5)]
    curve = RiskCurve(np.arange(5, dtype=np.float32), np.array(totals, dtype=np.float64), len(quarters))
    n = len(quarters)
    # Where the two sides are equal but for the rounding of the risk, either answer is right.
    assume(all(abs(total + 1 - Fraction(risk) * (n + 1)) > 1e-9 for total in totals))
    within = [j for j in range(5) if (totals[j] + 1) / (n + 1) <= Fraction(risk)]
    assert curve.ceiling == 1 / (n + 1)  # nothing is lost at the first threshold
    assert curve.largest(risk) == (within[-1] if within else None)


@given(st.integers(1, 200), RISKS, RISKS)
def test_conformal_threshold_when_risk_rises_then_does_not_fall(seed, risk, other):
    random = np.random.default_rng(seed)
    totals = np.sort(random.random(20)) * 50
    curve = RiskCurve(np.linspace(0, 1, 20, dtype=np.float32), totals, 50)
    low, high = sorted([risk, other])
    assert (curve.largest(low) or -1) <= (curve.largest(high) or -1)


@pytest.mark.parametrize("risk", [0.05, 0.1, 0.3])
def test_conformal_threshold_over_simulated_data_then_keeps_the_risk_on_average(risk):
    random = np.random.default_rng(0)
    n, repeats = 60, 4000
    scores = random.random((repeats, n + 1))  # an input's label is missed at thresholds above its score
    missed = []
    grid = np.linspace(0, 1, 200, dtype=np.float32)
    for own in scores:
        totals = (own[:n, None] < grid).sum(axis=0).astype(float)
        place = RiskCurve(grid, totals, n).largest(risk)
        missed.append(place is not None and own[n] < grid[place])
    error = np.std(missed) / math.sqrt(repeats)
    assert np.mean(missed) <= risk + 3 * error
    assert np.mean(missed) >= risk - 1 / (n + 1) - 0.01 - 3 * error  # and it is not idle


@given(st.integers(1, 80), st.integers(0, 80), RISKS)
def test_p_value_given_binary_losses_then_is_the_lower_of_both_bounds(n, wrong, risk):
    wrong = min(wrong, n)
    mean = wrong / n
    low = min(mean, risk)
    divergence = 0.0
    if low > 0:
        divergence += low * math.log(low / risk)
    if low < 1:
        divergence += (1 - low) * math.log((1 - low) / (1 - risk))
    hoeffding = math.exp(-n * divergence)
    bentkus = math.e * sum(math.comb(n, i) * risk**i * (1 - risk) ** (n - i) for i in range(wrong + 1))
    assert hoeffding_bentkus(mean, n, risk) == pytest.approx(min(1, hoeffding, bentkus), rel=1e-6, abs=1e-12)


def test_p_value_over_simulated_losses_at_the_risk_then_is_seldom_small():
    random = np.random.default_rng(1)
    losses = random.binomial(3, 0.2, size=(5000, 50)) / 3
    p_values = hoeffding_bentkus(losses.mean(axis=1), 50, 0.2)
    for level in (0.01, 0.05, 0.1, 0.3):
        assert (p_values <= level).mean() <= level + 3 * math.sqrt(level / 5000)


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.01, 0.5))
def test_fixed_sequence_then_stops_at_the_first_that_stays(p_values, delta):
    expected = 0
    for p_value in p_values:
        if p_value > delta:
            break
        expected += 1
    assert fixed_sequence(p_values, delta) == expected


def test_fixed_sequence_when_a_p_value_is_nan_then_it_stays():
    assert fixed_sequence([0.0, math.nan, 0.0], 0.1) == 1


@given(st.floats(0.01, 0.5), st.floats(0.5, 0.99))
def test_rows_needed_then_one_fewer_shows_nothing(risk, confidence):
    needed = rows_needed(risk, confidence)
    assert (1 - risk) ** needed <= (1 - confidence) * (1 + 1e-6)
    assert (1 - risk) ** (needed - 1) >= (1 - confidence) * (1 - 1e-6)


def test_tested_threshold_given_losses_that_fall_again_then_does_not_jump_the_gap():
    losses = np.array([0.0, 0.9, 0.0, 0.0])  # tested from the last to the first
    curve = RiskCurve(np.array([0, 0.2, 0.5, np.inf], dtype=np.float32), 200 * losses, 200)
    assert curve.tested(0.1, 0.9) == 2


def test_tested_threshold_over_simulated_data_then_fails_no_more_often_than_told():
    random = np.random.default_rng(2)
    n, repeats, risk, confidence = 150, 600, 0.2, 0.8
    grid = np.linspace(0, 1, 50, dtype=np.float32)
    # A label of certainty c is wrong with a chance of 1 - c; at threshold t all with c >= t are given.
    expected = [(1 - t) ** 2 / 2 for t in grid]  # P(given and wrong), one label an input
    failures = 0
    for _ in range(repeats):
        sure = random.random(n)
        wrong = random.random(n) > sure
        totals = ((sure[:, None] >= grid) & wrong[:, None]).sum(axis=0).astype(float)
        place = RiskCurve(grid, totals, n).tested(risk, confidence)
        failures += place is not None and expected[place] > risk
    assert failures / repeats <= 1 - confidence + 3 * math.sqrt(0.2 * 0.8 / repeats)


@pytest.mark.parametrize("risk", [0, 1, -0.1, 1.5, math.nan, True, "0.1", None])
def test_share_outside_0_and_1_then_is_refused_by_name(risk):
    with pytest.raises(ValueError, match="risk is"):
        as_share("risk", risk)


@pytest.mark.parametrize("risk", [5e-324, 9e-7, 1 - 1e-9])
def test_share_given_what_no_inputs_can_show_then_is_refused(risk):
    with pytest.raises(ValueError, match="differ from 0 and 1 by at least 1e-06"):
        as_share("risk", risk)


def test_abstention_for_coverage_over_simulated_data_then_answers_at_least_that_share():
    random = np.random.default_rng(3)
    answered = []
    for _ in range(3000):
        doubts = random.integers(0, 20, 41)  # with many equal ones
        rule = Abstention.learn(doubts[:40], np.zeros(40))
        answered.append(doubts[40] <= rule.for_coverage(0.7))
    assert np.mean(answered) >= 0.7 - 3 * np.std(answered) / math.sqrt(3000)


def test_abstention_for_risk_over_simulated_data_then_fails_no_more_often_than_told():
    random = np.random.default_rng(4)
    failures = 0
    for _ in range(400):
        doubts = random.random(400).round(2)
        rule = Abstention.learn(doubts, random.random(400) < doubts)
        try:
            limit = rule.for_risk(0.25, 0.8)
        except Unreachable:
            continue
        # With a doubt of d an answer is wrong with a chance of d: the mean of what is kept.
        kept = np.arange(0, 1.001, 0.01)
        weight = np.where((kept == 0) | (kept == 1), 0.5, 1.0) * (kept <= limit)
        failures += (weight * kept).sum() / weight.sum() > 0.25
    assert failures / 400 <= 0.2 + 3 * math.sqrt(0.16 / 400)


@settings(max_examples=50)
@given(st.integers(0, 1000), st.integers(30, 300))
def test_abstention_counts_then_are_those_of_brute_force(seed, n):
    random = np.random.default_rng(seed)
    doubts, wrong = random.integers(0, 30, n) / 7, random.random(n) < 0.3
    rule = Abstention.learn(doubts, wrong)
    assert rule.rows == n
    for knot, below, mistakes in zip(rule.knots, rule.below, rule.wrong, strict=True):
        assert below == (doubts < knot).sum()
        assert mistakes == wrong[doubts < knot].sum()


def test_abstention_when_there_are_too_few_inputs_then_says_how_many_are_needed():
    with pytest.raises(TooFewRows, match="needs at least 22"):
        Abstention.learn(np.arange(10), np.zeros(10)).for_risk(0.1, 0.9)


def test_abstention_when_the_surest_are_wrong_then_is_refused_with_their_share():
    with pytest.raises(Unreachable, match=r"100\.0 % are answered wrongly"):
        Abstention.learn(np.arange(500), np.ones(500)).for_risk(0.1, 0.9)


def test_abstention_given_doubts_that_are_no_numbers_then_is_refused():
    with pytest.raises(ValueError, match="nan"):
        Abstention.learn([0.1, math.nan], [True, False])
    with pytest.raises(ValueError, match="shape"):
        Abstention.learn([0.1, 0.2], [True])


def test_abstention_in_a_file_then_comes_back_and_damage_is_found():
    rule = Abstention.learn(np.arange(50), np.arange(50) > 40)
    table = rule.to_arrays()
    back = Abstention.from_arrays(table)
    assert back.for_coverage(0.5) == rule.for_coverage(0.5)
    for column, row, value in ((0, 3, -5.0), (1, 3, 0.0), (2, 3, 1.5), (3, 3, 90.0), (2, 0, math.nan)):
        broken = table.copy()
        broken[row, column] = value
        with pytest.raises(ValueError, match="uncertainties of inputs"):
            Abstention.from_arrays(broken)
    with pytest.raises(ValueError, match="four columns"):
        Abstention.from_arrays(table[:, :3])


def test_certainty_given_an_unknown_measure_then_names_the_known_ones():
    with pytest.raises(ValueError, match="probability, total, data, knowledge, variance"):
        certainty(Measures(*np.zeros((5, 1))), "entropy")


def test_binomial_tail_of_scipy_then_is_what_the_tests_of_inputs_rest_on():
    assert binom.cdf(1, 22, 0.1) == pytest.approx(0.9**22 + 22 * 0.1 * 0.9**21)


@pytest.mark.parametrize("atom", [0.1, 0.6, 1.0])
def test_risk_when_many_inputs_are_equally_sure_then_is_granted_and_kept(atom):
    random = np.random.default_rng(0)
    doubts = np.where(random.random(4000) < atom, 0.0, random.random(4000))
    wrong = random.random(4000) < 0.02 + 0.1 * doubts
    limits = [Abstention.learn(doubts[:2000], wrong[:2000]).for_risk(risk) for risk in (0.1, 0.2, 0.3)]
    assert limits == sorted(limits)
    for limit, risk in zip(limits, (0.1, 0.2, 0.3), strict=True):
        answered = doubts[2000:] <= limit
        assert answered.mean() > 0.5
        assert wrong[2000:][answered].mean() <= risk
