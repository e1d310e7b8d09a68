"""Policies beside a dense computation over all labels and thresholds."""

from __future__ import annotations

import contextlib
import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import Votes
from hedgerow.decisions.learning import PolicyLearner, label_groups
from hedgerow.decisions.policy import CAP, Policy
from hedgerow.decisions.risk import GRID, TooFewRows, Unreachable
from hedgerow.inputs.matrices import as_truth
from hedgerow.inputs.search import SearchSettings
from hedgerow.votes.measures import label_uncertainty

SEARCH = SearchSettings()
MARK = "0" * 32


class Made:
    """Votes at random whose probabilities are about right, and the truth; the last labels are unknown."""

    def __init__(
        self, seed: int, rows: int = 300, labels: int = 30, strange: int = 3, members: int = 3
    ) -> None:
        random = np.random.default_rng(seed)
        chance = random.random((rows, labels + strange)) ** 4
        self.Y = random.random(chance.shape) < chance
        self.Y[: rows // 20] = False  # some inputs have no labels
        met = random.random((rows, labels)) < 0.8
        noise = random.normal(0, 0.05, (members, rows, labels))
        self.probs = np.clip(chance[:, :labels] + noise, 0, 1).astype(np.float32) * met
        self.bound = random.random(rows).astype(np.float32) * 0.2
        self.counts = random.integers(1, 40, labels)
        self.labels = labels
        entries = [sp.csr_array(part) for part in self.probs]
        plain = Votes.from_members(entries)
        self.votes = Votes(plain.indptr, plain.labels, plain.probs, labels, self.bound)
        self.truth = as_truth(sp.csr_array(self.Y.astype(np.int8)), rows, labels)
        mean = plain.mean()
        candidate = (
            sp.csr_array((np.ones(mean.nnz), mean.indices, mean.indptr), shape=mean.shape).toarray() > 0
        )
        self.mean = np.where(candidate, mean.toarray(), -1)  # what is no candidate reaches no threshold

    def policy(self, size: int = 1000, n_jobs: int = 1) -> Policy:
        learner = PolicyLearner(self.truth, self.counts, n_jobs)
        for begin in range(0, len(self.votes), size):
            learner.add(self.votes[begin : begin + size])
        return learner.finish(MARK, SEARCH)

    def wide_mean(self) -> np.ndarray:
        return np.pad(self.mean, ((0, 0), (0, self.Y.shape[1] - self.labels)), constant_values=-1)

    def missed(self, threshold: float) -> np.ndarray:
        """Of each input that has labels that the model knows, the share of these below the threshold."""
        known = self.Y[:, : self.labels]
        has = known.any(axis=1)
        lost = known & (self.mean < threshold)
        return lost[has].sum(axis=1) / known[has].sum(axis=1)

    def wrong(self, threshold: float) -> np.ndarray:
        given_ = self.wide_mean() >= threshold
        return (given_ & ~self.Y).sum(axis=1) / np.maximum(1, given_.sum(axis=1))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.15, 0.9))
def test_rejection_then_is_the_largest_threshold_that_a_dense_computation_allows(seed, risk):
    made = Made(seed)
    policy = made.policy()
    n = policy.missed.rows
    bounds = np.array([(made.missed(t).sum() + 1) / (n + 1) for t in GRID])
    assert np.allclose(policy.missed.bounds, bounds)
    assert np.min(np.abs(bounds - risk)) > 1e-9
    least = made.missed(0).mean()
    ceiling = max(bounds[0], least + 1.2816 * math.sqrt(least * (1 - least) / n))
    assert policy.lowest_missed() == pytest.approx(ceiling)
    if ceiling <= risk:
        assert policy.reject_below(risk) == GRID[bounds <= risk][-1]
    else:
        with pytest.raises(Unreachable):
            policy.reject_below(risk)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 0.6))
