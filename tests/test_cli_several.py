"""Several files on the command line: what they give together, and what is refused at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hedgerow import load
from hedgerow.cli import main
from hedgerow.cli.failures import ExitCode

FAST = ["--threads", "1", "--preset", "paper", "--min-count", "1"]
KINDS = ("apple", "pear", "plum")


def records(rows: int, first: int = 0, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "text": f"{KINDS[i % 3]} number {i % 17} of the {KINDS[i % 3]} family {i}",
            "labels": [KINDS[i % 3]],
            **more,
        }
        for i in range(first, first + rows)
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    return code, capsys.readouterr().err


def bits(path: Path) -> bytes:
    return path.read_bytes()


def test_fit_of_several_files_then_the_model_is_that_of_one_file_with_all_rows(tmp_path: Path) -> None:
    rows = records(60)
    whole = write(tmp_path / "all.jsonl", rows)
    files = [write(tmp_path / "a.jsonl", rows[:40]), write(tmp_path / "b.jsonl", rows[40:50])]
    table = tmp_path / "c.csv"
    table.write_text("labels,text\n" + "".join(f"{row['labels'][0]},{row['text']}\n" for row in rows[50:]))
    assert main(["fit", str(whole), str(tmp_path / "one"), *FAST]) == 0
    assert main(["fit", *map(str, files), str(table), str(tmp_path / "several"), *FAST]) == 0
    assert bits(tmp_path / "several") == bits(tmp_path / "one")


def test_fit_of_a_folder_then_files_beside_are_named_and_read_where_they_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write(data / "train.jsonl", records(40))
    reviewed = write(data / "reviewed.jsonl", [{"text": "a quince", "labels": ["quince"], "id": "q"}] * 1)
    model = tmp_path / "m"
    code, said = failure(capsys, "fit", data, model, *FAST)
    assert code == 0
    assert "read train.jsonl, and not reviewed.jsonl beside it" in said
    assert f"{data} {reviewed}" in said
    assert load(model).classes_.tolist() == sorted(KINDS)
    code, said = failure(capsys, "fit", data, reviewed, model, "--overwrite", *FAST)
    assert code == 0
    assert "beside it" not in said
    assert load(model).classes_.tolist() == sorted([*KINDS, "quince"])


def test_fit_of_an_id_twice_then_both_places_and_the_option_are_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**row, "id": str(i)} for i, row in enumerate(records(30))]
    old = write(tmp_path / "old.jsonl", rows)
    new = write(tmp_path / "new.jsonl", [{**rows[4], "labels": ["quince"]}])
    model = tmp_path / "m"
    code, said = failure(capsys, "fit", old, new, model, *FAST)
    assert code == ExitCode.DATA
    assert f"{new}:1: the id '4' was read before, at {old}:5" in said
    assert "--later-wins" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.jsonl", "old.jsonl"]
    corrected = write(tmp_path / "corrected.jsonl", [*rows[:4], *rows[5:], {**rows[4], "labels": ["quince"]}])
    assert main(["fit", str(old), str(new), str(model), "--later-wins", *FAST]) == 0
    assert main(["fit", str(corrected), str(tmp_path / "other"), *FAST]) == 0
    assert bits(model) == bits(tmp_path / "other")


def test_other_commands_of_several_files_then_they_say_what_they_say_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "m"
    assert main(["fit", str(write(tmp_path / "t.jsonl", records(60))), str(model), *FAST]) == 0
    rows = records(120, first=500)
    whole = write(tmp_path / "all.jsonl", rows)
    parts = [write(tmp_path / "a.jsonl", rows[:50]), write(tmp_path / "b.jsonl", rows[50:])]
    answers = {}
    for name, files in (("one", [whole]), ("two", parts)):
        given = list(map(str, files))
        own = tmp_path / f"{name}.hedgerow"
        capsys.readouterr()
        assert main(["predict", str(model), *given, "--threads", "1"]) == 0
        predicted = capsys.readouterr().out
        assert main(["evaluate", str(model), *given, "--threads", "1", "--json", "-"]) == 0
        figures = json.loads(capsys.readouterr().out)
        figures["ranked"] = {
            part: of for part, of in figures.items() if part not in ("settings", "seconds", "seconds_by_step")
        }
        assert main(["calibrate", str(model), *given, "--threads", "1", "--out", str(own)]) == 0
        capsys.readouterr()
        assert main(["decide", str(own), *given, "--threads", "1", "--json"]) == 0
        answers[name] = (
            predicted,
            figures["ranked"],
            figures["settings"]["inputs"],
            capsys.readouterr().out,
        )
        assert figures["settings"]["data"] == (given[0] if len(given) == 1 else given)
    assert answers["one"] == answers["two"]
    assert bits(tmp_path / "one.hedgerow") == bits(tmp_path / "two.hedgerow")


def test_predictions_of_records_with_and_without_ids_then_each_has_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "m"
    assert main(["fit", str(write(tmp_path / "t.jsonl", records(60))), str(model), *FAST]) == 0
    new = write(
        tmp_path / "new.jsonl",
        [{"text": "an apple", "id": "a"}, {"text": "a pear"}, {"text": "x", "id": "a"}],
    )
    capsys.readouterr()
    assert main(["predict", str(model), str(new), "--threads", "1"]) == 0
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == ["a", None, "a"]
    assert (
        main(["predict", str(model), str(new), "-k", "1", "--threads", "1", "--out", str(tmp_path / "p.csv")])
        == 0
    )
    assert [line.split(",")[1] for line in (tmp_path / "p.csv").read_text().splitlines()] == [
        "id",
        "a",
        "",
        "a",
    ]


@pytest.mark.parametrize("name", ["new.jsonl", "new.csv", "new.jsonl.gz", "new.parquet", "train.txt"])
def test_fit_with_data_where_the_model_should_be_then_they_are_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    old, new = write(tmp_path / "old.jsonl", records(30)), tmp_path / name
    new.write_text("precious")
    for options in ([], ["--overwrite"]):
        code, said = failure(capsys, "fit", old, new, *options, *FAST)
        assert (code, "looks like data" in said) == (ExitCode.USAGE, True)
    assert new.read_text() == "precious"


def test_separator_that_is_not_clear_then_fit_names_the_option_and_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("text,labels\n" + "".join(f'text {i},"name {i}, place {i}"\n' for i in range(9)))
    model = tmp_path / "m"
    code, said = failure(capsys, "fit", table, model, *FAST)
    assert code == ExitCode.DATA
    assert "'name 0, place 0'" in said
    assert "--label-separator (here perhaps ','" in said
    assert not model.exists()
    assert main(["fit", str(table), str(model), "--label-separator", ",", *FAST]) == 0
    assert len(load(model).classes_) == 18
    assert failure(capsys, "fit", table, model, "--label-separator", "")[0] == ExitCode.USAGE
    tabbed = tmp_path / "tab.csv"
    tabbed.write_text("text,labels\n" + "".join(f"text {i},a;{i}\tb\n" for i in range(9)))
    assert main(["fit", str(tabbed), str(model), "--label-separator", "tab", "--overwrite", *FAST]) == 0
    assert "b" in load(model).classes_.tolist()


@pytest.mark.parametrize(
    "content", [b"", b'{"text": "caf\xe9", "labels": []}\n', b"{oops\n", b'{"text": "a"}\n']
)
def test_fit_with_a_bad_second_file_then_it_is_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    old = write(tmp_path / "old.jsonl", records(30))
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(content)
    code, said = failure(capsys, "fit", old, bad, tmp_path / "m", *FAST)
    assert (code, str(bad) in said) == (ExitCode.DATA, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl", "old.jsonl"]


def test_predict_on_a_cluster_of_several_inputs_then_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["predict", "m", "a.jsonl", "b.jsonl", "--cluster", "local", "--out", tmp_path / "out"]
    code, said = failure(capsys, *command)
    assert (code, "takes one INPUT" in said) == (ExitCode.USAGE, True)


def test_out_of_bag_of_a_model_of_several_files_then_they_are_named_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = records(240)
    files = [write(tmp_path / "a.jsonl", rows[:150]), write(tmp_path / "b.jsonl", rows[150:])]
    model, held = tmp_path / "m", write(tmp_path / "held.jsonl", records(240, first=700))
    bagging = ["--method", "bagging", "--members", "3"]
    assert main(["fit", *map(str, files), str(model), *bagging, *FAST]) == 0
    command = ["calibrate", model, held, "--out", tmp_path / "n", "--threads", "1", "--out-of-bag", files[0]]
    assert failure(capsys, *command)[0] == ExitCode.DATA
    code, said = failure(capsys, *command, "--out-of-bag", files[1])
    assert code == 0, said
