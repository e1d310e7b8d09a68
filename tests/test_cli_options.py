"""The options of the command line: their values, their help, and the advice that names them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from enum import StrEnum
from pathlib import Path

import pytest
import typer.main

from hedgerow.cli import main, options
from hedgerow.cli.app import app
from hedgerow.cli.failures import ExitCode, option_words
from hedgerow.cli.terminal import show_progress
from hedgerow.decisions.abstention import INPUT_MEASURES, LABEL_MEASURES
from hedgerow.judge import calibration
from hedgerow.training.settings import METHODS
from hedgerow.trees.tree_model import TRANSFORMS

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
KINDS = ("apple", "pear", "plum")


def names(command: str) -> set[str]:
    """The options of a command."""
    return {name for parameter in COMMANDS[command].params for name in parameter.opts if name[:2] == "--"}


def write(path: Path, rows: int, first: int = 0, **more: object) -> Path:
    records = [
        {"text": f"{KINDS[i % 3]} number {i % 17} of the {KINDS[i % 3]} family {i}", "labels": [KINDS[i % 3]]}
        for i in range(first, first + rows)
    ]
    path.write_text("".join(json.dumps({**record, **more}) + "\n" for record in records))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fruit")
    write(folder / "train.jsonl", 60)
    write(folder / "held.jsonl", 120, first=1000)
    for name, method in (("bagged", "bagging"), ("single", "single")):
        arguments = ["--method", method, "--members", "3", "--threads", "1", "--preset", "paper"]
        assert main(["fit", f"{folder}/train.jsonl", f"{folder}/{name}.hedgerow", *arguments]) == 0
    return folder


# --- values ---


@pytest.mark.parametrize(
    ("values", "of_the_library"),
    [
        (options.Method, METHODS),
        (options.Loss, TRANSFORMS),
        (options.LabelMeasure, LABEL_MEASURES),
        (options.InputMeasure, INPUT_MEASURES),
        (options.CalibrationMethod, calibration.METHODS),
        (options.CalibrationGroups, calibration.GROUPINGS),
        (options.CalibrationTarget, calibration.TARGETS),
    ],
)
def test_values_of_options_are_those_of_the_library(
    values: type[StrEnum], of_the_library: tuple[str, ...]
) -> None:
    assert [value.value for value in values] == list(of_the_library)


@pytest.mark.parametrize(
    ("option", "values"),
    [("--negatives", options.Negatives), ("--loss", options.Loss)],
)
def test_every_value_of_an_option_is_one_that_fit_takes(
    folder: Path, tmp_path: Path, option: str, values: type[StrEnum]
) -> None:
    for value in values:
        model = str(tmp_path / value.value)
        assert main(["fit", f"{folder}/train.jsonl", model, option, value.value, "--threads", "1"]) == 0


def test_every_value_of_missing_is_one_that_predict_takes(folder: Path) -> None:
    for value in options.Missing:
        command = ["predict", f"{folder}/bagged.hedgerow", f"{folder}/train.jsonl", "--missing", value.value]
        assert main([*command, "--threads", "1"]) == 0


# --- help ---


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_begins_with_a_short_line_and_ends_with_an_example(name: str) -> None:
    first, *_, last = [line.strip() for line in COMMANDS[name].help.splitlines() if line.strip()]
    assert len(first) <= 80
    assert first.endswith(".")
    assert last.startswith(("hedgerow ", "curl "))


def test_help_of_no_command_imports_the_library() -> None:
    code = """