def test_acceptance_then_is_where_tests_from_above_stop_by_a_dense_computation(seed, risk):
    made = Made(seed, rows=150)
    policy = made.policy()
    n, reached = 150, math.inf
    for threshold in GRID[::-1]:
        mean = made.wrong(threshold).mean()
        low = min(mean, risk)
        divergence = (low * math.log(low / risk) if low else 0) + (1 - low) * math.log((1 - low) / (1 - risk))
        whole = math.ceil(mean * n - 1e-9)
        tail = sum(math.comb(n, i) * risk**i * (1 - risk) ** (n - i) for i in range(whole + 1))
        if min(math.exp(-n * divergence), math.e * tail) > 0.1:
            break
        reached = threshold
    assert policy.accept_from(risk, 0.9, of="inputs") == reached


def test_size_then_counts_labels_up_to_the_cap_and_keeps_the_mean():
    made = Made(1)
    policy = made.policy()
    sizes = np.array([np.minimum((made.mean >= t).sum(axis=1), CAP).sum() for t in GRID])
    least = policy.shortlist_from(3.0)
    allowed = (sizes + CAP) / (len(made.votes) + 1) <= 3
    assert least == GRID[allowed][0]
    with pytest.raises(TooFewRows, match="at least 999"):
        policy.shortlist_from(0.1)
    for size in (0, -1, math.nan, math.inf, "3", True):
        with pytest.raises(ValueError, match="size is"):
            policy.shortlist_from(size)


@pytest.mark.parametrize("by", ["total", "data", "knowledge", "variance"])
def test_curves_of_a_doubt_then_are_those_of_brute_force(by):
    made = Made(2, rows=80)
    policy = made.policy()
    highest = {"variance": 0.25}.get(by, math.log(2))
    wrong, withheld = np.zeros(len(GRID)), np.zeros(len(GRID))
    for row in range(80):
        own = made.votes[row]
        measures = label_uncertainty(own)
        predicted = own.mean().data >= 0.5
        sure = np.float32(np.clip(1 - getattr(measures, by) / highest, 0, 1))[predicted]
        right = made.Y[row][own.labels[predicted]]
        for place, threshold in enumerate(GRID):
            kept = sure >= threshold
            wrong[place] += (kept & ~right).sum() / max(1, kept.sum())
            withheld[place] += 1 - kept.sum() / predicted.sum() if predicted.any() else 0
    assert np.allclose(policy.wrong[by].totals, wrong)
    assert np.allclose(policy.withheld[by].totals, withheld)


def test_groups_then_have_the_losses_of_a_dense_computation_over_inputs_that_have_such_labels():
    made = Made(3, rows=600)
    policy = made.policy()
    assert len(policy.groups) > 1
    counts = np.concatenate([made.counts, np.zeros(made.Y.shape[1] - made.labels, dtype=int)])
    assert policy.groups[0].lowest == 0
    for group in policy.groups:
        own = made.Y & ((counts >= max(1, group.lowest)) & (counts <= group.highest))
        has = own.any(axis=1)
        assert group.missed.rows == has.sum() >= 99
        for place in (0, 300, 600, len(GRID) - 1):
            lost = own & (made.wide_mean() < GRID[place])
            expected = (lost[has].sum(axis=1) / own[has].sum(axis=1)).sum()
            assert group.missed.totals[place] == pytest.approx(expected)
    found = policy.reject_below_by_group(0.6)
    assert len(found) == len(policy.groups)


def test_groups_when_there_are_few_inputs_then_are_merged_and_said_so():
    made = Made(4, rows=120)
    groups, notes = label_groups(made.counts, made.truth)
    assert len(groups) < 5
    assert notes
    assert all("share a group with those that occur" in note for note in notes)
    assert groups[0][0] == 0
    assert groups[-1][1] == made.counts.max()


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_groups_then_part_all_frequencies_without_gaps(seed):
    random = np.random.default_rng(seed)
    counts = random.integers(0, 30, 50)
    counts[0] = 1
    truth = as_truth(sp.csr_array(random.random((400, 55)) < 0.1), 400, 50)
    groups, _ = label_groups(counts, truth, finest=0.1)
    assert groups[0][0] == 0
    assert all(before[1] + 1 == after[0] for before, after in itertools.pairwise(groups))
    assert groups[-1][1] == counts.max()


