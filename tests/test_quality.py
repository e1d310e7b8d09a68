"""How good answers are expected to be: beside brute force, scikit-learn, and over random cuts."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner
from whole_model import some_texts

from hedgerow import HedgerowClassifier, HedgerowTextClassifier, learn_from_held_out, load
from hedgerow.cli.app import app
from hedgerow.inputs.search import SearchSettings
from hedgerow.quality.evidence import OF_VOTES
from hedgerow.quality.expectation import ExpectedQuality, Forecast, QualityModel, TooFewInputs
from hedgerow.quality.learning import shares_of
from hedgerow.storage.container import Malformed, read_model, write_model

SEARCH = SearchSettings()


def made(rows: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Numbers of inputs, the precision of their best five labels, and a recall that some do not have."""
    random = np.random.default_rng(seed)
    evidence = {name: random.normal(size=rows) for name in (*OF_VOTES, *(f"label_{i}" for i in range(1, 6)))}
    chance = expit(1.5 * evidence["best"] + 0.5 * evidence["expected"] - 0.3)
    precision = random.binomial(5, chance) / 5
    true = random.integers(0, 8, rows)
    hits = np.minimum(precision * 5, true)
    recall = np.where(true > 0, hits / np.maximum(true, 1), np.nan)
    return evidence, precision, recall


def some(evidence: dict[str, np.ndarray], rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[rows] for name, values in evidence.items()}


@pytest.fixture(scope="module")
def calibrated() -> HedgerowTextClassifier:
    model = HedgerowTextClassifier(method="bagging", members=3, leaf_size=3, random_state=0, n_jobs=1)
    model.fit(*some_texts(150, 1))
    learn_from_held_out(model, *held_out(model, 600, 2))
    return model


def held_out(model: HedgerowTextClassifier, rows: int, seed: int) -> tuple[list[str], list[list[str]]]:
    texts, labels = some_texts(2 * rows, seed)
    new = np.flatnonzero(~model.seen_in_training(texts))[:rows]
    return [texts[i] for i in new], [labels[i] for i in new]


def test_interval_over_random_cuts_then_holds_for_the_share_that_is_promised() -> None:
    """Of 600 cuts of one population, the mean share within is at least what was asked, and hardly more."""
    evidence, precision, recall = made(4000, 0)
    random = np.random.default_rng(1)
    within: dict[tuple[str, float], list[float]] = {}
    cuts = 600
    for _ in range(cuts):
        rows = random.choice(len(precision), 220, replace=False)
        own, new = rows[:120], rows[120:]
        learned = QualityModel.learn(some(evidence, own), precision[own], recall[own], 5, SEARCH)
        for confidence in (0.5, 0.8, 0.9):
            found = learned.predict(some(evidence, new), confidence)
            for name, truth in (("precision", precision[new]), ("recall", recall[new])):
                has = np.isfinite(truth)
                low, high = (vars(found)[f"{name}_{end}"][has] for end in ("low", "high"))
                inside = (truth[has] >= low) & (truth[has] <= high)
                within.setdefault((name, confidence), []).append(inside.mean())
    assert len(within) == 6
    for (name, confidence), shares in within.items():
        error = np.std(shares) / math.sqrt(cuts)
        assert np.mean(shares) >= confidence - 3 * error, (name, confidence)
        # The exact share is at most 1/41 higher with 40 misses, and more only where some are equal.
        assert np.mean(shares) <= confidence + 0.05, (name, confidence)


def test_interval_where_the_world_has_moved_then_does_not_hold() -> None:
    evidence, precision, recall = made(3000, 0)
    learned = QualityModel.learn(some(evidence, np.arange(1500)), precision[:1500], recall[:1500], 5, SEARCH)
    found = learned.predict(some(evidence, np.arange(1500, 3000)), 0.9)
    moved = 1 - precision[1500:]
    assert ((moved >= found.precision_low) & (moved <= found.precision_high)).mean() < 0.8


