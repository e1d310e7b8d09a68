"""Each guarantee over many random cuts: thresholds from one part, what comes of them counted on all the rest.

What comes of them is counted with dense NumPy, from probabilities and the truth alone.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from hedgerow.decisions.given import LADDER, Given, betting_p_values, most_labels
from hedgerow.decisions.policy import BEST, RANKS
from hedgerow.decisions.risk import GRID, RiskCurve, TooFewRows, least_risk

CUTS, ROWS, DRAWN, MOST = 500, 6000, 600, 4
CONFIDENCE = 0.9
# Chance over the cuts: three standard errors.
SLACK = 3 * math.sqrt(0.1 * 0.9 / CUTS)


class World:
    """Inputs with calibrated or overconfident probabilities, many of which are hard: all at once."""

    def __init__(self, seed: int, skew: float) -> None:
        random = np.random.default_rng(seed)
        hard = random.random((ROWS, 1)) ** 2
        chance = np.sort(random.beta(0.5, 1.2, (ROWS, 8)) * (1 - 0.6 * hard), axis=1)[:, ::-1]
        self.right = random.random(chance.shape) < chance
        self.shown = (chance**skew).astype(np.float32)
        self.known = self.right.sum(axis=1) + random.integers(0, 2, ROWS)
        self.cuts = np.stack([random.permutation(ROWS)[:DRAWN] for _ in range(CUTS)])

    def accepted(self, threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """How many labels each input is given from a threshold on, and how many of them are wrong."""
        given = (self.shown >= np.float32(threshold)) & (np.arange(8) < MOST)
        return given.sum(axis=1), (given & ~self.right).sum(axis=1)

    def share_wrong(self, of: str, threshold: float) -> float:
        given, wrong = self.accepted(threshold)
        if of == "labels":
            return wrong.sum() / max(1, given.sum())
        if of == "answered":
            return (wrong[given > 0] / given[given > 0]).mean() if given.any() else 0.0
        return (wrong / np.maximum(given, 1)).mean()

    def tables(self) -> np.ndarray:
        """For each input and threshold of the ladder, which pair of given and wrong labels it has."""
        counts = np.array([self.accepted(threshold) for threshold in LADDER])
        given, wrong = counts[:, 0].T, counts[:, 1].T
        return given * (given + 1) // 2 + wrong


WORLDS = {"calibrated": World(0, 1.0), "overconfident": World(1, 0.6), "underconfident": World(2, 1.7)}
TABLES = {name: world.tables() for name, world in WORLDS.items()}


def given_of(pairs: np.ndarray) -> Given:
    """Counts of some inputs, from their pairs."""
    width = (MOST + 1) * (MOST + 2) // 2
    places = np.arange(len(LADDER)) * width + pairs
    counts = np.bincount(places.ravel(), minlength=len(LADDER) * width).reshape(len(LADDER), width)
    return Given(counts, MOST)


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("of", ["labels", "answered"])
@pytest.mark.parametrize("share", [0.1, 0.25])
def test_wrong_at_most_over_random_cuts_then_is_broken_no_more_often_than_the_confidence_says(
    name: str, of: str, share: float
) -> None:
    world, pairs = WORLDS[name], TABLES[name]
    achieved = {}
    broken = used = 0
    for cut in world.cuts:
        accept = given_of(pairs[cut]).accept_from(of, share, CONFIDENCE)
        if math.isfinite(accept):
            if accept not in achieved:
                achieved[accept] = world.share_wrong(of, accept)
            used += 1
            broken += achieved[accept] > share
    assert broken / CUTS <= 1 - CONFIDENCE + SLACK
    if name != "overconfident" and share == 0.25:
        assert used > CUTS / 4  # and it is not idle


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("share", [0.1, 0.25])
def test_wrong_at_most_of_inputs_over_random_cuts_then_is_kept_with_the_confidence(
    name: str, share: float
) -> None:
    world = WORLDS[name]
    ladder = np.flatnonzero(np.isin(GRID, LADDER))
    losses = np.ones((ROWS, len(GRID)))
    for place in ladder:
        given, wrong = world.accepted(GRID[place])
        losses[:, place] = wrong / np.maximum(given, 1)
    thresholds, own = GRID[ladder], losses[:, ladder]
    expected = own.mean(axis=0)
    broken = used = 0
    for cut in world.cuts:
        place = RiskCurve(thresholds, own[cut].sum(axis=0), DRAWN).tested(share, CONFIDENCE)
        used += place is not None
        broken += place is not None and expected[place] > share
    assert used == CUTS
    assert broken / CUTS <= 1 - CONFIDENCE + SLACK


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_missed_at_most_over_random_cuts_then_is_kept_on_average(name: str, share: float) -> None:
    world = WORLDS[name]
    has = np.flatnonzero(world.known > 0)
    kept = np.array(
        [(world.right & (world.shown >= threshold)).sum(axis=1)[has] / world.known[has] for threshold in GRID]
    ).T
    losses = 1 - kept
    achieved = []
    random = np.random.default_rng(3)
    for _ in range(CUTS):
        order = random.permutation(len(has))
        one, other = order[:DRAWN], order[DRAWN : 2 * DRAWN]
        place = RiskCurve(GRID, losses[one].sum(axis=0), DRAWN).largest(share)
        achieved.append(0.0 if place is None else losses[other, place].mean())
    error = np.std(achieved) / math.sqrt(CUTS)
    assert np.mean(achieved) <= share + 3 * error


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("number", [1, 3, 6])
def test_best_labels_over_random_cuts_then_contain_what_is_said_with_the_confidence(
    name: str, number: int
) -> None:
    world = WORLDS[name]
    has = np.flatnonzero(world.known > 0)
    lost = 1 - world.right[has, :number].sum(axis=1) / world.known[has]
    random = np.random.default_rng(4)
    broken, margins = 0, []
    for _ in range(CUTS):
        own = lost[random.permutation(len(has))[:DRAWN]]
        promised = 1 - least_risk(float(own.mean()), DRAWN, 1 - CONFIDENCE)
        broken += 1 - lost.mean() < promised
        margins.append(1 - lost.mean() - promised)
    assert broken / CUTS <= 1 - CONFIDENCE + SLACK
    assert np.mean(margins) < 0.06  # and it is not idle


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("share", [0.2, 0.4])
def test_fewest_best_labels_over_random_cuts_then_miss_no_more_on_average(name: str, share: float) -> None:
    world = WORLDS[name]
    has = np.flatnonzero(world.known > 0)
    right = np.pad(world.right[has], ((0, 0), (0, BEST - 8)))
    losses = 1 - np.cumsum(right, axis=1) / world.known[has, None]
    random = np.random.default_rng(5)
    achieved = []
    for _ in range(CUTS):
        order = random.permutation(len(has))
        one, other = order[:DRAWN], order[DRAWN : 2 * DRAWN]
        place = RiskCurve(RANKS, losses[one].sum(axis=0), DRAWN).smallest(share)
        achieved.append(0.0 if place is None else losses[other, place].mean())
    assert np.mean(achieved) <= share + 3 * np.std(achieved) / math.sqrt(CUTS)


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_p_values_of_bets_at_the_limit_then_are_seldom_small(share: float) -> None:
    # Exactly as many wrong labels as are tested for, all wrong or all right on an input: the hardest case.
    random = np.random.default_rng(6)
    given = random.integers(0, MOST + 1, (4000, 120))
    wrong = given * (random.random(given.shape) < share)
    pairs = given * (given + 1) // 2 + wrong
    width = (MOST + 1) * (MOST + 2) // 2
    counts = np.stack([np.bincount(row, minlength=width) for row in pairs])
    of_pairs = np.array([(n, w) for n in range(MOST + 1) for w in range(n + 1)])
    gains = share * of_pairs[:, 0] - of_pairs[:, 1]
    for level in (0.05, 0.1, 0.3):
        p_values = betting_p_values(counts, gains, share, level)
        assert (p_values <= level).mean() <= level + 3 * math.sqrt(level / 4000)


def test_wrong_at_most_given_any_order_of_inputs_then_is_the_same() -> None:
    pairs = TABLES["calibrated"][:DRAWN]
    turned = pairs[np.random.default_rng(7).permutation(DRAWN)]
    for of in ("labels", "answered"):
        assert given_of(pairs).accept_from(of, 0.25, 0.9) == given_of(turned).accept_from(of, 0.25, 0.9)


def test_share_reached_then_is_that_of_a_dense_count() -> None:
    world, given = WORLDS["calibrated"], given_of(TABLES["calibrated"])
    for threshold in LADDER[40::35]:
        for of in ("labels", "answered"):
            reached = given.reached(of, float(threshold))
            if reached is None:
                assert not world.accepted(float(threshold))[0].any()
            else:
                assert reached == pytest.approx(world.share_wrong(of, float(threshold)))
    assert given.reached("labels", math.inf) is None


def test_too_few_inputs_for_a_bet_then_one_fewer_proves_nothing() -> None:
    # All right, as many as an input may have: the best that can be.
    top = MOST * (MOST + 1) // 2
    with pytest.raises(TooFewRows, match=r"27 held-out inputs are too few.*needs at least 28"):
        given_of(np.full((27, len(LADDER)), top)).accept_from("labels", 0.1, 0.9)
    assert math.isfinite(given_of(np.full((40, len(LADDER)), top)).accept_from("labels", 0.1, 0.9))


def test_most_labels_then_follow_the_training_data_within_bounds() -> None:
    assert most_labels(np.array([3, 4]), 7) == 1
    assert most_labels(np.array([10**6]), 10) == 20
    assert most_labels(None, 5) == most_labels(np.array([4]), None) == 5
