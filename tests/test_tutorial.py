"""The tutorial runs from its first command to its last, and what it says about the result is true."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hedgerow.data import read_parts

PAGE = Path(__file__).parent.parent / "docs/tutorial.md"
pytestmark = pytest.mark.timeout(900)  # three fits, a server, and fourteen commands that start Python


@dataclass(frozen=True)
class Walk:
    """The folder in which the tutorial was followed, and what each command printed."""

    folder: Path
    printed: dict[str, str]

    def json(self, start: str) -> Any:
        """What the only command that starts like this printed, as JSON."""
        (text,) = [text for command, text in self.printed.items() if command.startswith(start)]
        return json.loads(text)


def blocks() -> list[tuple[str, str]]:
    """Language and text of the blocks of code, in their order."""
    return re.findall(r"^```(python|sh)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """Follow the tutorial, on a free port and with the command of this environment."""
    if shutil.which("curl") is None:
        pytest.skip("the tutorial needs curl")
    folder = tmp_path_factory.mktemp("tutorial")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": paths, "COLUMNS": "100"}
    printed: dict[str, str] = {}
    servers: list[subprocess.Popen[bytes]] = []
    try:
        for language, text in blocks():
            commands = text.strip().splitlines() if language == "sh" else [text]
            for command in commands:
                local = command.replace("8000", str(port))
                if local.endswith("&"):
                    server = local.removesuffix("&").split()
                    servers.append(
                        subprocess.Popen(server, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
                    )
                    continue
                words = [sys.executable, "-c", local] if language == "python" else ["bash", "-ec", local]
                done = subprocess.run(
                    words, cwd=folder, env=environment, capture_output=True, text=True, timeout=240
                )
                assert done.returncode == 0, f"{command}\n{done.stderr}"
                printed[command] = done.stdout
        yield Walk(folder, printed)
    finally:
        for server in servers:
            server.terminate()
            server.wait(timeout=60)


def test_tutorial_goes_through_every_step(walk: Walk) -> None:
    used = {command.split()[1] for command in walk.printed if command.startswith("hedgerow ")}
    assert used == {"fit", "evaluate", "calibrate", "decide", "report"}
    assert (walk.folder / "report.html").stat().st_size > 10_000


def test_calibration_lowers_the_error_as_the_tutorial_says(walk: Walk) -> None:
    page = PAGE.read_text()
    found = re.search(r"calibration error @1 falls from ([\d.]+) % to ([\d.]+) %", page)
    assert found is not None
    for name, stated in zip(("before", "after"), found.groups(), strict=True):
        figures = json.loads((walk.folder / f"{name}.json").read_text())
        assert 100 * figures["ece"]["1"] == pytest.approx(float(stated), abs=0.5)


def test_decisions_are_as_the_tutorial_says(walk: Walk) -> None:
    decisions = json.loads((walk.folder / "after.json").read_text())["decisions"]
    assert {(of["kind"], of["asked"]) for of in decisions} >= {
        ("wrong", 0.1),
        ("missed", 0.2),
        ("review", 10),
    }
    lines = (walk.folder / "decisions.jsonl").read_text().splitlines()
    assert len(lines) == 200
    assert {label["decision"] for line in lines for label in json.loads(line)["labels"]} <= {
        "accept",
        "review",
        "reject",
    }


def test_text_of_another_kind_is_flagged(walk: Walk) -> None:
    answer = walk.json("hedgerow decide tags.hedgerow recipe.jsonl")
    assert answer["input"]["is_ood"] is True


def test_server_decides_and_takes_over_the_new_model(walk: Walk) -> None:
    answer = walk.json("curl -s localhost:8000/predict")
    (result,) = answer["results"]
    assert result["ood"]["is_ood"] is False
    assert {"probability", "total", "data", "knowledge", "decision"} <= result["labels"][0].keys()
    reloaded = walk.json("curl -s -X POST localhost:8000/reload")
    assert reloaded["model"] != answer["model"]


def test_reviewed_texts_are_training_data(walk: Walk) -> None:
    (record,) = map(json.loads, (walk.folder / "reviewed.jsonl").read_text().splitlines())
    assert record == {
        "text": "a fast terminal music player with playlists",
        "labels": ["role::program", "works-with::audio", "use::playing"],
    }
    assert read_parts([walk.folder / "train.jsonl", walk.folder / "reviewed.jsonl"]).n == 4001