def test_expected_shares_are_those_of_a_penalised_likelihood_found_by_another_optimiser() -> None:
    evidence, precision, recall = made(300, 3)
    learned = QualityModel.learn(evidence, precision, recall, 5, SEARCH)
    fitting = np.zeros(300, dtype=bool)
    fitting[np.random.default_rng(0).permutation(300)[:150]] = True
    table = np.column_stack(list(evidence.values()))[fitting]
    standard = (table - table.mean(axis=0)) / table.std(axis=0)

    before = np.zeros(standard.shape[1])
    before[list(evidence).index("best")] = table[:, list(evidence).index("best")].std()

    def loss(weights: np.ndarray) -> float:
        z = weights[0] + standard @ weights[1:]
        likelihood = np.logaddexp(0, z) - precision[fitting] * z
        return float(likelihood.sum() + 15 * ((weights[1:] - before) ** 2).sum())

    found = minimize(loss, np.zeros(1 + table.shape[1]), method="BFGS", options={"gtol": 1e-6})
    assert np.allclose(learned.precision.weights, found.x, atol=1e-3)
    assert np.allclose(
        expit(found.x[0] + standard @ found.x[1:]),
        learned.predict(some(evidence, fitting)).precision,
        atol=1e-3,
    )
    # Likelihood with a free constant: the mean of what is expected is the mean of what was seen.
    assert learned.predict(some(evidence, fitting)).precision.mean() == pytest.approx(
        precision[fitting].mean(), abs=1e-4
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.floats(0.01, 0.99))
def test_interval_is_that_of_the_definition_by_brute_force(seed: int, rows: int, confidence: float) -> None:
    random = np.random.default_rng(seed)
    misses = np.sort(random.random(rows))
    forecast = Forecast(np.zeros(1), misses)
    expected = random.random(7)
    allowed = [miss for miss in misses if (misses <= miss).sum() >= confidence * (rows + 1) - 1e-9]
    if not allowed:
        with pytest.raises(ValueError, match="ask for less, or calibrate with more"):
            forecast.interval(expected, confidence)
        return
    low, high = forecast.interval(expected, confidence)
    half = min(allowed) * np.sqrt(expected * (1 - expected) + 0.01)
    assert np.allclose(low, np.clip(expected - half, 0, 1))
    assert np.allclose(high, np.clip(expected + half, 0, 1))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_shares_are_those_of_sets(seed: int) -> None:
    random = np.random.default_rng(seed)
    Y = random.random((6, 9)) < 0.3
    known = random.random(9) < 0.7
    columns = np.array([random.permutation(7)[:3] for _ in range(6)])
    precision, recall = shares_of(columns, sp.csr_array(Y.astype(np.int8)), known)
    for row in range(6):
        true = set(np.flatnonzero(Y[row] & known).tolist())
        hits = len(true & set(columns[row].tolist()))
        assert precision[row] == hits / 3
        assert math.isnan(recall[row]) if not true else recall[row] == hits / len(true)


def test_learning_from_too_few_inputs_then_is_refused_and_calibrate_goes_on_without() -> None:
    evidence, precision, recall = made(39, 0)
    with pytest.raises(TooFewInputs, match="at least 40"):
        QualityModel.learn(evidence, precision, recall, 5, SEARCH)
    model = HedgerowTextClassifier(leaf_size=3, random_state=0, n_jobs=1).fit(*some_texts(60, 1))
    learned = learn_from_held_out(model, *held_out(model, 120, 5), share=0.8)
    assert not learned.quality
    assert model.model_.quality is None
    with pytest.raises(NotFittedError, match="hedgerow calibrate"):
        model.expected_quality(["ash"])


def test_expected_quality_of_a_model_then_is_near_what_comes_true(calibrated) -> None:
    texts, labels = held_out(calibrated, 500, 9)
    found = calibrated.expected_quality(texts)
    best = calibrated.top(texts, 5).labels
    precision = np.array(
        [len(set(own) & set(true)) / 5 for own, true in zip(best.tolist(), labels, strict=True)]
    )
    recall = np.array(
        [len(set(own) & set(true)) / len(true) for own, true in zip(best.tolist(), labels, strict=True)]
    )
    assert found.k == 5
    assert abs(found.precision.mean() - precision.mean()) < 0.05
    assert abs(found.recall.mean() - recall.mean()) < 0.05
    assert np.abs(found.precision - precision).mean() < np.abs(precision.mean() - precision).mean()
    inside = (precision >= found.precision_low) & (precision <= found.precision_high)
    assert inside.mean() > 0.85


