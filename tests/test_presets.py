"""Presets: settings for people who do not want to choose any."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import typer
from hypothesis import given
from hypothesis import strategies as st

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowTextClassifier, load, preset_parameters
from hedgerow.cli.app import main
from hedgerow.cli.duration import parse_duration
from hedgerow.cli.failures import ExitCode
from hedgerow.cli.options import Preset
from hedgerow.data import write_jsonl
from hedgerow.data.sample import load_sample
from hedgerow.inputs.parameters import ParameterError
from hedgerow.training.presets import PRESETS, DataSize, choose_settings
from hedgerow.training.settings import Method, TreeSettings

METHODS = st.sampled_from(list(Method))
# A label that is used is a label of some input.
SIZES = st.builds(
    lambda rows, labels, entries, each: DataSize(rows, min(labels, rows * each), entries, rows * each),
    st.integers(1, 10**7),
    st.integers(1, 3 * 10**6),
    st.integers(1, 10**10),
    st.integers(1, 50),
)


@given(SIZES, METHODS, st.sampled_from(PRESETS))
def test_every_preset_gives_parameters_that_classifiers_take(
    size: DataSize, method: Method, preset: str
) -> None:
    choice = choose_settings(preset, size, method, 10)
    HedgerowClassifier(method=method.value, **choice.parameters).check_parameters()
    assert choice.seconds > 0
    if "branching" in choice.parameters:
        TreeSettings(choice.parameters["branching"], choice.parameters["leaf_size"], True)


@given(SIZES, METHODS, st.floats(1, 1e6), st.floats(1, 100))
def test_more_time_never_buys_less(size: DataSize, method: Method, seconds: float, factor: float) -> None:
    less = choose_settings("balanced", size, method, 10, seconds)
    more = choose_settings("balanced", size, method, 10, seconds * factor)
    assert more.seconds >= less.seconds
    # Only the quickest there is may take longer than it was given.
    assert less.seconds <= seconds or less.preset == "fast"


@given(SIZES, METHODS)
def test_best_takes_no_less_than_balanced(size: DataSize, method: Method) -> None:
    fast, balanced, best = (
        choose_settings(preset, size, method, 10).seconds for preset in ("fast", "balanced", "best")
    )
    # Where every input has labels in most leaves, all shapes cost about the same; members beside a wide
    # classifier are solved more loosely.
    assert fast <= (1.5 if method.trains_members else 1.1) * balanced
    assert balanced <= 1.01 * best


def test_paper_changes_nothing() -> None:
    assert choose_settings("paper", DataSize(10, 10, 10, 10), Method.SINGLE, 10).parameters == {}


def test_unknown_presets_and_times_are_refused() -> None:
    size = DataSize(10, 10, 10, 10)
    with pytest.raises(ParameterError, match="preset"):
        choose_settings("perfect", size, Method.SINGLE, 10)
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(ParameterError, match="seconds"):
            choose_settings("best", size, Method.SINGLE, 10, seconds)


def test_names_on_the_command_line_are_those_of_the_library() -> None:
    assert tuple(preset.value for preset in Preset) == PRESETS


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "0", "90", "0m", "-1m", "10 minutes", "1e3", "nan", "5d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"such as 90s, 10m or 1\.5h"):
        parse_duration(text)


def test_features_and_texts_are_counted() -> None:
    sample = load_sample()
    chosen = preset_parameters("balanced", sample.train_texts, sample.train_labels)
    assert (chosen["judge"], chosen["language"]) == (True, "auto")
    HedgerowTextClassifier(**chosen).check_parameters()
    X = sp.random_array((200, 50), density=0.2, rng=np.random.default_rng(0), dtype=np.float32)
    Y = [[row % 7] for row in range(200)]
    for features in (sp.csr_array(X), X.toarray()):
        assert "language" not in preset_parameters("balanced", features, Y)
    ensemble = preset_parameters("best", sp.csr_array(X), Y, method="bagging")
    assert ensemble["wide"] >= 1
    assert "branching" not in ensemble


def test_texts_are_read_as_suits_their_length_and_the_examples_of_labels() -> None:
    records = [{"title": "Hedges", "abstract": "How they grow. " * 20} for _ in range(60)]
    few, many = [[row] for row in range(60)], [[row % 2] for row in range(60)]
    fields = {"title": 2.0, "abstract": 1.0}
    read = preset_parameters("balanced", records, few, fields=fields)["fields"]
    assert list(read) == ["title", "title~chars", "abstract~words"]
    assert read["title"] ** 2 + read["title~chars"] ** 2 == pytest.approx(4)
    assert list(preset_parameters("best", records, many, fields=fields)["fields"])[-1] == "abstract"
    assert "fields" not in preset_parameters("balanced", records, few, fields=["title~words", "abstract"])
    assert "fields" not in preset_parameters("fast", records, few, fields=fields)
    texts = [record["abstract"] for record in records]
    assert preset_parameters("balanced", texts, few)["ngrams"] == (1, 1)
    assert "ngrams" not in preset_parameters("balanced", texts, many)


def test_fields_are_given_and_how_they_are_read_is_chosen(tmp_path: Path) -> None:
    data, path = tmp_path / "train.jsonl", tmp_path / "model"
    records = [
        {
            "title": f"hedge {row % 7}",
            "abstract": f"{row % 5} thorns and more " * 8,
            "labels": [str(row % 50)],
        }
        for row in range(300)
    ]
    write_jsonl(data, records)
    arguments = ["fit", str(data), str(path), "--text-field", "title", "--text-field", "abstract"]
    assert main(arguments) == 0
    assert list(dict(load(path).fields)) == ["title", "title~chars", "abstract~words"]


def test_single_model_of_many_labels_has_small_trees_and_a_wide_classifier() -> None:
    size = DataSize(90_000, 35_000, 14_000_000, 260_000, 250_000)
    chosen = choose_settings("balanced", size, Method.SINGLE, 10).parameters
    assert "leaf_size" not in chosen
    assert chosen["wide"] == 900
    ten = choose_settings("balanced", size, Method.BAGGING, 10).parameters
    assert ten["weight_threshold"] > 0.05


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sample = load_sample()
    path = tmp_path_factory.mktemp("presets") / "train.jsonl"
    pairs = zip(sample.train_texts[:2000], sample.train_labels[:2000], strict=True)
    write_jsonl(path, [{"text": text, "labels": labels} for text, labels in pairs])
    return path


def test_fit_without_options_is_balanced_and_says_so(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", str(data), str(tmp_path / "m"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["preset"] == "balanced"
    assert summary["expected_seconds"] > 0
    used = hedgerow.load(tmp_path / "m").get_params()
    assert used["judge"]
    assert (used["language"], used["negatives"]) == ("auto", "tfn+man")
    assert main(["fit", str(data), str(tmp_path / "m"), "--overwrite"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Preset balanced: each label is told apart from up to ")
    assert "judge" in said


def test_what_is_given_wins(data: Path, tmp_path: Path) -> None:
    given = ["--leaf-size", "50", "--no-judge", "--language", "de"]
    assert main(["fit", str(data), str(tmp_path / "m"), *given]) == 0
    used = hedgerow.load(tmp_path / "m").get_params()
    assert (used["leaf_size"], used["judge"], used["language"]) == (50, False, "de")
    assert used["tolerance"] == 1.0


def test_words_as_they_are_written_can_be_asked_for(data: Path, tmp_path: Path) -> None:
    assert main(["fit", str(data), str(tmp_path / "m"), "--language", "none"]) == 0
    used = hedgerow.load(tmp_path / "m").get_params()
    assert (used["language"], used["judge"]) == (None, True)


def test_time_chooses(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", str(data), str(tmp_path / "m"), "--time", "1h", "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert settings["judge"]
    assert main(["fit", str(data), str(tmp_path / "quick"), "--time", "0.000001s", "--json"]) == 0
    quick = json.loads(capsys.readouterr().out)
    assert quick["preset"] == "fast"
    assert not quick["settings"]["judge"]


@pytest.mark.parametrize(
    "options",
    [
        ["--preset", "perfect"],
        ["--time", "soon"],
        ["--preset", "best", "--time", "1m"],
        ["--preset", "best", "--memory", "8GB"],
        ["--time", "1m", "--memory", "8GB"],
        ["--preset", "fast", "--extend", "old.hedgerow"],
    ],
)
def test_what_does_not_go_together_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert main(["fit", str(data), str(tmp_path / "m"), *options]) == ExitCode.USAGE
    assert capsys.readouterr().err
    assert not (tmp_path / "m").exists()
