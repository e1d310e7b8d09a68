"""The metrics are what scikit-learn and plain loops say."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.calibration import calibration_curve
from sklearn.metrics import auc, average_precision_score, f1_score, ndcg_score, roc_auc_score, roc_curve

from hedgerow.evaluation import (
    coverage_by_decile,
    detection,
    macro_f1_at,
    ndcg_at,
    precision_at,
    propensities,
    psp_at,
    recall_at,
    reliability,
    risk_coverage,
    roc_curve_points,
)

MANY = settings(max_examples=150, deadline=None, derandomize=True)

Ranking = npt.NDArray[np.int64]
Truth = npt.NDArray[np.int8]


def random_ranking(seed: int, inputs: int, labels: int) -> tuple[Ranking, Truth]:
    """A ranking of all labels, some of them missing at the end, and a truth with at least one label."""
    random = np.random.default_rng(seed)
    ranking = np.array([random.permutation(labels) for _ in range(inputs)])
    truth = (random.random((inputs, labels)) < random.choice([0.0, 0.2, 0.7, 1.0], (inputs, 1))).astype(
        np.int8
    )
    truth[random.integers(inputs), random.integers(labels)] = 1
    if random.random() < 0.5:
        ranking[np.arange(labels) >= random.integers(0, labels + 1, (inputs, 1))] = -1
    return ranking, truth


rankings = st.builds(random_ranking, st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 14))


def chosen_labels(ranking: Ranking, truth: Truth, k: int) -> list[tuple[list[int], set[int]]]:
    """Of every input with labels, the best k and the true ones."""
    return [
        ([int(label) for label in best[:k] if label >= 0], set(np.flatnonzero(true).tolist()))
        for best, true in zip(ranking, truth, strict=True)
        if true.any()
    ]


# --- labels ---------------------------------------------------------------------------------------------


@MANY
@given(rankings, st.data())
def test_precision_and_recall_at_k_are_what_a_loop_counts_over_inputs_with_labels(
    case: Any, data: st.DataObject
) -> None:
    ranking, truth = case
    k = data.draw(st.integers(1, ranking.shape[1]))
    pairs = chosen_labels(ranking, truth, k)
    precision = np.mean([sum(label in true for label in best) / k for best, true in pairs])
    recall = np.mean([sum(label in true for label in best) / len(true) for best, true in pairs])
    for labels in (ranking, ranking[:, :k]):
        assert precision_at(labels, csr_array(truth), k) == pytest.approx(precision, rel=1e-12)
        assert recall_at(labels, truth, k) == pytest.approx(recall, rel=1e-12)


def test_precision_at_k_does_not_count_inputs_whose_stored_labels_are_zeros() -> None:
    Y = csr_array(([1, 0, 0], [0, 1, 0], [0, 2, 3]), shape=(2, 2))
    assert precision_at(np.array([[0, 1], [0, 1]]), Y, 1) == 1.0


@MANY
@given(rankings, st.data())
def test_ndcg_at_k_is_scikit_learns_over_inputs_with_labels(case: Any, data: st.DataObject) -> None:
    ranking, truth = case
    if truth.shape[1] == 1:  # scikit-learn has no ranking of one label
        return
    k = data.draw(st.integers(1, ranking.shape[1]))
    expected = []
    for best, true in zip(ranking, truth, strict=True):
        if not true.any():
            continue
        # A label for each place that is empty, wrong wherever it stands.
        size = len(best)
        scores, wider = np.zeros(2 * size), np.concatenate([true, np.zeros(size)])
        for place, label in enumerate(best):
            scores[label if label >= 0 else size + place] = size + 1 - place
        expected.append(ndcg_score([wider], [scores], k=k))
    assert ndcg_at(ranking, csr_array(truth), k) == pytest.approx(np.mean(expected), rel=1e-12)


def test_propensities_rise_with_the_count_as_the_formula_says() -> None:
    counts = np.array([0, 1, 5, 100, 5000])
    scale = (np.log(5000) - 1) * 2.5**0.55
    expected = [1 / (1 + scale * np.exp(-0.55 * np.log(count + 1.5))) for count in counts]
    found = propensities(counts, 5000)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert (np.diff(found) > 0).all()
    assert propensities([0], 5000, b=0)[0] == 0


@MANY
@given(rankings, st.data())
def test_psp_at_k_is_the_weight_found_divided_by_the_most_there_is_to_find(
    case: Any, data: st.DataObject
) -> None:
    ranking, truth = case
    k = data.draw(st.integers(1, ranking.shape[1]))
    propensity = data.draw(st.lists(st.floats(0.01, 1), min_size=truth.shape[1], max_size=truth.shape[1]))
    found = most = 0.0
    for best, true in chosen_labels(ranking, truth, k):
        found += sum(1 / propensity[label] for label in best if label in true)
        most += sum(sorted((1 / propensity[label] for label in true), reverse=True)[:k])
    assert psp_at(ranking, csr_array(truth), propensity, k) == pytest.approx(found / most, rel=1e-12)


@MANY
@given(rankings)
def test_perfect_rankings_score_1(case: Any) -> None:
    _, truth = case
    ranking = np.argsort(-truth, axis=1, kind="stable")
    size = truth.shape[1]
    for k in range(1, size + 1):
        assert ndcg_at(ranking, truth, k) == pytest.approx(1)
        assert psp_at(ranking, truth, np.full(size, 0.5), k) == pytest.approx(1)
    assert recall_at(ranking, truth, size) == 1


@MANY
@given(rankings, st.data())
def test_macro_f1_at_k_is_scikit_learns_over_labels_that_are_true_or_predicted(
    case: Any, data: st.DataObject
) -> None:
    ranking, truth = case
    k = data.draw(st.integers(1, ranking.shape[1]))
    predicted = np.zeros_like(truth)
    for row, best in enumerate(ranking):
        predicted[row, [label for label in best[:k] if label >= 0]] = 1
    rows = truth.any(axis=1)
    met = np.flatnonzero((truth[rows] | predicted[rows]).any(axis=0))
    expected = np.mean([f1_score(truth[rows, label], predicted[rows, label]) for label in met])
    assert macro_f1_at(ranking, csr_array(truth), k) == pytest.approx(expected, rel=1e-12)


@MANY
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 4))
def test_coverage_by_decile_is_what_a_loop_counts_in_groups_of_equally_many_labels(
    seed: int, size: int, k: int
) -> None:
    ranking, truth = random_ranking(seed, 6, size)
    k = min(k, size)
    counts = np.random.default_rng(seed).integers(0, 9, size)
    found = coverage_by_decile(ranking, csr_array(truth), counts, k)
    there = sorted(np.flatnonzero(truth.any(axis=0)).tolist(), key=lambda label: (counts[label], label))
    assert found.labels.sum() == len(there)
    assert found.labels.max() - found.labels.min() <= 1
    assert len(found.labels) == min(10, len(there))
    begin = 0
    for group, size_of_group in enumerate(found.labels.tolist()):
        own = there[begin : begin + size_of_group]
        begin += size_of_group
        occurrences = [(row, label) for label in own for row in np.flatnonzero(truth[:, label])]
        hits = sum(label in ranking[row, :k] for row, label in occurrences)
        assert (found.lowest[group], found.highest[group]) == (counts[own[0]], counts[own[-1]])
        assert found.occurrences[group] == len(occurrences)
        assert found.share[group] == pytest.approx(hits / len(occurrences), rel=1e-12)


@pytest.mark.parametrize("metric", [precision_at, recall_at, ndcg_at, macro_f1_at])
def test_labels_that_do_not_fit_the_truth_are_refused(metric: Any) -> None:
    Y = csr_array([[1, 0], [0, 1]])
    with pytest.raises(ValueError, match=r"labels has 1 columns; k=2 needs 2"):
        metric(np.array([[0], [1]]), Y, 2)
    with pytest.raises(ValueError, match=r"Y has shape \(2, 2\); it must be \(1, 2\)"):
        metric(np.array([[0]]), Y, 1)
    with pytest.raises(ValueError, match=r"labels\[1, 0\] is 2, but Y has 2 columns"):
        metric(np.array([[0], [2]]), Y, 1)
    with pytest.raises(ValueError, match=r"labels\[0, 0\] is -2, but Y has 2 columns"):
        metric(np.array([[-2], [1]]), Y, 1)
    with pytest.raises(ValueError, match="it must hold column numbers"):
        metric(np.array([["a"], ["b"]]), Y, 1)
    for k in (0, True, 1.5):
        with pytest.raises(ValueError, match=f"k is {k}; it must be a positive integer"):
            metric(np.array([[0], [1]]), Y, k)
    with pytest.raises(ValueError, match="no input has a true label"):
        metric(np.array([[0], [1]]), csr_array((2, 2)), 1)


def test_propensities_and_counts_that_make_no_sense_are_refused() -> None:
    labels, Y = np.array([[0]]), csr_array([[1, 0]])
    with pytest.raises(ValueError, match=r"the propensity of label 1 is 0.0; it must be above 0"):
        psp_at(labels, Y, [0.5, 0.0], 1)
    with pytest.raises(ValueError, match=r"propensity has shape \(1,\); it must be \(2,\)"):
        psp_at(labels, Y, [0.5], 1)
    with pytest.raises(ValueError, match=r"counts has shape \(3,\); it must be \(2,\)"):
        coverage_by_decile(labels, Y, [1, 2, 3], 1)
    for counts in ([1.5], [[1, 2], [3, 4]], ["1"], [-1], [np.nan], [np.inf], [True]):
        with pytest.raises(ValueError, match="counts must be a vector of whole numbers"):
            propensities(counts, 10)
    with pytest.raises(ValueError, match="n is 2; propensities need at least 3"):
        propensities([1], 2)
    with pytest.raises(ValueError, match=r"a and b must not be negative; they are 0\.5 and -1"):
        propensities([1], 10, a=0.5, b=-1)


# --- detection ------------------------------------------------------------------------------------------

scores = st.lists(
    st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(-3, 3, allow_subnormal=False)),
    min_size=1,
    max_size=60,
)


@MANY
@given(scores, scores)
def test_detection_is_scikit_learns_with_ties(ood: list[float], insiders: list[float]) -> None:
    truth = [1] * len(ood) + [0] * len(insiders)
    found = detection(ood, insiders)
    assert found.auroc == pytest.approx(roc_auc_score(truth, ood + insiders), abs=1e-12)
    assert found.aupr == pytest.approx(average_precision_score(truth, ood + insiders), abs=1e-12)
    flagged, caught, _ = roc_curve(truth, ood + insiders, drop_intermediate=False)
    enough = np.rint(caught * len(ood)) * 100 >= 95 * len(ood)
    assert found.fpr95 == pytest.approx(flagged[enough].min(), abs=1e-12)


@pytest.mark.parametrize(("caught", "expected"), [(19, 0.0), (18, 1.0)])
def test_fpr95_flags_others_only_to_catch_95_of_100_ood_inputs(caught: int, expected: float) -> None:
    ood = [2.0] * caught + [0.0] * (20 - caught)
    assert detection(ood, [1.0]).fpr95 == expected


@MANY
@given(scores, scores, st.integers(2, 40))
def test_roc_curve_is_scikit_learns_and_thinned_no_further_than_it_says(
    ood: list[float], insiders: list[float], points: int
) -> None:
    truth = [1] * len(ood) + [0] * len(insiders)
    across, up, _ = roc_curve(truth, ood + insiders, drop_intermediate=False)
    whole = roc_curve_points(ood, insiders, points=1000)
    np.testing.assert_allclose(whole.false_positive, across, atol=1e-15)
    np.testing.assert_allclose(whole.true_positive, up, atol=1e-15)
    thin = roc_curve_points(ood, insiders, points=points)
    assert len(thin.false_positive) <= points
    assert (thin.false_positive[0], thin.true_positive[0]) == (0, 0)
    assert (thin.false_positive[-1], thin.true_positive[-1]) == (1, 1)
    assert (np.diff(thin.false_positive) >= 0).all()
    assert (np.diff(thin.true_positive) >= 0).all()
    for x, y in zip(across, up, strict=True):
        off = np.maximum(np.abs(thin.false_positive - x), np.abs(thin.true_positive - y))
        assert off.min() <= 2 / (points - 1) + 1e-12


def test_a_roc_curve_of_many_points_keeps_its_area_when_thinned() -> None:
    random = np.random.default_rng(0)
    ood, insiders = random.normal(1, 1, 5000), random.normal(0, 1, 4000)
    thin = roc_curve_points(ood, insiders)
    halfway = (thin.false_positive + thin.true_positive) / 2
    np.testing.assert_allclose(halfway, np.linspace(0, 1, 200), atol=2e-4)  # the ends of equal stretches
    area = auc(thin.false_positive, thin.true_positive)
    assert area == pytest.approx(detection(ood, insiders).auroc, abs=1e-4)


def test_scores_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ValueError, match=r"in_distribution_scores has shape \(0,\)"):
        detection([1.0], [])
    with pytest.raises(ValueError, match=r"ood_scores\[1\] is NaN; leave such inputs out"):
        detection([1.0, np.nan], [1.0])
    with pytest.raises(ValueError, match="points is 1; a curve needs at least 2"):
        roc_curve_points([1.0], [0.0], points=1)


# --- risk and coverage, reliability ---------------------------------------------------------------------


@MANY
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.booleans()), min_size=1, max_size=6))
def test_risk_at_every_coverage_is_the_mean_over_all_orders_of_equal_doubts(
    pairs: list[tuple[float, bool]],
) -> None:
    curves = []
    for order in permutations(pairs):
        ordered = sorted(order, key=lambda pair: pair[0])
        wrong = np.cumsum([failed for _, failed in ordered])
        curves.append(wrong / np.arange(1, len(wrong) + 1))
    expected = np.mean(curves, axis=0)
    found = risk_coverage(*zip(*pairs, strict=True))
    np.testing.assert_allclose(found.risk, expected, atol=1e-12)
    np.testing.assert_allclose(found.coverage, np.arange(1, len(pairs) + 1) / len(pairs))
    assert found.area == pytest.approx(expected.mean(), abs=1e-12)


@MANY
@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=300), st.randoms())
def test_risk_and_coverage_do_not_depend_on_the_order_of_the_input(
    pairs: list[tuple[int, bool]], random: Any
) -> None:
    mixed = pairs.copy()
    random.shuffle(mixed)
    one, other = risk_coverage(*zip(*pairs, strict=True), 50), risk_coverage(*zip(*mixed, strict=True), 50)
    np.testing.assert_array_equal(one.risk, other.risk)
    assert one.area == other.area
    assert len(one.risk) <= 50
    assert one.coverage[-1] == 1
    assert one.risk[-1] == pytest.approx(np.mean([failed for _, failed in pairs]))


@MANY
@given(
    st.lists(
        st.tuples(st.one_of(st.sampled_from([0.0, 0.2, 0.5, 1.0]), st.floats(0, 1)), st.booleans()),
        min_size=1,
    ),
    st.integers(1, 20),
)
def test_reliability_is_scikit_learns_calibration_curve(pairs: list[tuple[float, bool]], bins: int) -> None:
    p, right = (np.array(part) for part in zip(*pairs, strict=True))
    found = reliability(p, right, bins)
    filled = found.count > 0
    if len(np.unique(right)) == 2:
        share, mean = calibration_curve(right, p, n_bins=bins)
        np.testing.assert_allclose(found.mean_probability[filled], mean, atol=1e-12)
        np.testing.assert_allclose(found.share_right[filled], share, atol=1e-12)
    assert found.count.sum() == len(p)
    assert np.isnan(found.share_right[~filled]).all()
    gaps = np.abs(found.mean_probability - found.share_right)[filled]
    assert found.ece == pytest.approx(np.average(gaps, weights=found.count[filled]), abs=1e-12)
    assert 0 <= found.ece <= 1


def test_reliability_takes_the_best_labels_of_many_inputs_as_they_come() -> None:
    p, right = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[1, 0], [1, 1]])
    assert reliability(p, right).ece == reliability(p.ravel(), right.ravel()).ece


def test_the_shortest_curve_of_risk_has_the_least_doubt_and_all() -> None:
    curve = risk_coverage([0.1, 0.2, 0.3, 0.4], [False, True, True, True], points=2)
    np.testing.assert_array_equal(curve.coverage, [0.25, 1])
    np.testing.assert_array_equal(curve.risk, [0, 0.75])


def test_confidence_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match=r"uncertainty has shape \(2,\) and wrong has \(1,\)"):
        risk_coverage([0.1, 0.2], [True])
    with pytest.raises(ValueError, match=r"uncertainty\[0\] is NaN; leave it out"):
        risk_coverage([np.nan], [True])
    with pytest.raises(ValueError, match="wrong has the value 2; it must be 0 or 1"):
        risk_coverage([0.1], [2])
    with pytest.raises(ValueError, match="points is 1; a curve needs at least 2"):
        risk_coverage([0.1], [True], points=1)
    with pytest.raises(ValueError, match=r"probability has the value 1.5; it must be from 0 to 1"):
        reliability([1.5], [True])
    with pytest.raises(ValueError, match="bins is 0; it must be at least 1"):
        reliability([0.5], [True], bins=0)
