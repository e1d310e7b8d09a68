"""Whether a share of all accepted labels was kept: over random cuts, and while the world moves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_guarantees_kept import CONFIDENCE, CUTS, DRAWN, LADDER, MOST, ROWS, TABLES, WORLDS, given_of

from hedgerow.decisions.guarantees import Guarantee, about_wrong
from hedgerow.decisions.kept import ratio_p_value
from hedgerow.shift import AdaptiveRatio
from hedgerow.shift.kept import FALSE_ALARM, Achieved, kept_tests

SHARE = 0.25


def asked_for(of: str, share: float) -> Guarantee:
    return about_wrong(of, share, CONFIDENCE, 0.0)


def says_broken(of: str, given: np.ndarray, wrong: np.ndarray, share: float = SHARE) -> bool:
    p_value = ratio_p_value(asked_for(of, share), given.astype(float), (given - wrong).astype(float), MOST)
    achieved = Achieved("labels", "wrong", share, float(wrong.sum() / max(1, given.sum())), 1, p_value)
    return kept_tests([achieved], DRAWN)[0].broken


# --- the test of a guarantee ---


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("of", ["labels", "answered"])
def test_guarantee_over_random_cuts_then_a_kept_one_is_hardly_ever_called_broken(name: str, of: str) -> None:
    """Thresholds from one cut, the test on another: 500 of them in each of three worlds."""
    world, pairs = WORLDS[name], TABLES[name]
    shares: dict[float, float] = {}
    alarms = tested = 0
    for cut in world.cuts:
        accept = given_of(pairs[cut]).accept_from(of, SHARE, CONFIDENCE)
        if not math.isfinite(accept):
            continue
        shares.setdefault(accept, world.share_wrong(of, accept))
        given_labels, wrong = world.accepted(accept)
        own = np.random.default_rng(int(cut[0])).permutation(np.setdiff1d(np.arange(ROWS), cut))[:DRAWN]
        broken = says_broken(of, given_labels[own], wrong[own])
        tested += 1
        alarms += broken and shares[accept] <= SHARE
    assert tested > CUTS / 4 or name == "overconfident"
    assert alarms <= FALSE_ALARM * CUTS + 3 * math.sqrt(FALSE_ALARM * CUTS)


@pytest.mark.parametrize("of", ["labels", "answered"])
@pytest.mark.parametrize("share", [0.05, 0.25])
def test_guarantee_at_its_limit_over_random_draws_then_is_called_broken_in_at_most_the_said_share(
    of: str, share: float
) -> None:
    """All labels of an input are wrong or none, and exactly as often as allowed: the hardest case."""
    random = np.random.default_rng(1)
    alarms = 0
    for _ in range(2000):
        labels = random.integers(0, MOST + 1, 300)
        alarms += says_broken(of, labels, labels * (random.random(300) < share), share)
    assert alarms <= FALSE_ALARM * 2000 + 3 * math.sqrt(FALSE_ALARM * 2000)


@pytest.mark.parametrize("of", ["labels", "answered"])
def test_world_that_has_shifted_then_a_broken_guarantee_is_called_broken(of: str) -> None:
    """Thresholds of a calibrated world, in one where the best label of most inputs is wrong as well."""
    random = np.random.default_rng(2)
    world, pairs = WORLDS["calibrated"], TABLES["calibrated"]
    found = tested = 0
    for cut in world.cuts[:40]:
        accept = given_of(pairs[cut]).accept_from(of, SHARE, CONFIDENCE)
        own = random.permutation(ROWS)[:DRAWN]
        labels, wrong = (of_input[own] for of_input in world.accepted(accept))
        tested += math.isfinite(accept)
        found += says_broken(of, labels, np.minimum(labels, wrong + (random.random(DRAWN) < 0.6)))
    assert tested > 20
    assert found >= 0.95 * tested


def test_other_kinds_then_have_no_ratio_to_bet_on() -> None:
    ones = np.ones(10)
    assert ratio_p_value(asked_for("inputs", 0.1), ones, ones, 1) is None
    assert ratio_p_value(Guarantee("missed", None, 0.1, 0.1, None, 0.0, ""), ones, ones, 1) is None
    assert ratio_p_value(asked_for("labels", 0.1), ones, ones, 1) == 1.0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["labels", "answered"]), st.floats(0.02, 0.4))
def test_p_value_then_is_that_of_gamblers_who_go_from_input_to_input(
    seed: int, of: str, share: float
) -> None:
    random = np.random.default_rng(seed)
    labels = random.integers(0, MOST + 1, 80)
    wrong = random.binomial(labels, random.random())
    if of == "labels":
        gains, least = wrong - share * labels, MOST * share
    else:
        gains, least = wrong / np.maximum(labels, 1) - share * (labels > 0), share
    capital = 0.0
    for spread in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8):
        wanted = math.sqrt(2 * math.log(1000) / (80 * spread * share * (1 - share)))
        own = 1.0
        for gain in gains:
            own *= 1 + min(wanted, 0.9 / least) * gain
        capital += own / 7
    found = ratio_p_value(asked_for(of, share), labels.astype(float), (labels - wrong).astype(float), MOST)
    assert found == pytest.approx(min(1.0, 1 / capital), rel=1e-9)


# --- the threshold that follows ---


def begun(target: float = SHARE, rate: float = 0.02) -> AdaptiveRatio:
    return AdaptiveRatio.of_given(given_of(TABLES["calibrated"][:DRAWN]), target, rate)


def slack(target: float, rate: float, rounds: int) -> float:
    """What is wrong beyond the target at most, in labels."""
    return target / rate + MOST * (1 - target) + math.sqrt(rounds)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.02, 0.6), st.floats(0.002, 1.0), st.integers(1, 300))
def test_threshold_against_an_opponent_then_no_more_labels_are_wrong_than_the_bound_says(
    seed: int, target: float, rate: float, rounds: int
) -> None:
    """It sees the threshold and makes labels wrong where it likes; some patterns are good for long."""
    random = np.random.default_rng(seed)
    adaptive = begun(target, rate)
    labels = wrong = 0
    good = True
    for number in range(1, rounds + 1):
        good = good if random.random() < 0.9 else not good
        own = int(random.integers(0, MOST + 1)) if math.isfinite(adaptive.threshold) else 0
        false = 0 if good else own
        adaptive = adaptive.updated(own, false)
        labels, wrong = labels + own, wrong + false
        assert wrong <= target * labels + slack(target, rate, number) + 1e-6
        assert adaptive.level >= -rate * MOST * (1 - target) - 1e-9
        if labels:
            assert wrong / labels <= adaptive.bound + 1e-9
            assert adaptive.share == wrong / labels


def stream(name: str, random: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and truth of inputs that come one by one; what is improbable goes wrong more often."""
    chosen = random.integers(0, ROWS, rows)
    world = WORLDS["calibrated"]
    shown, right = world.shown[chosen].copy(), world.right[chosen].copy()
    age = np.arange(rows)[:, None] / rows
    fails = random.random(right.shape) < 1.6 * (1 - shown)
    if name == "worse and worse":
        right &= ~fails | (random.random(right.shape) > age)
    elif name == "at once":
        right &= ~fails | (age < 0.3)
    elif name == "back and forth":
        right &= ~fails | (np.sin(12 * age) > 0)
    elif name == "nothing right for a while":
        right &= (age < 0.3) | (age > 0.4)
    return shown, right


