"""Explanations say what removing a feature would do to each member."""

from __future__ import annotations

import copy
import functools
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dense_oracle import log_probability, node_log_probabilities, random_problem
from rich.console import Console
from scipy.sparse import coo_array, csr_array, vstack

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowTextClassifier, explain
from hedgerow.cli import main
from hedgerow.cli.explain import print_explanation
from hedgerow.cli.failures import ExitCode
from hedgerow.trees.forest import Ensemble
from hedgerow.trees.tree_model import TreeClassifier

ENSEMBLES: list[dict[str, Any]] = [
    {},
    {"method": "bagging", "members": 4},
    {"method": "bagging", "members": 4, "trees": 1},
    {"method": "boosted-bagging", "members": 5, "trees": 2},
]


@functools.cache
def fitted(seed: int = 0, **parameters: Any) -> tuple[HedgerowClassifier, csr_array]:
    X, Y = random_problem(seed, 60, 30, 25, density=0.3)
    options: dict[str, Any] = {"leaf_size": 4, "branching": 3, "random_state": seed, "n_jobs": 1}
    return HedgerowClassifier(**(options | parameters)).fit(X, Y), X


def all_votes(model: HedgerowClassifier, X: Any, label: int) -> npt.NDArray[np.float64]:
    """Probabilities of one label, (rows, members), from a search through all labels."""
    votes = copy.copy(model).set_params(candidates="all").predict_votes(X)
    found = np.zeros((len(votes), votes.members))
    for row in range(len(votes)):
        for entry in range(votes.indptr[row], votes.indptr[row + 1]):
            if votes.labels[entry] == label:
                found[row] = votes.probs[entry]
    return found


def assert_effects_are_those_of_removal(model: HedgerowClassifier, row: csr_array, label: int) -> int:
    """Ask the engine about the input without each feature; count what is large enough to compare."""
    found = explain(model, row, label)
    compared = 0
    whole = all_votes(model, row, label)[0]
    np.testing.assert_allclose(found.votes, whole, rtol=1e-4, atol=1e-7)
    without = []
    for feature in found.features.tolist():
        dense = row.toarray()
        dense[0, feature] = 0
        without.append(csr_array(dense))
    for effects, probabilities in zip(found.effects, all_votes(model, vstack(without), label), strict=True):
        for effect, p, rest in zip(effects, whole, probabilities, strict=True):
            if p == 0 and math.isnan(effect):
                continue
            if min(p, rest) > 1e-20:  # below, 32-bit logarithms are too coarse
                assert effect == pytest.approx(math.log(p) - math.log(rest), abs=1e-4)
                compared += 1
    return compared


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("ensemble", ENSEMBLES, ids=str)
def test_effect_of_a_feature_is_what_its_removal_changes(ensemble: dict[str, Any], loss: str) -> None:
    model, X = fitted(normalize=False, loss=loss, weight_threshold=0.0, **ensemble)
    compared = sum(
        assert_effects_are_those_of_removal(model, X[[row]], label)
        for row, label in ((1, 3), (2, 0), (5, 24), (7, 11))
        if X[[row]].nnz
    )
    assert compared > 20