@given(st.integers(0, 100), st.floats(0.2, 0.95), st.floats(0.2, 0.95))
@settings(max_examples=20, deadline=None)
def test_thresholds_when_more_risk_is_taken_then_reject_more_and_accept_more(seed, one, other):
    policy = Made(seed, rows=100).policy()
    low, high = sorted([one, other])
    with contextlib.suppress(Unreachable):
        assert policy.reject_below(low) <= policy.reject_below(high)
    assert policy.accept_from(low, of="inputs") >= policy.accept_from(high, of="inputs")
    assert policy.accept_share(low) >= 0
    assert policy.accept_share(low) >= policy.accept_share(high)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_policy_learned_in_other_batches_and_threads_then_has_the_same_bits(size):
    made = Made(5, rows=130)
    whole, parts = made.policy(), made.policy(size, n_jobs=2)
    for one, other in zip(whole.to_sections()[1].values(), parts.to_sections()[1].values(), strict=True):
        assert one.tobytes() == other.tobytes()
    assert whole.to_sections()[0] == parts.to_sections()[0]


def test_missed_below_what_the_search_finds_then_is_refused_with_its_parts():
    made = Made(7)
    policy = made.policy()
    has = made.Y.any(axis=1)
    unknown = (made.Y[has][:, made.labels :].sum(axis=1) / made.Y[has].sum(axis=1)).mean()
    lost = made.missed(0).mean()
    assert policy.unknown == pytest.approx(unknown)
    assert policy.lost() == pytest.approx(lost)
    with pytest.raises(Unreachable) as refused:
        policy.reject_below(0.02)
    message = str(refused.value)
    assert f"the search does not find {100 * lost:.2f} % of the right labels that the model knows" in message
    margin = policy.lowest_missed() - lost
    assert f"with {policy.missed.rows} inputs is {100 * margin:.2f} %" in message
    assert "calibrate again with a wider beam" in message
    lowest = float(message.partition("at least ")[2].partition(",")[0])
    assert policy.reject_below(lowest) >= 0
    with pytest.raises(Unreachable, match="labels that occur 0 to"):
        policy.reject_below_by_group(0.02)


def test_labels_that_the_model_does_not_know_then_do_not_stop_what_it_can_guarantee():
    made = Made(7, strange=30)
    policy = made.policy()
    assert policy.unknown > 0.3
    assert 0 < policy.reject_below(0.5) < 1
    _, guarantee = policy.missed_guarantee(0.5)
    assert guarantee.promised == 0.5
    assert guarantee.reached == pytest.approx(made.missed(policy.reject_below(0.5)).mean())
    assert f"about {100 * policy.unknown:.2g} % of the right labels have never been seen" in guarantee.words


def test_certificates_then_give_the_share_of_inputs_that_lost_nothing():
    made = Made(8)
    policy = made.policy()
    for threshold in (0.05, 0.1, 0.19):
        below = GRID[np.searchsorted(GRID, np.float32(threshold), side="right") - 1]
        assert policy.proven_at(threshold) == pytest.approx((made.bound < below).mean())
        assert policy.proven_at(threshold) <= (made.bound < threshold).mean()
    learner = PolicyLearner(made.truth, None, 1)
    plain = made.votes
    learner.add(Votes(plain.indptr, plain.labels, plain.probs, plain.n_labels))
    assert learner.finish(MARK, SEARCH).proven_at(0.1) is None


def test_coverage_where_few_inputs_have_probable_labels_then_is_that_of_those_inputs():
    made = Made(8, rows=2000)
    rare = np.where(np.arange(2000)[:, None] % 10 == 0, made.probs.mean(axis=0), 0.3).astype(np.float32)
    votes = Votes.from_members([sp.csr_array(rare)])
    learner = PolicyLearner(made.truth, None, 1)
    learner.add(Votes(votes.indptr, votes.labels, votes.probs, made.labels))
    accept = learner.finish(MARK, SEARCH).accept_share(0.9)
    probable = rare >= 0.5
    has = probable.any(axis=1)
    assert has.mean() < 0.1
    given_ = (probable & (rare >= accept))[has].sum(axis=1) / probable[has].sum(axis=1)
    assert given_.mean() >= 0.9


