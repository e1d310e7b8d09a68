"""The loop of docs/how-to/active-learning.md, command by command: what people said is learned."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from served_models import Open
from starlette.testclient import TestClient

from hedgerow import load
from hedgerow.cli import main
from hedgerow.data import read_part, read_parts, write_jsonl
from hedgerow.data.sample import load_sample

PAGE = Path(__file__).parent.parent / "docs/how-to/active-learning.md"
ROWS = 150


def commands() -> list[str]:
    """The commands of the loop, as the page has them."""
    section = PAGE.read_text().split("## The loop\n")[1].split("\n## ")[0]
    return [
        line
        for block in re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        for line in block.strip().splitlines()
    ]


def answer(client: TestClient, words: list[str]) -> bytes:
    """What curl would print."""
    (url,) = (word for word in words if word.startswith("localhost:8000"))
    body = words[words.index("--json") + 1] if "--json" in words else None
    post = body is not None or "POST" in words
    told = client.request(
        "POST" if post else "GET",
        url.removeprefix("localhost:8000"),
        content=body,
        headers={"Content-Type": "application/json"} if body else {},
    )
    assert told.status_code == 200, told.text
    return told.content


@pytest.fixture
def follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_client: Open) -> Callable[[], list[str]]:
    """Follows the page in a folder with the files that it names; gives the commands it ran."""
    sample = load_sample()
    train = zip(sample.train_texts[:ROWS], sample.train_labels[:ROWS], strict=True)
    write_jsonl(
        tmp_path / "train.jsonl",
        ({"id": f"t{i}", "text": text, "labels": labels} for i, (text, labels) in enumerate(train)),
    )
    new = [
        {"text": text} | ({"id": f"n{i}"} if i % 2 else {}) for i, text in enumerate(sample.test_texts[:60])
    ]
    write_jsonl(tmp_path / "unlabelled.jsonl", new)
    monkeypatch.chdir(tmp_path)

    def run() -> list[str]:
        client: TestClient | None = None
        ran = commands()
        for command in ran:
            words = shlex.split(command, comments=True)
            if words[0] == "mv":
                shutil.move(words[1], words[2])
            elif words[0] == "curl":
                assert client is not None
                told = answer(client, words)
                if ">" in words:
                    Path(words[-1]).write_bytes(told)
            elif words[1] == "serve":
                assert words[-1] == "&"
                client = open_client(Path(words[2]), queue=Path(f"{words[2]}.queue.sqlite"))
            else:
                assert main([*words[1:], "--threads", "1"]) == 0, command
        return ran

    return run


def test_loop_of_the_page_then_reviews_are_learned_under_their_ids(
    follow: Callable[[], list[str]], tmp_path: Path
) -> None:
    ran = follow()
    assert [command.split()[1] for command in ran if command.startswith("hedgerow ")] == [
        "fit",
        "query",
        "serve",
        "fit",
    ]
    reviewed = read_part(tmp_path / "reviewed.jsonl")
    assert reviewed.texts is not None
    assert reviewed.label_names is not None
    unlabelled = read_part(tmp_path / "unlabelled.jsonl")
    ids = dict(zip(unlabelled.texts or [], unlabelled.ids or [], strict=True))
    assert [ids[text] for text in reviewed.texts] == (reviewed.ids or [None] * reviewed.n)
    said = json.loads(next(c for c in ran if "corrected" in c).split("'")[1])
    assert reviewed.label_names == sorted(said["labels"])
    # The model that is served in the end has learned from these, and from all that was there before.
    served = load(tmp_path / "tags.hedgerow")
    assert served.seen_in_training(reviewed.texts).all()
    assert set(said["labels"]) <= set(served.classes_.tolist())
    both = read_parts([tmp_path / "train.jsonl", tmp_path / "reviewed.jsonl"])
    assert both.n == ROWS + reviewed.n
    assert served.seen_in_training(both.texts).all()
    assert not served.seen_in_training([text for text in ids if text not in reviewed.texts]).any()


def test_query_while_the_server_runs_then_its_texts_are_shown_there(
    open_client: Open, text_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = tmp_path / "shared.sqlite"
    client = open_client(queue=queue)
    client.post("/queue", json={"texts": ["it waits already"]})
    write_jsonl(
        tmp_path / "new.jsonl",
        [{"text": text, "id": number} for number, text in enumerate(load_sample().test_texts[60:70])],
    )
    command = [
        "query",
        str(text_model),
        str(tmp_path / "new.jsonl"),
        "-n",
        "3",
        "--queue",
        str(queue),
        "--json",
    ]
    assert main([*command, "--threads", "1"]) == 0
    queries = json.loads(capsys.readouterr().out)["queries"]
    chosen = {record["id"]: record["text"] for record in queries}
    items = client.get("/queue").json()["items"]
    assert {item["text_id"]: item["text"] for item in items} == {**chosen, None: "it waits already"}
    # The model is the one that the server has, so each is what the server would have put there itself.
    assert len({item["model"] for item in items}) == 1
    number = next(item["id"] for item in items if item["text_id"] in chosen)
    assert client.post(f"/queue/{number}", json={"state": "confirmed", "labels": ["x"]}).status_code == 200
    assert client.get("/queue/export").json()["id"] in chosen