def test_weights_in_several_parts_add_up() -> None:
    # The two trees of members are read as two parts of the weights of half as many members.
    model, X = fitted(method="bagging", members=4, trees=1, normalize=False)
    state = model.model_.forest.trees[0].__getstate__()
    state["header"] |= {"members": 2, "parts": 2}
    tree = TreeClassifier.__new__(TreeClassifier)
    tree.__setstate__(state)
    model = copy.copy(model)
    model.model_ = replace(model.model_, forest=Ensemble([tree], len(model.classes_)))
    assert explain(model, X[[1]], 3).members == 2
    assert sum(assert_effects_are_those_of_removal(model, X[[1]], label) for label in (0, 3, 11)) > 20


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_normalized_model_explains_the_scaled_input_without_scaling_again(loss: str) -> None:
    model, X = fitted(loss=loss)
    tree = model.model_.forest.trees[0]
    row = csr_array(X[[1]] * 7)
    found = explain(model, row, 3)
    assert (found.value**2).sum() == pytest.approx(1)
    scaled = row.toarray() / np.sqrt((row.toarray() ** 2).sum())

    def log(x: Any) -> float:
        place = tree.tree.path(3)[-1]
        return float(node_log_probabilities(tree, x, tree.tree.depth, normalize=False)[0, place])

    assert found.probability == pytest.approx(math.exp(log(scaled)), abs=1e-6)
    for feature, effect in zip(found.features.tolist(), found.effect, strict=True):
        without = scaled.copy()
        without[0, feature] = 0
        assert effect == pytest.approx(log(scaled) - log(without), abs=1e-5)


@pytest.mark.parametrize("ensemble", ENSEMBLES, ids=str)
def test_bias_is_what_members_say_of_an_input_without_features(ensemble: dict[str, Any]) -> None:
    model, X = fitted(loss="logistic", **ensemble)
    nothing = csr_array((1, X.shape[1]), dtype=np.float32)
    expected = all_votes(model, nothing, 3)[0]
    found = explain(model, X[[1]], 3)
    np.testing.assert_allclose(np.exp(found.bias[expected > 0]), expected[expected > 0], rtol=1e-4)
    empty = explain(model, nothing, 3)
    assert len(empty) == 0
    np.testing.assert_array_equal(empty.bias, found.bias)
    assert (empty.for_(), empty.against(), empty.disputed()) == ([], [], [])


def test_path_probabilities_multiply_to_the_vote_and_scores_explain_them() -> None:
    model, X = fitted(method="bagging", members=4)
    found = explain(model, X[[1]], 3)
    for number, (vote, path) in enumerate(zip(found.votes, found.paths, strict=True)):
        tree = model.model_.forest.trees[number].tree
        if path is None:
            assert 3 not in tree.labels
            continue
        assert path.nodes == tree.path(3)
        assert path.probability.prod() == pytest.approx(vote)
        assert np.log(path.probability) == pytest.approx(
            [log_probability(score, "l3-hinge") for score in path.scores]
        )


def test_features_are_sorted_and_helpers_take_the_strongest() -> None:
    model, X = fitted(method="bagging", members=4, trees=1, loss="logistic", weight_threshold=0.0)
    found = explain(model, X[[1]], 3)
    assert (np.diff(np.abs(found.effect)) <= 0).all()
    np.testing.assert_allclose(found.effect, found.effects.mean(axis=1))
    np.testing.assert_allclose(found.disagreement, found.effects.std(axis=1))
    assert found.probability == pytest.approx(found.votes.mean())
    for chosen, sign in ((found.for_(None), 1), (found.against(None), -1)):
        strengths = [sign * one.effect for one in chosen]
        assert strengths == sorted(strengths, reverse=True)
        assert all(strength > 0 for strength in strengths)
    assert len(found.for_(None)) + len(found.against(None)) == (found.effect != 0).sum()
    disputed = found.disputed(2)
    assert len(disputed) == 2
    assert [one.disagreement for one in disputed] == sorted(found.disagreement, reverse=True)[:2]
    own = found.effects[found.features.tolist().index(disputed[0].feature)]
    assert (disputed[0].members_for, disputed[0].members_against) == ((own > 0).sum(), (own < 0).sum())


