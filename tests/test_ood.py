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


def some_signals(rows: int, seed: int = 0, near: bool = False) -> Signals:
    """Signals at random; with `near`, those of centroids, too."""
    random = np.random.default_rng(seed)
    names = ["first_layer", "second_layer", "third_layer", "unknown_pairs", "rarity"]
    names += ["nearest_label", "nearest_labels"] if near else []
    columns = {name: random.normal(3, 1 + number, rows) for number, name in enumerate(names)}
    words = random.integers(0, 60, rows).astype(float)
    return Signals(**columns, words=words, unknown_words=random.random(rows))


OF_WORDS, OF_TREES = ("unknown_pairs", "rarity"), ("first_layer", "second_layer", "third_layer")
OF_LABELS = ("nearest_label", "nearest_labels")


@pytest.mark.parametrize("near", [False, True])
def test_score_is_fishers_combination_of_p_values_with_equal_groups(near: bool) -> None:
    signals = some_signals(80, near=near)
    found = OODDetector.learn(signals).judge(signals)
    groups = [OF_WORDS, OF_TREES, OF_LABELS] if near else [OF_WORDS, OF_TREES]
    expected = np.full(80, -1.0)
    assert isinstance(signals.words, np.ndarray)
    for group in groups:
        for name in group:
            values = getattr(signals, name)
            weight = signals.words / (signals.words + 5) if group is OF_WORDS else np.ones(80)
            odd = weight * (values - values[::2].mean()) * (1 if group is OF_WORDS else -1)
            reference = odd[::2]
            p = np.array([(1 + (reference >= one - 1e-12).sum()) / 41 for one in odd])
            beyond = np.maximum(0, odd - reference.max()) / reference.std()
            expected += (beyond - np.log(p)) / len(group) / len(groups)
    np.testing.assert_allclose(found.score, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sum(found.parts.values()), expected, rtol=1e-9, atol=1e-9)
    reference = expected[1::2]
    np.testing.assert_allclose(
        found.p_value, [(1 + (reference >= score - 1e-9).sum()) / 41 for score in expected]
    )


def test_score_of_an_older_file_is_the_mean_of_deviations_turned_so_that_high_is_odd() -> None:
    signals = some_signals(80)
    names = [*OF_WORDS, *OF_TREES]
    mean = np.array([getattr(signals, name)[::2].mean() for name in names])
    sections = {
        "familiar.mean": mean,
        "familiar.deviation": np.arange(1.0, 6.0),
        "familiar.scores": np.linspace(-1, 1, 40),
    }
    detector = OODDetector.from_sections(names, sections)
    assert detector.to_sections().keys() == sections.keys()
    found = detector.judge(signals)
    expected = np.zeros(80)
    assert isinstance(signals.words, np.ndarray)
    for name, centre, deviation in zip(names, mean, np.arange(1.0, 6.0), strict=True):
        weight = signals.words / (signals.words + 5) if name in OF_WORDS else np.ones(80)
        departures = weight * (getattr(signals, name) - centre)
        expected += (1 / 4 if name in OF_WORDS else -1 / 6) * departures / deviation
    np.testing.assert_allclose(found.score, expected, rtol=1e-12, atol=1e-12)


def test_many_held_out_inputs_then_are_kept_as_some_thousand_knots_that_say_the_same() -> None:
    many = some_signals(6000, seed=1)
    detector = OODDetector.learn(many)
    knots = detector.to_sections()["familiar.knots"]
    assert knots.shape == (5, 1024)
    score = detector.judge(some_signals(500, seed=2)).score
    assert abs(score.mean()) < 0.1
    # Every other input gives the knots; their p-values over the rest are even.
    p_value = detector.judge(some_signals(4000, seed=3)).p_value
    assert (p_value <= 0.1).mean() == pytest.approx(0.1, abs=0.03)


def test_texts_of_another_world_are_odder_than_the_familiar(
    text_model: HedgerowTextClassifier, texts: tuple[list[str], list[list[str]], list[str]]
) -> None:
    random = np.random.default_rng(0)
    strange = ["the hawthorn blossoms white along the muddy lane while thrushes sing at dusk in early may"]
    mixed = [" ".join(random.permutation(words_of(text))) for text in texts[2][1::2]]
    assert text_model.ood_scores(strange).p_value[0] <= 0.1
    assert text_model.ood_scores(mixed).score.mean() > text_model.ood_scores(texts[2]).score.mean() + 0.3


def test_few_words_count_less_than_many(text_model: HedgerowTextClassifier) -> None:
    found = text_model.ood_scores(["quagga", "quagga okapi", " ".join(["quagga okapi"] * 40)])
    parts = found.parts["rarity"]
    assert 0 < parts[0] < parts[1] < parts[2]


def test_signal_that_never_changes_does_not_divide_by_zero() -> None:
    found = OODDetector.learn(as_signals(np.ones(50), np.ones(50))).judge(as_signals([1.0, 0.0], [1.0, 0.0]))
    np.testing.assert_allclose(found.score, [-1.0, np.log(26)])
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


