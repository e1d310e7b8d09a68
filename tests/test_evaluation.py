"""An evaluation says what plain loops over all labels say."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from sklearn.metrics import average_precision_score, roc_auc_score

from hedgerow import HedgerowClassifier, HedgerowTextClassifier
from hedgerow.estimators.held_out import calibration_errors
from hedgerow.evaluation.results import Evaluation
from hedgerow.evaluation.tasks import evaluate
from hedgerow.inputs.labels import align_labels
from hedgerow.paper.efficiency import beam_costs, check_theorems
from hedgerow.votes.measures import label_uncertainty

LABELS, FEATURES = 60, 40


def made_up(rows: int, seed: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Inputs whose labels depend on their features, the first labels being frequent."""
    random = np.random.default_rng(seed)
    chances = 1.5 / np.arange(1, LABELS + 1)
    Y = random.random((rows, LABELS)) < chances
    Y[:, 0] |= ~Y.any(axis=1)
    marks = np.random.default_rng(99).random((LABELS, FEATURES)) < 0.1
    X = (Y @ marks) * random.random((rows, FEATURES)) + (random.random((rows, FEATURES)) < 0.05)
    return sp.csr_array(X.astype(np.float32)), sp.csr_array(Y.astype(np.float32))


@pytest.fixture(scope="module")
def model() -> HedgerowClassifier:
    X, Y = made_up(300, 0)
    # The sigmoid is never quite 1, so that no two labels of an input are equal.
    return HedgerowClassifier(
        method="bagging",
        members=4,
        branching=4,
        leaf_size=8,
        beam=2,
        loss="logistic",
        random_state=0,
        n_jobs=1,
    ).fit(X, Y)


@pytest.fixture(scope="module")
def data() -> tuple[sp.csr_array, sp.csr_array]:
    X, Y = made_up(120, 1)
    # Two labels that the model does not know, and an input without any.
    strange = sp.csr_array((np.random.default_rng(5).random((120, 2)) < 0.2).astype(np.float32))
    wide = sp.csr_array(sp.hstack([Y, strange]))
    wide.data[wide.indptr[7] : wide.indptr[8]] = 0
    wide.eliminate_zeros()
    return X, wide


@pytest.fixture(scope="module")
def found(model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array]) -> Evaluation:
    return evaluate(model, *data)


def dense(model: HedgerowClassifier, X: Any, columns: int) -> dict[str, npt.NDArray[np.float64]]:
    """Every measure of every label; what is no candidate has 0."""
    votes = model.predict_votes(X)
    measures = label_uncertainty(votes)
    rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
    arrays = {}
    for name in ("probability", "total", "data", "knowledge", "variance"):
        arrays[name] = np.zeros((len(votes), columns))
        # As the engine rounds it, so that ties are the same.
        arrays[name][rows, votes.labels] = getattr(measures, name).astype(np.float32)
    arrays["candidate"] = np.zeros((len(votes), columns))
    arrays["candidate"][rows, votes.labels] = 1
    return arrays


def test_ranking_is_that_of_plain_loops(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array], found: Evaluation
) -> None:
    X, Y = data
    truth = Y.toarray() > 0
    best = np.argsort(-dense(model, X, Y.shape[1])["probability"], axis=1)
    labelled = truth.any(axis=1)
    for k in (1, 3, 5):
        hits = np.array([[truth[row, label] for label in best[row, :k]] for row in range(len(truth))])
        assert found.ranking.precision[k] == pytest.approx(hits[labelled].mean())
        recalls = hits[labelled].sum(axis=1) / truth[labelled].sum(axis=1)
        assert found.ranking.recall[k] == pytest.approx(recalls.mean())


