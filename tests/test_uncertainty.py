"""The measures of uncertainty are what their formulas say, and keep what the theory guarantees."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from dense_oracle import random_problem
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.special import entr

from hedgerow import (
    HedgerowClassifier,
    Measures,
    UncertainLabels,
    Votes,
    _native,
    energy,
    instance_uncertainty,
    joint_energy,
    label_uncertainty,
)
from hedgerow.votes.truth import assess

pytestmark = pytest.mark.simd

MANY = settings(max_examples=80, deadline=None, derandomize=True)
NAMES = [part.name for part in fields(Measures)]

Probabilities = npt.NDArray[np.float32]


def random_probabilities(seed: int, inputs: int, labels: int, members: int) -> Probabilities:
    """Shape (inputs, labels, members): from certain to doubtful, and with members that agree."""
    random = np.random.default_rng(seed)
    spread = random.choice([0.0, 0.01, 1.0], (inputs, labels, 1))
    centre = (
        random.choice([0.0, 1e-7, 0.5, 1.0, 2.0], (inputs, labels, 1))
        + random.random((inputs, labels, 1))
        - 0.5
    )
    noise = random.random((inputs, labels, members)) - 0.5
    return np.clip(centre + spread * noise, 0, 1).astype(np.float32)


probabilities = st.builds(
    random_probabilities, st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 12), st.integers(1, 6)
)


def all_candidates(probs: Probabilities) -> Votes:
    inputs, labels, members = probs.shape
    indptr = np.arange(inputs + 1) * labels
    return Votes(indptr, np.tile(np.arange(labels), inputs), probs.reshape(-1, members), labels)


def binary_entropy(p: Any) -> Any:
    return entr(p) + entr(1 - p)


def formulas(probs: Probabilities) -> dict[str, npt.NDArray[np.float64]]:
    """The table of the paper over a dense array; the last axis are the members."""
    p = probs.astype(np.float64)
    mean = p.mean(axis=-1)
    total, data = binary_entropy(mean), binary_entropy(p).mean(axis=-1)
    return {
        "probability": mean,
        "total": total,
        "data": data,
        "knowledge": total - data,
        "variance": p.var(axis=-1),
    }


# --- labels and inputs ----------------------------------------------------------------------------------


@MANY
@given(probabilities)
def test_measures_of_labels_and_inputs_are_the_formulas_over_a_dense_array(probs: Probabilities) -> None:
    votes = all_candidates(probs)
    labels, inputs = label_uncertainty(votes), instance_uncertainty(votes)
    for name, expected in formulas(probs).items():
        np.testing.assert_allclose(
            getattr(labels, name), expected.ravel(), rtol=1e-12, atol=1e-12, err_msg=name
        )
        np.testing.assert_allclose(
            getattr(inputs, name), expected.sum(axis=1), rtol=1e-12, atol=1e-12, err_msg=name
        )


@MANY
@given(probabilities)
def test_knowledge_is_part_of_the_total_and_data_is_the_rest(probs: Probabilities) -> None:
    votes = all_candidates(probs)
    labels, inputs = label_uncertainty(votes), instance_uncertainty(votes)
    for measures in (labels, inputs):
        assert (measures.knowledge >= 0).all()
        assert (measures.data >= 0).all()
        assert (measures.variance >= 0).all()
        assert (measures.knowledge <= measures.total + 1e-15).all()
        np.testing.assert_allclose(measures.total, measures.data + measures.knowledge, rtol=1e-14, atol=1e-14)
    assert (labels.total <= np.log(2) + 1e-15).all()
    assert (labels.variance <= 0.25).all()
    assert (labels.probability <= 1).all()


@MANY
@given(probabilities, st.integers(1, 9))
def test_members_that_say_the_same_leave_no_knowledge_uncertainty_and_no_variance(
    probs: Probabilities, members: int
) -> None:
    votes = all_candidates(np.repeat(probs[:, :, :1], members, axis=2))
    for measures in (label_uncertainty(votes), instance_uncertainty(votes)):
        np.testing.assert_array_equal(measures.variance, 0)
        np.testing.assert_allclose(measures.knowledge, 0, atol=1e-14)
    np.testing.assert_array_equal(label_uncertainty(votes).probability, probs[:, :, 0].ravel())


@MANY
@given(probabilities, st.randoms(use_true_random=False))
def test_members_and_labels_in_another_order_have_the_same_measures(
    probs: Probabilities, random: Any
) -> None:
    inputs, labels, members = probs.shape
    of_members, of_labels = list(range(members)), list(range(labels))
    random.shuffle(of_members)
    random.shuffle(of_labels)
    plain, mixed = all_candidates(probs), all_candidates(probs[:, of_labels][:, :, of_members])
    for name in NAMES:
        one = getattr(label_uncertainty(plain), name).reshape(inputs, labels)
        other = getattr(label_uncertainty(mixed), name).reshape(inputs, labels)
        np.testing.assert_allclose(other, one[:, of_labels], rtol=1e-12, atol=1e-14, err_msg=name)
        np.testing.assert_allclose(
            getattr(instance_uncertainty(mixed), name),
            getattr(instance_uncertainty(plain), name),
            rtol=1e-12,
            atol=1e-13,
            err_msg=name,
        )


@pytest.mark.parametrize("doubt", [0.0, 1.0])
def test_certainty_has_no_uncertainty_and_opposite_certainties_are_all_knowledge(doubt: float) -> None:
    votes = Votes([0, 1], [0], [[doubt, 1.0]], 1)
    found = label_uncertainty(votes)
    if doubt == 1:
        assert [getattr(found, name).item() for name in NAMES] == [1, 0, 0, 0, 0]
    else:
        assert (found.probability, found.data, found.variance) == (0.5, 0, 0.25)
        assert found.total == found.knowledge == pytest.approx(np.log(2))


def test_inputs_without_candidates_have_no_uncertainty_wherever_they_are() -> None:
    votes = Votes([0, 0, 2, 2, 3, 3], [1, 2, 0], [[0.5, 0.5], [0.5, 0.1], [0.2, 0.3]], 4)
    found = instance_uncertainty(votes)
    expected = formulas(votes.probs)
    for name in NAMES:
        one = expected[name]
        np.testing.assert_allclose(
            getattr(found, name), [0, one[0] + one[1], 0, one[2], 0], rtol=1e-12, atol=1e-15, err_msg=name
        )
    assert instance_uncertainty(votes[:0]).total.shape == (0,)


# --- energies -------------------------------------------------------------------------------------------


def squashed(logits: npt.NDArray[np.float64], transform: str) -> npt.NDArray[np.float64]:
    if transform == "l3-hinge":
        return np.exp(-(np.maximum(0, 1 - logits) ** 3))
    return 1 / (1 + np.exp(-logits))


@pytest.mark.parametrize(("transform", "lowest", "highest"), [("l3-hinge", -3.3, 0.9), ("sigmoid", -80, 8)])
def test_energy_of_a_label_is_the_softplus_of_its_logit(
    transform: str, lowest: float, highest: float
) -> None:
    logits = np.linspace(lowest, highest, 300)
    votes = Votes([0, 100, 100, 300], np.r_[:100, :200], squashed(logits, transform)[:, None], 200)
    softplus = np.log1p(np.exp(logits))
    np.testing.assert_allclose(energy(votes, transform), softplus, rtol=1e-4)
    np.testing.assert_allclose(
        joint_energy(votes, transform), [softplus[:100].sum(), 0, softplus[100:].sum()], rtol=1e-5
    )


@pytest.mark.parametrize("transform", ["l3-hinge", "sigmoid"])
def test_energy_of_several_members_is_that_of_their_mean(transform: str) -> None:
    several = Votes([0, 2], [0, 3], [[0.25, 0.75], [0.0, 0.5]], 4)
    mean = Votes([0, 2], [0, 3], [[0.5], [0.25]], 4)
    np.testing.assert_allclose(energy(several, transform), energy(mean, transform), rtol=1e-12)


@pytest.mark.parametrize("transform", ["l3-hinge", "sigmoid"])
def test_energy_is_finite_and_rises_with_the_probability_from_0_to_1(transform: str) -> None:
    p = np.concatenate([[0], np.logspace(-37, -1, 100), np.linspace(0.11, 1, 100)])
    found = energy(Votes([0, len(p)], np.arange(len(p)), p[:, None], len(p)), transform)
    assert np.isfinite(found).all()
    assert (np.diff(found) >= 0).all()
    assert (np.diff(found[2:-2]) > 0).all()
    assert found[0] >= 0


def test_energy_under_an_unknown_transform_is_refused() -> None:
    with pytest.raises(ValueError, match=r"transform is 'softmax'; it must be 'l3-hinge' or 'sigmoid'"):
        joint_energy(Votes([0, 1], [0], [[0.5]], 1), "softmax")


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_energy_of_a_tree_of_one_layer_is_the_softplus_of_its_scores(loss: str) -> None:
    X, Y = random_problem(4, 50, 20, 15)
    model = HedgerowClassifier(loss=loss, random_state=0, normalize=False).fit(X, Y)
    trained = model.model_.forest.trees[0]
    assert trained.tree.depth == 1
    features, lanes, values, bias = trained.node_weights(0, 0)
    weights = np.zeros((15, 20))
    weights[lanes, features] = values
    scores = np.empty((50, 15))
    scores[:, trained.tree.labels] = X.toarray().astype(np.float64) @ weights.T + bias
    found = energy(model.predict_votes(X), trained.transform).reshape(50, 15)
    # Where a probability is 1, or too small for float32, the score is forgotten.
    known = (scores < 0.9) & (scores > -3.3)
    assert known.sum() > 300
    np.testing.assert_allclose(found[known], np.log1p(np.exp(scores[known])), rtol=1e-3)


# --- tables ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def predicted() -> UncertainLabels:
    X, Y = random_problem(5, 40, 20, 12)
    names = [f"label {number}" for number in range(12)]
    model = HedgerowClassifier(method="bagging", members=3, random_state=0).fit(X, Y, classes=names)
    return model.predict_uncertain(X[:6], k=4)


def assert_table(frame: pd.DataFrame, predicted: UncertainLabels) -> None:
    assert len(frame) == 24
    assert frame["input"].tolist() == [row for row in range(6) for _ in range(4)]
    assert frame["rank"].tolist() == [1, 2, 3, 4] * 6
    assert frame["label"].tolist() == predicted.labels.ravel().tolist()
    for name in NAMES:
        np.testing.assert_array_equal(frame[name].to_numpy().reshape(6, 4), getattr(predicted, name))
    for name, values in vars(predicted.instance).items():
        found = frame[f"input_{name}"].to_numpy().reshape(6, 4)
        np.testing.assert_array_equal(found, np.repeat(values[:, None], 4, axis=1))


def test_table_of_predictions_has_a_row_for_each_label_with_all_measures(predicted: UncertainLabels) -> None:
    assert len(predicted) == 6
    assert_table(predicted.to_frame(), predicted)
    assert predicted.to_arrow().column_names == predicted.to_frame().columns.tolist()


def test_predictions_written_to_parquet_are_read_as_they_were(
    predicted: UncertainLabels, tmp_path: Path
) -> None:
    path = tmp_path / "labels.parquet"
    predicted.to_parquet(path)
    assert_table(pd.read_parquet(path), predicted)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"labels\.parquet"):
        predicted.to_parquet(path)
    assert path.read_bytes() == before
    predicted.to_parquet(path, overwrite=True)
    assert_table(pd.read_parquet(path), predicted)


# --- labels that a single member has learned nothing of ---


@MANY
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 40))
def test_doubt_of_one_member_about_what_it_has_not_learned_is_lack_of_knowledge(
    seed: int, inputs: int, labels: int
) -> None:
    probs = random_probabilities(seed, inputs, labels, 1)
    draw = np.random.default_rng(seed)
    unlearned, k = draw.random(labels) < 0.4, int(draw.integers(1, labels + 1))
    votes = all_candidates(probs).but(unlearned=unlearned)
    p = probs[:, :, 0].astype(np.float64)
    total = entr(p) + entr(1 - p)
    expected = Measures(
        p,
        total,
        np.where(unlearned, 0, total),
        np.where(unlearned, total, 0),
        np.where(unlearned, p * (1 - p), 0),
    )
    found, of_inputs = label_uncertainty(votes), instance_uncertainty(votes)
    best = UncertainLabels.from_votes(votes, k)
    assessed = assess(votes, csr_array((inputs, labels)), k=k)
    order = np.argsort(-probs[:, :, 0], axis=1, kind="stable")[:, :k]
    assert best.labels.tolist() == assessed.labels.tolist() == order.tolist()
    for name in NAMES:
        values = getattr(expected, name)
        np.testing.assert_allclose(getattr(found, name), values.ravel(), atol=1e-6)
        np.testing.assert_allclose(getattr(of_inputs, name), values.sum(axis=1), atol=1e-5)
        ranked = np.take_along_axis(values, order, axis=1)
        np.testing.assert_allclose(getattr(best, name), ranked, atol=2e-6)
        np.testing.assert_allclose(getattr(assessed.best, name), ranked, atol=2e-6)
        np.testing.assert_allclose(getattr(assessed.inputs, name), values.sum(axis=1), atol=1e-4)
    for one in (found, of_inputs):
        np.testing.assert_allclose(one.total, one.data + one.knowledge, rtol=1e-14)
    assert best.instance.total == pytest.approx(best.instance.data + best.instance.knowledge, abs=1e-4)
    plain = label_uncertainty(votes.but(unlearned=None))
    assert not plain.knowledge.any()


def test_what_was_not_learned_is_kept_by_files_and_parts_of_votes(tmp_path: Path) -> None:
    votes = Votes([0, 2, 3], [0, 1, 1], [[0.5], [0.25], [0.75]], 2, unlearned=np.array([False, True]))
    votes.save(tmp_path / "votes")
    for same in (Votes.load(tmp_path / "votes"), Votes.concatenate([votes[:1], votes[1:]])):
        np.testing.assert_array_equal(label_uncertainty(same).knowledge, label_uncertainty(votes).knowledge)
        assert same.unlearned is not None
    assert label_uncertainty(votes[[1]]).data.tolist() == [0]
    with pytest.raises(ValueError, match="other labels"):
        Votes.concatenate([votes, votes.but(unlearned=None)])
    with pytest.raises(ValueError, match="each of 2 labels"):
        Votes([0, 1], [0], [[0.5]], 2, unlearned=np.array([True]))


def test_marks_that_do_not_fit_the_candidates_are_refused() -> None:
    marks, probs = np.zeros(2, np.uint8), np.full((1, 1), 0.5, np.float32)
    with pytest.raises(ValueError, match="unlearned"):
        _native.measure_votes(np.array([0, 1]), probs, marks)
    with pytest.raises(ValueError, match="unlearned"):
        _native.best_labels(np.array([0, 1]), np.zeros(1, np.int32), probs, marks, None, 1, 1)
