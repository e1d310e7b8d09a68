"""Scoring files on a cluster: every row once, whatever is killed on the way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hedgerow import HedgerowTextClassifier
from hedgerow.cli import main, predict_shards
from hedgerow.cli.failures import ExitCode, Failure
from hedgerow.training.ray import Crew

if not os.environ.get("CI"):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'hedgerow[ray]'")

KINDS = ("apple", "pear", "plum", "quince")
ROWS = 30


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = [f"{kind} number {i} of the {kind} family" for i in range(12) for kind in KINDS]
    labels = [[kind, "fruit"] for _ in range(12) for kind in KINDS]
    path = tmp_path_factory.mktemp("model") / "fruit.hedgerow"
    fruit = HedgerowTextClassifier(method="bagging", members=2, random_state=0, n_jobs=1)
    fruit.fit(texts, labels).save(path)
    return path


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Eight files in three formats, and some that are none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "shards"
    folder.mkdir()
    for number in range(8):
        records = [
            {"id": f"{number}-{row}", "text": f"{KINDS[(row + number) % 4]} number {row}"}
            for row in range(ROWS)
        ]
        if number < 5:
            lines = "".join(json.dumps(record) + "\n" for record in records)
            (folder / f"part-{number}.jsonl").write_text(lines)
        elif number < 7:
            pq.write_table(pa.Table.from_pylist(records), folder / f"part-{number}.parquet")
        else:
            rows = "".join(f"{record['id']},{record['text']}\n" for record in records)
            (folder / f"part-{number}.csv").write_text(f"id,text\n{rows}")
    for name in ("_SUCCESS", ".part-0.jsonl.crc", "notes.md"):
        (folder / name).write_text("")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_as_one_by_one(model: Path, shards: Path, out: Path, *options: str) -> None:
    """Each file is what `hedgerow predict` writes without a cluster, and there is no other."""
    inputs = [path for path in sorted(shards.iterdir()) if path.name.startswith("part-")]
    assert names(out) == sorted([predict_shards.RECORD, *(path.name for path in inputs)])
    alone = out.parent / "alone"
    alone.mkdir()
    for path in inputs:
        arguments = ["predict", str(model), str(path), "--out", str(alone / path.name), *options]
        assert main(arguments) == 0
        assert (out / path.name).read_bytes() == (alone / path.name).read_bytes()


def score(model: Path, shards: Path, out: Path, *options: str) -> int:
    arguments = ["predict", str(model), str(shards), "--out", str(out), "--cluster", "auto", *options]
    return int(main(arguments))


@pytest.fixture
def here(nodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connected, but files are scored by this process: to start others takes seconds."""

    def stream(self: Crew, make: Any, arguments: tuple[Any, ...], items: list[Any]) -> Iterator[Any]:
        return map(make(*arguments), items)

    monkeypatch.setattr(Crew, "stream", stream)


@pytest.mark.parametrize(
    "options", [(), ("--uncertainty", "--k", "2", "--beam", "3")], ids=["plain", "doubts"]
)
def test_files_when_scored_one_after_the_other_then_are_those_of_single_commands(
    here: None,
    model: Path,
    shards: Path,
    tmp_path: Path,
    options: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert score(model, shards, tmp_path / "out", *options) == 0
    assert f"{8 * ROWS} rows of 8 files; 0 were there before" in capsys.readouterr().out
    assert_as_one_by_one(model, shards, tmp_path / "out", *options)


def dying_scorer(marks: Path) -> type:
    """As `Scorer`, but two processes are killed, one before and one after it has written."""
    folder = str(marks)

    class Dying:
        def __init__(self, *arguments: Any) -> None:
            from hedgerow.cli import predict_shards

            self.score = predict_shards.Scorer(*arguments)

        def __call__(self, shard: Any) -> Any:
            self.die_once("before")
            rows = self.score(shard)
            self.die_once("after")
            return rows

        def die_once(self, mark: str) -> None:
            import os
            import pathlib
            import signal

            try:
                (pathlib.Path(folder) / mark).touch(exist_ok=False)
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)

    return Dying


# Five files are scored at most, and after three of them the driver is killed.
KILLED_DRIVER = """
import os, signal, sys
import ray
from hedgerow.cli import main, predict_shards
from hedgerow.training.ray import Crew

address, marks, *arguments = sys.argv[1:]
ray.init(address=address, log_to_driver=False, logging_level="ERROR")
stream = Crew.stream

class Stuck:
    def __init__(self, *given):
        from hedgerow.cli.predict_shards import Scorer
        self.score = Scorer(*given)

    def __call__(self, shard):
        import os, threading
        for mark in range(5):
            try:
                os.close(os.open(f"{marks}/{mark}", os.O_CREAT | os.O_EXCL))
                return self.score(shard)
            except FileExistsError:
                pass
        threading.Event().wait()

def die_after_three(self, _, *given):
    for done, result in enumerate(stream(self, Stuck, *given), 1):
        if done == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        yield result

Crew.stream = die_after_three
main(arguments)
"""


