"""``hedgerow tune``, and ``hedgerow fit --settings``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from test_tuning import LABELS, TEXTS, TRUE

import hedgerow
from hedgerow.cli import main
from hedgerow.cli.duration import parse_duration
from hedgerow.cli.failures import ExitCode
from hedgerow.estimators import tuning

RECORDS = [{"text": text, "labels": labels} for text, labels in zip(TEXTS, TRUE, strict=True)]


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "my data"
    folder.mkdir()
    write(folder / "train.jsonl", RECORDS)
    return folder


@pytest.fixture
def tuned(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "settings.json"
    assert run("tune", data, path) == 0
    capsys.readouterr()
    return path


def run(*arguments: object) -> int:
    return main([*map(str, arguments), "--threads", "1"])


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Run a command that fails; return the code and the one line it prints."""
    code = run(*arguments)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("hedgerow: error: ")
    assert captured.err.count("\n") == 1
    return code, captured.err


def without_seconds(content: dict[str, Any]) -> dict[str, Any]:
    return content | {"trials": [{**trial, "seconds": 0} for trial in content["trials"]]}


# --- tune ---


def test_tune_prints_a_line_per_trial_what_it_chose_and_the_next_command(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "settings.json"
    assert run("tune", data, path) == 0
    captured = capsys.readouterr()
    content = json.loads(path.read_text())
    lines = captured.err.splitlines()
    assert len(lines) == len(content["trials"])
    for line, trial in zip(lines, content["trials"], strict=True):
        assert f"{trial['change']}: ndcg@5 {100 * trial['figures']['ndcg@5']:.2f}" in line
        if trial["change"] != "balanced":
            assert f"{100 * trial['difference']:+.2f} ± {100 * trial['standard_error']:.2f}" in line
            assert ("not kept" in line) == (not trial["kept"])
    assert content["changes"]  # or the next lines say nothing
    for name, (before, after) in content["changes"].items():
        assert f"  {name} " in captured.out
        assert f"{before} -> {after}" in captured.out
    assert f"{100 * content['validation']['difference']:+.2f} ±" in captured.out
    assert f"hedgerow fit '{data}' MODEL --settings {path}" in captured.out


def test_command_that_tune_prints_trains_with_the_chosen_parameters(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, model = tmp_path / "settings.json", tmp_path / "m.hedgerow"
    assert run("tune", data, path, "--method", "bagging", "--members", 4, "--time", "1s", "--seed", 2) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("Next: "))
    command = shlex.split(line.removeprefix("Next: "))
    assert command[0] == "hedgerow"
    assert run(*(str(model) if word == "MODEL" else word for word in command[1:])) == 0
    parameters = hedgerow.load(model).get_params()
    wanted = json.loads(path.read_text())["parameters"]
    assert wanted["wide"] == LABELS // 3
    assert json.loads(json.dumps({name: parameters[name] for name in wanted})) == wanted
    assert (parameters["members"], parameters["random_state"]) == (4, 2)


def test_settings_hold_figures_trials_and_versions(tuned: Path) -> None:
    content = json.loads(tuned.read_text())
    assert content["estimator"] == "HedgerowTextClassifier"
    assert content["validation"]["inputs"] == int(0.15 * len(RECORDS))
    assert set(content["validation"]["chosen"]) == {"ndcg@5", "precision@1", "precision@5", "recall@5"}
    assert content["versions"]["hedgerow"] == hedgerow.__version__
    assert content["ended"] == "nothing better"
    kept = [trial for trial in content["trials"] if trial["kept"]]
    assert content["validation"]["chosen"] == kept[-1]["figures"]
    assert not {"n_jobs", "random_state", "cluster", "memory", "verbose"} & content["parameters"].keys()


def test_tune_with_json_prints_one_object(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "settings.json"
    assert run("tune", data, path, "--json", "--time", "0.1s", "--by", "precision@1") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"settings": str(path), **json.loads(path.read_text())}
    assert printed["validation"]["by"] == "precision@1"
    assert printed["ended"] == "time"


def test_test_part_of_a_folder_is_not_read(data: Path, tmp_path: Path) -> None:
    (data / "test.jsonl").write_text("this cannot be read\n")
    assert run("tune", data, tmp_path / "s.json", "--time", "0.1s") == 0


def test_test_records_of_a_file_with_splits_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{**one, "split": "train"} for one in RECORDS]
    records += [{"text": f"secret {n}", "labels": ["secret"], "split": "test"} for n in range(50)]
    path = write(tmp_path / "all.jsonl", records)
    seen: list[str] = []

    def spy(estimator: Any, X: Any, Y: Any, **options: Any) -> Any:
        seen.extend(X)
        return original(estimator, X, Y, **options)

    original = tuning.tune
    monkeypatch.setattr(tuning, "tune", spy)
    assert run("tune", path, tmp_path / "s.json", "--time", "0.1s") == 0
    assert seen == TEXTS


