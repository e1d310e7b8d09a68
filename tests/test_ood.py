"""OOD score: its signals are what their definitions say, and its p-values keep their guarantee."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from dense_oracle import random_problem
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowTextClassifier, OODDetector, OODScores, Signals
from hedgerow.data.sample import load_sample
from hedgerow.features.tfidf import TfidfVectorizer
from hedgerow.storage.container import Malformed, read_model, write_model
from hedgerow.votes.measures import energy_of

MANY = settings(max_examples=60, deadline=None, derandomize=True)
ODD = ["", "!", "word", "zebra", "quagga okapi quagga", "a music player for the terminal with playlists"]

Floats = npt.NDArray[np.float64]


def words_of(text: str) -> list[str]:
    return re.findall(r"\w\w+", text.lower())


def as_signals(first: npt.ArrayLike, second: npt.ArrayLike, **of_words: Any) -> Signals:
    """With a third layer that says what the second does."""
    low = np.asarray(second, dtype=float)
    return Signals(np.asarray(first, dtype=float), low, low, **of_words)


def assert_same(first: OODScores, second: OODScores) -> None:
    np.testing.assert_array_equal(first.score, second.score)
    np.testing.assert_array_equal(first.p_value, second.p_value)
    assert first.signals.columns().keys() == second.signals.columns().keys()
    for name, values in first.signals.columns().items():
        np.testing.assert_array_equal(values, second.signals.columns()[name], err_msg=name)


@pytest.fixture(scope="module")
def texts() -> tuple[list[str], list[list[str]], list[str]]:
    sample = load_sample()
    return sample.train_texts[:600], sample.train_labels[:600], sample.train_texts[600:900]


@pytest.fixture(scope="module")
def text_model(texts: tuple[list[str], list[list[str]], list[str]]) -> HedgerowTextClassifier:
    model = HedgerowTextClassifier(method="bagging", members=3, random_state=0, leaf_size=10)
    return model.fit(texts[0], texts[1]).learn_ood(texts[2])


@pytest.fixture(scope="module")
def data() -> tuple[sp.csr_array, sp.csr_array]:
    return random_problem(3, 260, 40, 60)


@pytest.fixture(scope="module")
def model(data: tuple[sp.csr_array, sp.csr_array]) -> HedgerowClassifier:
    X, Y = data
    fitted = HedgerowClassifier(method="bagging", members=3, random_state=0, leaf_size=4, branching=3)
    return fitted.fit(X[:200], Y[:200]).learn_ood(X[200:])


# --- the signals ----------------------------------------------------------------------------------------


def squashed(scores: Floats, transform: str) -> Floats:
    if transform == "l3-hinge":
        return np.exp(-(np.maximum(0, 1 - scores) ** 3))
    return 1 / (1 + np.exp(-scores))


def node_probabilities(model: HedgerowClassifier, X: sp.csr_array) -> Iterator[list[Floats]]:
    """For every member, the probabilities of all nodes of the first three layers, from its dense weights."""
    dense = X.toarray().astype(np.float64)
    norms = np.linalg.norm(dense, axis=1, keepdims=True)
    dense = np.divide(dense, norms, out=np.zeros_like(dense), where=norms > 0)
    for tree in model.model_.forest.trees:
        for member in range(tree.members):
            layers = [np.ones((len(dense), 1))]
            for layer in range(min(3, tree.tree.depth)):
                below = []
                for node in range(tree.tree.layer_sizes[layer]):
                    features, lanes, values, bias = tree.node_weights(layer, node)
                    weights = np.zeros((len(bias), dense.shape[1]))
                    weights[lanes, features] = values
                    scores = dense @ weights.T + bias
                    children = len(bias) // tree.members
                    own = scores[:, member * children : (member + 1) * children]
                    below.append(layers[-1][:, [node]] * squashed(own, tree.transform))
                layers.append(np.hstack(below))
            yield layers[1:]


def expected_reach(model: HedgerowClassifier, X: sp.csr_array) -> Floats:
    """The energies of the best 2, 4 and 8 nodes of three layers, below the best four of the layer above."""
    found = list(node_probabilities(model, X))
    sums = np.zeros((3, X.shape[0]))
    for number, layers in enumerate(found):
        tree = model.model_.forest.trees[number if len(model.model_.forest.trees) > 1 else 0]
        # Members that share a tree share the way down it.
        shared = (
            layers if tree.members == 1 else [np.mean(level, axis=0) for level in zip(*found, strict=True)]
        )
        for row in range(X.shape[0]):
            met = np.arange(layers[0].shape[1])
            for wanted in range(3):
                layer = min(wanted, len(layers) - 1)
                best = np.sort(layers[layer][row, met])[-(2 ** (wanted + 1)) :]
                sums[wanted, row] += energy_of(best, tree.transform).sum()
                if layer + 1 < len(layers):
                    opened = np.sort(met[np.argsort(-shared[layer][row, met], kind="stable")[:4]])
                    begins = tree.tree.begins[layer + 1]
                    met = np.concatenate([np.arange(begins[node], begins[node + 1]) for node in opened])
    return sums / len(found)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("trees", [None, 1])
@pytest.mark.parametrize(("leaf_size", "depth"), [(4, 4), (20, 2), (100, 1)])
def test_layers_reached_are_the_sums_over_dense_weights(
    data: tuple[sp.csr_array, sp.csr_array], loss: str, trees: int | None, leaf_size: int, depth: int
) -> None:
    X, Y = data
    model = HedgerowClassifier(
        method="bagging", members=3, trees=trees, loss=loss, random_state=0, leaf_size=leaf_size, branching=3
    ).fit(X[:200], Y[:200])
    assert model.tree_.depth == depth
    found = model.learn_ood(X[200:]).ood_scores(X[200:]).signals
    names = ("first_layer", "second_layer", "third_layer")
    for name, expected in zip(names, expected_reach(model, X[200:]), strict=True):
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-3)
    assert tuple(found.columns()) == names


def test_dropout_passes_are_members_and_reach_less_or_more_than_the_whole_model(
    data: tuple[sp.csr_array, sp.csr_array],
) -> None:
    X, Y = data
    whole = HedgerowClassifier(random_state=0).fit(X, Y).learn_ood(X)
    passes = HedgerowClassifier(method="mc-dropout", members=4, random_state=0).fit(X, Y).learn_ood(X)
    one, other = whole.ood_scores(X).signals.first_layer, passes.ood_scores(X).signals.first_layer
    assert (one != other).any()
    np.testing.assert_allclose(one, other, atol=0.5)


any_text = st.lists(
    st.sampled_from(["hedge", "row", "hog", "thorn", "holly", "zebra", "okapi", "x", "Hedge"]), max_size=14
).map(" ".join)


@MANY
@given(st.lists(any_text, min_size=1, max_size=8), st.sampled_from([(1, 1), (1, 2)]))
def test_wording_of_any_texts_is_counted_as_by_python(texts: list[str], ngrams: tuple[int, int]) -> None:
    known = ["hedge row hog", "hedge row thorn", "holly hedge row", "thorn holly", "hog thorn"]
    vectorizer = TfidfVectorizer(ngrams=ngrams, min_count=1).fit(known)
    vocabulary, idf = vectorizer.vocabulary_, vectorizer.idf_.astype(np.float64)
    unknown_idf = max(idf[column] for term, column in vocabulary.items() if " " not in term) + np.log(2)
    found = vectorizer.wording(texts)
    assert vectorizer.has_pairs == (ngrams == (1, 2))
    for row, text in enumerate(texts):
        words = words_of(text)
        pairs = [" ".join(pair) for pair in itertools.pairwise(words)]
        different = [idf[vocabulary[word]] if word in vocabulary else unknown_idf for word in set(words)]
        assert found.words[row] == len(words)
        assert found.unknown_words[row] == sum(word not in vocabulary for word in words)
        assert found.unknown_pairs[row] == sum(pair not in vocabulary for pair in pairs)
        assert found.rarity[row] == pytest.approx(np.mean(different) if different else unknown_idf)


def test_signals_of_texts_are_shares_of_their_words(text_model: HedgerowTextClassifier) -> None:
    known = "a music player"
    found = text_model.ood_scores([f"{known} quagga okapi", known, "", "quagga"]).signals
    columns = found.columns()
    np.testing.assert_array_equal(columns["words"], [4, 2, 0, 1])
    np.testing.assert_array_equal(columns["unknown_words"], [0.5, 0, 0, 1])
    known_pairs = ["music player" in text_model.vectorizer_.vocabulary_, False, False]
    np.testing.assert_allclose(columns["unknown_pairs"], [(3 - known_pairs[0]) / 3, 1 - known_pairs[0], 0, 0])
    assert list(columns) == [
        "first_layer",
        "second_layer",
        "third_layer",
        "words",
        "unknown_words",
        "unknown_pairs",
        "rarity",
    ]


def test_vocabulary_without_pairs_counts_unknown_words_instead(
    texts: tuple[list[str], list[list[str]], list[str]],
) -> None:
    model = HedgerowTextClassifier(ngrams=(1, 1), random_state=0).fit(texts[0], texts[1])
    model.learn_ood(texts[2])
    assert model.ood_detector_.names == (
        "unknown_words",
        "rarity",
        "first_layer",
        "second_layer",
        "third_layer",
    )
    found = model.ood_scores(ODD)
    assert found.signals.unknown_pairs is None
    assert "unknown_pairs" not in found.signals.columns()


# --- the score ------------------------------------------------------------------------------------------


def test_score_is_the_mean_of_deviations_turned_so_that_high_is_odd() -> None:
    random = np.random.default_rng(0)
    columns = {
        name: random.normal(3, 1 + number, 80)
        for number, name in enumerate(
            ["first_layer", "second_layer", "third_layer", "unknown_pairs", "rarity"]
        )
    }
    words = random.integers(0, 60, 80).astype(float)
    signals = Signals(**columns, words=words, unknown_words=random.random(80))
    found = OODDetector.learn(signals).judge(signals)
    expected = np.zeros(80)
    for name, values in columns.items():
        of_words = name in ("unknown_pairs", "rarity")
        weight = words / (words + 5) if of_words else np.ones(80)
        departures = weight * (values - values[::2].mean())
        expected += (1 / 4 if of_words else -1 / 6) * departures / departures[::2].std()
    np.testing.assert_allclose(found.score, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sum(found.parts.values()), expected, rtol=1e-12, atol=1e-12)
    reference = expected[1::2]
    np.testing.assert_allclose(
        found.p_value, [(1 + (reference >= score - 1e-12).sum()) / 41 for score in expected]
    )


def test_texts_of_another_world_are_odder_than_the_familiar(
    text_model: HedgerowTextClassifier, texts: tuple[list[str], list[list[str]], list[str]]
) -> None:
    random = np.random.default_rng(0)
    strange = ["the hawthorn blossoms white along the muddy lane while thrushes sing at dusk in early may"]
    mixed = [" ".join(random.permutation(words_of(text))) for text in texts[2][1::2]]
    assert text_model.ood_scores(strange).p_value[0] <= 0.05
    assert text_model.ood_scores(mixed).score.mean() > text_model.ood_scores(texts[2]).score.mean() + 0.3


def test_few_words_count_less_than_many(text_model: HedgerowTextClassifier) -> None:
    found = text_model.ood_scores(["quagga", "quagga okapi", " ".join(["quagga okapi"] * 40)])
    parts = found.parts["rarity"]
    assert 0 < parts[0] < parts[1] < parts[2]


def test_signal_that_never_changes_does_not_divide_by_zero() -> None:
    found = OODDetector.learn(as_signals(np.ones(50), np.ones(50))).judge(as_signals([1.0, 0.0], [1.0, 0.0]))
    np.testing.assert_array_equal(found.score, [0.0, 1.0])
    np.testing.assert_allclose(found.p_value, [1.0, 1 / 26])


def test_inputs_without_features_and_texts_without_words_have_finite_scores(
    model: HedgerowClassifier, text_model: HedgerowTextClassifier
) -> None:
    for found in (model.ood_scores(sp.csr_array((2, 40))), text_model.ood_scores(ODD)):
        assert np.isfinite(found.score).all()
        assert ((found.p_value > 0) & (found.p_value <= 1)).all()


# --- the guarantee ----------------------------------------------------------------------------------------


@MANY
@given(st.integers(0, 2**32), st.integers(40, 200), st.sampled_from(["normal", "heavy", "ties", "skewed"]))
def test_p_values_of_familiar_inputs_over_many_resamples_are_below_any_level_no_more_often(
    seed: int, held_out: int, shape: str
) -> None:
    random = np.random.default_rng(seed)
    draw = {
        "normal": lambda n: random.normal(size=n),
        "heavy": lambda n: random.standard_cauchy(n),
        "ties": lambda n: random.integers(0, 3, n).astype(float),
        "skewed": lambda n: random.exponential(size=n),
    }[shape]
    resamples, new = 300, 4
    p_values = np.empty((resamples, new))
    for i in range(resamples):
        familiar = OODDetector.learn(as_signals(draw(held_out), draw(held_out)))
        p_values[i] = familiar.judge(as_signals(draw(new), draw(new))).p_value
    for level in (0.05, 0.1, 0.25, 0.5):
        # New inputs share a reference within a resample, so resamples are what is independent.
        shares = (p_values <= level).mean(axis=1)
        chance = 4.5 * shares.std(ddof=1) / np.sqrt(resamples)
        assert shares.mean() <= level + chance + 1e-9


def test_p_value_of_every_rank_over_all_orders_is_exact() -> None:
    random = np.random.default_rng(1)
    values = random.normal(size=21)
    usual = random.normal(size=20)
    found = []
    # Each of 21 exchangeable inputs in turn is the new one; p-values are read from the others.
    for new in range(21):
        held_out = np.empty(40)
        held_out[::2], held_out[1::2] = usual, np.delete(values, new)
        familiar = OODDetector.learn(as_signals(held_out, held_out))
        found.append(familiar.judge(as_signals(values[[new]], values[[new]])).p_value[0])
    np.testing.assert_allclose(np.sort(found), np.arange(1, 22) / 21)


# --- the model ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["features", "text"])
def test_saved_and_copied_models_judge_the_same(
    kind: str,
    tmp_path: Path,
    model: HedgerowClassifier,
    text_model: HedgerowTextClassifier,
    data: tuple[sp.csr_array, sp.csr_array],
) -> None:
    one: HedgerowClassifier = model if kind == "features" else text_model
    X: Any = data[0] if kind == "features" else ODD
    expected = one.ood_scores(X)
    one.save(tmp_path / "model")
    for other in (
        hedgerow.load(tmp_path / "model"),
        hedgerow.load(tmp_path / "model", verify=False),
        pickle.loads(pickle.dumps(one)),
        copy.deepcopy(one),
    ):
        assert_same(other.ood_scores(X), expected)
    hedgerow.load(tmp_path / "model").save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_same_bits_at_any_number_of_threads_and_any_batch(
    text_model: HedgerowTextClassifier, texts: tuple[list[str], list[list[str]], list[str]]
) -> None:
    asked = texts[2][:60] + ODD
    expected = text_model.ood_scores(asked)
    references = text_model.ood_detector_.scores
    try:
        for threads in (1, 2, 5):
            text_model.set_params(n_jobs=threads)
            assert_same(text_model.ood_scores(asked), expected)
            text_model.learn_ood(texts[2])
            np.testing.assert_array_equal(text_model.ood_detector_.scores, references)
    finally:
        text_model.set_params(n_jobs=None)
    for batch in (1, 7):
        pieces = [
            text_model.ood_scores(asked[begin : begin + batch]) for begin in range(0, len(asked), batch)
        ]
        np.testing.assert_array_equal(np.concatenate([piece.score for piece in pieces]), expected.score)
        np.testing.assert_array_equal(np.concatenate([piece.p_value for piece in pieces]), expected.p_value)


def test_changed_search_leaves_unfamiliarity_as_it_was(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array]
) -> None:
    expected = model.ood_scores(data[0])
    other = copy.deepcopy(model).set_params(beam=1, missing="delta", candidates=3)
    assert_same(other.ood_scores(data[0]), expected)


def test_generator_of_texts_is_read_once(text_model: HedgerowTextClassifier) -> None:
    assert_same(text_model.ood_scores(text for text in ODD), text_model.ood_scores(ODD))


def test_fitting_anew_forgets_what_was_familiar(data: tuple[sp.csr_array, sp.csr_array]) -> None:
    X, Y = data
    model = HedgerowClassifier(method="bagging", members=2, random_state=0).fit(X, Y).learn_ood(X)
    assert hasattr(model, "ood_detector_")
    assert not hasattr(clone(model), "ood_detector_")
    model.add_members(X, Y, 1)
    assert not hasattr(model, "ood_detector_")
    assert not hasattr(model.learn_ood(X).fit(X, Y), "ood_detector_")


def test_file_without_familiar_inputs_loads_and_says_what_is_missing(
    data: tuple[sp.csr_array, sp.csr_array], tmp_path: Path
) -> None:
    model = HedgerowClassifier(random_state=0).fit(*data)
    model.save(tmp_path / "model")
    assert not any(name.startswith("familiar") for name in read_model(tmp_path / "model").sections)
    with pytest.raises(NotFittedError, match="call learn_ood with inputs that it was not trained on"):
        hedgerow.load(tmp_path / "model").ood_scores(data[0])


# --- bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["learn_ood", "ood_scores"])
def test_model_that_is_not_fitted_is_refused(call: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(HedgerowClassifier(), call)(sp.csr_array((50, 4)))
    with pytest.raises(NotFittedError):
        getattr(HedgerowTextClassifier(), call)(["a text"] * 50)


def test_too_few_held_out_inputs_are_refused_with_the_number_needed(
    data: tuple[sp.csr_array, sp.csr_array],
) -> None:
    model = HedgerowClassifier(random_state=0).fit(*data)
    with pytest.raises(ValueError, match=r"39 held-out inputs are too few .* at least 40 are needed"):
        model.learn_ood(data[0][:39])
    assert not hasattr(model, "ood_detector_")
    model.learn_ood(data[0][:40])


def test_inputs_of_another_width_or_kind_are_refused(
    model: HedgerowClassifier, text_model: HedgerowTextClassifier
) -> None:
    with pytest.raises(ValueError, match="X has 7 features, but the model is expecting 40"):
        model.ood_scores(sp.csr_array((2, 7)))
    with pytest.raises(TypeError, match="not one string"):
        text_model.ood_scores("one text")
    with pytest.raises(TypeError, match="text 1 is of type int"):
        text_model.ood_scores(["a text", 3])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda sections, header: header.update(familiar=["first_layer", "colour"]), "unknown or"),
        (lambda sections, header: header.update(familiar=[]), "not a list of names"),
        (lambda sections, header: header.update(familiar="rarity"), "not a list of names"),
        (lambda sections, header: header.update(familiar=["first_layer"]), "do not fit"),
        (lambda sections, header: header.update(familiar=["first_layer"] * 2), "repeated"),
        (lambda sections, header: header.update(familiar=[["rarity"], "first_layer"]), "not a list of names"),
        (
            lambda sections, header: header.update(familiar=["rarity", "first_layer", "second_layer"]),
            "does not have",
        ),
        (lambda sections, header: sections.pop("familiar.scores"), "familiar.scores"),
        (lambda sections, header: sections.update({"familiar.mean": np.full(2, np.nan)}), "finite"),
        (lambda sections, header: sections.update({"familiar.mean": np.zeros((2, 1))}), "finite"),
        (lambda sections, header: sections.update({"familiar.deviation": np.zeros(2)}), "do not fit"),
        (lambda sections, header: sections.update({"familiar.scores": np.arange(30.0)[::-1]}), "not sorted"),
        (lambda sections, header: sections.update({"familiar.scores": np.arange(3.0)}), "too few"),
    ],
)
def test_crafted_file_is_refused(
    model: HedgerowClassifier, tmp_path: Path, change: Any, message: str
) -> None:
    model.save(tmp_path / "model")
    file = read_model(tmp_path / "model")
    sections, header = dict(file.sections), json.loads(json.dumps(file.header))
    change(sections, header)
    write_model(tmp_path / "crafted", sections, header)
    with pytest.raises(Malformed, match=message):
        hedgerow.load(tmp_path / "crafted")