@pytest.mark.parametrize(("rows", "coverage"), [(9, 0.9), (4, 0.8)])
def test_coverage_from_as_many_inputs_as_are_asked_for_then_is_granted(rows, coverage):
    probs = np.full((rows, 3), 0.9, dtype=np.float32)
    learner = PolicyLearner(as_truth(sp.csr_array(np.ones((rows, 3), np.int8)), rows, 3), None, 1)
    learner.add(Votes.from_members([sp.csr_array(probs)]))
    assert learner.finish(MARK, SEARCH).accept_share(coverage) <= 0.9


def test_too_few_inputs_then_the_error_says_how_many_are_needed():
    policy = Made(9, rows=12).policy()
    with pytest.raises(TooFewRows, match="at least 19"):
        policy.reject_below(0.05)
    with pytest.raises(TooFewRows, match="needs at least 45"):
        policy.accept_from(0.05, 0.9, of="inputs")
    with pytest.raises(TooFewRows, match="needs at least 56"):
        policy.accept_from(0.05, 0.9)
    with pytest.raises(TooFewRows, match="at least 19"):
        policy.accept_share(0.95)


@pytest.mark.parametrize("share", [0, 1, -1, math.nan, "a"])
def test_share_outside_0_and_1_then_is_refused_by_name(share):
    policy = Made(9, rows=40).policy()
    for ask in (policy.reject_below, policy.reject_below_by_group, policy.best_for):
        with pytest.raises(ValueError, match="missed_at_most is"):
            ask(share)
    with pytest.raises(ValueError, match="wrong_at_most is"):
        policy.accept_from(share)


def test_unknown_measure_then_is_refused():
    policy = Made(9, rows=40).policy()
    with pytest.raises(ValueError, match="by is 'entropy'; it must be one of probability, total"):
        policy.accept_from(0.2, of="inputs", by="entropy")


def test_policy_without_labels_then_is_refused():
    made = Made(10, rows=40)
    nothing = as_truth(sp.csr_array(made.Y.shape, dtype=np.int8), 40, made.labels)
    learner = PolicyLearner(nothing, None, 1)
    learner.add(made.votes)
    with pytest.raises(ValueError, match="no input has a label that the model knows"):
        learner.finish(MARK, SEARCH)
    with pytest.raises(ValueError, match="votes on more inputs than"):
        learner.add(made.votes)


def test_guarantees_in_words_then_name_shares_confidence_and_what_they_are_of():
    policy = Made(11).policy()
    _, labels = policy.wrong_guarantee(0.5)
    _, answered = policy.wrong_guarantee(0.5, of="answered")
    _, inputs = policy.wrong_guarantee(0.5, of="inputs")
    assert "At most 50 % of all accepted labels are wrong, with a confidence of 90 %" in labels.words
    assert "mean over such inputs" in answered.words
    assert "mean over all inputs, where those that are given none count as 0 %" in inputs.words
    best = policy.review_guarantee(10)
    assert f"The 10 best labels of an input contain at least {int(1000 * best.promised) / 10} %" in best.words
    assert "inputs like the 300 held-out ones: not for each single label" in policy.limits()
    description = policy.describe()
    assert description["inputs"] == 300
    refused = [of for of in description["guarantees"] if of["refused"]]
    assert {(of["kind"], of["asked"]) for of in refused} >= {("missed", 0.05), ("missed", 0.1)}
    assert all(of["promised"] is None and of["words"].startswith("Not guaranteed") for of in refused)


