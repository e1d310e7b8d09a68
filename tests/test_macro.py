"""Labels chosen for all inputs together: beside a dense oracle, brute force, and xCOLUMNs where it is."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score, precision_score, recall_score
from typer.testing import CliRunner
from whole_model import some_texts

from hedgerow import HedgerowTextClassifier, learn_from_held_out
from hedgerow.cli.app import app
from hedgerow.decisions.macro import MEASURES, Objective, choose

ROOT = Path(__file__).parent.parent
XCOLUMNS = ROOT / ".venv-xcolumns/bin/python"
SEEDS = st.integers(0, 10**6)
NAMES = sorted(MEASURES)


def made(
    seed: int, rows: int = 30, labels: int = 12, density: float = 0.6
) -> tuple[np.ndarray, sp.csr_array]:
    """Probabilities of a few frequent and many rare labels, dense and sparse; some are no candidates."""
    random = np.random.default_rng(seed)
    prior = 1 / (1 + np.arange(labels))
    dense = random.random((rows, labels)) ** 2 * prior * (random.random((rows, labels)) < density)
    return dense, sp.csr_array(dense)


def oracle(dense: np.ndarray, measure: str, k: int) -> np.ndarray:
    """The same ascent, with all counts computed anew for every label of every input."""
    n = len(dense)

    def utility(chosen: np.ndarray) -> np.ndarray:
        tp, fp, fn = (
            (dense * chosen).sum(0) / n,
            ((1 - dense) * chosen).sum(0) / n,
            (dense * (1 - chosen)).sum(0) / n,
        )
        return {
            "macro-f1": 2 * tp / (2 * tp + fp + fn + 1e-6),
            "macro-precision": tp / (tp + fp + 1e-6),
            "macro-recall": tp / (tp + fn + 1e-6),
        }[measure]

    def top(values: np.ndarray, row: int) -> np.ndarray:
        candidates = np.flatnonzero(dense[row])
        return candidates[np.argsort(-values[candidates], kind="stable")[:k]]

    chosen = np.zeros(dense.shape)
    for row in range(n):
        chosen[row, top(dense[row], row)] = 1
    value = utility(chosen).mean()
    while True:
        for row in range(n):
            without, given_all = chosen.copy(), chosen.copy()
            without[row], given_all[row] = 0, 1
            gain = utility(given_all) - utility(without)
            chosen[row] = 0
            chosen[row, top(gain, row)] = 1
        before, value = value, utility(chosen).mean()
        if value - before < 1e-6:
            return chosen > 0


def chosen_by(sparse: sp.csr_array, objective: Objective) -> np.ndarray:
    found = choose(sparse.indptr.astype(np.int64), sparse.indices, sparse.data, sparse.shape[1], objective)
    return sp.csr_array((found.chosen, sparse.indices, sparse.indptr), shape=sparse.shape).toarray()


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from(NAMES), st.integers(1, 5))
def test_choice_is_that_of_a_dense_computation(seed: int, measure: str, k: int) -> None:
    dense, sparse = made(seed)
    assert (chosen_by(sparse, Objective(measure, k)) == oracle(dense, measure, k)).all()


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.sampled_from(NAMES))
def test_choice_given_a_few_inputs_then_no_change_of_one_input_is_better(seed: int, measure: str) -> None:
    dense, sparse = made(seed, rows=6, labels=5, density=1.0)
    chosen = chosen_by(sparse, Objective(measure, 2)).astype(float)

    def value(of: np.ndarray) -> float:
        true, times = (dense * of).sum(0), of.sum(0)
        return float(MEASURES[measure](true, times, dense.sum(0), 6e-6).mean())

    reached = value(chosen)
    for row, pair in itertools.product(range(6), itertools.combinations(range(5), 2)):
        other = chosen.copy()
        other[row] = 0
        other[row, list(pair)] = 1
        assert value(other) <= reached + 2e-6


def test_choice_then_gains_expected_and_true_macro_f1_and_costs_precision() -> None:
    random = np.random.default_rng(0)
    dense, sparse = made(1, rows=3000, labels=60, density=1.0)
    Y = random.random(dense.shape) < dense
    best = np.zeros(dense.shape, dtype=bool)
    np.put_along_axis(best, np.argsort(-dense, axis=1)[:, :3], True, axis=1)
    scores = {"macro-f1": f1_score, "macro-precision": precision_score, "macro-recall": recall_score}
    for measure, score in scores.items():
        found = choose(sparse.indptr.astype(np.int64), sparse.indices, sparse.data, 60, Objective(measure, 3))
        chosen = sp.csr_array((found.chosen, sparse.indices, sparse.indptr), shape=sparse.shape).toarray()
        assert (chosen.sum(axis=1) == 3).all()
        reached, plain = (score(Y, of, average="macro", zero_division=0) for of in (chosen, best))
        assert reached > plain
        assert found.value > found.start
        assert reached == pytest.approx(found.value, abs=0.05)
        assert (Y & chosen).sum() < (Y & best).sum()


def test_choice_given_inputs_with_few_or_no_candidates_then_takes_all() -> None:
    indptr, labels = np.array([0, 0, 1, 4]), np.array([2, 0, 1, 2], dtype=np.int32)
    found = choose(indptr, labels, np.array([0.1, 0.2, 0.3, 0.9]), 3, Objective("macro-f1", 2))
    assert found.chosen[0]
    assert found.chosen[1:].sum() == 2
    empty = choose(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), 3, Objective("macro-f1", 2))
    assert empty.chosen.shape == (0,)
    assert empty.value == 0


@pytest.mark.parametrize(
    "words", ["f1@5", "macro-f1", "macro-f1@0", "macro-f1@-1", "macro-f1@5 ", "", None, 5]
)
def test_objective_given_nonsense_then_names_what_there_is(words: object) -> None:
    with pytest.raises(ValueError, match="macro-f1@5, macro-precision@5, macro-recall@5"):
        Objective.parse(words)
    assert str(Objective.parse("macro-recall@10")) == "macro-recall@10"


# --- xCOLUMNs 0.0.2 ---


@pytest.mark.skipif(not XCOLUMNS.exists(), reason="make .venv-xcolumns/installed installs xCOLUMNs")
@pytest.mark.parametrize("measure", NAMES)
def test_choice_is_that_of_xcolumns(measure: str, tmp_path: Path) -> None:
    sparse = made(7, rows=400, labels=60)[1]
    assert (chosen_by(sparse, Objective(measure, 5)) == _xcolumns(sparse, measure, 5, tmp_path)).all()


def test_choice_is_what_xcolumns_chose_when_it_was_asked() -> None:
    """Twelve inputs, two labels each, for every measure: as the test above found it once."""
    sparse = made(3, rows=12, labels=8)[1]
    for measure, rows in json.loads((ROOT / "tests/xcolumns_choice.json").read_text()).items():
        chosen = chosen_by(sparse, Objective(measure, 2))
        assert [np.flatnonzero(row).tolist() for row in chosen] == rows, measure


def _xcolumns(sparse: sp.csr_array, measure: str, k: int, folder: Path) -> np.ndarray:
    source, target = folder / "in.npz", folder / "out.npy"
    np.savez(
        source,
        indptr=sparse.indptr,
        labels=sparse.indices,
        probability=sparse.data,
        n_labels=sparse.shape[1],
        k=k,
        measure=measure,
    )
    program = Path(__file__).with_name("xcolumns_choice.py")
    subprocess.run([str(XCOLUMNS), str(program), str(source), str(target)], check=True, capture_output=True)
    return np.load(target)


# --- of a model ---


@pytest.fixture(scope="module")
def calibrated() -> HedgerowTextClassifier:
    model = HedgerowTextClassifier(method="bagging", members=3, leaf_size=3, random_state=0, n_jobs=1)
    model.fit(*some_texts(150, 1))
    texts, labels = some_texts(900, 2)
    new = np.flatnonzero(~model.seen_in_training(texts))
    learn_from_held_out(model, [texts[i] for i in new], [labels[i] for i in new])
    return model


def test_decide_then_accepts_what_is_chosen_from_the_calibrated_votes(calibrated) -> None:
    texts = some_texts(80, 5)[0]
    found = calibrated.decide(texts, optimise="macro-f1@2")
    votes = calibrated.predict_votes(texts)
    objective = Objective("macro-f1", 2)
    choice = choose(votes.indptr, votes.labels, votes.means(), votes.n_labels, objective)
    rows = np.repeat(np.arange(80), np.diff(votes.indptr))
    accepted = [set(votes.classes[votes.labels[choice.chosen & (rows == row)]].tolist()) for row in range(80)]
    assert [set(one.accept) for one in found] == accepted
    assert not found.count("review").any()
    assert found.is_ood is not None
    assert f"expected macro-f1@2 is {choice.value:.4f}" in found.guarantee
    assert "nothing is guaranteed" in found.guarantee
    assert found.answered.all()
    assert calibrated.decide([], optimise="macro-f1@2").indptr.tolist() == [0]


def test_decide_then_is_the_same_at_any_number_of_threads_and_lists_k_labels(calibrated) -> None:
    texts = some_texts(60, 6)[0]
    first = calibrated.decide(texts, optimise="macro-recall@1", k=4)
    other = calibrated.set_params(n_jobs=3).decide(texts, optimise="macro-recall@1", k=4)
    calibrated.set_params(n_jobs=1)
    assert first.to_dict() == other.to_dict()
    assert (np.diff(first.indptr) >= 4).all()
    assert (first.count("accept") == 1).all()
    more = calibrated.decide(texts, optimise="macro-f1@50")
    assert (more.count("accept") == np.diff(more.indptr)).all()


def test_decide_given_some_labels_then_chooses_among_them(calibrated) -> None:
    texts = some_texts(30, 7)[0]
    only = ["berry", "edge", "gall"]
    found = calibrated.decide(texts, optimise="macro-f1@2", only=only)
    assert {label for one in found for label in one.accept} <= set(only)
    assert (found.count("accept") == 2).all()


def test_decide_given_another_goal_or_no_calibration_then_says_so(calibrated) -> None:
    with pytest.raises(ValueError, match="leave out all other goals"):
        calibrated.decide(["ash"], optimise="macro-f1@2", size=3)
    with pytest.raises(ValueError, match="it must be a measure"):
        calibrated.decide(["ash"], optimise="accuracy")
    with pytest.raises(NotFittedError, match="hedgerow calibrate"):
        calibrated.uncalibrated().decide(["ash"], optimise="macro-f1@2")


def test_command_decides_as_the_library_does(calibrated, tmp_path: Path) -> None:
    model, data = tmp_path / "model.hedgerow", tmp_path / "new.jsonl"
    calibrated.save(model)
    texts = some_texts(20, 8)[0]
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    run = CliRunner().invoke(app, ["decide", str(model), str(data), "--optimise", "macro-f1@2", "--json"])
    assert run.exit_code == 0, run.output
    accepted = [
        [one["label"] for one in json.loads(line)["labels"] if one["decision"] == "accept"]
        for line in run.stdout.splitlines()
    ]
    assert accepted == [one.accept for one in calibrated.decide(texts, optimise="macro-f1@2")]
    refused = CliRunner().invoke(
        app, ["decide", str(model), str(data), "--optimise", "macro-f1@2", "--size", "3"]
    )
    assert refused.exit_code != 0
    assert "leave out all other goals" in str(refused.exception)
