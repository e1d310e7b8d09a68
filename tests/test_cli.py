"""The command line: what it writes where, and how it fails."""

from __future__ import annotations

import csv
import errno
import gzip
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from rich.console import Console

import hedgerow
from hedgerow.cli import main
from hedgerow.cli.demo import print_demo
from hedgerow.cli.failures import ExitCode
from hedgerow.cli.terminal import plain, plain_json, progress_bar, shortened
from hedgerow.demo import DemoResult, Example, Prediction, demonstrate

RECORDS = [
    {"id": f"r{i}", "text": f"{kind} number {i} of the {kind} family", "labels": [kind, "any, \"quoted\""]}
    for i in range(12)
    for kind in ("apple", "[red]pear[/red]", "plum\x1b[2J")
]  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for name, records in (("train", RECORDS), ("test", RECORDS[:4])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


@pytest.fixture
def model(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "fruit.hedgerow"
    assert main(["fit", str(data), str(path), "--threads", "1"]) == 0
    capsys.readouterr()
    return path


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Run a command that fails; return the code and the one line it prints."""
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("hedgerow: error: ")
    assert captured.err.count("\n") == 1
    return code, captured.err


# --- fit ---


def test_fit_saves_a_model_and_says_what_to_do_next(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.hedgerow"
    assert main(["fit", str(data), str(path)]) == 0
    captured = capsys.readouterr()
    assert path.exists()
    assert "4 labels learned from 36 rows" in captured.out
    assert f"hedgerow predict {path}" in captured.out
    assert captured.err == ""  # no progress bar where stderr is no terminal


def test_fit_with_json_prints_one_object(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.hedgerow"
    assert main(["fit", str(data), str(path), "--json", "--seed", "3", "--C", "2"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["bytes"] == path.stat().st_size
    assert (summary["rows"], summary["labels"]) == (36, 4)
    assert summary["settings"]["random_state"] == 3
    assert summary["settings"]["C"] == 2


def test_existing_model_is_refused_before_the_data_are_read(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = model.read_bytes()
    code, message = failure(capsys, "fit", "/nonexistent", model)
    assert code == ExitCode.WRITE
    assert "--overwrite" in message
    assert model.read_bytes() == before


def test_overwrite_replaces_the_model(data: Path, model: Path) -> None:
    inode = model.stat().st_ino
    assert main(["fit", str(data), str(model), "--overwrite"]) == 0
    assert model.stat().st_ino != inode


def test_missing_folder_of_the_model_is_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, message = failure(capsys, "fit", "/nonexistent", tmp_path / "no" / "m")
    assert code == ExitCode.WRITE
    assert "create it" in message


def test_missing_and_bad_data_end_with_the_code_for_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, message = failure(capsys, "fit", tmp_path / "nothing.jsonl", tmp_path / "m")
    assert (code, "nothing.jsonl" in message) == (ExitCode.DATA, True)
    (tmp_path / "bad.jsonl").write_text("{]\n")
    code, message = failure(capsys, "fit", tmp_path / "bad.jsonl", tmp_path / "m")
    assert (code, "bad.jsonl" in message) == (ExitCode.DATA, True)
    assert not (tmp_path / "m").exists()


def test_data_without_labels_end_with_the_code_for_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    code, message = failure(capsys, "fit", tmp_path / "x.jsonl", tmp_path / "m")
    assert code == ExitCode.DATA
    assert "labels" in message


@pytest.mark.parametrize(
    "option",
    [
        "--leaf-size=0",
        "--method=magic",
        "--loss=x",
        "--beam=many",
        "--nonsense",
        "--C=-1",
        "--C=nan",
        "--C=inf",
    ],
)
def test_bad_parameters_end_with_the_code_for_usage(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    code, message = failure(capsys, "fit", data, tmp_path / "m", option)
    assert code == ExitCode.USAGE
    assert "hedgerow fit --help" in message


def test_full_disk_ends_with_the_code_for_writing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    code, message = failure(capsys, "fit", data, tmp_path / "m")
    assert code == ExitCode.WRITE
    assert "No space left" in message
    assert os.listdir(tmp_path) == ["data"]


def test_interrupt_ends_with_130_and_leaves_nothing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(hedgerow.HedgerowTextClassifier, "fit", interrupt)
    assert main(["fit", str(data), str(tmp_path / "m")]) == ExitCode.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["data"]


# --- predict ---


def lines(text: str | bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_predict_prints_json_lines_in_rank_order(
    data: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(model), str(data), "--k", "3"]) == 0
    captured = capsys.readouterr()
    found = lines(captured.out)
    assert captured.err == ""
    assert [record["id"] for record in found] == [record["id"] for record in RECORDS[:4]]
    for record in found:
        shares = [item["probability"] for item in record["labels"]]
        assert len(shares) == 3
        assert shares == sorted(shares, reverse=True)
        assert {item["label"] for item in record["labels"]} <= {
            label for source in RECORDS for label in source["labels"]
        }


def test_predict_of_a_file_reads_all_of_it(
    data: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(model), str(data / "train.jsonl")]) == 0
    assert len(lines(capsys.readouterr().out)) == len(RECORDS)


def test_inputs_without_ids_and_labels_have_none_in_the_output(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new.jsonl").write_text('{"text": "an apple"}\n')
    assert main(["predict", str(model), str(tmp_path / "new.jsonl")]) == 0
    assert [set(record) for record in lines(capsys.readouterr().out)] == [{"labels"}]


def test_all_formats_hold_the_same_predictions(
    data: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    command = ["predict", str(model), str(data), "--k", "2"]
    assert main(command) == 0
    expected = lines(capsys.readouterr().out)
    table = [
        (row, record["id"], rank, item["label"], np.float32(item["probability"]))
        for row, record in enumerate(expected)
        for rank, item in enumerate(record["labels"], 1)
    ]
    unpack: dict[str, Any] = {
        "p.jsonl": lambda packed: packed,
        "p.jsonl.gz": gzip.decompress,
        "p.jsonl.xz": lzma.decompress,
        "p.jsonl.zst": lambda packed: zstandard.ZstdDecompressor().decompressobj().decompress(packed),
    }
    for name, function in unpack.items():
        assert main([*command, "--out", str(tmp_path / name)]) == 0
        assert lines(function((tmp_path / name).read_bytes())) == expected
    assert main([*command, "--out", str(tmp_path / "p.csv")]) == 0
    with open(tmp_path / "p.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [
        (int(r["row"]), r["id"], int(r["rank"]), r["label"], np.float32(r["probability"])) for r in rows
    ] == table
    assert main([*command, "--out", str(tmp_path / "p.parquet")]) == 0
    found = parquet.read_table(tmp_path / "p.parquet").to_pylist()
    assert [tuple(record.values()) for record in found] == table
    assert capsys.readouterr().out == ""


def test_output_is_refused_before_the_model_is_loaded(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old.csv").write_text("precious")
    code, message = failure(capsys, "predict", "nothing", data, "--out", tmp_path / "old.csv")
    assert (code, "--overwrite" in message) == (ExitCode.WRITE, True)
    code, message = failure(capsys, "predict", "nothing", data, "--out", tmp_path / "p.xls")
    assert (code, ".parquet" in message) == (ExitCode.USAGE, True)
    code, message = failure(capsys, "predict", "nothing", data, "--out", tmp_path / "p.csv.gz")
    assert code == ExitCode.USAGE
    assert (tmp_path / "old.csv").read_text() == "precious"


@pytest.mark.parametrize("command", ["predict", "inspect"])
def test_bad_model_files_end_with_the_code_for_models(
    data: Path, model: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    more = [data] if command == "predict" else []
    code, message = failure(capsys, command, data / "no.hedgerow", *more)
    assert (code, "no.hedgerow" in message) == (ExitCode.MODEL, True)
    code, message = failure(capsys, command, data, *more)
    assert (code, "is a folder" in message) == (ExitCode.MODEL, True)
    code, message = failure(capsys, command, data / "train.jsonl", *more)
    assert (code, "not a hedgerow model" in message) == (ExitCode.MODEL, True)
    model.write_bytes(model.read_bytes()[:-1])
    code, message = failure(capsys, command, model, *more)
    assert (code, "cut off" in message) == (ExitCode.MODEL, True)


def test_features_for_a_text_model_end_with_the_code_for_data(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "features.txt").write_text("1 2 2\n0 0:1.0\n")
    code, message = failure(capsys, "predict", model, tmp_path / "features.txt")
    assert code == ExitCode.DATA
    assert "trained on texts" in message


def test_labels_without_names_stay_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{i % 3} {i % 3}:1.0 {3 + i % 2}:0.5\n" for i in range(12))
    (tmp_path / "train.txt").write_text(f"12 5 3\n{rows}")
    assert main(["fit", str(tmp_path / "train.txt"), str(tmp_path / "m")]) == 0
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "m"), str(tmp_path / "train.txt"), "--k", "1"]) == 0
    found = lines(capsys.readouterr().out)
    assert len(found) == 12
    assert {type(item["label"]) for record in found for item in record["labels"]} == {int}


# --- inspect, demo and the rest ---


def test_inspect_names_the_format_the_labels_and_the_sections(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(model)]) == 0
    text = capsys.readouterr().out
    assert "all checksums match" in text
    assert "sections of the file" in text
    assert main(["inspect", str(model), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format_version"] == 1
    assert found["bytes"] == model.stat().st_size
    assert all(set(section) == {"dtype", "shape", "bytes"} for section in found["sections"].values())


def test_demo_predicts_held_out_texts() -> None:
    result = demonstrate(n_jobs=1)
    assert (result.train_rows, result.test_rows) == (4000, 500)
    assert all(len(example.predictions) == 5 for example in result.examples)
    assert result.precision[1] > 0.75
    assert result.precision[5] > 0.5


def test_demo_with_json_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json", "--threads", "1"]) == 0
    assert set(json.loads(capsys.readouterr().out)["precision"]) == {"1", "3", "5"}


def test_demo_prints_labels_as_they_are_not_as_mark_up() -> None:
    odd = Prediction("[red]x[/red]\x1b[2J", 0.5, True)
    example = Example("[bold]id", "text [/] with \x07 bell", [odd], ["[missed]"])
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    print_demo(console, DemoResult(1, 1, 1, 0.1, 0.1, {1: 1.0}, [example]))
    console.file.close()
    text = console.export_text()
    assert r"[red]x[/red]\x1b[2J" in text
    assert "[bold]id" in text
    assert "[missed]" in text
    assert r"\x07" in text


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        [],
        ["--help"],
        ["fit", "--help"],
        ["predict", "-h"],
        ["inspect", "-h"],
        ["demo", "-h"],
    ):
        assert main(arguments) == 0
        assert "Examples:" in capsys.readouterr().out


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("hedgerow 0.")


def test_unknown_command_ends_with_the_code_for_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert failure(capsys, "fot")[0] == ExitCode.USAGE


def test_program_starts_without_loading_the_library() -> None:
    code = "import sys, hedgerow.cli; sys.exit('sklearn' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_progress_goes_to_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress_bar() as report:
        report(0.5, "training")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar() as report:
        report(0.5, "[red]training")
        report(0.1, "saving")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "saving" in captured.err


def test_control_characters_are_escaped_for_terminals() -> None:
    assert plain("a\x9bb\u202ec") == r"a\x9bb\u202ec"
    text = '{"label": "\u202e\x7f"}\n'
    assert json.loads(plain_json(text)) == json.loads(text)
    assert plain_json(text).isascii()


def test_shortened_cuts_at_a_word() -> None:
    assert shortened("one two three", 9) == "one two…"
    assert shortened("one\n two", 9) == "one two"


def test_fit_without_options_uses_the_defaults_of_the_library(model: Path) -> None:
    used = hedgerow.load(model).get_params()
    expected = hedgerow.HedgerowTextClassifier(random_state=0).get_params()
    differing = {name for name in expected if used[name] != expected[name] and name != "ngrams"}
    assert differing == set(), {name: (used[name], expected[name]) for name in differing}
    assert tuple(used["ngrams"]) == expected["ngrams"]