import contextlib, io, sys
from hedgerow.cli import main
for name in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([name, "--help"]) == 0
print(*(name for name in ("numpy", "scipy", "sklearn", "torch") if name in sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *COMMANDS], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


def shown(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "400")
    assert main([name, "--help"]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_help_of_fit_hides_what_a_newcomer_need_not_know_in_a_panel(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, panel, expert = shown("fit", capsys, monkeypatch).partition("Expert options")
    assert panel
    for option in ("--negatives", "--beam", "--leaf-size", "--branching", "--C "):
        assert option in expert
        assert option not in before


def test_help_says_that_part_takes_any_split_and_extend_checks_the_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("predict", "evaluate", "calibrate", "decide", "query", "explain", "report", "embed"):
        assert "any other value of the field 'split'" in shown(name, capsys, monkeypatch)
    assert "other rows or labels are refused" in shown("fit", capsys, monkeypatch)


def test_help_of_serve_says_when_a_proxy_needs_allow_host(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown("serve", capsys, monkeypatch)
    assert "Needed behind a proxy" in text
    assert "if it rewrites Host" in text


# --- what help says is true ---


def test_part_takes_the_name_of_any_split(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    other = write(tmp_path / "other.jsonl", 3, split="spring")
    (data / "all.jsonl").write_text(
        write(tmp_path / "x.jsonl", 5, split="test").read_text() + other.read_text()
    )
    capsys.readouterr()
    for source in (data, data / "all.jsonl"):
        command = ["predict", f"{folder}/single.hedgerow", str(source), "--part", "spring"]
        assert main([*command, "--threads", "1"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 3


def test_extend_refuses_other_rows_with_the_same_labels(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write(tmp_path / "other.jsonl", 60, first=300)
    command = ["fit", str(other), f"{tmp_path}/m", "--extend", f"{folder}/bagged.hedgerow", "--members", "4"]
    assert main([*command, "--threads", "1"]) == ExitCode.DATA
    assert not (tmp_path / "m").exists()


# --- advice ---


def test_parameters_of_the_library_are_written_as_options_that_the_command_has() -> None:
    assert option_words("use by='all'", {"by"}) == "use --by all"
    assert option_words("a larger beam= or share=0.5", {"beam", "share"}) == "a larger --beam or --share 0.5"
    assert option_words("inputs_risk needs inputs_by", {"inputs_by"}) == "inputs_risk needs --inputs-by"
    assert option_words("by the beam; --by all, by=", {"beam", "by"}) == "by the beam; --by all, --by"
    assert option_words("min_count=1 of it", {"by"}) == "min_count=1 of it"


def advice(message: str) -> set[str]:
    """Options that a message of `hedgerow calibrate` names, but for those of a command that it names."""
    return set(re.findall(r"(?<![\w-])--[a-z-]+", re.sub(r"hedgerow \w+( --[a-z-]+)+", "", message)))


@pytest.mark.parametrize(
    "error",
    [
        "the model does not know how frequent its labels are; use by='all'",
        "there are 9 held-out inputs; give more, or a larger share=",
        "these are not the data that the model was fitted to; leave out_of_bag out",
    ],
)
def test_advice_of_calibrate_names_options_that_it_has(
    error: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError(error)

    monkeypatch.setattr("hedgerow.learn_from_held_out", fail, raising=False)
    command = ["calibrate", f"{folder}/bagged.hedgerow", f"{folder}/held.jsonl", "--threads", "1"]
    capsys.readouterr()
    assert main(command) == ExitCode.DATA
    message = capsys.readouterr().err
    assert advice(message)
    assert advice(message) <= names("calibrate")
    assert "=" not in message


def test_calibrate_out_of_bag_of_a_model_without_bags_says_how_to_get_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["calibrate", f"{folder}/single.hedgerow", f"{folder}/held.jsonl"]
    capsys.readouterr()
    assert main([*command, "--out-of-bag", f"{folder}/train.jsonl", "--threads", "1"]) == ExitCode.MODEL
    message = capsys.readouterr().err
    assert "leave --out-of-bag out, or train with hedgerow fit --method bagging" in message


def test_what_cannot_be_guaranteed_names_options_that_there_are(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from hedgerow import load

    model = tmp_path / "m.hedgerow"
    command = ["calibrate", f"{folder}/bagged.hedgerow", f"{folder}/held.jsonl", "--out", str(model)]
    assert main([*command, "--beam", "7", "--threads", "1"]) == 0
    assert advice(capsys.readouterr().out) <= names("calibrate") | names("decide")
    assert load(model).beam == load(model).policy_.search.beam == 7
    asked = ["--missed-at-most", "0.0001", "--review-at-most", "3"]
    assert main(["decide", str(model), f"{folder}/held.jsonl", *asked]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Not guaranteed: " in printed
    assert "--missed-at-most 0.0001" in printed
    assert advice(printed) <= names("decide")


# --- progress ---

LONG = ("fit", "predict", "evaluate", "calibrate", "decide", "report", "query", "explain", "embed", "map")


def test_long_commands_take_verbose() -> None:
    for name in (*LONG, "reproduce", "demo", "import-pecos"):
        assert "--verbose" in names(name), name


def test_verbose_prints_progress_as_lines_and_nothing_is_printed_without(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = ["fit", f"{folder}/train.jsonl", str(tmp_path / "m"), "--method", "bagging", "--members", "2"]
    predict = ["predict", str(tmp_path / "m"), f"{folder}/held.jsonl"]
    evaluate = ["evaluate", str(tmp_path / "m"), f"{folder}/held.jsonl"]
    capsys.readouterr()
    for command in (fit, predict, evaluate):
        assert main([*command, "--threads", "1", "--verbose"]) == 0
        lines = capsys.readouterr().err.splitlines()
        assert lines
        assert all(re.match(r"hedgerow: .+: \d+ % done(, about \d+ (s|min) left)?$", line) for line in lines)
        more = ["--overwrite"] if command is fit else []
        assert main([*command, "--threads", "1", *more]) == 0
        assert capsys.readouterr().err == ""


def test_lines_of_progress_come_with_each_task_and_each_tenth_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with show_progress(verbose=True) as report:
        for step in range(101):
            report(step / 100, "training")
        report(0.0, "[red]saving\x1b[2J")
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        *(f"hedgerow: training: {10 * tenth} % done" for tenth in range(11)),
        r"hedgerow: [red]saving\x1b[2J: 0 % done",
    ]


def test_of_several_processes_the_first_one_reports(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    with show_progress(verbose=True) as report:
        report(0.5, "training")
    assert capsys.readouterr().err == ""
