"""Votes beside the truth: what scikit-learn and plain loops say over all labels."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dense_oracle import random_problem
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix, lil_array
from sklearn.metrics import average_precision_score, roc_auc_score

from hedgerow import HedgerowClassifier, Votes, instance_uncertainty, label_uncertainty
from hedgerow.votes.truth import SCORES, Assessment, assess

pytestmark = pytest.mark.simd

MANY = settings(max_examples=150, deadline=None, derandomize=True)

Truth = npt.NDArray[np.int8]


def random_case(seed: int, inputs: int, labels: int, members: int, share: float) -> tuple[Votes, Truth]:
    """Votes and a truth with many ties, zeros, tiny probabilities, and true labels that are no candidates."""
    random = np.random.default_rng(seed)
    candidates = random.random((inputs, labels)) < random.choice([0.0, 0.4, 0.9, 1.0], (inputs, 1))
    indptr = np.concatenate([[0], np.cumsum(candidates.sum(axis=1))])
    size = (int(candidates.sum()), members)
    probs = random.choice(np.linspace(0, 1, 5), (size[0], 1)) * np.ones(size)
    probs = np.where(random.random(size) < 0.3, random.random(size), probs)
    probs = np.where(random.random((size[0], 1)) < 0.3, 10.0 ** random.uniform(-30, -1, size), probs)
    votes = Votes(indptr, np.nonzero(candidates)[1], probs, labels)
    return votes, (random.random((inputs, labels)) < share).astype(np.int8)


cases = st.builds(
    random_case,
    st.integers(0, 2**32),
    st.integers(1, 5),
    st.integers(1, 120),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.02, 0.3, 0.9, 1.0]),
)


def all_scores(votes: Votes, truth: Truth) -> dict[str, npt.NDArray[np.float32]]:
    """The native measures of every label, dense; NaN for what is no candidate."""
    judged = assess(votes, csr_array(truth), k=votes.n_labels)
    rows, places = np.nonzero(judged.labels >= 0)
    dense = {}
    for name in SCORES:
        dense[name] = np.full((len(votes), votes.n_labels), np.nan, dtype=np.float32)
        dense[name][rows, judged.labels[rows, places]] = getattr(judged.best, name)[rows, places]
    return dense


def ranking(probability: npt.NDArray[np.float32]) -> list[int]:
    """The candidates, the most probable first, then the lower label."""
    own = np.flatnonzero(~np.isnan(probability)).tolist()
    return sorted(own, key=lambda label: (-probability[label], label))


# --- AUROC and average precision ------------------------------------------------------------------------


@MANY
@given(cases)
def test_areas_of_every_score_are_scikit_learns_over_all_labels(case: Any) -> None:
    votes, truth = case
    judged, dense = assess(votes, csr_array(truth)), all_scores(votes, truth)
    for row in range(len(votes)):
        predicted = np.zeros(votes.n_labels, dtype=bool)
        predicted[ranking(dense["probability"][row])[: truth[row].sum()]] = True
        wrong = predicted != truth[row].astype(bool)
        for column, name in enumerate(SCORES):
            if not 0 < wrong.sum() < len(wrong):
                assert np.isnan(judged.auroc[row, column])
                assert np.isnan(judged.aupr[row, column])
                continue
            score = np.nan_to_num(dense[name][row], nan=0.0)
            assert judged.auroc[row, column] == pytest.approx(roc_auc_score(wrong, score), abs=1e-12)
            assert judged.aupr[row, column] == pytest.approx(average_precision_score(wrong, score), abs=1e-12)


def test_areas_of_a_case_done_by_hand() -> None:
    # Of five labels, 0 and 3 are true and 0 and 1 are predicted: 1 and 3 are wrong, 3 is no candidate.
    votes = Votes([0, 3], [0, 1, 2], [[0.9], [0.6], [0.2]], 5)
    judged = assess(votes, csr_array([[1, 0, 0, 1, 0]]))
    # By probability, wrong are 0.6 and 0; right 0.9, 0.2 and 0. Pairs won: 2 of 3 by 0.6; half of one by 0.
    assert judged.auroc[0, SCORES.index("probability")] == pytest.approx(2.5 / 6)
    # By total: h(0.6) is above h(0.9) and h(0.2).
    assert judged.auroc[0, SCORES.index("total")] == pytest.approx(3.5 / 6)
    assert judged.aupr[0, SCORES.index("total")] == pytest.approx((1 + 2 / 5) / 2)


def test_areas_are_nan_where_no_label_is_wrong_or_every_one() -> None:
    votes = Votes([0, 1, 2, 2], [0, 0], [[0.9], [0.9]], 2)
    judged = assess(votes, csr_array([[1, 0], [0, 1], [0, 0]]))
    assert np.isnan(judged.auroc).all()
    assert np.isnan(judged.aupr).all()


# --- measures -------------------------------------------------------------------------------------------


@MANY
@given(cases)
def test_measures_of_the_best_labels_are_those_of_the_votes(case: Any) -> None:
    votes, truth = case
    expected, dense = label_uncertainty(votes), all_scores(votes, truth)
    rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
    for name in SCORES:
        found = dense[name][rows, votes.labels]
        np.testing.assert_allclose(found, getattr(expected, name), rtol=3e-6, atol=6e-7, err_msg=name)
        assert (found >= 0).all()
        assert int((~np.isnan(dense[name])).sum()) == len(votes.labels)


def test_measures_of_tiny_probabilities_keep_their_digits() -> None:
    p = 10.0 ** np.linspace(-30, -1, 400)
    votes = Votes([0, 400], np.arange(400), np.stack([p, 0.5 * p], axis=1), 400)
    judged, expected = assess(votes, csr_array((1, 400)), k=400), label_uncertainty(votes)
    order = judged.labels[0]
    for name in ("probability", "total", "data"):
        np.testing.assert_allclose(getattr(judged.best, name)[0], getattr(expected, name)[order], rtol=3e-6)
    np.testing.assert_allclose(judged.best.knowledge[0], expected.knowledge[order], rtol=1e-3)


@MANY
@given(cases)
def test_sums_of_inputs_are_those_of_the_votes(case: Any) -> None:
    votes, truth = case
    judged, expected = assess(votes, csr_array(truth)), instance_uncertainty(votes)
    for name in SCORES:
        np.testing.assert_allclose(
            getattr(judged.inputs, name), getattr(expected, name), rtol=3e-6, atol=1e-5, err_msg=name
        )


@MANY
@given(cases)
def test_one_member_has_no_knowledge_uncertainty_and_no_variance(case: Any) -> None:
    votes, truth = case
    votes = Votes(votes.indptr, votes.labels, votes.probs[:, :1], votes.n_labels)
    judged = assess(votes, csr_array(truth), k=votes.n_labels)
    assert not judged.best.knowledge.any()
    assert not judged.best.variance.any()
    np.testing.assert_array_equal(judged.best.total, judged.best.data)


# --- the ranking ----------------------------------------------------------------------------------------


@MANY
@given(cases, st.integers(1, 130))
def test_best_labels_and_ranks_of_true_ones_are_those_of_a_sort(case: Any, k: int) -> None:
    votes, truth = case
    judged, dense = assess(votes, csr_array(truth), k=k), all_scores(votes, truth)
    entry = 0
    for row in range(len(votes)):
        ranked = ranking(dense["probability"][row])
        expected = (ranked + [-1] * k)[:k]
        assert judged.labels[row].tolist() == expected
        for name in SCORES:
            found = getattr(judged.best, name)[row]
            for place, label in enumerate(expected):
                assert found[place] == (dense[name][row, label] if label >= 0 else 0)
        for label in np.flatnonzero(truth[row]).tolist():
            assert judged.truth.indices[entry] == label
            assert judged.rank[entry] == (ranked.index(label) + 1 if label in ranked else 0)
            for name in SCORES:
                assert getattr(judged.true, name)[entry] == np.nan_to_num(dense[name][row, label], nan=0.0)
            entry += 1
    assert entry == len(judged.rank) == judged.truth.nnz


@pytest.mark.parametrize("method", ["single", "bagging"])
def test_best_labels_and_their_order_are_those_of_predict_uncertain(method: str) -> None:
    X, Y = random_problem(7, 120, 60, 90)
    model = HedgerowClassifier(method=method, members=5, leaf_size=8, random_state=0).fit(X, Y)
    judged, predicted = assess(model.predict_votes(X), Y, k=6), model.predict_uncertain(X, k=6)
    np.testing.assert_array_equal(judged.labels, predicted.labels)
    np.testing.assert_array_equal(judged.best.probability, predicted.probability)
    for name in SCORES[1:]:
        np.testing.assert_allclose(
            getattr(judged.best, name), getattr(predicted, name), rtol=1e-5, atol=1e-6, err_msg=name
        )


# --- batches, threads, and how arrays are stored --------------------------------------------------------


def assert_same(one: Assessment, other: Assessment) -> None:
    for part in fields(Assessment):
        left, right = getattr(one, part.name), getattr(other, part.name)
        if part.name == "truth":
            np.testing.assert_array_equal(left.toarray(), right.toarray())
        elif part.name in ("inputs", "best", "true"):
            for name in SCORES:
                np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
        else:
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_judgement_is_the_same_bits_at_any_number_of_threads_and_any_batch_size(threads: int) -> None:
    votes, truth = random_case(11, 57, 150, 4, 0.05)
    Y = csr_array(truth)
    whole = assess(votes, Y, n_jobs=1)
    assert_same(assess(votes, Y, n_jobs=threads), whole)
    batches = [assess(votes[begin : begin + 13], Y[begin : begin + 13]) for begin in range(0, 57, 13)]
    joined = Assessment.concatenate(batches)
    assert_same(joined, whole)
    assert len(joined) == 57


@MANY
@given(cases, st.integers(0, 2**32))
def test_judgement_does_not_depend_on_how_the_truth_is_stored(case: Any, seed: int) -> None:
    votes, truth = case
    random = np.random.default_rng(seed)
    # Unsorted, some entries twice, and with zeros that are stored.
    stored = truth.astype(bool) | (random.random(truth.shape) < 0.2)
    columns = [random.permutation(np.repeat(np.flatnonzero(row), random.integers(1, 3))) for row in stored]
    indptr = np.concatenate([[0], np.cumsum([len(c) for c in columns])])
    values = np.concatenate([row[c] for row, c in zip(truth, columns, strict=True)])
    Y = csr_array((values, np.concatenate(columns), indptr), shape=truth.shape)
    before = Y.copy()
    plain = assess(votes, csr_array(truth))
    assert_same(assess(votes, Y), plain)
    np.testing.assert_array_equal(Y.indices, before.indices)
    for other in (csr_matrix(truth.astype(float)), lil_array(truth), truth.astype(bool)):
        assert_same(assess(votes, other), plain)


def test_judgement_of_no_inputs_is_empty() -> None:
    votes = Votes([0], np.empty(0, dtype=int), np.empty((0, 2)), 7)
    judged = assess(votes, csr_array((0, 7)), k=3)
    assert judged.auroc.shape == (0, 5)
    assert judged.labels.shape == (0, 3)
    assert judged.rank.shape == (0,)


def test_labels_that_nobody_votes_on_are_like_those_that_are_no_candidates() -> None:
    votes = Votes([0, 2], [0, 1], [[0.9, 0.3], [0.2, 0.2]], 3)
    wider = Votes([0, 2], [0, 1], [[0.9, 0.3], [0.2, 0.2]], 5)
    truth = csr_array([[0, 1, 0, 0, 1]])
    assert np.array_equal(assess(votes, truth).auroc, assess(wider, truth).auroc)


# --- what is refused ------------------------------------------------------------------------------------


def test_a_truth_that_does_not_fit_is_refused() -> None:
    votes = Votes([0, 1, 2], [0, 1], [[0.9], [0.9]], 3)
    for shape in ((2, 2), (3, 3)):
        with pytest.raises(ValueError, match=r"Y has shape .*; it must be \(2, 3\), or wider"):
            assess(votes, csr_array(shape))
    with pytest.raises(ValueError, match="Y has dtype complex"):
        assess(votes, csr_array(np.array([[1j, 0, 0], [0, 0, 0]])))
    with pytest.raises(ValueError, match=r"Y\[0, 1\] is NaN: it is unknown whether row 0 has this label"):
        assess(votes, csr_array(np.array([[0, np.nan, 0], [0, 0, 0]])))
    broken = csr_array(np.array([[1, 0, 0], [0, 1, 0]]))
    broken.indices = np.array([0, 5], dtype=np.int32)
    with pytest.raises(ValueError, match=r"row 1 of Y has index 5, but the matrix has columns 0 to 2"):
        assess(votes, broken)


@pytest.mark.parametrize("k", [0, -1, True, 1.5, "2"])
def test_a_k_that_is_no_positive_integer_is_refused(k: Any) -> None:
    with pytest.raises(ValueError, match=r"k is .*; it must be a positive integer"):
        assess(Votes([0, 1], [0], [[0.5]], 1), csr_array((1, 1)), k=k)


def test_one_judgement_alone_is_the_whole() -> None:
    votes, Y = random_case(4, 5, 6, 3, 0.3)
    alone = assess(votes, Y)
    assert_same(Assessment.concatenate([alone]), alone)


def test_judgements_that_do_not_fit_together_are_refused() -> None:
    votes = Votes([0, 1], [0], [[0.5]], 1)
    parts = [assess(votes, csr_array((1, 1)), k=k) for k in (1, 2)]
    with pytest.raises(ValueError, match=r"parts\[1\] has k 2, but parts\[0\] has 1"):
        Assessment.concatenate(parts)
    with pytest.raises(ValueError, match="there is nothing to concatenate"):
        Assessment.concatenate([])