def test_expected_quality_is_the_same_bits_in_batches_of_any_size_and_at_any_number_of_threads(
    calibrated,
) -> None:
    texts = held_out(calibrated, 60, 11)[0]
    whole = calibrated.expected_quality(texts).columns()
    alone = [calibrated.expected_quality([text]).columns() for text in texts]
    for name, values in whole.items():
        assert values.tolist() == [of[name][0] for of in alone], name
    threads = load_threads(calibrated, 3)
    assert all(
        (threads.expected_quality(texts).columns()[name] == values).all() for name, values in whole.items()
    )
    again = (
        load_threads(calibrated, 2).learn_quality(*held_out(calibrated, 200, 12)).quality_.precision.weights
    )
    assert calibrated.uncalibrated().learn_quality(*held_out(calibrated, 200, 12)).quality_ is not None
    assert (
        again
        == load_threads(calibrated, 1)
        .learn_quality(*held_out(calibrated, 200, 12))
        .quality_.precision.weights
    ).all()
    assert calibrated.expected_quality([]).precision.shape == (0,)


def load_threads(model: HedgerowTextClassifier, threads: int) -> HedgerowTextClassifier:
    """Another object with the same fitted model."""
    other = model.uncalibrated().set_params(n_jobs=threads)
    other.model_ = model.model_
    return other


def test_file_gives_back_what_is_expected_and_learning_again_forgets_it(calibrated, tmp_path: Path) -> None:
    path = tmp_path / "model.hedgerow"
    calibrated.save(path)
    opened = load(path)
    texts = held_out(calibrated, 20, 13)[0]
    before, after = (
        model.expected_quality(texts, confidence=0.8).columns() for model in (calibrated, opened)
    )
    assert all((before[name] == after[name]).all() for name in before)
    assert opened.describe()["quality"]["labels"] == 5
    assert opened.uncalibrated().model_.quality is None
    assert opened.calibrate(*held_out(calibrated, 300, 14)).model_.quality is None
    with pytest.raises(ValueError, match="beam is 3, but the expected quality was learned with 50"):
        load(path).set_params(beam=3).expected_quality(texts)


@pytest.mark.parametrize(
    ("section", "change", "words"),
    [
        ("quality.weights", lambda of: of[:1], "wrong type or shape"),
        ("quality.weights", lambda of: of * np.nan, "wrong type or shape"),
        ("quality.scaling", lambda of: of * 0, "not positive"),
        ("quality.precision", lambda of: of[::-1].copy(), "ascend"),
        ("quality.recall", lambda of: of.astype(np.float32), "finite numbers"),
        ("quality.recall", lambda of: of[:0], "ascend"),
    ],
)
def test_damaged_sections_are_refused(calibrated, tmp_path: Path, section, change, words) -> None:
    path, crafted = tmp_path / "model.hedgerow", tmp_path / "crafted.hedgerow"
    calibrated.save(path)
    file = read_model(path)
    write_model(
        crafted, dict(file.sections) | {section: change(np.array(file.sections[section]))}, file.header
    )
    with pytest.raises(Malformed, match=words):
        load(crafted)


@pytest.mark.parametrize(
    "changed",
    [{"k": 0}, {"k": True}, {"names": ["best", "best"]}, {"names": ["age"]}, {"search": {}}, {"more": 1}],
)
def test_crafted_headers_are_refused(calibrated, changed) -> None:
    header, sections = calibrated.quality_.to_sections()
    with pytest.raises(ValueError, match="expected quality"):
        QualityModel.from_sections(header | changed, sections)
    back = QualityModel.from_sections(json.loads(json.dumps(header)), sections)
    assert back.names == calibrated.quality_.names


def test_model_of_features_with_few_labels_then_predicts_all_of_them() -> None:
    random = np.random.default_rng(0)
    X = sp.random_array((400, 8), density=0.5, rng=random, format="csr", dtype=np.float32)
    Y = sp.csr_array((X @ random.normal(size=(8, 3)) > 0.3).astype(np.int8))
    model = HedgerowClassifier(leaf_size=3, random_state=0).fit(X[:200], Y[:200])
    model.learn_quality(X[200:], Y[200:])
    found = model.expected_quality(X[200:])
    assert found.k == 3
    assert "words" not in model.quality_.names
    has = np.diff(Y[200:].indptr) > 0
    assert np.allclose(found.recall[has], 1, atol=0.05)  # all labels are listed