def test_interrupt_keeps_trials_and_the_same_command_ends_as_if_nothing_had_happened(
    data: Path, tuned: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tuned.with_name("again.json")
    fit, calls = hedgerow.HedgerowClassifier.fit, []

    def interrupted(self: Any, *given: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return fit(self, *given, **options)

    monkeypatch.setattr(hedgerow.HedgerowClassifier, "fit", interrupted)
    assert run("tune", data, path) == ExitCode.INTERRUPTED
    assert f"2 trials are kept in {path}.trials; the same command continues" in capsys.readouterr().err
    assert not path.exists()
    assert run("tune", data, path) == 0
    assert "from the earlier run" in capsys.readouterr().err
    trials = len(json.loads(tuned.read_text())["trials"])
    assert len(calls) == trials + 1
    whole, resumed = (without_seconds(json.loads(one.read_text())) for one in (tuned, path))
    assert resumed == whole


def test_interrupt_before_the_first_trial_leaves_nothing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(hedgerow.HedgerowClassifier, "fit", interrupted)
    assert run("tune", data, tmp_path / "s.json") == ExitCode.INTERRUPTED
    assert "nothing was written" in capsys.readouterr().err
    assert list(tmp_path.glob("s.json*")) == []


def test_trials_of_other_data_or_another_seed_are_refused_with_the_way_out(
    data: Path, tuned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tuned.read_bytes()
    code, message = failure(capsys, "tune", data, tuned, "--overwrite", "--by", "precision@1")
    assert (code, "--by ndcg@5" in message) == (ExitCode.WRITE, True)
    code, message = failure(capsys, "tune", data, tuned, "--overwrite", "--seed", 1)
    assert (code, "another seed" in message) == (ExitCode.WRITE, True)
    write(data / "train.jsonl", RECORDS[1:])
    code, message = failure(capsys, "tune", data, tuned, "--overwrite")
    assert code == ExitCode.WRITE
    assert f"{tuned}.trials holds trials of other data; delete it" in message
    assert tuned.read_bytes() == before


def test_existing_settings_are_refused_before_the_data_are_read(
    tuned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, message = failure(capsys, "tune", "/nonexistent", tuned)
    assert (code, "--overwrite" in message) == (ExitCode.WRITE, True)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--time", "10"], ExitCode.USAGE, "such as 90s, 10m"),
        (["--by", "map@5"], ExitCode.USAGE, "--by: 'map@5'"),
        (["--labels-field", "tags"], ExitCode.DATA, "--labels-field"),
    ],
)
def test_what_cannot_be_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int, words: str
) -> None:
    found, message = failure(capsys, "tune", data, tmp_path / "s.json", *options)
    assert (found, words in message) == (code, True)


def test_too_few_rows_are_refused_as_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "few.jsonl", RECORDS[:50])
    code, message = failure(capsys, "tune", path, tmp_path / "s.json")
    assert (code, "too few" in message) == (ExitCode.DATA, True)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), (" 2m ", 120)])
def test_times_are_seconds_minutes_or_hours(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "0s", "-1m", "1e3s", "10 minutes", "nans", "1d"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="such as 90s"):
        parse_duration(text)


# --- fit --settings ---


def fitted(tmp_path: Path, *arguments: object) -> dict[str, Any]:
    model = tmp_path / "m.hedgerow"
    assert run("fit", *arguments[:1], model, "--overwrite", *arguments[1:]) == 0
    parameters: dict[str, Any] = hedgerow.load(model).get_params()
    return parameters


def test_options_beside_settings_win(data: Path, tuned: Path, tmp_path: Path) -> None:
    plain = fitted(tmp_path, data, "--settings", tuned)
    other = fitted(tmp_path, data, "--settings", tuned, "--C", 7, "--min-count", 4, "--seed", 5)
    differing = {name for name in plain if plain[name] != other[name]}
    assert differing == {"C", "min_count", "random_state"}
    assert (other["C"], other["min_count"], other["random_state"]) == (7, 4, 5)
    assert plain["judge"] is True