def test_rows_when_driver_and_workers_are_killed_then_are_neither_lost_nor_doubled(
    nodes: Any,
    model: Path,
    shards: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, marks, begun = tmp_path / "out", tmp_path / "killed", tmp_path / "begun"
    begun.mkdir()
    arguments = ["predict", str(model), str(shards), "--out", str(out), "--cluster", "auto"]
    command = [sys.executable, "-c", KILLED_DRIVER, nodes.address, str(begun), *arguments]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    before = {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert 3 <= len(before) <= 5

    marks.mkdir()
    monkeypatch.setattr(predict_shards, "Scorer", dying_scorer(marks))
    assert score(model, shards, out) == 0
    assert names(marks) == ["after", "before"]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    told = re.search(r"(\d+) were there before", capsys.readouterr().out)
    assert told is not None
    assert int(told[1]) >= len(before)  # workers of the killed driver may have ended one more
    assert_as_one_by_one(model, shards, out)


def test_folder_of_another_run_is_refused_unless_it_may_be_overwritten(
    here: None, model: Path, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert score(model, shards, out) == 0
    assert score(model, shards, out, "--k", "1") == ExitCode.WRITE
    assert "holds predictions of other inputs" in capsys.readouterr().err
    (shards / "part-0.jsonl").write_text(json.dumps({"id": "new", "text": "plum"}) + "\n")
    assert score(model, shards, out) == ExitCode.WRITE
    assert score(model, shards, out, "--overwrite") == 0
    assert_as_one_by_one(model, shards, out)


def test_overwriting_removes_what_an_earlier_run_left_also_of_inputs_that_are_gone(
    here: None, model: Path, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert score(model, shards, out) == 0
    (shards / "part-0.jsonl").unlink()
    (out / ".part-1.jsonl.0123456789abcdef.tmp").write_text("half")
    assert score(model, shards, out, "--overwrite") == 0
    assert_as_one_by_one(model, shards, out)
    assert not list(out.glob(".*")) + list(out.glob("part-0*"))
    elsewhere = tmp_path / "mine"
    elsewhere.mkdir()
    (elsewhere / "part-1.jsonl").write_text("precious")
    assert score(model, shards, elsewhere, "--overwrite") == ExitCode.WRITE
    assert "not written by this command" in capsys.readouterr().err
    assert (elsewhere / "part-1.jsonl").read_text() == "precious"


def test_empty_file_is_predicted_to_an_empty_one_and_others_are_told_of(
    here: None, model: Path, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shards / "part-0.jsonl").write_text("")
    (shards / "part-9.tsv").write_text("a\tb\n")
    assert score(model, shards, tmp_path / "out", "--uncertainty") == 0
    assert (tmp_path / "out" / "part-0.jsonl").read_text() == ""
    assert "part-9.tsv" in capsys.readouterr().err


def test_folder_with_other_files_is_refused(
    nodes: Any, model: Path, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    assert score(model, shards, tmp_path) == ExitCode.WRITE
    assert "is not empty" in capsys.readouterr().err
    assert score(model, shards, shards) == ExitCode.USAGE
    assert "holds the inputs" in capsys.readouterr().err


def test_broken_file_when_met_on_a_worker_then_is_named(
    here: None, model: Path, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shards / "part-3.jsonl").write_text("no json\n")
    assert score(model, shards, tmp_path / "out") == ExitCode.DATA
    assert "part-3.jsonl" in capsys.readouterr().err


def test_model_that_a_node_does_not_see_is_told(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"does not see .*nowhere.hedgerow"):
        predict_shards._opened(str(tmp_path / "nowhere.hedgerow"), "00")


def test_cluster_without_a_folder_for_predictions_is_refused(
    model: Path, shards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(model), str(shards), "--cluster", "auto"]) == ExitCode.USAGE
    assert "--out" in capsys.readouterr().err


def test_files_that_would_be_predicted_to_one_are_refused(tmp_path: Path) -> None:
    for name in ("a.txt", "a.jsonl"):
        (tmp_path / name).write_text("")
    with pytest.raises(Failure, match="would both be predicted"):
        predict_shards.find_shards(tmp_path, tmp_path / "out")
