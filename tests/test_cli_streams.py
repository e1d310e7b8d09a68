"""What the command line does with streams: in any encoding, full, closed, or pipes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hedgerow.cli import main
from hedgerow.cli.demonstration import DemoResult, Example, Prediction
from hedgerow.cli.failures import ExitCode

KINDS = ("birch", "bürste", "梅 \N{SNOWMAN}")
OTHERS = ("berry", "leaf", "root")


def records(count: int, seed: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        kind = KINDS[number % 3]
        text = f"{kind} {OTHERS[number // 3 % 3]} of the wood {number * 31 % 97} {seed}"
        yield {"id": f"r{number}→", "text": text, "labels": [kind, OTHERS[number // 3 % 3]]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    for seed, (name, count) in enumerate({"train": 90, "held": 150, "new": 6}.items()):
        lines = [json.dumps(record, ensure_ascii=False) for record in records(count, seed)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    model = str(folder / "m.hedgerow")
    options = ["--method", "bagging", "--members", "3", "--threads", "1"]
    assert main(["fit", str(folder / "train.jsonl"), model, *options]) == 0
    assert main(["calibrate", model, str(folder / "held.jsonl"), "--threads", "1"]) == 0
    return folder


def arguments(command: str, folder: Path) -> list[str]:
    """A command line, where m stands for the model and d for new data."""
    places = {"m": str(folder / "m.hedgerow"), "d": str(folder / "new.jsonl")}
    return [places.get(word, word) for word in command.split()]


class Captured(io.TextIOWrapper):
    """A stream of an encoding, and the bytes that went into it."""

    def __init__(self, encoding: str) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding=encoding)


def printed(command: str, folder: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """What a command prints where the locale says this encoding."""
    out = Captured(encoding)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        assert main(arguments(command, folder)) == 0
    out.flush()
    return out.bytes.getvalue()


JSON = ["predict m d", "decide m d --json", "query m d --json", "inspect m --json", "evaluate m d --json -"]
FOR_PEOPLE = [
    "decide m d --missed-at-most 0.4",
    "query m d --pairs",
    "inspect m",
    "evaluate m d",
    "explain m bürste",
]


@pytest.mark.parametrize("command", JSON)
def test_json_is_utf8_whatever_the_locale_says(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = printed(command, folder, "latin-1", monkeypatch)
    assert [json.loads(line) for line in found.decode("utf-8").splitlines()]
    if command == "predict m d":
        assert found == printed(command, folder, "utf-8", monkeypatch)
        assert "梅 \N{SNOWMAN}".encode() in found


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
@pytest.mark.parametrize("command", FOR_PEOPLE)
def test_characters_that_the_locale_lacks_are_escaped(
    command: str, encoding: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = printed(command, folder, encoding, monkeypatch).decode(encoding)
    if command.startswith(("decide", "query")):
        assert r"r0\u2192" in found


def test_demo_is_printed_where_the_locale_lacks_its_bars(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = Example("id", "a text", [Prediction("梅", 0.5, 0.6, 0.09, True)], [])
    result = DemoResult(1, 1, 1, 1, 0.1, 0.1, {1: 1.0}, [example])
    monkeypatch.setattr("hedgerow.cli.demonstration.demonstrate", lambda n_jobs, progress: result)
    assert rb"\u6885" in printed("demo", folder, "latin-1", monkeypatch)
    found = json.loads(printed("demo --json", folder, "latin-1", monkeypatch))
    assert found["examples"][0]["predictions"][0]["label"] == "梅"


def test_process_of_a_latin_locale_predicts_unicode_labels(folder: Path) -> None:
    command = [sys.executable, "-m", "hedgerow", *arguments("predict m d", folder)]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.decode("utf-8").splitlines()) == 6


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("command", [*JSON, *FOR_PEOPLE, "--version", "fit --help"])
def test_output_that_cannot_be_written_ends_with_the_code_for_writing(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(arguments(command, folder)) == ExitCode.WRITE
        monkeypatch.undo()
    assert capsys.readouterr().err == "hedgerow: error: No space left on device\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_process_says_nothing_more_of_output_that_cannot_be_written(unbuffered: str) -> None:
    # Python itself flushes at the end of a process.
    code = "import sys; from hedgerow.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "--version"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == ExitCode.WRITE
    assert done.stderr == "hedgerow: error: No space left on device\n"


def test_reader_that_has_seen_enough_ends_a_command_without_a_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        assert main(["--version"]) == ExitCode.UNEXPECTED
        monkeypatch.undo()
    assert capsys.readouterr().err == ""


def test_closed_output_is_refused_for_what_is_meant_for_it(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert main(arguments("predict m d", folder)) == ExitCode.WRITE
        assert main(arguments("inspect m", folder)) == 0
    assert capsys.readouterr().err == "hedgerow: error: standard output is closed\n"


def test_predict_reads_from_a_pipe_what_it_reads_from_a_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments("predict m d", folder)) == 0
    expected = capsys.readouterr().out
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    content = (folder / "new.jsonl").read_bytes()
    writer = threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True)
    writer.start()
    assert main(["predict", str(folder / "m.hedgerow"), str(pipe)]) == 0
    writer.join()
    assert capsys.readouterr().out == expected