def test_p_value_of_every_rank_over_all_orders_is_exact_but_for_equal_scores() -> None:
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
    # Scores are equal where no held-out input lies between two values: then the larger p-value counts.
    assert (np.sort(found) >= np.arange(1, 22) / 21 - 1e-12).all()
    assert np.isclose(np.sort(found), np.arange(1, 22) / 21).sum() >= 5


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


# --- centroids -------------------------------------------------------------------------------------------


def cosines(model: HedgerowClassifier, X: Any, Y: Any, new: Any) -> Floats:
    """Of new rows and the centroids of labels, dense."""
    dense = [np.asarray(of.toarray(), dtype=np.float64) for of in (X, new)]
    rows, others = (of / np.maximum(np.linalg.norm(of, axis=1, keepdims=True), 1e-12) for of in dense)
    sums = Y.toarray().astype(float).T @ rows
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    return others @ np.divide(sums, norms, out=np.zeros_like(sums), where=norms > 0).T


def test_training_data_then_give_cosines_to_the_nearest_labels(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array], tmp_path: Path
) -> None:
    X, Y = data
    near = copy.deepcopy(model).learn_ood(X[200:], training=(X[:200], Y[:200]))
    assert near.ood_detector_.names[-2:] == ("nearest_label", "nearest_labels")
    found = near.ood_scores(X[200:]).signals
    dense = -np.sort(-cosines(model, X[:200], Y[:200], X[200:]), axis=1)[:, :10]
    np.testing.assert_allclose(found.nearest_label, dense[:, 0], atol=2e-3)
    np.testing.assert_allclose(found.nearest_labels, dense.mean(axis=1), atol=2e-3)
    near.save(tmp_path / "near")
    opened = hedgerow.load(tmp_path / "near")
    assert_same(opened.ood_scores(X), near.ood_scores(X))
    opened.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "near").read_bytes()
    one = [near.ood_scores(X[[row]]).score[0] for row in range(20)]
    assert one == near.set_params(n_jobs=3).ood_scores(X[:20]).score.tolist()
    again = opened.learn_ood(X[200:])  # keeps the centroids
    assert "nearest_label" in again.ood_detector_.names
    assert model.ood_detector_.names == OF_TREES


def test_judge_has_centroids_without_training_data(data: tuple[sp.csr_array, sp.csr_array]) -> None:
    X, Y = random_problem(5, 900, 40, 20)
    judged = HedgerowClassifier(judge=True, wide=10, random_state=0, leaf_size=5).fit(X[:700], Y[:700])
    if judged.model_.judge is None:
        pytest.skip("the judge was left out")
    judged.learn_ood(X[700:])
    assert "nearest_label" in judged.ood_detector_.names
    assert judged.model_.centroids is None


def test_centroids_of_a_crafted_file_are_checked(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array], tmp_path: Path
) -> None:
    X, Y = data
    near = copy.deepcopy(model).learn_ood(X[200:], training=(X[:200], Y[:200]))
    near.save(tmp_path / "near")
    file = read_model(tmp_path / "near")
    sections, header = dict(file.sections), json.loads(json.dumps(file.header))
    for name in [name for name in sections if name.startswith("centroids.")]:
        fewer = {other: values for other, values in sections.items() if other != name}
        write_model(tmp_path / "crafted", fewer, header, overwrite=True)
        with pytest.raises(Malformed):
            hedgerow.load(tmp_path / "crafted")
    plain = {name: value for name, value in header.items() if name != "centroids"}
    write_model(tmp_path / "crafted", sections, plain, overwrite=True)
    with pytest.raises(Malformed, match="does not have"):
        hedgerow.load(tmp_path / "crafted")


def test_training_data_without_known_labels_are_refused(
    model: HedgerowClassifier, data: tuple[sp.csr_array, sp.csr_array]
) -> None:
    X, Y = data
    with pytest.raises(ValueError, match="has a label that the model knows"):
        model.learn_ood(X[200:], training=(X[:50], sp.csr_array((50, Y.shape[1]), dtype=np.int8)))


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
        (lambda sections, header: sections.update({"familiar.knots": np.zeros((2, 30))}), "do not fit"),
        (lambda sections, header: sections.update({"familiar.knots": np.zeros((3, 10))}), "do not fit"),
        (lambda sections, header: sections.update({"familiar.knots": np.zeros(30)}), "not a table"),
        (
            lambda sections, header: sections.update(
                {"familiar.knots": np.array(sections["familiar.knots"])[:, ::-1].copy()}
            ),
            "knots of the OOD detector are not sorted",
        ),
        (lambda sections, header: sections.pop("familiar.knots"), "familiar.deviation"),
        (
            lambda sections, header: header.update(familiar=["nearest_label", "first_layer", "second_layer"]),
            "does not have",
        ),
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