def test_policy_in_sections_then_comes_back_whole():
    policy = Made(12).policy()
    header, sections = policy.to_sections()
    back = Policy.from_sections(header, sections)
    assert back.to_sections()[0] == header
    assert back.reject_below(0.5) == policy.reject_below(0.5)
    assert back.accept_from(0.3, of="inputs", by="variance") == policy.accept_from(
        0.3, of="inputs", by="variance"
    )
    assert back.accept_from(0.5) == policy.accept_from(0.5) < 1
    assert back.share_of_best(7) == policy.share_of_best(7)
    assert back.inputs["top"].for_coverage(0.6) == policy.inputs["top"].for_coverage(0.6)
    assert back.describe() == policy.describe()


def test_policy_of_an_older_release_then_keeps_what_it_can_and_says_what_to_do():
    header, sections = Made(12).policy().to_sections()
    old = {name: value for name, value in header.items() if name != "most"}
    kept = {name: of for name, of in sections.items() if name not in ("policy.given", "policy.ranks")}
    policy = Policy.from_sections(old, kept)
    assert policy.accept_from(0.3, of="inputs") == Made(12).policy().accept_from(0.3, of="inputs")
    for ask in (
        lambda: policy.accept_from(0.3),
        lambda: policy.reject_below(0.5),
        lambda: policy.share_of_best(5),
    ):
        with pytest.raises(Unreachable, match=r"older release.*run hedgerow calibrate again"):
            ask()
    assert [of.refused is None for of in policy.standard()].count(True) == 3
    assert Policy.from_sections(*policy.to_sections()).standard() == policy.standard()


def test_damaged_policy_then_is_refused():
    header, sections = Made(13, rows=200).policy().to_sections()

    def broken_header(**changes):
        return {**header, **changes}

    def broken(name, change):
        array = sections[name].copy()
        change(array)
        return {**sections, name: array}

    def put(place, value):
        return lambda array: array.__setitem__(place, value)

    curves = header["curves"]
    headers = [
        [],
        broken_header(curves=curves[:-1]),
        broken_header(curves=[["missed", -1, 1.0], *curves[1:]]),
        broken_header(curves=[["missed", 10**9, 5.0], *curves[1:]]),
        broken_header(curves=[["other", *curves[0][1:]], *curves[1:]]),
        broken_header(groups=[[5, 2, 0.0]] * len(header["groups"])),
        broken_header(inputs=["entropy"]),
        broken_header(inputs="top"),
        broken_header(fingerprint="x"),
        broken_header(search=3),
        broken_header(notes=[3]),
        broken_header(rows=-1),
        broken_header(left_out=True),
        broken_header(unknown=1.5),
        broken_header(most=0),
        broken_header(most=True),
        broken_header(most=header["most"] + 1),
    ]
    for wrong in headers:
        with pytest.raises((ValueError, KeyError, TypeError)):
            Policy.from_sections(wrong, sections)
    arrays = [
        broken("policy.thresholds", put(3, 0.9)),
        broken("policy.thresholds", put(-1, 1.0)),
        broken("policy.totals", put((0, 5), math.nan)),
        broken("policy.totals", put((0, 5), 1e9)),
        broken("policy.totals", put((0, 500), -3.0)),
        broken("policy.totals", put((0, 0), sections["policy.totals"][0, -1])),
        broken("policy.proven", put(0, 2.0)),
        broken("policy.given", put((3, 0), 99999)),
        broken("policy.given", lambda array: array.__iadd__(1)),
        broken("policy.ranks", put(50, 1e9)),
        broken("policy.ranks", put(0, math.nan)),
        {name: array for name, array in sections.items() if name != "policy.ranks"},
        {**sections, "policy.given": sections["policy.given"][:-1]},
        broken("policy.inputs.top", put((0, 0), math.inf)),
        {**sections, "policy.totals": sections["policy.totals"][:, :-1]},
        {name: array for name, array in sections.items() if name != "policy.inputs.total"},
    ]
    for wrong in arrays:
        with pytest.raises((ValueError, KeyError)):
            Policy.from_sections(header, wrong)
