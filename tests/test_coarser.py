"""Broader terms as answers, beside Python sets and over many draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import Votes
from hedgerow.decisions.coarser import CoarserLearner, CoarserPolicy, Ladder
from hedgerow.decisions.risk import GRID, RiskCurve, TooFewRows
from hedgerow.evaluation.hierarchical import hierarchical_scores
from hedgerow.judge.broader import BroaderCalibration
from hedgerow.vocabulary.ancestry import Ancestry
from hedgerow.votes.broader import broader_truth, broader_votes


class Made:
    """Votes at random on labels of a polyhierarchy, some of which are broader than others."""

    def __init__(self, seed: int, rows: int = 40, labels: int = 12, more: int = 6, members: int = 3) -> None:
        random = np.random.default_rng(seed)
        self.entries, self.labels = labels + more, labels
        order = random.permutation(self.entries)
        pairs = np.sort(random.integers(0, self.entries, (self.entries, 2)), axis=1)
        pairs = order[pairs[pairs[:, 0] < pairs[:, 1]]]
        self.ancestry = Ancestry(self.entries, pairs[:, 0], pairs[:, 1])
        self.up = [{e, *self.ancestry.ancestors_of(e).tolist()} for e in range(self.entries)]
        chance = random.random((rows, labels)) ** 3
        self.Y = random.random((rows, labels)) < chance
        met = random.random((rows, labels)) < 0.6
        noise = random.normal(0, 0.1, (members, rows, labels))
        self.dense = np.clip(chance + noise, 0, 1).astype(np.float32) * met
        self.votes = Votes.from_members([sp.csr_array(part) for part in self.dense])
        self.truth = sp.csr_array(self.Y.astype(np.int8))
        self.true_terms = broader_truth(self.truth, self.ancestry)

    def below(self, entry: int) -> list[int]:
        """Labels at or below an entry."""
        return [label for label in range(self.labels) if entry in self.up[label]]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_votes_on_broader_terms_then_are_those_of_a_dense_computation(seed):
    made = Made(seed)
    found = broader_votes(made.votes, made.ancestry)
    candidate = (made.dense > 0).any(axis=0)
    for row in range(len(made.votes)):
        own = slice(found.indptr[row], found.indptr[row + 1])
        inner = [
            entry
            for entry in range(made.entries)
            if made.ancestry.inner[entry] and any(candidate[row, label] for label in made.below(entry))
        ]
        assert found.labels[own].tolist() == inner
        for entry, probs in zip(inner, found.probs[own], strict=True):
            p = made.dense[:, row, made.below(entry)].astype(np.float64)
            np.testing.assert_allclose(probs, 1 - np.prod(1 - p, axis=1), atol=1e-6)
            assert (probs >= p.max(axis=1)).all()
            assert (probs <= np.minimum(1, p.sum(axis=1)) + 1e-6).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_true_broader_terms_then_have_a_true_label_at_or_below(seed):
    made = Made(seed)
    expected = [
        [made.ancestry.inner[e] and bool(row[made.below(e)].any()) for e in range(made.entries)]
        for row in made.Y
    ]
    assert np.array_equal(made.true_terms.toarray().astype(bool), np.array(expected))


def calibrated(seed: int = 0) -> tuple[Made, BroaderCalibration]:
    made = Made(seed, rows=400)
    return made, BroaderCalibration.learn([made.votes], made.truth, made.ancestry)


def test_calibrated_broader_terms_then_are_never_less_probable_than_what_is_below_them():
    for seed in range(5):
        made, learned = calibrated(seed)
        found = learned.apply(made.votes)
        for row in range(60):
            own = slice(found.indptr[row], found.indptr[row + 1])
            probs = dict(zip(found.labels[own].tolist(), found.probs[own], strict=True))
            for entry, mine in probs.items():
                assert (mine >= made.dense[:, row, made.below(entry)].max(axis=1, initial=0)).all()
                for above in made.up[entry] - {entry}:
                    assert (probs[above] >= mine).all()


def test_calibrated_broader_terms_then_come_true_as_often_as_they_say():
    # Labels of an input that exclude each other: independence is far off, and the map must say so.
    random = np.random.default_rng(5)
    labels, rows = 8, 6000
    ancestry = Ancestry(labels + 2, np.arange(labels), labels + np.arange(labels) // 4)
    p = random.dirichlet(np.full(labels, 0.7), rows)
    Y = p.cumsum(axis=1) >= random.random((rows, 1))
    Y = (np.diff(Y.astype(int), axis=1, prepend=0) > 0).astype(np.int8)
    votes = Votes.from_members([sp.csr_array(p.astype(np.float32))])
    half = rows // 2
    learned = BroaderCalibration.learn([votes[:half]], sp.csr_array(Y[:half]), ancestry)
    truth = broader_truth(sp.csr_array(Y[half:]), ancestry).toarray()[:, labels:]

    def off(of: Votes) -> float:
        mean = of.mean().toarray()[:, labels:]
        return float(np.mean([(mean[some] - truth[some]).mean() ** 2 for some in bins(mean)])) ** 0.5

    def bins(mean: np.ndarray) -> list[np.ndarray]:
        return [(mean >= low) & (mean < low + 0.2) for low in (0.1, 0.3, 0.5, 0.7)]

    assert off(broader_votes(votes[half:], ancestry)) > 0.06
    assert off(learned.apply(votes[half:])) < 0.03


def answers_by_sets(
    made: Made, broader: Votes, row: int, threshold: float, least_depth: int
) -> tuple[set[int], set[int]]:
    """Accepted labels and broader terms, by the definition."""
    own = made.votes[row]
    threshold = np.float32(threshold)
    labels = {label for label, p in zip(own.labels.tolist(), own.means(), strict=True) if p >= threshold}
    terms = broader[row]
    reached = {
        term
        for term, p in zip(terms.labels.tolist(), terms.means(), strict=True)
        if p >= threshold and made.ancestry.depths[term] >= least_depth
    }
    covered = set().union(*(made.up[label] for label in labels))
    covered |= set().union(*(made.up[term] - {term} for term in reached))
    return labels, reached - covered


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 2))
def test_answers_then_are_the_narrowest_by_sets_and_losses_those_of_counting(seed, least_depth):
    made = Made(seed, rows=25)
    broader = broader_votes(made.votes, made.ancestry)
    ladder = Ladder.of(made.votes, broader, made.ancestry, least_depth)
    losses, every = ladder.losses(made.truth, made.true_terms)
    true_terms = made.true_terms.toarray()
    for knot in [0, 1, *range(150, len(GRID) - 2, 40), len(GRID) - 2, len(GRID) - 1]:
        places = ladder.answers(GRID[knot])
        for row in range(25):
            labels, terms = answers_by_sets(made, broader, row, GRID[knot], least_depth)
            mine = places[(places >= broader.indptr[row]) & (places < broader.indptr[row + 1])]
            assert set(broader.labels[mine].tolist()) == terms
            assert not any(a in made.up[b] for a in terms for b in (terms | labels) - {a})  # none is nested
            wrong = sum(not made.Y[row, label] for label in labels)
            wrong += sum(not true_terms[row, term] for term in terms)
            assert every[row, knot] == len(labels) + len(terms)
            assert losses[row, knot] == pytest.approx(wrong / max(1, len(labels) + len(terms)))


def test_answers_then_skip_labels_that_are_broad_terms_themselves_only_where_they_are_accepted():
    # yew (0) and pine (1) < conifer (2) < plant (3); conifer is a label, too.
    trees = Ancestry(4, [0, 1, 2], [2, 2, 3])
    probs = [0.9, 0.1, 0.1, 0.5, 0.4, 0.1, 0.2, 0.2, 0.8]
    votes = Votes([0, 3, 6, 9], [0, 1, 2] * 3, np.array(probs)[:, None], 3)
    ladder = Ladder.of(votes, broader_votes(votes, trees), trees, 1)
    places = ladder.answers(0.6)
    # The first has its yew; of the second only the conifer is sure; the third has it as its label.
    assert ladder.broader.labels[places].tolist() == [2]
    assert np.searchsorted(ladder.broader.indptr, places, side="right").tolist() == [2]
    # The conifer is as probable as the plant, and narrower.
    assert Ladder.of(votes, broader_votes(votes, trees), trees, 0).answers(0.6).tolist() == places.tolist()
    assert not Ladder.of(votes, broader_votes(votes, trees), trees, 2).answers(0.6).size
    assert not ladder.answers(math.inf).size


def policy(made: Made, broader: Votes, size: int = 1000, least_depth: int = 1) -> CoarserPolicy:
    learner = CoarserLearner(made.ancestry, least_depth)
    for begin in range(0, len(made.votes), size):
        part = slice(begin, begin + size)
        learner.add(made.votes[part], broader[part], made.truth[part], made.true_terms[part])
    return learner.finish()


def test_policy_in_other_batches_then_has_the_same_bits():
    made = Made(3, rows=200)
    broader = broader_votes(made.votes, made.ancestry)
    one, other = policy(made, broader), policy(made, broader, 7)
    assert np.array_equal(one.wrong.totals, other.wrong.totals)
    assert np.array_equal(one.answered, other.answered)
    assert (one.rows, one.least_depth) == (200, 1)


def test_policy_of_few_inputs_then_is_refused_and_the_guarantee_says_what_is_wrong():
    made = Made(3, rows=10)
    few = policy(made, broader_votes(made.votes, made.ancestry))
    with pytest.raises(TooFewRows, match="needs at least 22"):
        few.accept_from(0.1)
    with pytest.raises(ValueError, match="there are no inputs"):
        CoarserLearner(made.ancestry).finish()
    for bad in (-1, 1.5, True):
        with pytest.raises((TypeError, ValueError), match="least_depth"):
            CoarserLearner(made.ancestry, bad)
    made = Made(3, rows=600)
    said = policy(made, broader_votes(made.votes, made.ancestry)).guarantee(0.2)
    assert "at most 20 % of what is accepted" in said
    assert "Learn then Test" in said


@pytest.mark.parametrize(("risk", "least_depth"), [(0.05, 1), (0.1, 0), (0.1, 1), (0.2, 1)])
def test_guarantee_over_many_draws_then_is_kept_with_its_confidence(risk, least_depth):
    made = Made(11, rows=20_000, labels=40, more=15, members=1)
    broader = broader_votes(made.votes, made.ancestry)
    ladder = Ladder.of(made.votes, broader, made.ancestry, least_depth)
    losses, every = ladder.losses(made.truth, made.true_terms)
    # These inputs are the world: what is drawn from it, with replacement, is independent.
    expected = losses.mean(axis=0)
    random = np.random.default_rng(0)
    draws, n, confidence = 800, 500, 0.9
    broken, useful = 0, 0
    for _ in range(draws):
        drawn = losses[random.integers(0, len(losses), n)]
        place = RiskCurve(GRID, drawn.sum(axis=0), n).tested(risk, confidence)
        assert place is not None
        broken += expected[place] > risk
        useful += (every[:, place] > 0).mean() > 0.1
    assert broken / draws <= 1 - confidence + 3 * math.sqrt(0.09 / draws)
    assert useful > draws / 2  # and it is not kept by accepting nothing


def test_broader_terms_then_answer_inputs_that_labels_alone_do_not():
    made = Made(11, rows=4000, labels=40, more=15, members=1)
    broader = broader_votes(made.votes, made.ancestry)
    found = policy(made, broader)
    threshold = found.accept_from(0.1)
    ladder = Ladder.of(made.votes, broader, made.ancestry, 1)
    rows = np.repeat(np.arange(4000), np.diff(made.votes.indptr))
    by_label = np.bincount(rows[made.votes.means() >= np.float32(threshold)], minlength=4000) > 0
    terms = np.repeat(np.arange(4000), np.diff(broader.indptr))[ladder.answers(threshold)]
    by_either = by_label.copy()
    by_either[terms] = True
    assert by_either.sum() > by_label.sum()
    assert by_either.mean() == pytest.approx(found.answered[np.float32(threshold) == GRID][0])


# Hierarchical scores


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_hierarchical_scores_then_are_those_of_sets(seed, roots):
    made = Made(seed, rows=30)
    random = np.random.default_rng(seed)
    predicted = random.random((30, made.entries)) < 0.1
    left = set() if roots else set(np.flatnonzero(made.ancestry.roots).tolist())

    def wide(row: np.ndarray) -> set[int]:
        return set().union(*(made.up[entry] for entry in np.flatnonzero(row))) - left

    pairs = [(wide(given_), wide(true)) for given_, true in zip(predicted, made.Y, strict=True)]
    pairs = [(given_, true) for given_, true in pairs if true]
    found = hierarchical_scores(sp.csr_array(predicted), made.truth, made.ancestry, roots=roots)
    some = [len(given_ & true) / len(given_) for given_, true in pairs if given_]
    assert found.precision == pytest.approx(np.mean(some), nan_ok=True)
    assert found.recall == pytest.approx(np.mean([len(g & t) / len(t) for g, t in pairs]))
    assert found.f1 == pytest.approx(np.mean([2 * len(g & t) / (len(g) + len(t)) for g, t in pairs]))


def test_hierarchical_scores_without_broader_terms_then_are_those_of_labels():
    flat = Ancestry(3, [], [])
    predicted, truth = sp.csr_array([[1, 1, 0], [0, 0, 0]]), sp.csr_array([[1, 0, 0], [0, 1, 0]])
    found = hierarchical_scores(predicted, truth, flat, roots=False)
    assert (found.precision, found.recall) == (0.5, 0.5)
    assert found.f1 == pytest.approx(1 / 3)


def test_hierarchical_scores_of_nothing_or_of_other_shapes_then_are_refused():
    flat = Ancestry(2, [], [])
    with pytest.raises(ValueError, match="no input has a true label"):
        hierarchical_scores(sp.csr_array([[1, 0]]), sp.csr_array([[0, 0]]), flat)
    with pytest.raises(ValueError, match="predicted has 1 rows, but Y has 2"):
        hierarchical_scores(sp.csr_array([[1, 0]]), sp.csr_array([[1, 0], [0, 1]]), flat)
    with pytest.raises(ValueError, match="2 entries, but there are 3 labels"):
        hierarchical_scores(sp.csr_array([[1, 0, 0]]), sp.csr_array([[1, 0, 0]]), flat)
    with pytest.raises(TypeError, match="ancestry is a list"):
        hierarchical_scores(sp.csr_array([[1]]), sp.csr_array([[1]]), [])