@pytest.mark.parametrize("measure", ["variance", "total", "knowledge", "data", "energy"])
def test_misclassification_is_that_of_scikit_learn_over_all_labels(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array], found: Evaluation, measure: str
) -> None:
    X, Y = data
    truth = Y.toarray() > 0
    arrays = dense(model, X, Y.shape[1])
    score = arrays["probability" if measure == "energy" else measure]
    areas, precisions = [], []
    for row in range(len(truth)):
        order = np.lexsort((np.arange(Y.shape[1]), -arrays["probability"][row]))
        order = [label for label in order if arrays["candidate"][row, label]]
        predicted = np.zeros(Y.shape[1], dtype=bool)
        predicted[order[: truth[row].sum()]] = True
        wrong = predicted != truth[row]
        if 0 < wrong.sum() < len(wrong):
            areas.append(roc_auc_score(wrong, score[row]))
            precisions.append(average_precision_score(wrong, score[row]))
    assert found.misclassification[measure].auroc == pytest.approx(np.mean(areas), abs=1e-4)
    assert found.misclassification[measure].aupr == pytest.approx(np.mean(precisions), abs=1e-3)


def test_evaluation_when_batches_differ_is_the_same(
    model: HedgerowClassifier,
    data: tuple[sp.csr_array, sp.csr_array],
    found: Evaluation,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hedgerow.votes.batches._VOTE_BYTES", 1000)
    again = evaluate(model, *data).to_dict()
    first = found.to_dict()
    for key in set(first) - {"seconds", "seconds_by_step", "long_tail"}:
        assert again[key] == first[key], key
    assert again["long_tail"]["mean"] == pytest.approx(first["long_tail"]["mean"])


def test_labels_unknown_to_the_model_count_as_missed(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array], found: Evaluation
) -> None:
    X, Y = data
    known = evaluate(model, X, Y[:, :LABELS])
    assert found.settings["unknown_labels"] == Y[:, LABELS:].nnz > 0
    assert found.ranking.recall[5] < known.ranking.recall[5]
    assert found.judgement.truth.shape[1] == LABELS + 2


def test_lists_of_labels_are_the_same_as_a_matrix(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array], found: Evaluation
) -> None:
    X, Y = data
    lists = [Y.indices[Y.indptr[row] : Y.indptr[row + 1]].tolist() for row in range(Y.shape[0])]
    assert evaluate(model, X, lists).to_dict()["misclassification"] == found.to_dict()["misclassification"]


def test_json_has_the_documented_keys_and_nothing_that_json_lacks(found: Evaluation) -> None:
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert set(plain["precision"]) == set(plain["recall"]) == {"1", "3", "5"}
    assert {"variance", "total", "knowledge", "energy"} <= set(plain["misclassification"])
    assert plain["ood"] == {}
    assert plain["seconds"] > 0
    assert plain["settings"]["inputs"] == 120
    assert len(plain["coverage"]["share"]) == 10
    assert len(plain["by_frequency"]) == 10


def test_single_model_has_no_variance_and_no_knowledge() -> None:
    X, Y = made_up(200, 0)
    single = HedgerowClassifier(random_state=0, n_jobs=1).fit(X, Y)
    plain = evaluate(single, X, Y).to_dict()
    assert plain["misclassification"]["variance"] is None
    assert plain["misclassification"]["knowledge"] is None
    assert plain["misclassification"]["energy"] > 0.5


def test_places_without_a_label_are_neither_right_nor_wrong() -> None:
    X = sp.csr_array(np.eye(12, dtype=np.float32))
    Y = sp.csr_array(np.arange(12)[:, None] % 2)  # one label, which every other input has
    model = HedgerowClassifier(random_state=0).fit(X, Y)
    found = evaluate(model, X, Y)
    p, truth = model.top(X, k=1).probability[:, 0], Y.toarray()[:, 0]
    for k in (1, 3, 5):
        assert found.reliability[k].ece == found.reliability[1].ece > 0
        assert found.brier[k] == pytest.approx(((p - truth) ** 2).mean())
    errors = calibration_errors(model.source, X, Y)
    assert errors[1] == errors[3] == errors[5] == found.reliability[1].ece