@pytest.mark.parametrize(
    "name", ["as before", "worse and worse", "at once", "back and forth", "nothing right for a while"]
)
def test_threshold_over_a_drifting_stream_then_the_share_of_wrong_labels_is_kept(name: str) -> None:
    rows = 6000
    shown, right = stream(name, np.random.default_rng(3), rows)
    fixed = begun().threshold
    adaptive, stays = begun(), np.zeros(2)
    late = 0
    for own, true in zip(shown, right, strict=True):
        for threshold in (adaptive.threshold, fixed):
            accepted = (own >= np.float32(threshold)) & (np.arange(len(own)) < MOST)
            counts = int(accepted.sum()), int((accepted & ~true).sum())
            if threshold is fixed:
                stays += counts
            else:
                adaptive = adaptive.updated(*counts)
                late += counts[0] if adaptive.rounds > 0.9 * rows else 0
    assert adaptive.share <= SHARE + 0.01
    assert adaptive.share <= adaptive.bound <= SHARE + slack(SHARE, 0.02, rows) / adaptive.given
    assert late > 10  # it has not stopped
    if name != "as before":
        assert stays[1] / stays[0] > SHARE + 0.02  # what stays does not keep it
    else:
        assert adaptive.share > SHARE - 0.02  # and it is not idle