def test_member_that_lacks_the_label_votes_0_and_has_no_effects() -> None:
    model, X = fitted(method="bagging", members=6, loss="logistic")
    trees = [tree.tree for tree in model.model_.forest.trees]
    label = next(label for label in range(25) if 0 < sum(label in tree.labels for tree in trees) < 6)
    lacks = np.array([label not in tree.labels for tree in trees])
    found = explain(model, X[[1]], label)
    assert (found.votes[lacks] == 0).all()
    assert (found.votes[~lacks] > 0).all()
    assert found.probability == pytest.approx(found.votes.mean())
    assert np.isnan(found.effects[:, lacks]).all()
    assert np.isnan(found.bias[lacks]).all()
    assert [path is None for path in found.paths] == lacks.tolist()
    np.testing.assert_allclose(found.effect, found.effects[:, ~lacks].mean(axis=1))
    np.testing.assert_allclose(found.disagreement, found.effects[:, ~lacks].std(axis=1))


def test_dropout_is_left_out_of_the_explanation() -> None:
    passes, X = fitted(method="mc-dropout", members=5)
    single, _ = fitted()
    found, expected = explain(passes, X[[1]], 3), explain(single, X[[1]], 3)
    assert (found.without_dropout, expected.without_dropout) == (True, False)
    assert found.members == 1
    np.testing.assert_array_equal(found.effects, expected.effects)


def test_without_a_label_the_most_probable_is_explained() -> None:
    model, X = fitted(method="bagging", members=4)
    best = model.top(X[[1]], k=1)
    found = explain(model, X[[1]])
    assert found.label == best.labels[0, 0]
    assert found.probability == pytest.approx(best.probability[0, 0], abs=1e-5)


def test_forms_of_one_input_give_the_same() -> None:
    model, X = fitted()
    row = X[[1]]
    expected = explain(model, row, 3)
    unsorted = csr_array((row.data[::-1], row.indices[::-1], row.indptr), shape=row.shape)
    before = unsorted.indices.copy()
    dense = row.toarray()
    for x in (dense, dense[0], dense[0].tolist(), dense.astype(np.float64), coo_array(row), unsorted):
        found = explain(model, x, 3)
        np.testing.assert_array_equal(found.features, expected.features)
        np.testing.assert_array_equal(found.effects, expected.effects)
    np.testing.assert_array_equal(unsorted.indices, before)


def test_stored_zero_is_no_feature_and_stays_in_the_callers_matrix() -> None:
    model, X = fitted()
    row = X[[1]]
    row.data[0] = 0
    stored = row.nnz
    assert len(explain(model, row, 3)) == stored - 1
    assert row.nnz == stored


def test_features_have_numbers_or_the_names_that_are_given() -> None:
    model, X = fitted()
    numbers = explain(model, X[[1]], 3).features
    assert numbers.dtype == np.int64
    assert sorted(numbers) == X[[1]].indices.tolist()
    names = [f"column {i}" for i in range(X.shape[1])]
    found = explain(model, X[[1]], 3, names=names)
    assert found.features.tolist() == [names[number] for number in numbers]
    with pytest.raises(ValueError, match="2 names for 30 features"):
        explain(model, X[[1]], 3, names=["a", "b"])


TEXTS = ["red apple tree", "green apple", "yellow pear", "green pear tree", "a plum", "blue plum tree"] * 3
KINDS = [["apple"], ["apple"], ["[red]pear[/red]"], ["[red]pear[/red]"], ["plum"], ["plum"]] * 3


@pytest.fixture(scope="module")
def fruit() -> HedgerowTextClassifier:
    return HedgerowTextClassifier(method="bagging", members=4, random_state=0, n_jobs=1).fit(TEXTS, KINDS)


def test_features_of_a_text_are_its_words(fruit: HedgerowTextClassifier) -> None:
    found = explain(fruit, "Green apple, and unknown things", "apple")
    assert sorted(found.features) == ["apple", "green", "green apple"]
    assert found.for_()[0].feature == "apple"
    assert explain(fruit, ["Green apple"], "apple").features.tolist() == found.features.tolist()
    row = fruit.vectorizer_.transform(["Green apple"]).toarray()[0]
    assert sorted(found.value) == pytest.approx(sorted(row[row > 0]))


