"""Presets: settings for people who do not want to choose any."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import typer
from hypothesis import given
from hypothesis import strategies as st
from test_tuning import TEXTS, TRIAL, TRUE, Clock

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowTextClassifier, load, preset_parameters
from hedgerow.cli.app import main
from hedgerow.cli.duration import parse_duration
from hedgerow.cli.failures import ExitCode
from hedgerow.cli.options import Preset
from hedgerow.cli.presets import Chosen
from hedgerow.data import write_jsonl
from hedgerow.data.sample import load_sample
from hedgerow.estimators import tuning
from hedgerow.estimators.settings_search import Start
from hedgerow.inputs.parameters import ParameterError
from hedgerow.paper import ExperimentSettings, Source, run
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


def test_paper_has_no_floor_under_its_search_and_changes_nothing_else() -> None:
    assert choose_settings("paper", DataSize(10, 10, 10, 10), Method.SINGLE, 10).parameters == {"floor": 0.0}


def test_paper_and_its_reproduction_take_their_settings_from_one_place(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[HedgerowClassifier] = []

    class StopError(Exception):
        pass

    def fit(classifier: HedgerowClassifier, *_: object, **__: object) -> None:
        fitted.append(classifier)
        raise StopError

    monkeypatch.setattr(HedgerowClassifier, "fit", fit)
    with pytest.raises(StopError):
        main(["fit", str(data), str(tmp_path / "m"), "--preset", "paper", "--method", "bagging"])
    folder = tmp_path / "halves"
    folder.mkdir()
    records = [json.loads(line) for line in data.read_text().splitlines()]
    for part, begin in (("train", 0), ("test", 1)):
        write_jsonl(folder / f"{part}.jsonl", records[begin:200:2])
    settings = ExperimentSettings(methods=["bagging"], seeds=1)
    with pytest.raises(StopError):
        run([Source(folder)], [], tmp_path / "done", settings)
    ours, theirs = (one.get_params() for one in fitted)
    different = {name for name in ours if ours[name] != theirs[name]}
    assert ours["floor"] == 0.0
    # Only of its uncertainties: votes that are missing count as 0 in the paper.
    assert different <= {"missing", "n_jobs"}


def test_unknown_presets_and_times_are_refused() -> None:
    size = DataSize(10, 10, 10, 10)
    with pytest.raises(ParameterError, match="preset"):
        choose_settings("perfect", size, Method.SINGLE, 10)
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(ParameterError, match="seconds"):
            choose_settings("best", size, Method.SINGLE, 10, seconds)


RESULTS = Path(__file__).parents[1] / "bench/results"
SIZES_MEASURED = {
    "eurlex-4k": DataSize(15539, 3786, 3_684_773, 82_530, 5000),
    "tibkat-en": DataSize(50813, 24898, 10_928_832, 139_984, 693_002),
    "debian-tags": DataSize(23945, 595, 2_273_289, 88_964, 184_524),
    "debian-depends": DataSize(43963, 30262, 4_045_712, 223_062, 280_891),
}


def test_expected_time_is_within_a_factor_of_two_of_every_time_that_was_recorded() -> None:
    runs = json.loads((RESULTS / "frontier.json").read_text())["runs"]
    presets = [one for one in runs if one["ours"] and "died" not in one]
    assert {"fast", "balanced", "best", "paper"} <= {one["settings"]["preset"] for one in presets}
    for one in presets:
        own = {"method": "single", "members": 10} | one["settings"]
        size = SIZES_MEASURED[one["dataset"]]
        choice = choose_settings(own["preset"], size, Method(own["method"]), own["members"])
        assert 0.5 < choice.seconds / one["fit_cpu_seconds"] < 2, (one["dataset"], own)


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


def test_words_as_they_are_written_can_be_asked_for(small: Path, tmp_path: Path) -> None:
    assert main(["fit", str(small), str(tmp_path / "m"), "--language", "none"]) == 0
    used = hedgerow.load(tmp_path / "m").get_params()
    assert (used["language"], used["judge"]) == (None, True)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "train.jsonl"
    pairs = zip(TEXTS, TRUE, strict=True)
    write_jsonl(path, [{"text": text, "labels": labels} for text, labels in pairs])
    return path


def test_time_that_is_left_is_spent_on_a_search_that_keeps_what_was_given(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m"
    assert main(["fit", str(small), str(path), "--time", "1h", "--C", "2", "--seed", "1", "--json"]) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out)
    assert summary["preset"] == "best"
    search = summary["search"]
    assert search["ended"] == "nothing more to try"
    lines = [line for line in captured.err.splitlines() if " ndcg@5 " in line]
    assert len(lines) == search["trials"] > 5
    assert ": ndcg@5" in lines[0]
    assert not any(" C " in line for line in lines)
    used = hedgerow.load(path).get_params()
    assert (used["C"], used["judge"]) == (2.0, True)
    # It is the search of `tune`, from other settings.
    chosen = preset_parameters("best", TEXTS, TRUE) | {"C": 2.0, "random_state": 1}
    start = Start("best", frozenset({"C", "random_state"}), then_fit=True)
    found = hedgerow.tune(HedgerowTextClassifier(**chosen), TEXTS, TRUE, seconds=3600, start=start)
    assert search["changes"] == {change.name: [change.before, change.after] for change in found.changes}
    assert {name: used[name] for name in found.parameters} == found.parameters
    assert not list(tmp_path.glob("*.trials"))


def test_search_in_the_time_that_is_left_is_told_in_words(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", str(small), str(tmp_path / "m"), "--time", "1h"]) == 0
    captured = capsys.readouterr()
    assert "until there was nothing more to try: " in captured.out
    assert "held-out rows" in captured.out


def test_interrupted_search_goes_on_with_the_same_command(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["fit", str(small), str(tmp_path / "m"), "--time", "1h", "--json"]
    fit, begun = HedgerowClassifier.fit, []

    def third_is_interrupted(classifier: HedgerowClassifier, *data: object, **options: object) -> object:
        begun.append(classifier)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return fit(classifier, *data, **options)

    with monkeypatch.context() as patched:
        patched.setattr(HedgerowClassifier, "fit", third_is_interrupted)
        assert main(arguments) == ExitCode.INTERRUPTED
    assert f"2 trials are kept in {tmp_path / 'm.trials'}; the same command" in capsys.readouterr().err
    assert main(arguments) == 0
    captured = capsys.readouterr()
    resumed = [line for line in captured.err.splitlines() if "from the earlier run" in line]
    assert len(resumed) == 2
    assert json.loads(captured.out)["search"]["ended"] == "nothing more to try"


def test_too_few_rows_to_compare_settings_on_are_fitted_without_a_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.jsonl"
    few = zip(TEXTS[:40], TRUE[:40], strict=True)
    write_jsonl(path, [{"text": text, "labels": labels} for text, labels in few])
    assert main(["fit", str(path), str(tmp_path / "m"), "--time", "1h"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "No settings were searched: 40 inputs with labels are too few to compare settings" in said


def test_search_leaves_time_for_the_fit_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(tuning, "monotonic", clock)
    monkeypatch.setattr(HedgerowClassifier, "fit", clock.watching(HedgerowClassifier.fit))
    few = {"method": "bagging", "members": 6, "random_state": 0, "n_jobs": 1}
    start = Start("own", then_fit=True)
    found = hedgerow.tune(HedgerowTextClassifier(**few), TEXTS, TRUE, seconds=6 * TRIAL, start=start)
    # All rows and twice the members of a trial: what follows takes two to three trials.
    assert clock.now + 2 * TRIAL <= 6 * TRIAL
    assert len(found.trials) >= 2
    assert found.out_of_time
    assert found.trials[0].change == "own"


def test_time_that_is_too_short_is_told_before_training(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", str(data), str(tmp_path / "quick"), "--time", "0.000001s", "--json"]) == 0
    captured = capsys.readouterr()
    quick = json.loads(captured.out)
    assert quick["preset"] == "fast"
    assert not quick["settings"]["judge"]
    assert "search" not in quick
    assert "even the quickest settings should take about" in captured.err
    assert captured.err.count("\n") == 1


def test_time_that_suffices_for_one_fit_only_is_not_searched_in() -> None:
    chosen = Chosen("best", {}, None, seconds=20.0, within=59.0)
    assert not chosen.leaves_time
    assert chosen.warning is None
    assert replace(chosen, within=61.0).leaves_time
    assert replace(chosen, within=19.0).warning is not None


@given(SIZES, METHODS, st.floats(1, 4 * 3600))
def test_time_buys_all_of_best_or_as_wide_as_it_allows(
    size: DataSize, method: Method, seconds: float
) -> None:
    best = choose_settings("best", size, method, 10)
    choice = choose_settings("balanced", size, method, 10, seconds)
    if best.seconds <= seconds:
        assert choice.parameters == best.parameters
    assert choice.seconds <= max(best.seconds, choose_settings("fast", size, method, 10).seconds)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"language": "auto"}, "Texts are read as stems of words and pairs of them (language auto)"),
        ({"ngrams": (1, 1)}, "Texts are read as words as they are written;"),
        ({"analyzer": "char_wb"}, "Texts are read as n-grams of 3 to 5 characters;"),
        (
            {"analyzer": "word+char_wb", "char_ngrams": (5, 5), "language": "de", "ngrams": (1, 1)},
            "Texts are read as stems of words and n-grams of 5 characters (language de)",
        ),
        (
            {"fields": {"title": 1, "title~chars": 1, "abstract~words": 1}, "char_ngrams": (5, 5)},
            "title is read as words as they are written, pairs of them and n-grams of 5 characters;"
            " abstract is read as words as they are written",
        ),
        (None, "Features are damped; classifiers are solved to a tolerance of 0.3, and weights below 0.05"),
    ],
)
def test_what_is_said_names_how_inputs_are_read_and_how_precisely_is_solved(
    texts: dict[str, object] | None, said: str
) -> None:
    usual = {"fields": None, "analyzer": "word", "ngrams": (1, 2), "char_ngrams": (3, 5), "language": None}
    settings = {"wide": 10, "judge": True, "dampen": True, "tolerance": 0.3, "weight_threshold": 0.05}
    chosen = Chosen("best", settings, None if texts is None else usual | texts, seconds=1.0)
    assert said in chosen.sentence
    assert "tolerance of 0.3" in chosen.sentence


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
