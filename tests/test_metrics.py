"""The metrics are what scikit-learn and plain loops say over all labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score

from hedgerow import Votes
from hedgerow.metrics import misclassification_auroc, precision_at

MANY = settings(max_examples=150, deadline=None, derandomize=True)


def random_case(
    seed: int, inputs: int, labels: int, members: int, share: float
) -> tuple[Votes, npt.NDArray[np.float64], npt.NDArray[np.int8]]:
    """Votes, scores and a truth, all with many ties, zeros, and true labels that are no candidates."""
    random = np.random.default_rng(seed)
    candidates = random.random((inputs, labels)) < random.choice([0.0, 0.4, 0.9, 1.0], (inputs, 1))
    indptr = np.concatenate([[0], np.cumsum(candidates.sum(axis=1))])
    probs = random.choice(np.linspace(0, 1, 5), (int(candidates.sum()), members))
    probs += random.random(probs.shape) * (random.random(probs.shape) < 0.3)
    votes = Votes(indptr, np.nonzero(candidates)[1], np.minimum(probs, 1), labels)
    scores = random.choice([0, 0.1, 0.1, 0.5, 0.7], len(probs)) + random.random(len(probs)) * (
        random.random() < 0.5
    )
    truth = (random.random((inputs, labels)) < share).astype(np.int8)
    return votes, scores, truth


def dense_auroc(
    votes: Votes, scores: npt.NDArray[np.float64], truth: npt.NDArray[np.int8]
) -> npt.NDArray[np.float64]:
    """scikit-learn's area of each input, over an array of all labels."""
    areas = []
    for row in range(len(votes)):
        own = range(int(votes.indptr[row]), int(votes.indptr[row + 1]))
        doubt = np.zeros(votes.n_labels)
        doubt[votes.labels[own]] = scores[own]
        # As many as are true, the most probable first, then the lower label; what is no candidate, never.
        ranked = sorted(own, key=lambda at: (-votes.probs[at].astype(np.float64).mean(), votes.labels[at]))
        predicted = np.zeros(votes.n_labels, dtype=bool)
        predicted[votes.labels[ranked[: truth[row].sum()]]] = True
        wrong = predicted != truth[row].astype(bool)
        areas.append(roc_auc_score(wrong, doubt) if 0 < wrong.sum() < len(wrong) else np.nan)
    return np.array(areas)


cases = st.builds(
    random_case,
    st.integers(0, 2**32),
    st.integers(1, 5),
    st.integers(1, 25),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.05, 0.3, 0.9, 1.0]),
)


@MANY
@given(cases)
def test_misclassification_auroc_is_scikit_learns_over_all_labels(case: Any) -> None:
    votes, scores, truth = case
    found = misclassification_auroc(votes, scores, csr_array(truth))
    np.testing.assert_allclose(found, dense_auroc(votes, scores, truth), rtol=0, atol=1e-12)


@MANY
@given(cases, st.integers(0, 2**32))
def test_misclassification_auroc_does_not_depend_on_how_the_truth_is_stored(case: Any, seed: int) -> None:
    votes, scores, truth = case
    random = np.random.default_rng(seed)
    # Unsorted, and with zeros that are stored.
    stored = truth.astype(bool) | (random.random(truth.shape) < 0.2)
    columns = [random.permutation(np.flatnonzero(row)) for row in stored]
    indptr = np.concatenate([[0], np.cumsum([len(c) for c in columns])])
    values = np.concatenate([row[c] for row, c in zip(truth, columns, strict=True)])
    Y = csr_array((values, np.concatenate(columns), indptr), shape=truth.shape)
    found = misclassification_auroc(votes, scores, Y)
    np.testing.assert_array_equal(found, misclassification_auroc(votes, scores, csr_array(truth)))
    np.testing.assert_array_equal(Y.toarray(), truth)


def test_misclassification_auroc_of_a_case_done_by_hand() -> None:
    # Of five labels, 0 and 3 are true and 0 and 1 are predicted: 1 and 3 are wrong, 3 is no candidate.
    votes = Votes([0, 3], [0, 1, 2], [[0.9], [0.6], [0.2]], 5)
    truth = csr_array([[1, 0, 0, 1, 0]])
    # Wrong: 0.8 and 0; right: 0.3, 0.9 and 0. Pairs won: 2 of 3 by the first; half of one by the second.
    assert misclassification_auroc(votes, [0.3, 0.8, 0.9], truth).item() == pytest.approx(2.5 / 6)


def test_misclassification_auroc_is_nan_where_no_label_is_wrong_or_every_one() -> None:
    votes = Votes([0, 1, 2, 2], [0, 0], [[0.9], [0.9]], 2)
    truth = csr_array([[1, 0], [0, 1], [0, 0]])
    assert np.isnan(misclassification_auroc(votes, [0.5, 0.5], truth)).tolist() == [True, True, True]


def test_misclassification_auroc_of_arrays_that_do_not_fit_is_refused() -> None:
    votes = Votes([0, 1, 2], [0, 1], [[0.9], [0.9]], 3)
    with pytest.raises(ValueError, match=r"scores has shape \(3,\) for 2 candidates"):
        misclassification_auroc(votes, [1, 2, 3], csr_array((2, 3)))
    with pytest.raises(ValueError, match=r"Y has shape \(2, 4\); it must be \(2, 3\)"):
        misclassification_auroc(votes, [1, 2], csr_array((2, 4)))


def random_ranking(seed: int, inputs: int, labels: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    random = np.random.default_rng(seed)
    ranking = np.array([random.permutation(labels) for _ in range(inputs)])
    truth = (random.random((inputs, labels)) < random.choice([0.0, 0.2, 0.7], (inputs, 1))).astype(np.int8)
    truth[random.integers(inputs), random.integers(labels)] = 1
    return ranking, truth


@MANY
@given(st.builds(random_ranking, st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 9)), st.data())
def test_precision_at_k_is_what_a_loop_counts_over_inputs_with_labels(case: Any, data: st.DataObject) -> None:
    ranking, truth = case
    k = data.draw(st.integers(1, ranking.shape[1]))
    hits = inputs = 0
    for row in range(len(ranking)):
        if not truth[row].any():
            continue
        inputs += 1
        for label in ranking[row, :k]:
            hits += int(truth[row, label])
    assert precision_at(ranking, csr_array(truth), k) == pytest.approx(hits / (inputs * k), rel=1e-12)
    assert precision_at(ranking[:, :k], truth, k) == pytest.approx(hits / (inputs * k), rel=1e-12)


def test_precision_at_k_does_not_count_inputs_whose_stored_labels_are_zeros() -> None:
    Y = csr_array(([1, 0, 0], [0, 1, 0], [0, 2, 3]), shape=(2, 2))
    assert precision_at(np.array([[0, 1], [0, 1]]), Y, 1) == 1.0
