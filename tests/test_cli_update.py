"""`hedgerow update`: its options, what it says, and how it fails."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from hedgerow import Vocabulary
from hedgerow.cli import main
from hedgerow.cli.failures import ExitCode
from hedgerow.data import write_xmc_text
from hedgerow.vocabulary.building import Builder

KINDS = ["ash", "elm", "hazel", "holly", "ivy", "oak"]


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def records(each: int, first: int = 0, kinds: list[str] = KINDS) -> list[dict[str, Any]]:
    return [
        {"id": f"{kind}-{number}", "text": f"{kind} leaf of {kind} number{number}", "labels": [kind]}
        for number in range(first, first + each)
        for kind in kinds
    ]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fitted")
    train = write(folder / "train.jsonl", records(10))
    assert main(["fit", str(train), str(folder / "m"), "--preset", "paper", "--threads", "1"]) == 0
    return folder


@pytest.fixture
def model(fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    for name in ("m", "m.data"):
        (tmp_path / name).write_bytes((fitted / name).read_bytes())
    capsys.readouterr()
    return tmp_path / "m"


def run(*arguments: object) -> int:
    return main(["update", *map(str, arguments), "--threads", "1"])


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Run a command that fails, with its model as the first argument, which must stay; code and message."""
    paths = [path for path in Path(str(arguments[0])).parent.iterdir() if path.is_file()]
    before = {path: path.read_bytes() for path in paths}
    code = run(*arguments)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("hedgerow: error: ")
    assert captured.err.count("\n") == 1
    after = [path for path in Path(str(arguments[0])).parent.iterdir() if path.is_file()]
    assert {path: path.read_bytes() for path in after} == before
    return code, captured.err