def test_model_that_does_not_know_frequencies_still_evaluates(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array]
) -> None:
    X, Y = made_up(100, 2)
    old = HedgerowClassifier(method="bagging", members=2, random_state=0, n_jobs=1).fit(X, Y)
    old.model_ = replace(old.model_, label_counts=None, n_samples=None)
    plain = evaluate(old, X, Y).to_dict()
    assert plain["psp"] is None
    assert plain["coverage"] is None
    assert plain["by_frequency"] == []


def test_long_tail_falls_and_has_the_deviation_of_the_ranks(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array], found: Evaluation
) -> None:
    arrays = dense(model, data[0], LABELS)
    ranked = -np.sort(-arrays["probability"], axis=1)
    assert found.long_tail[:LABELS, 0] == pytest.approx(ranked.mean(axis=0), abs=1e-6)
    assert found.long_tail[:5, 1] == pytest.approx(ranked.std(axis=0)[:5], abs=1e-4)
    assert not found.long_tail[LABELS:].any()


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (sp.csr_array((120, LABELS)), "no input has any label"),
        (sp.csr_array(np.ones((119, LABELS))), "120 inputs, but labels for 119"),
        (sp.csr_array(np.ones((120, LABELS - 1))), "Y has 59 columns, but the model knows 60"),
    ],
)
def test_truth_that_does_not_fit_is_refused(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array], Y: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(model, data[0], Y)


def test_inputs_of_another_width_are_refused(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array]
) -> None:
    with pytest.raises(ValueError, match=r"41.*40|40.*41"):
        evaluate(model, sp.csr_array(np.ones((120, FEATURES + 1))), data[1])


def test_aligned_labels_keep_their_names_and_unknown_ones_come_last() -> None:
    Y = sp.csr_array(np.array([[1, 0, 1, 0], [0, 1, 0, 0]]))
    aligned, unknown = align_labels(Y, ["yew", "elm", "oak", "ash"], np.array(["elm", "oak"], dtype=object))
    assert unknown == ["yew"]
    assert aligned.toarray().tolist() == [[0, 1, 1], [1, 0, 0]]


def test_labels_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="none of the labels is known to the model, such as 'yew'"):
        align_labels(sp.csr_array([[1]]), ["yew"], np.array(["elm"], dtype=object))


def test_beam_costs_end_at_the_search_through_all_labels(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array]
) -> None:
    before = model.get_params()
    exact, narrow, wide = beam_costs(model, *data, beams=(1, LABELS))
    assert (exact.beam, narrow.beam, wide.beam) == (None, 1, LABELS)
    assert wide.auroc == pytest.approx(exact.auroc, abs=1e-6)
    assert narrow.auroc["total"] != exact.auroc["total"]
    assert min(exact.seconds, narrow.seconds) > 0
    assert model.get_params() == before


def test_theorems_hold_when_the_beam_is_as_wide_as_the_tree(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array]
) -> None:
    checks = check_theorems(model, data[0], beams=(1, 2, LABELS))
    assert checks.regret[-1] == pytest.approx([0.0] * len(checks.regret[-1]), abs=1e-6)
    assert checks.input_error[-1] == pytest.approx(0, abs=1e-6)
    assert checks.input_error[0] > checks.input_error[1] > checks.input_error[2]
    assert np.min(checks.regret) >= -1e-6
    assert np.max(checks.regret) > 0
    assert checks.certificate[-1] == pytest.approx(0, abs=1e-6)


def test_texts_are_evaluated_as_texts() -> None:
    texts = ["a thorny shrub", "a shrub with twigs", "an evergreen tree", "the evergreen tree"] * 10
    labels = [["hawthorn"], ["hawthorn", "hazel"], ["holly"], ["holly"]] * 10
    model = HedgerowTextClassifier(method="bagging", members=3, random_state=0, n_jobs=1).fit(texts, labels)
    assert evaluate(model, texts, labels).ranking.precision[1] == 1.0