def test_predict_quality_then_writes_it_beside_the_labels(calibrated, tmp_path: Path) -> None:
    path, data = tmp_path / "model.hedgerow", tmp_path / "new.jsonl"
    calibrated.save(path)
    texts = held_out(calibrated, 3, 15)[0]
    data.write_text("".join(json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(texts)))
    run = CliRunner().invoke(
        app, ["predict", str(path), str(data), "--quality", "--confidence", "0.8", "-k", "2"]
    )
    assert run.exit_code == 0, run.output
    expected = calibrated.expected_quality(texts, confidence=0.8)
    for row, line in enumerate(run.stdout.splitlines()):
        found = json.loads(line)["input"]
        assert found == {name: values[row] for name, values in expected.columns().items()}
    refused = CliRunner().invoke(app, ["predict", str(path), str(data), "--confidence", "0.8"])
    assert refused.exit_code != 0
    calibrated_not = replace(calibrated.model_, quality=None)
    plain = calibrated.uncalibrated()
    plain.model_ = calibrated_not
    plain.save(path, overwrite=True)
    run = CliRunner().invoke(app, ["predict", str(path), str(data), "--quality"])
    assert run.exit_code != 0
    assert "hedgerow calibrate" in str(run.exception)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.floats(0, 1), st.floats(0, 1))
def test_words_then_name_every_number_of_right_labels_whose_share_is_in_the_interval(
    k: int, expected: float, half: float
) -> None:
    low, high = max(0.0, expected - half), min(1.0, expected + half)
    shares = [np.array([share]) for share in (expected, low, high)]
    about, least, most = ExpectedQuality(k, 0.9, *shares, *shares).right(0)
    inside = [number for number in range(k + 1) if low - 1e-9 <= number / k <= high + 1e-9]
    assert set(inside) <= set(range(least, most + 1)) <= {*inside, about}
    assert abs(about - k * expected) <= 0.5


def columns_of(found: ExpectedQuality) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in found.columns().items()}


@pytest.mark.parametrize(
    "goal", [{}, {"missed_at_most": 0.3}, {"optimise": "macro-f1@5"}, {"optimise": "macro-f1@12"}], ids=str
)
@pytest.mark.parametrize("change", [{}, {"beam": 2}], ids=str)
def test_decide_then_says_of_each_input_what_expected_quality_says(calibrated, goal, change) -> None:
    texts = held_out(calibrated, 60, 16)[0]
    model = calibrated
    if change:  # a search that must be widened for five labels
        model = load_threads(calibrated, 1).set_params(**change)
        model.model_ = replace(model.model_, search=replace(model.model_.search, **change))
        learn_from_held_out(model, *held_out(calibrated, 400, 17))
        assert not model.source.finds(5)
    found = model.decide(texts, **goal)
    assert columns_of(found.quality) == columns_of(model.expected_quality(texts))
    assert found.to_dict()["inputs"][3]["quality"]["precision"] == found.quality.precision[3]
    assert found.quality.confidence == 0.9


def test_decide_on_some_labels_or_without_having_learned_it_then_expects_nothing(calibrated) -> None:
    texts = held_out(calibrated, 5, 18)[0]
    assert calibrated.decide(texts, only=calibrated.classes_[:4]).quality is None
    plain = load_threads(calibrated, 1)
    plain.model_ = replace(plain.model_, quality=None)
    for goal in ({}, {"optimise": "macro-f1@5"}):
        found = plain.decide(texts, **goal)
        assert found.quality is None
        assert "quality" not in found.to_dict()["inputs"][0]
        assert found.labels.tolist() == calibrated.decide(texts, **goal).labels.tolist()


def test_decide_on_the_command_line_then_expected_quality_is_in_the_lines_and_the_summary(
    calibrated, tmp_path: Path
) -> None:
    path, data = tmp_path / "model.hedgerow", tmp_path / "new.jsonl"
    calibrated.save(path)
    texts = held_out(calibrated, 4, 19)[0]
    data.write_text("".join(json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(texts)))
    expected = calibrated.expected_quality(texts)
    run = CliRunner().invoke(app, ["decide", str(path), str(data), "--json"])
    assert run.exit_code == 0, run.output
    for row, line in enumerate(run.stdout.splitlines()):
        found = json.loads(line)["input"]
        assert {name: found[name] for name in expected.columns()} == {
            name: values[row] for name, values in expected.columns().items()
        }
    run = CliRunner().invoke(app, ["decide", str(path), str(data)])
    said = f"Of the best 5 labels of an input, {5 * expected.precision.mean():.1f} are expected to be right"
    assert said in run.output.replace("\n", " ")