def test_option_beside_settings_wins_also_with_the_value_that_is_the_default(
    data: Path, tuned: Path, tmp_path: Path
) -> None:
    content = json.loads(tuned.read_text())
    content["parameters"] |= {"C": 3.0, "language": "english"}
    tuned.write_text(json.dumps(content))
    found = fitted(tmp_path, data, "--settings", tuned, "--C", 1)
    assert (found["C"], found["language"]) == (1, "english")


def test_settings_of_fields_read_these_fields(tmp_path: Path) -> None:
    records = [{"title": one["text"].split()[0], "body": one["text"], **one} for one in RECORDS]
    path, settings = write(tmp_path / "records.jsonl", records), tmp_path / "s.json"
    options = ["--text-field", "title:2", "--text-field", "body", "--time", "0.1s"]
    assert run("tune", path, settings, *options) == 0
    found = fitted(tmp_path, path, "--settings", settings)
    # Short texts are read by characters, too; both readings share the weight.
    weights = {name: weight**2 for name, weight in found["fields"]}
    assert weights == pytest.approx({"title": 2, "title~chars": 2, "body": 0.5, "body~chars": 0.5})
    assert set(hedgerow.load(tmp_path / "m.hedgerow").vectorizers_) == set(weights)


def test_settings_for_texts_are_refused_for_features(
    tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "\n".join(f"{n % 3} {n % 5}:1 {5 + n % 4}:0.5" for n in range(200))
    (tmp_path / "features.txt").write_text(f"200 9 3\n{rows}\n")
    code, message = failure(capsys, "fit", tmp_path / "features.txt", tmp_path / "m", "--settings", tuned)
    assert (code, "was tuned on texts, but" in message) == (ExitCode.USAGE, True)
    own = tmp_path / "own.json"
    assert run("tune", tmp_path / "features.txt", own, "--time", "0.1s") == 0
    assert fitted(tmp_path, tmp_path / "features.txt", "--settings", own)["judge"] is True


@pytest.mark.parametrize(
    "options",
    [["--extend", "old.hedgerow"], ["--base", "transformer"], ["--preset", "fast"], ["--time", "1m"]],
)
def test_settings_are_refused_beside_what_they_cannot_be_combined_with(
    data: Path, tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    code, message = failure(capsys, "fit", data, tmp_path / "m", "--settings", tuned, *options)
    assert (code, f"--settings: not with {options[0]}" in message) == (ExitCode.USAGE, True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (None, "is not JSON"),
        ({"hedgerow_settings": 2}, "has format 2"),
        ({"estimator": "BaseEstimator"}, "is for the estimator 'BaseEstimator'"),
        ({"estimator": ["HedgerowClassifier"]}, "is for the estimator ["),
        ({"parameters": [1]}, "has no object 'parameters'"),
        ({"parameters": {"cluster": "auto"}}, "sets 'cluster', which is not a setting"),
        ({"parameters": {"depth": 3}}, "sets 'depth', which is not a setting"),
        ({"parameters": {"C": "much"}}, "C is 'much'; it must be a finite number"),
        ({"parameters": {"ngrams": 2}}, "ngrams is 2"),
        ({"parameters": {"ngrams": [1, 7]}}, "ngrams"),
        ({"parameters": {"wide": 10}}, "wide is for a judge"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_the_way_out(
    data: Path,
    tuned: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any] | None,
    words: str,
) -> None:
    content = json.loads(tuned.read_text())
    tuned.write_text("{" if change is None else json.dumps(content | change))
    code, message = failure(capsys, "fit", data, tmp_path / "m", "--settings", tuned)
    assert code == ExitCode.USAGE
    assert f"{tuned} " in message
    assert words in message
    assert "hedgerow tune DATA SETTINGS.json" in message
    assert not (tmp_path / "m").exists()


def test_file_that_is_something_else_or_missing_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.json"
    for content in ("[1]", "{}", "3", '"text"'):
        other.write_text(content)
        code, message = failure(capsys, "fit", data, tmp_path / "m", "--settings", other)
        assert (code, "has no entry 'hedgerow_settings'" in message) == (ExitCode.USAGE, True)
    for path in (tmp_path / "missing.json", tmp_path):
        code, message = failure(capsys, "fit", data, tmp_path / "m", "--settings", path)
        assert (code, str(path) in message) == (ExitCode.USAGE, True)