def test_threshold_where_nothing_is_accepted_then_it_tries_again_and_ever_more_seldom() -> None:
    adaptive, tries = begun(), []
    for number in range(6000):
        given_labels = 1 if math.isfinite(adaptive.threshold) else 0
        tries += [number] * given_labels
        adaptive = adaptive.updated(given_labels, given_labels)
    assert len(tries) <= slack(SHARE, 0.02, 6000) / (1 - SHARE)
    assert tries[-1] > 5000
    assert np.histogram(tries, 3, (1000, 6000))[0].tolist() == sorted(
        np.histogram(tries, 3, (1000, 6000))[0].tolist(), reverse=True
    )


def test_threshold_then_is_the_lowest_whose_held_out_share_is_at_most_the_level() -> None:
    adaptive = begun()
    world, rows = WORLDS["calibrated"], slice(0, DRAWN)
    given_labels, wrong = (
        np.array([world.accepted(threshold)[of][rows].sum() for threshold in LADDER]) for of in (0, 1)
    )
    place = int(np.searchsorted(LADDER, np.float32(adaptive.threshold)))
    # Held-out shares rise almost everywhere here; pooled ones differ by what chance adds to neighbours.
    assert wrong[place] / given_labels[place] == pytest.approx(SHARE, abs=0.02)
    assert (np.diff(adaptive.risks) >= 0).all()
    assert adaptive.thresholds[0] == math.inf
    assert adaptive.updated(MOST, MOST).threshold >= adaptive.threshold >= adaptive.updated(MOST, 0).threshold


def test_threshold_that_is_stored_then_goes_on_where_it_was() -> None:
    moved = begun().updated(3, 1).updated(0, 0).updated(MOST, MOST)
    again = begun().restored(moved.to_dict())
    assert again.to_dict() == moved.to_dict()
    assert again.threshold == moved.threshold


@pytest.mark.parametrize(
    "change",
    [
        {"level": 5.0},
        {"level": -3.0},
        {"level": math.nan},
        {"rounds": -1},
        {"rounds": 1.5},
        {"given": 100},
        {"wrong": 9},
        {"wrong": "1"},
        {"target": 0.3},
        {"rate": 0.5},
        {"most": 5},
        {"more": 1},
    ],
    ids=str,
)
def test_threshold_of_a_damaged_state_then_is_refused(change: dict) -> None:
    with pytest.raises(ValueError, match="adaptive threshold"):
        begun().restored(begun().updated(2, 1).to_dict() | change)


def test_impossible_feedback_or_rate_then_is_refused() -> None:
    for counts in ((MOST + 1, 0), (1, 2), (-1, 0), (1.5, 0)):
        with pytest.raises(ValueError, match=r"given|wrong"):
            begun().updated(*counts)
    stopped = begun(rate=1.0).updated(MOST, MOST)
    assert stopped.threshold == math.inf
    with pytest.raises(ValueError, match="allows none"):
        stopped.updated(1, 0)
    for rate in (0, -1, 2, math.nan, True):
        with pytest.raises(ValueError, match="rate is"):
            begun(rate=rate)