@pytest.mark.parametrize(
    ("label", "error", "message"),
    [
        ("cherry", ValueError, "'cherry' is not among the 3 labels"),
        (3, TypeError, "labels are strings"),
        (["apple"], TypeError, "labels are strings"),
    ],
)
def test_unknown_label_is_refused(
    fruit: HedgerowTextClassifier, label: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        explain(fruit, "an apple", label)


def test_label_that_is_no_number_or_was_never_learned_is_refused() -> None:
    X, Y = random_problem(0, 40, 20, 5)
    wide = csr_array(np.hstack([Y.toarray(), np.zeros((40, 1), dtype=np.int8)]))
    model = HedgerowClassifier(random_state=0, n_jobs=1).fit(X, wide)
    for label in ("3", True, 3.0):
        with pytest.raises(TypeError, match="labels are integers"):
            explain(model, X[[1]], label)
    with pytest.raises(ValueError, match="label 6 is not among the 6 labels"):
        explain(model, X[[1]], 6)
    with pytest.raises(ValueError, match="label 5 is on no input"):
        explain(model, X[[1]], 5)
    assert explain(model, X[[1]], np.int32(3)).label == 3


def test_several_inputs_are_refused(fruit: HedgerowTextClassifier) -> None:
    model, X = fitted()
    with pytest.raises(ValueError, match="x holds 2 inputs"):
        explain(model, X[:2])
    with pytest.raises(ValueError, match="x holds 2 inputs"):
        explain(fruit, ["apple", "pear"])


def test_wrong_types_are_refused(fruit: HedgerowTextClassifier) -> None:
    model, X = fitted()
    with pytest.raises(TypeError, match="HedgerowTextClassifier"):
        explain(model, "a text")
    with pytest.raises(ValueError, match="expecting 30 features"):
        explain(model, np.zeros(7))
    for x in (X[[0]], b"apple", 7, None):
        with pytest.raises(TypeError, match="the model reads texts; give a string"):
            explain(fruit, x)
    with pytest.raises(TypeError):
        explain(fruit, [1])
    with pytest.raises(TypeError, match="model is a str"):
        explain("model", "text")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not fitted"):
        explain(HedgerowClassifier(), X[[0]])


def test_explain_is_a_function_however_its_module_was_imported() -> None:
    import hedgerow.cli.explain
    import hedgerow.explanation

    assert hedgerow.explain is hedgerow.explanation.explain
    assert hedgerow.explain is hedgerow.explanation.explain  # the second time, too


# --- the command line ---


@pytest.fixture
def saved(fruit: HedgerowTextClassifier, tmp_path: Path) -> Path:
    fruit.save(tmp_path / "fruit.hedgerow")
    return tmp_path / "fruit.hedgerow"


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return code, captured.err


def test_command_shows_the_label_its_votes_and_the_words(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(saved), "a green pear tree"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("[red]pear[/red]  probability ")
    assert "4 members vote" in text
    for title in ("Words for it", "Words against it", "Words on which the members disagree"):
        assert title in text
    assert "+" in text.split("Words for it")[1]


def test_command_with_json_prints_the_same_as_the_function(
    saved: Path, fruit: HedgerowTextClassifier, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "green apple tree"
    assert main(["explain", str(saved), text, "--label", "plum", "-n", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = explain(fruit, text, "plum")
    assert found["label"] == "plum"
    assert found["probability"] == pytest.approx(expected.probability)
    assert found["votes"] == pytest.approx(expected.votes.tolist())
    assert found["features"] == len(expected)
    for name, chosen in (
        ("for", expected.for_(2)),
        ("against", expected.against(2)),
        ("disputed", expected.disputed(2)),
    ):
        assert [one["feature"] for one in found[name]] == [one.feature for one in chosen]
        assert [one["effect"] for one in found[name]] == pytest.approx([one.effect for one in chosen])
    assert all(len(path["scores"]) == len(path["nodes"]) for path in found["paths"])


def test_command_reads_a_text_from_stdin_or_from_a_row_of_a_file(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["explain", str(saved), "blue plum", "--json"]) == 0
    expected = capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("blue plum"))
    assert main(["explain", str(saved), "-", "--json"]) == 0
    assert capsys.readouterr().out == expected
    records = tmp_path / "new.jsonl"
    records.write_text('{"text": "apple"}\n{"text": "blue plum"}\n')
    assert main(["explain", str(saved), str(records), "--row", "1", "--json"]) == 0
    assert capsys.readouterr().out == expected
    code, message = failure(capsys, "explain", saved, records)
    assert (code, "is a file" in message, "--row" in message) == (ExitCode.USAGE, True, True)
    code, message = failure(capsys, "explain", saved, records, "--row", 2)
    assert (code, "rows 0 to 1" in message) == (ExitCode.USAGE, True)


def test_command_for_features_takes_a_file_and_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{i % 3} {i % 3}:1.0 {3 + i % 2}:0.5\n" for i in range(12))
    (tmp_path / "train.txt").write_text(f"12 5 3\n{rows}")
    (tmp_path / "one.txt").write_text("1 5 3\n1 1:1.0 3:0.5\n")
    assert main(["fit", str(tmp_path / "train.txt"), str(tmp_path / "m")]) == 0
    capsys.readouterr()
    command = ["explain", str(tmp_path / "m"), str(tmp_path / "train.txt")]
    assert main([*command, "--row", "4", "--label", "1"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("1  probability")
    assert "Features for it" in text
    assert "members disagree" not in text
    assert main([*command[:2], str(tmp_path / "one.txt"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["label"] == 1
    code, message = failure(capsys, *command)
    assert (code, "12 inputs" in message, "--row" in message) == (ExitCode.USAGE, True, True)
    code, message = failure(capsys, *command, "--row", 4, "--label", "x")
    assert (code, "are numbers" in message) == (ExitCode.USAGE, True)


def test_command_names_an_unknown_label_and_other_mistakes(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, message = failure(capsys, "explain", saved, "apple", "--label", "cherry")
    assert (code, "cherry" in message) == (ExitCode.USAGE, True)
    assert failure(capsys, "explain", tmp_path / "nothing", "apple")[0] == ExitCode.MODEL
    assert failure(capsys, "explain", saved, tmp_path / "no.jsonl", "--row", 0)[0] == ExitCode.DATA
    assert failure(capsys, "explain", saved, "apple", "-n", 0)[0] == ExitCode.USAGE
    (tmp_path / "features.txt").write_text("1 2 2\n0 0:1.0\n")
    code, message = failure(capsys, "explain", saved, tmp_path / "features.txt", "--row", 0)
    assert (code, "trained on texts" in message) == (ExitCode.DATA, True)


def test_command_says_when_no_word_is_known(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(saved), "zzz"]) == 0
    assert "knows none of the input's words" in capsys.readouterr().out


def test_printing_escapes_labels_and_words_and_tells_of_missing_members_and_dropout() -> None:
    odd = "[bold]x[/bold]\x1b[2J"
    effects = np.array([[0.5, np.nan], [-0.25, np.nan]])
    found = hedgerow.Explanation(
        label=odd,
        probability=0.25,
        votes=np.array([0.5, 0.0]),
        features=np.array([odd, "y"], dtype=object),
        value=np.array([0.6, 0.8]),
        effect=effects[:, 0],
        disagreement=np.array([0.1, 0.2]),
        effects=effects,
        bias=np.array([-1.0, np.nan]),
        paths=(hedgerow.explanation.MemberPath((0,), np.zeros(1), np.ones(1)), None),
        without_dropout=True,
    )
    console = Console(width=100, record=True, file=io.StringIO())
    print_explanation(console, found, 10, "words")
    text = console.export_text()
    assert text.count(r"[bold]x[/bold]\x1b[2J") == 3
    assert "1 of them never learned the label" in text
    assert "without dropout" in text