def test_update_teaches_new_and_corrected_records_in_place(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = write(
        tmp_path / "new" / "x.jsonl",
        [*records(2, 50, ["yew"]), {"id": "ash-0", "text": "oak leaf of oak", "labels": ["oak"]}],
    )
    assert run(model, new) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Records: 2 added, 1 corrected; the model now knows 62." in said
    assert "New labels (1): yew" in said
    assert f"Saved {model}" in said
    found = hedgerow.load(model)
    assert found.top(["yew leaf of yew"], k=1).labels.tolist() == [["yew"]]
    assert found.label_counts_[found.classes_.tolist().index("oak")] == 11
    assert not model.with_name("m.data.next").exists()


def test_update_with_json_prints_one_object(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = write(tmp_path / "new" / "x.jsonl", records(1, 50, ["yew"]))
    assert run(model, new, "--remove", "elm-3", "--remove", "elm-4", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    event = found["event"]
    assert (event["added"], event["corrected"], event["removed"], event["records"]) == (1, 0, 2, 59)
    assert found["labels_added"] == ["yew"]
    assert (found["model"], found["refitted"], found["dropped"]) == (str(model), None, [])


def test_out_writes_another_model_with_its_records_and_leaves_the_old_one(
    model: Path, tmp_path: Path
) -> None:
    before = model.read_bytes(), model.with_name("m.data").read_bytes()
    assert run(model, "--rename", "ash=Fraxinus", "--out", tmp_path / "n") == 0
    assert (model.read_bytes(), model.with_name("m.data").read_bytes()) == before
    assert "Fraxinus" in hedgerow.load(tmp_path / "n").classes_.tolist()
    assert run(tmp_path / "n", "--remove", "ash-1") == 0
    assert run(model, "--remove", "ash-1", "--out", tmp_path / "n") == ExitCode.WRITE
    assert run(model, "--remove", "ash-1", "--out", tmp_path / "n", "--overwrite") == 0
    assert "ash" in hedgerow.load(tmp_path / "n").classes_.tolist()


def test_labels_are_renamed_merged_and_removed(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, "--rename", "ash=oak", "--rename", "elm=Ulmus = elm", "--remove-label", "ivy") == 0
    assert "Labels: 2 renamed, 1 removed." in capsys.readouterr().out
    found = hedgerow.load(model)
    counts = dict(zip(found.classes_.tolist(), found.label_counts_.tolist(), strict=True))
    assert counts == {"oak": 20, "Ulmus = elm": 10, "hazel": 10, "holly": 10}


def test_files_and_folders_are_read_together(model: Path, tmp_path: Path) -> None:
    one = write(tmp_path / "one" / "x.jsonl", records(1, 50, ["yew"]))
    folder = write(tmp_path / "folder" / "train.jsonl", records(2, 60, ["fir"])).parent
    write(folder / "test.jsonl", records(3, 70, ["never"]))
    assert run(model, one, folder) == 0
    found = hedgerow.load(model)
    assert found.n_samples_ == 63
    assert {"yew", "fir"} < set(found.classes_.tolist())
    assert "never" not in found.classes_.tolist()


def test_labels_field_says_where_labels_are(model: Path, tmp_path: Path) -> None:
    new = write(
        tmp_path / "new" / "x.jsonl",
        [{"text": "yew leaf", "labels": ["no"], "tags": ["yew"]}, {"text": "yew", "tags": ["yew"]}],
    )
    assert run(model, new, "--labels-field", "tags") == 0
    assert "yew" in hedgerow.load(model).classes_.tolist()
    assert "no" not in hedgerow.load(model).classes_.tolist()


def test_forgotten_record_leaves_the_files_of_a_model_that_never_had_it(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(model, "--forget", "ash-3", "--forget", "elm-2") == 0
    assert "Forgotten without a trace; 58 records are left." in capsys.readouterr().out
    rest = [record for record in records(10) if record["id"] not in ("ash-3", "elm-2")]
    train = write(tmp_path / "rest" / "train.jsonl", rest)
    assert main(["fit", str(train), str(tmp_path / "n"), "--preset", "paper", "--threads", "1"]) == 0
    assert model.read_bytes() == (tmp_path / "n").read_bytes()
    assert model.with_name("m.data").read_bytes() == (tmp_path / "n.data").read_bytes()


def test_full_fit_is_told_with_its_reason(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(model, write(tmp_path / "new" / "x.jsonl", records(3, 50))) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Everything was trained again: a quarter of the 60 records changed" in said


def test_records_where_they_are_missing_are_taken_from_the_training_data(
    fitted: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.with_name("m.data").unlink()
    code, message = failure(capsys, model, "--remove", "ash-1")
    assert code in (ExitCode.DATA, ExitCode.MODEL)
    assert "put it back" in message
    other = write(tmp_path / "other" / "x.jsonl", records(10)[1:])
    assert failure(capsys, model, "--remove", "ash-1", "--records", other)[0] == ExitCode.DATA
    assert run(model, "--remove", "ash-1", "--records", fitted / "train.jsonl") == 0
    assert hedgerow.load(model).n_samples_ == 59
    assert run(model, "--remove", "ash-2") == 0


# --- calibration ---


def test_fail_on_drop_ends_with_its_status_where_held_out_data_were_not_kept(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = write(tmp_path / "held" / "held.jsonl", records(20, 100))
    assert main(["calibrate", str(model), str(held), "--out", str(tmp_path / "c"), "--threads", "1"]) == 0
    assert "so that hedgerow update can learn from them again" in " ".join(capsys.readouterr().out.split())
    assert run(tmp_path / "c", "--remove", "ash-1", "--fail-on-drop") == 0
    assert "Learned again from the held-out data that were kept" in " ".join(capsys.readouterr().out.split())
    assert hedgerow.load(tmp_path / "c").calibration_ is not None

    # With records that know nothing of the held-out data.
    (tmp_path / "c.data").unlink()
    assert main(["calibrate", str(model), str(held), "--out", str(tmp_path / "d"), "--threads", "1"]) == 0
    (tmp_path / "d.data").unlink()
    train = write(tmp_path / "train" / "t.jsonl", records(10))
    capsys.readouterr()
    before = ["--records", train, "--remove", "ash-1"]
    assert run(tmp_path / "d", *before, "--out", tmp_path / "e", "--fail-on-drop") == ExitCode.DROPPED
    assert "Dropped, because the held-out data were not kept" in " ".join(capsys.readouterr().out.split())
    assert not hasattr(hedgerow.load(tmp_path / "e"), "calibration_")
    assert run(tmp_path / "d", *before) == 0


# --- vocabularies ---


def test_successors_without_a_vocabulary_is_refused(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, message = failure(capsys, model, "--successors")
    assert code == ExitCode.MODEL
    assert "hedgerow vocabulary set" in message


def test_successors_renames_labels_that_the_vocabulary_has_withdrawn(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = Builder()
    after = {"ash": "elm", "ivy": "newivy", "newivy": "newestivy", "oak": "oak", "holly": "outside"}
    for id in [*KINDS, "newivy", "newestivy"]:
        builder.entry(id)
        if id in after:
            builder.successor(after[id])
            builder.deprecate()
    vocabulary = Vocabulary(builder.finish())
    hedgerow.load(model).set_vocabulary(vocabulary).save(model, overwrite=True)
    assert run(model, "--successors", "--rename", "holly=Ilex") == 0
    assert "Labels: 3 renamed, 0 removed." in capsys.readouterr().out
    found = hedgerow.load(model)
    counts = dict(zip(found.classes_.tolist(), found.label_counts_.tolist(), strict=True))
    assert counts == {"elm": 20, "hazel": 10, "oak": 10, "Ilex": 10, "newestivy": 10}
    assert found.vocabulary_ is not None


# --- what is refused ---


@pytest.mark.parametrize(
    ("arguments", "code", "match"),
    [
        ([], ExitCode.USAGE, "there is nothing to do"),
        (["--forget", "ash-1", "--remove", "ash-2"], ExitCode.USAGE, "it is done alone"),
        (["--rename", "ash"], ExitCode.USAGE, "not OLD=NEW"),
        (["--rename", "=ash"], ExitCode.USAGE, "not OLD=NEW"),
        (["--rename", "ash="], ExitCode.USAGE, "not OLD=NEW"),
        (["--rename", "unheard=of"], ExitCode.DATA, "'unheard'"),
        (["--rename", "ash=ash"], ExitCode.DATA, "name its last name"),
        (["--remove", "nobody"], ExitCode.DATA, "'nobody'"),
        (["--forget", "nobody"], ExitCode.DATA, "'nobody'"),
        (["--remove-label", "unheard"], ExitCode.DATA, "'unheard'"),
        (["nowhere.jsonl"], ExitCode.DATA, "nowhere.jsonl"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line_and_changes_nothing(
    arguments: list[str], code: int, match: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, message = failure(capsys, model, *arguments)
    assert (found, match in message) == (code, True), message


def test_same_label_renamed_twice_is_refused(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, message = failure(capsys, model, "--rename", "ash=elm", "--rename", "ash=oak")
    assert code == ExitCode.USAGE
    assert "twice" in message


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ('{"text": "yew", "labels": []}\n', "empty in all records"),
        ('{"text": "yew"}\n', "there is no field 'labels'"),
        ("", "no"),
        ('{"text": "yew", "labels": ["a"], "id": "x"}\n{"text": "y", "labels": ["a"], "id": "x"}\n', "'x'"),
        ('{"text": 3, "labels": ["a"]}\n', "text"),
        ("{broken\n", "x.jsonl"),
    ],
)
def test_data_that_cannot_be_learned_from_are_refused(
    content: str, match: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "x.jsonl"
    path.parent.mkdir()
    path.write_text(content)
    code, message = failure(capsys, model, path)
    assert (code, match in message) == (ExitCode.DATA, True), message


def test_features_for_a_model_of_texts_are_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dense_oracle import random_problem

    path = tmp_path / "new" / "x.txt"
    path.parent.mkdir()
    write_xmc_text(path, *random_problem(1, 10, 5, 4))
    code, message = failure(capsys, model, path)
    assert code in (ExitCode.DATA, ExitCode.MODEL)
    assert "text" in message


def test_model_of_features_with_numbers_as_labels_is_updated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dense_oracle import random_problem

    X, Y = random_problem(1, 100, 20, 12, density=0.4)
    write_xmc_text(tmp_path / "all.txt", X[:92], Y[:92])
    write_xmc_text(tmp_path / "new.txt", X[92:], Y[92:])
    model = tmp_path / "m"
    assert main(["fit", str(tmp_path / "all.txt"), str(model), "--preset", "paper", "--threads", "1"]) == 0
    assert run(model, tmp_path / "new.txt", "--rename", "3=15") == 0
    found = hedgerow.load(model)
    assert found.n_samples_ == 100
    assert found.classes_.tolist() == list(range(16))
    assert found.label_counts_[15] == Y[:92].toarray().sum(axis=0)[3]
    capsys.readouterr()
    code, message = failure(capsys, model, "--remove-label", "three")
    assert code == ExitCode.USAGE
    assert "numbers" in message


def test_interrupted_update_leaves_the_old_model(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    before = {path.name: path.read_bytes() for path in model.parent.iterdir()}
    monkeypatch.setattr("hedgerow.estimators.updating.amend_model", stop)
    assert run(model, "--remove", "ash-1") == ExitCode.INTERRUPTED
    assert {path.name: path.read_bytes() for path in model.parent.iterdir()} == before


FULL = """
import resource, signal, sys
from hedgerow.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("which", ["m.data", "m"])
def test_full_disk_while_a_file_is_written_leaves_the_old_model(
    fitted: Path, tmp_path: Path, which: str
) -> None:
    """A file that may not grow fails as on a full disk: that of the records, or then that of the model."""
    model = tmp_path / "m"
    members = ["--method", "bagging", "--members", "8", "--preset", "paper", "--threads", "1"]
    assert main(["fit", str(fitted / "train.jsonl"), str(model), *members]) == 0
    before = {path.name: path.read_bytes() for path in model.parent.iterdir()}
    records, whole = len(before["m.data"]), len(before["m"])
    assert records + 2000 < whole
    room = records // 2 if which == "m.data" else records + 2000
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(room), "update", str(model), "--remove", "ash-1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.WRITE, done.stderr
    assert {path.name: path.read_bytes() for path in model.parent.iterdir()} == before
