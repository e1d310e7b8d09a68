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
import typer.main
import zstandard
from rich.console import Console

import hedgerow
from hedgerow.cli import main
from hedgerow.cli.app import app
from hedgerow.cli.demo import print_demo
from hedgerow.cli.demonstration import DemoResult, Example, Prediction, demonstrate
from hedgerow.cli.failures import ExitCode
from hedgerow.cli.terminal import plain, plain_json, shortened, show_progress
from hedgerow.data.sample import load_sample
from hedgerow.training.checkpoint import Checkpoint

RECORDS = [
    {"id": f"r{i}{n}", "text": f"{kind} number {i} of the {kind} family", "labels": [kind, "any, \"quoted\""]}
    for i in range(12)
    for n, kind in enumerate(("apple", "[red]pear[/red]", "plum\x1b[2J"))
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


@pytest.mark.parametrize("command", ["fit", "evaluate"])
@pytest.mark.parametrize(
    ("name", "content"),
    [("x.jsonl", '{"text": "a", "tags": ["b"], "id": 1}\n'), ("x.csv", "id,tags,text\n1,b,a\n")],
)
def test_labels_in_another_field_are_told_with_the_fields_that_are_there(
    command: str, name: str, content: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / name
    data.write_text(content)
    paths = (data, tmp_path / "m") if command == "fit" else (model, data)
    for option, looked_for in (((), "labels"), (("--labels-field", "tagz"), "tagz")):
        code, message = failure(capsys, command, *paths, *option)
        assert code == ExitCode.DATA
        assert f"there is no field {looked_for!r}, but there are id, tags, text; name one with" in message


def test_data_whose_labels_are_all_empty_are_not_sent_to_another_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.jsonl").write_text('{"text": "a", "labels": []}\n')
    code, message = failure(capsys, "fit", tmp_path / "x.jsonl", tmp_path / "m")
    assert (code, "the field 'labels' is empty in all records" in message) == (ExitCode.DATA, True)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "train_texts.txt").write_text("a\nb\n")
    code, message = failure(capsys, "fit", tmp_path / "texts", tmp_path / "m")
    assert (code, "give data with labels" in message) == (ExitCode.DATA, True)
    assert "--labels-field" not in message


def test_file_without_rows_is_named_by_every_command(
    model: Path, ensemble: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts, features = tmp_path / "empty.jsonl", tmp_path / "empty.txt"
    texts.write_text("")
    features.write_text("0 5 3\n")
    for arguments in (
        ("fit", texts, tmp_path / "m"),
        ("fit", features, tmp_path / "m"),
        ("predict", model, texts),
        ("predict", model, texts, "--uncertainty"),
        ("query", ensemble, texts),
        ("explain", model, texts, "--row", 0),
        ("evaluate", model, texts),
        ("calibrate", model, texts),
    ):
        code, message = failure(capsys, *arguments)
        assert (code, "has no rows" in message, "shape" in message) == (ExitCode.DATA, True, False)
        assert str(features if features in arguments else texts) in message


def test_texts_without_a_common_word_are_refused_with_the_option_that_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [{"text": word, "labels": ["a"]} for word in ("one", "two", "three")]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    code, message = failure(capsys, "fit", tmp_path / "x.jsonl", tmp_path / "m")
    assert (code, "add texts" in message, "lower --min-count" in message) == (ExitCode.DATA, True, True)


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


# --- fit, ensembles ---

ENSEMBLE = ["--method", "boosted-bagging", "--members", "4", "--threads", "1", "--preset", "paper"]


@pytest.fixture
def ensemble(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "four.hedgerow"
    assert main(["fit", str(data), str(path), *ENSEMBLE]) == 0
    capsys.readouterr()
    return path


def interrupt_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C while this member is being stored."""
    write = Checkpoint.write

    def interrupted(self: Checkpoint, member: int, tree: Any) -> None:
        if member == number:
            self.folder.mkdir(exist_ok=True)
            raise KeyboardInterrupt
        write(self, member, tree)

    monkeypatch.setattr(Checkpoint, "write", interrupted)


def test_fit_of_an_ensemble_tells_method_and_members_and_leaves_model_and_records(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", str(data), str(tmp_path / "m"), *ENSEMBLE]) == 0
    captured = capsys.readouterr()
    assert "boosted-bagging, 4 members): 4 labels learned from 36 rows" in captured.out
    assert captured.err == ""
    assert sorted(os.listdir(tmp_path)) == ["data", "m", "m.data"]
    options = ["--trees", "2", "--alpha", "0.25", "--hard-negatives", "3", "--json"]
    assert main(["fit", str(data), str(tmp_path / "n"), *ENSEMBLE, *options]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["method"], summary["members"]) == ("boosted-bagging", 4)
    model = hedgerow.load(tmp_path / "n")
    assert model.describe()["trees"] == 2
    for name, value in {"trees": 2, "alpha": 0.25, "hard_negatives": 3}.items():
        assert summary["settings"][name] == model.get_params()[name] == value


def test_fit_leaves_options_alone_that_the_method_does_not_use(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--members", "7", "--alpha", "2", "--dropout", "0.5", "--json"]
    assert main(["fit", str(data), str(tmp_path / "m"), *options]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["method"], summary["members"]) == ("single", 1)


@pytest.mark.parametrize("method", ["single", "bagging"])
def test_more_trees_than_members_end_with_the_code_for_usage(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    code, message = failure(
        capsys, "fit", data, tmp_path / "m", "--method", method, "--members", 3, "--trees", 4
    )
    assert code == ExitCode.USAGE
    assert "--trees: 4 trees are more than the 3 members" in message


def test_interrupted_ensemble_goes_on_with_the_same_command_to_the_same_model(
    data: Path, ensemble: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m"
    folder = tmp_path / "m.members"
    command = ["fit", str(data), str(path), *ENSEMBLE]
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(2, patch)
        assert main(command) == ExitCode.INTERRUPTED
    assert capsys.readouterr() == (
        "",
        f"hedgerow: interrupted; 2 of 4 members are kept in {folder};"
        " the same command continues from there\n",
    )
    assert not path.exists()
    (folder / ".member-0002.hedgerow.0123456789abcdef.tmp").touch()  # a kill while it was written
    assert main(command) == 0
    assert capsys.readouterr().err == f"hedgerow: 2 of 4 members found in {folder}\n"
    assert path.read_bytes() == ensemble.read_bytes()
    assert not folder.exists()


def test_ensemble_interrupted_before_its_first_member_leaves_nothing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_at(0, monkeypatch)
    assert main(["fit", str(data), str(tmp_path / "m"), *ENSEMBLE]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "hedgerow: interrupted; nothing was written\n"
    assert os.listdir(tmp_path) == ["data"]


def test_interrupt_after_the_model_was_saved_says_so(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: Checkpoint) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "clear", interrupt)
    assert main(["fit", str(data), str(tmp_path / "m"), *ENSEMBLE]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == f"hedgerow: interrupted; {tmp_path / 'm'} is saved\n"
    assert hedgerow.load(tmp_path / "m").describe()["members"] == 4


def test_members_of_another_fit_are_refused_with_the_way_out(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "m.members"
    interrupt_at(2, monkeypatch)
    main(["fit", str(data), str(tmp_path / "m"), *ENSEMBLE])
    before = sorted(os.listdir(folder))
    with open(data / "other.jsonl", "w") as file:
        file.writelines(json.dumps(record) + "\n" for record in RECORDS[1:])
    for source, more in ((data, ["--alpha", "0.25"]), (data, ["--seed", "1"]), (data / "other.jsonl", [])):
        capsys.readouterr()
        assert main(["fit", str(source), str(tmp_path / "m"), *ENSEMBLE, *more]) == ExitCode.DATA
        assert f"{folder} holds members of another fit" in (message := capsys.readouterr().err)
        assert "delete it" in message
    assert sorted(os.listdir(folder)) == before
    (folder / "member-0001.hedgerow").write_bytes(b"rubbish")
    assert main(["fit", str(data), str(tmp_path / "m"), *ENSEMBLE]) == ExitCode.MODEL
    assert f"delete the folder {folder}" in capsys.readouterr().err


def test_file_in_place_of_the_folder_of_members_is_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.members").write_text("precious")
    code, message = failure(capsys, "fit", "/nonexistent", tmp_path / "m", "--method", "bagging")
    assert (code, "move it away" in message) == (ExitCode.WRITE, True)


def test_other_files_in_the_folder_of_members_stay(data: Path, tmp_path: Path) -> None:
    (tmp_path / "m.members").mkdir()
    (tmp_path / "m.members" / "notes.txt").write_text("precious")
    assert main(["fit", str(data), str(tmp_path / "m"), *ENSEMBLE]) == 0
    assert os.listdir(tmp_path / "m.members") == ["notes.txt"]


def test_disk_that_is_full_for_members_ends_with_the_code_for_writing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    code, message = failure(capsys, "fit", data, tmp_path / "m", *ENSEMBLE)
    assert (code, "No space left" in message) == (ExitCode.WRITE, True)


@pytest.mark.parametrize("trees", [None, 6])
def test_extended_ensemble_is_the_one_that_was_fitted_at_once(
    data: Path, ensemble: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], trees: int | None
) -> None:
    named = [] if trees is None else ["--trees", str(trees)]
    six = ["--members", "6", *named]
    assert main(["fit", str(data), str(tmp_path / "once"), *ENSEMBLE, *six]) == 0
    capsys.readouterr()
    extended = [str(tmp_path / "more"), "--extend", str(ensemble), *six, "--json"]
    assert main(["fit", str(data), *extended]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["method"], summary["members"]) == ("boosted-bagging", 6)
    assert summary["settings"]["members"] == 6
    assert (tmp_path / "more").read_bytes() == (tmp_path / "once").read_bytes()


def test_ensemble_can_be_extended_in_place(data: Path, ensemble: Path) -> None:
    command = ["fit", str(data), str(ensemble), "--extend", str(ensemble), "--members", "5", "--overwrite"]
    assert main(command) == 0
    assert hedgerow.load(ensemble).describe()["members"] == 5


def test_extending_a_calibrated_model_then_it_says_what_is_discarded_and_how_to_learn_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = load_sample()
    rows = [
        {"text": text, "labels": labels}
        for text, labels in zip(sample.train_texts[:600], sample.train_labels[:600], strict=True)
    ]
    for name, part in (("train", rows[:200]), ("held", rows[200:])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    train, old, new = tmp_path / "train.jsonl", tmp_path / "old", tmp_path / "new"
    bagging = ["--method", "bagging", "--preset", "paper", "--seed", "0"]
    assert main(["fit", str(train), str(old), *bagging, "--members", "2"]) == 0
    assert main(["calibrate", str(old), str(tmp_path / "held.jsonl"), "--overwrite"]) == 0
    before = hedgerow.load(old).source
    assert before.calibration is not None
    assert before.policy is not None
    capsys.readouterr()
    extend = ["fit", str(train), str(new), "--extend", str(old), "--members", "3"]
    assert main(extend) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "so calibration, OOD detector, policy and expected quality of the old model are discarded" in said
    assert f"To learn them again: hedgerow calibrate {new} HELD_OUT_DATA" in said
    after = hedgerow.load(new).source
    assert (after.calibration, after.ood, after.policy) == (None, None, None)
    assert main([*extend, "--overwrite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["discarded"] == [
        "calibration",
        "OOD detector",
        "policy",
        "expected quality",
    ]


def test_extending_a_model_that_is_not_calibrated_then_nothing_is_discarded(
    data: Path, ensemble: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fit", str(data), str(tmp_path / "m"), "--extend", str(ensemble), "--members", "5"]
    assert main(command) == 0
    assert "discarded" not in capsys.readouterr().out


def test_extend_refuses_what_cannot_be_extended(
    data: Path, model: Path, ensemble: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def extend(old: Path, *more: object, source: Path = data) -> tuple[int, str]:
        return failure(capsys, "fit", source, tmp_path / "m", "--extend", old, *more)

    code, message = extend(model)
    assert (code, "--method single" in message) == (ExitCode.MODEL, True)
    code, message = extend(ensemble, "--members", 4)
    assert (code, "has 4 members already" in message) == (ExitCode.USAGE, True)
    code, message = extend(ensemble, "--alpha", 0.1)
    assert (code, "was fitted with 0.5" in message) == (ExitCode.USAGE, True)
    code, message = extend(ensemble, "--trees", 3)
    assert (code, "--trees" in message) == (ExitCode.USAGE, True)
    for option in (("--encoder", "foo"), ("--max-length", 64), ("--device", "cpu")):
        code, message = extend(ensemble, *option)
        assert (code, f"{option[0]} is for a transformer" in message) == (ExitCode.USAGE, True)
    code, message = extend(data / "no.hedgerow")
    assert (code, "no.hedgerow" in message) == (ExitCode.MODEL, True)
    shared = tmp_path / "shared"
    assert main(["fit", str(data), str(shared), *ENSEMBLE, "--trees", "2"]) == 0
    capsys.readouterr()
    code, message = extend(shared)
    assert (code, "4 members share 2 trees" in message) == (ExitCode.MODEL, True)
    assert not (tmp_path / "m").exists()


def test_extend_refuses_data_with_other_labels(
    ensemble: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes: dict[str, Any] = {
        "is new": lambda labels: [*labels, "cherry"],
        "is missing": lambda labels: labels[:1],
    }
    for told, change in changes.items():
        records = [{**record, "labels": change(record["labels"])} for record in RECORDS]
        (tmp_path / "other.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        code, message = failure(capsys, "fit", tmp_path / "other.jsonl", tmp_path / "m", "--extend", ensemble)
        assert (code, told in message) == (ExitCode.DATA, True)
    (tmp_path / "features.txt").write_text("1 2 2\n0 0:1.0\n")
    code, message = failure(capsys, "fit", tmp_path / "features.txt", tmp_path / "m", "--extend", ensemble)
    assert (code, "HedgerowTextClassifier" in message) == (ExitCode.DATA, True)


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


def test_part_of_a_file_that_has_none_is_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain.jsonl").write_text(json.dumps(RECORDS[0]))
    (tmp_path / "table.csv").write_text("text,split\nan apple,train\n")
    (tmp_path / "split.jsonl").write_text(json.dumps({**RECORDS[0], "split": "train"}))
    for name in ("plain.jsonl", "table.csv"):
        code, message = failure(capsys, "predict", model, tmp_path / name, "--part", "nope")
        assert code == ExitCode.USAGE
        assert f"--part nope: {tmp_path / name} has no parts" in message
    code, message = failure(capsys, "predict", model, tmp_path / "split.jsonl", "--part", "nope")
    assert (code, "the file has train" in message) == (ExitCode.DATA, True)
    assert main(["predict", str(model), str(tmp_path / "split.jsonl"), "--part", "train"]) == 0


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


MEASURES = ["total", "data", "knowledge", "variance"]
OF_INPUTS = ["expected", *MEASURES, "bound", "missed"]


def test_predict_with_uncertainty_writes_what_the_library_says_in_all_formats(
    data: Path, ensemble: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    command = ["predict", str(ensemble), str(data), "--k", "2"]
    assert main([*command, "--uncertainty"]) == 0
    found = lines(capsys.readouterr().out)
    texts = [record["text"] for record in RECORDS[:4]]
    expected = hedgerow.load(ensemble).predict_uncertain(texts, 2)
    table = []
    for row, record in enumerate(found):
        assert list(record) == ["id", "labels", "input"]
        assert list(record["input"]) == OF_INPUTS
        for name, value in record["input"].items():
            assert np.float32(value) == getattr(expected.instance, name)[row]
        for place, item in enumerate(record["labels"]):
            assert list(item) == ["label", "probability", *MEASURES]
            assert item["label"] == expected.labels[row, place]
            for name in ("probability", *MEASURES):
                assert np.float32(item[name]) == getattr(expected, name)[row, place]
            measures = [*list(item.values())[1:], *record["input"].values()]
            table.append((row, record["id"], place + 1, item["label"], *map(np.float32, measures)))
    columns = [
        "row",
        "id",
        "rank",
        "label",
        "probability",
        *MEASURES,
        *(f"input_{name}" for name in OF_INPUTS),
    ]
    assert main([*command, "--uncertainty", "--out", str(tmp_path / "p.csv")]) == 0
    with open(tmp_path / "p.csv", newline="") as file:
        header, *rows = list(csv.reader(file))
    assert header == columns
    assert [(int(r[0]), r[1], int(r[2]), r[3], *map(np.float32, r[4:])) for r in rows] == table
    assert main([*command, "--uncertainty", "--out", str(tmp_path / "p.parquet")]) == 0
    records = parquet.read_table(tmp_path / "p.parquet").to_pylist()
    assert list(records[0]) == columns
    assert [tuple(record.values()) for record in records] == table
    # Without the option, labels and probabilities are the same, and nothing else is written.
    capsys.readouterr()
    assert main(command) == 0
    for plainly, record in zip(lines(capsys.readouterr().out), found, strict=True):
        assert list(plainly) == ["id", "labels"]
        short = [{name: item[name] for name in ("label", "probability")} for item in record["labels"]]
        assert plainly["labels"] == short


def test_predict_passes_the_options_of_the_search_on(
    data: Path, ensemble: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    predict = hedgerow.HedgerowTextClassifier.predict_uncertain

    def listen(self: Any, X: Any, k: int = 5, **options: Any) -> Any:
        asked.append((self.beam, self.candidates, self.missing, options["tolerance"]))
        return predict(self, X, k, **options)

    monkeypatch.setattr(hedgerow.HedgerowTextClassifier, "predict_uncertain", listen)
    command = ["predict", str(ensemble), str(data), "--uncertainty"]
    assert main(command) == 0
    for candidates in ("all", "scored", "3"):
        more = ["--tolerance", "0.25", "--missing", "delta", "--beam", "7", "--candidates", candidates]
        assert main([*command, *more]) == 0
    assert asked == [
        (50, "scored", "exact", None),
        (7, "all", "delta", 0.25),
        (7, "scored", "delta", 0.25),
        (7, 3, "delta", 0.25),
    ]


@pytest.mark.parametrize(
    "options",
    [
        ["--tolerance=0.1"],
        ["--uncertainty", "--tolerance=2"],
        ["--candidates=0"],
        ["--candidates=few"],
        ["--missing=x"],
    ],
)
def test_bad_options_of_the_search_end_with_the_code_for_usage(
    data: Path, ensemble: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    code, message = failure(capsys, "predict", ensemble, data, *options)
    assert code == ExitCode.USAGE
    assert "hedgerow predict --help" in message


def test_predict_gives_the_labels_that_every_member_knows_where_k_is_larger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Each label has one row: samples of the rows leave labels out.
    records = [{"text": f"word{i} and word{i}", "labels": [f"l{i}"]} for i in range(8)]
    source = tmp_path / "few.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert main(["fit", str(source), str(tmp_path / "m"), "--method", "bagging", "--members", "3"]) == 0
    capsys.readouterr()
    for more in ([], ["--uncertainty"]):
        assert main(["predict", str(tmp_path / "m"), str(source), "--k", "8", *more]) == 0
        assert all(0 < len(record["labels"]) < 8 for record in lines(capsys.readouterr().out))


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


@pytest.mark.parametrize(("method", "members", "trees"), [("mc-dropout", 3, 1), ("bagging", 4, 2)])
def test_inspect_tells_method_members_and_trees(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str, members: int, trees: int
) -> None:
    path = str(tmp_path / "m")
    options = ["--method", method, "--members", str(members), "--trees", str(trees)]
    assert main(["fit", str(data), path, *options]) == 0
    capsys.readouterr()
    assert main(["inspect", path]) == 0
    facts = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["method", method] in facts
    assert ["members", str(members)] in facts
    assert ["trees", str(trees)] in facts
    assert main(["inspect", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["method"], found["members"], found["trees"]) == (method, members, trees)


@pytest.fixture(scope="module")
def demo() -> DemoResult:
    return demonstrate(n_jobs=1)


def printed(result: DemoResult, width: int = 100) -> str:
    with open(os.devnull, "w") as nowhere:
        console = Console(width=width, record=True, file=nowhere)
        print_demo(console, result)
        return console.export_text()


def test_demo_predicts_held_out_texts_of_which_it_is_sure_or_in_doubt(demo: DemoResult) -> None:
    assert (demo.train_rows, demo.test_rows, demo.members) == (4000, 500, 10)
    assert all(len(example.predictions) == 5 for example in demo.examples)
    assert demo.precision[1] > 0.75
    assert demo.precision[5] > 0.5
    text = printed(demo, width=80)
    assert text.count("The model is fairly sure.") == 1
    assert text.count("Uncertain: some tags could be right or wrong.") == 1
    assert text.count("Uncertain, and the members disagree.") == 1
    assert "knowledge (epistemic)" in text.lower()
    assert "much" in text
    assert "hardly" in text


def test_demo_with_json_prints_one_object(
    demo: DemoResult, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hedgerow.cli.demonstration.demonstrate", lambda n_jobs, progress: demo)
    assert main(["demo", "--json", "--threads", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["precision"]) == {"1", "3", "5"}
    fields = {"label", "probability", "data", "knowledge", "right"}
    assert all(set(item) == fields for example in found["examples"] for item in example["predictions"])


def test_demo_prints_labels_as_they_are_not_as_mark_up() -> None:
    odd = Prediction("[red]x[/red]\x1b[2J", 0.5, 0.6, 0.09, True)
    example = Example("[bold]id", "text [/] with \x07 bell", [odd], ["[missed]"])
    text = printed(DemoResult(1, 1, 1, 1, 0.1, 0.1, {1: 1.0}, [example]))
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


COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_shows_what_stands_in_brackets(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    command = COMMANDS[name]
    texts = [command.help, *(getattr(parameter, "help", None) for parameter in command.params)]
    written = " ".join(text for text in texts if text).replace("\\[", "[").split()
    assert [word for word in written if "[" in word and word not in shown] == []
    assert "\\" not in shown


@pytest.mark.parametrize(
    ("name", "extras"), [("fit", ["ray", "deep"]), ("predict", ["ray"]), ("reproduce", ["deep"])]
)
def test_help_names_the_extras_to_install(
    name: str, extras: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert [extra for extra in extras if f"pip install 'hedgerow[{extra}]'" not in shown] == []


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("hedgerow 0.")


def test_package_when_run_is_the_command() -> None:
    command = [sys.executable, "-m", "hedgerow", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"hedgerow {hedgerow.__version__}\n", "")
    wrong = subprocess.run([*command[:3], "fot"], capture_output=True, text=True, check=False)
    assert wrong.returncode == ExitCode.USAGE


def test_unknown_command_ends_with_the_code_for_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert failure(capsys, "fot")[0] == ExitCode.USAGE


def test_program_starts_without_loading_the_library() -> None:
    code = "import sys, hedgerow.cli; sys.exit('sklearn' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_progress_goes_to_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with show_progress() as report:
        report(0.5, "training")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with show_progress() as report:
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


def test_preset_paper_uses_the_defaults_of_the_library_but_no_floor(data: Path, tmp_path: Path) -> None:
    assert main(["fit", str(data), str(tmp_path / "m"), "--preset", "paper"]) == 0
    used = hedgerow.load(tmp_path / "m").get_params()
    expected = hedgerow.HedgerowTextClassifier(random_state=0).get_params()
    differing = {name for name in expected if used[name] != expected[name] and name != "ngrams"}
    assert differing == {"floor"}, {name: (used[name], expected[name]) for name in differing}
    assert tuple(used["ngrams"]) == expected["ngrams"]
