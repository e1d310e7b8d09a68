"""The review queue: what is asked first, what is kept, and what becomes training data."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from served_models import Open
from starlette.testclient import TestClient

from hedgerow import HedgerowTextClassifier, label_uncertainty, load
from hedgerow.data import read_part
from hedgerow.data.sample import load_sample
from hedgerow.serve import queue_store
from hedgerow.serve.limits import Limits
from hedgerow.serve.queue_store import QueueCounts, QueueError, QueueFull, QueueStore
from hedgerow.serve.schemas import Queue
from hedgerow.serve.service import Service

TEXTS = load_sample().test_texts[70:90]
JSON = {"Content-Type": "application/json"}


def test_queue_then_texts_come_by_the_largest_knowledge_uncertainty(
    client: TestClient, text_model: Path
) -> None:
    ids = client.post("/queue", json={"texts": TEXTS}).json()["ids"]
    found = Queue.model_validate_json(client.get("/queue", params={"limit": 100}).content).items
    votes = load(text_model).predict_votes(TEXTS)
    mean, knowledge = votes.mean().data, label_uncertainty(votes).knowledge
    knowledges = {}
    for number, begin, end in zip(ids, votes.indptr, votes.indptr[1:], strict=False):
        best = sorted(range(begin, end), key=lambda place: -mean[place])[:20]
        knowledges[number] = max(knowledge[place] for place in best)
    assert [item.id for item in found] == sorted(ids, key=lambda number: -knowledges[number])
    for item in found:
        assert item.knowledge == pytest.approx(knowledges[item.id], abs=1e-5)
        assert item.text == TEXTS[ids.index(item.id)]
        assert all(label.votes for label in item.prediction.labels)
    shown = client.get("/queue", params={"limit": 3}).json()["items"]
    assert [item["id"] for item in shown] == [item.id for item in found[:3]]


def test_text_that_waits_already_then_it_keeps_its_number(client: TestClient) -> None:
    assert client.post("/queue", json={"texts": ["a", "b", "a"]}).json() == {"ids": [1, 2, 1]}
    assert client.post("/queue", json={"texts": ["c", "b"]}).json() == {"ids": [3, 2]}
    client.post("/queue/2", json={"state": "skipped"})
    assert client.post("/queue", json={"texts": ["b"]}).json() == {"ids": [4]}


def test_reviewed_texts_then_the_export_is_training_data(client: TestClient, tmp_path: Path) -> None:
    ids = client.post("/queue", json={"texts": TEXTS[:4]}).json()["ids"]
    reviews = [
        {"state": "confirmed", "labels": ["role::program"]},
        {"state": "corrected", "labels": ["a new \N{SNOWMAN} label", "role::program"]},
        {"state": "skipped", "labels": []},
    ]
    for number, review in zip(ids, reviews, strict=False):
        answer = client.post(f"/queue/{number}", json=review)
        assert answer.json() == {"id": number, "state": review["state"]}
    assert client.get("/queue/counts").json() == {"waiting": 1, "confirmed": 1, "corrected": 1, "skipped": 1}
    answer = client.get("/queue/export")
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert "attachment" in answer.headers["content-disposition"]
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines == [
        {"text": text, "labels": review["labels"]}
        for text, review in zip(TEXTS[:2], reviews[:2], strict=True)
    ]
    path = tmp_path / "reviewed.jsonl"
    path.write_bytes(answer.content)
    part = read_part(path)
    assert part.texts == TEXTS[:2]
    assert part.Y.shape == (2, 2)


def test_second_review_then_it_replaces_the_first(client: TestClient) -> None:
    client.post("/queue", json={"texts": ["a"]})
    client.post("/queue/1", json={"state": "confirmed", "labels": ["x"]})
    client.post("/queue/1", json={"state": "corrected", "labels": ["y"]})
    assert client.get("/queue/export").text == '{"text":"a","labels":["y"]}\n'


def test_export_of_many_then_all_are_there_in_order(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_store, "_PAGE", 50)
    texts = [f"text {number}" for number in range(120)]
    for number in client.post("/queue", json={"texts": texts}).json()["ids"]:
        client.post(f"/queue/{number}", json={"state": "confirmed", "labels": [str(number)]})
    lines = client.get("/queue/export").text.splitlines()
    assert [json.loads(line)["text"] for line in lines] == texts


def test_ids_of_texts_then_the_queue_and_the_export_have_them(client: TestClient, tmp_path: Path) -> None:
    added = client.post("/queue", json={"texts": ["a", "b", "c"], "text_ids": ["x", None, 7]})
    assert added.json() == {"ids": [1, 2, 3]}
    found = Queue.model_validate_json(client.get("/queue").content).items
    assert {item.id: item.text_id for item in found} == {1: "x", 2: None, 3: "7"}
    for number in (1, 2, 3):
        client.post(f"/queue/{number}", json={"state": "confirmed", "labels": ["l"]})
    path = tmp_path / "reviewed.jsonl"
    path.write_bytes(client.get("/queue/export").content)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [
        {"id": "x", "text": "a", "labels": ["l"]},
        {"text": "b", "labels": ["l"]},
        {"id": "7", "text": "c", "labels": ["l"]},
    ]
    assert read_part(path).ids == ["x", None, "7"]


def test_text_with_another_id_then_it_is_another_text(client: TestClient) -> None:
    def add(id: str | None) -> list[int]:
        answer = client.post("/queue", json={"texts": ["a"], "text_ids": [id]})
        return answer.json()["ids"]  # type: ignore[no-any-return]

    assert [add(id) for id in ("x", "y", "x", None)] == [[1], [2], [1], [1]]
    found = client.get("/queue").json()["items"]
    assert sorted((item["id"], item["text_id"]) for item in found) == [(1, "x"), (2, "y")]
    assert client.post("/queue", json={"texts": ["b"]}).json() == {"ids": [3]}
    # The id comes later.
    assert client.post("/queue", json={"texts": ["b"], "text_ids": ["z"]}).json() == {"ids": [3]}
    assert {item["text_id"] for item in client.get("/queue").json()["items"]} == {"x", "y", "z"}


def test_text_that_was_reviewed_twice_under_its_id_then_the_last_review_is_exported(
    client: TestClient,
) -> None:
    def review(text: str, id: str | None, label: str) -> int:
        (number,) = client.post("/queue", json={"texts": [text], "text_ids": [id]}).json()["ids"]
        client.post(f"/queue/{number}", json={"state": "corrected", "labels": [label]})
        return int(number)

    first = review("a", "x", "old")
    review("a", "x", "new")
    review("other text", "x", "kept")
    review("a", None, "kept, too")
    exported = [json.loads(line) for line in client.get("/queue/export").text.splitlines()]
    assert [(one.get("id"), one["text"], one["labels"]) for one in exported] == [
        ("x", "a", ["new"]),
        ("x", "other text", ["kept"]),
        (None, "a", ["kept, too"]),
    ]
    # What was said last counts, not what was added last.
    client.post(f"/queue/{first}", json={"state": "corrected", "labels": ["newest"]})
    exported = [json.loads(line) for line in client.get("/queue/export").text.splitlines()]
    assert [one["labels"] for one in exported if one["text"] == "a"] == [["newest"], ["kept, too"]]


@pytest.mark.parametrize(
    "body",
    [
        {"texts": ["a", "b"], "text_ids": ["x"]},
        {"texts": ["a"], "text_ids": [""]},
        {"texts": ["a"], "text_ids": [1.5]},
        {"texts": ["a"], "text_ids": [True]},
        {"texts": ["a"], "text_ids": "x"},
        {"texts": ["a"], "text_ids": ["x" * 1001]},
    ],
)
def test_ids_that_are_not_valid_then_they_are_refused_and_nothing_waits(
    client: TestClient, body: dict[str, object]
) -> None:
    answer = client.post("/queue", json=body)
    assert (answer.status_code, answer.json()["error"]["where"][:8]) == (422, "text_ids")
    assert client.get("/queue/counts").json()["waiting"] == 0


@pytest.mark.parametrize("number", ["2", "0", "-1", "x", "9223372036854775807", "9223372036854775808", "1.5"])
def test_review_of_a_text_that_is_not_there_then_it_is_refused(client: TestClient, number: str) -> None:
    client.post("/queue", json={"texts": ["a"]})
    answer = client.post(f"/queue/{number}", json={"state": "skipped"})
    assert answer.status_code in (404, 422)
    assert client.get("/queue/counts").json()["waiting"] == 1


@pytest.mark.parametrize(
    "review",
    [
        {},
        {"state": "lost"},
        {"state": "waiting"},
        {"state": "confirmed", "labels": [None]},
        {"state": "confirmed", "labels": "x"},
        {"state": "confirmed", "labels": [1.5]},
        {"state": "confirmed", "labels": [True]},
        {"state": "confirmed", "labels": [2**63]},
        {"state": "confirmed", "labels": [-(2**63) - 1]},
        {"state": "corrected", "labels": ["works-with::audio", ""]},
    ],
)
def test_review_that_is_not_valid_then_it_is_refused(client: TestClient, review: dict[str, object]) -> None:
    client.post("/queue", json={"texts": ["a"]})
    assert client.post("/queue/1", json=review).status_code == 422
    assert client.get("/queue/counts").json()["waiting"] == 1


def test_labels_that_are_numbers_of_64_bits_then_they_are_explained_and_reviewed(
    open_client: Open, tmp_path: Path
) -> None:
    sample = load_sample()
    least, most = -(2**63), 2**63 - 1
    labels = [[least, most] if "role::program" in row else [most] for row in sample.train_labels[:100]]
    model = HedgerowTextClassifier(members=1, n_jobs=1, random_state=0)
    model.fit(sample.train_texts[:100], labels).save(tmp_path / "numbers.hedgerow")
    client = open_client(tmp_path / "numbers.hedgerow")
    found = client.post("/predict", json={"text": TEXTS[0]}).json()["results"][0]["labels"]
    assert {one["label"] for one in found} == {least, most}
    for label in (least, most):
        answer = client.post("/explain", json={"text": TEXTS[0], "label": label})
        assert (answer.status_code, answer.json()["label"]) == (200, label)
    client.post("/queue", json={"texts": TEXTS[:1]})
    review = {"state": "corrected", "labels": [least, most]}
    assert client.post("/queue/1", json=review).status_code == 200
    assert client.get("/queue/export").json()["labels"] == [least, most]


def test_any_texts_and_labels_that_are_taken_then_the_export_can_be_fitted(
    open_client: Open, tmp_path: Path
) -> None:
    client = open_client(raise_server_exceptions=False)
    taken: list[tuple[str, list[str]]] = []

    # Any two texts have a word in common, or there would be nothing to learn.
    @given(st.text(max_size=5), st.lists(st.text(max_size=5) | st.integers(-1, 9), max_size=3))
    @example("", [""])
    @example("\x00", [" ", "\n", "\x00", "\u2028", "\ufeff", "a,b", "5", 5])
    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    def review(text: str, labels: list[str | int]) -> None:
        text = f"{text} word number {len(taken)} {text}"
        added = client.post("/queue", content=json.dumps({"texts": [text]}), headers=JSON)
        if added.status_code == 200:
            body = json.dumps({"state": "corrected", "labels": labels})
            answer = client.post(f"/queue/{added.json()['ids'][0]}", content=body, headers=JSON)
            if answer.status_code == 200:
                taken.append((text, sorted({str(label) for label in labels})))

    review()
    path = tmp_path / "reviewed.jsonl"
    path.write_bytes(client.get("/queue/export").content)
    part = read_part(path)
    assert part.label_names is not None
    names = [[part.label_names[column] for column in row] for row in part.Y.tolil().rows]
    assert list(zip(part.texts or [], names, strict=True)) == taken
    assert len(taken) > 20
    model = HedgerowTextClassifier(min_count=1).fit(part.texts, part.Y, classes=part.label_names)
    model.save(tmp_path / "taught.hedgerow")
    assert load(tmp_path / "taught.hedgerow").classes_.tolist() == part.label_names


def test_queue_of_old_with_an_empty_label_then_the_export_leaves_it_out(
    open_client: Open, tmp_path: Path
) -> None:
    store = QueueStore(tmp_path / "old.sqlite")
    store.add([("a", 0.1, {}), ("b", 0.1, {})], "m")
    store.decide(1, "corrected", ["x", "", 3])
    store.decide(2, "confirmed", [""])
    store.close()
    client = open_client(queue=tmp_path / "old.sqlite")
    assert client.get("/queue/export").text == '{"text":"a","labels":["x",3]}\n{"text":"b","labels":[]}\n'


def test_queue_that_is_full_then_507_and_nothing_is_added(open_client: Open) -> None:
    client = open_client(limits=Limits(queue=3))
    assert client.post("/queue", json={"texts": ["a", "b"]}).status_code == 200
    answer = client.post("/queue", json={"texts": ["c", "d"]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "queue_full")
    assert client.get("/queue/counts").json()["waiting"] == 2
    assert client.post("/queue", json={"texts": ["a", "c"]}).status_code == 200


def test_queue_that_cannot_be_written_then_503_and_later_it_goes_on(open_client: Open) -> None:
    services: list[Service] = []
    client = open_client(change=services.append)
    client.post("/queue", json={"texts": ["a"]})
    run = services[0].store._connection.execute
    run("PRAGMA query_only = 1")
    for path, body in (("/queue", {"texts": ["b"]}), ("/queue/1", {"state": "skipped"})):
        answer = client.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "queue")
        assert "retry-after" in answer.headers
    assert client.post("/predict", json={"text": "b"}).status_code == 200
    run("PRAGMA query_only = 0")
    assert client.post("/queue", json={"texts": ["b"]}).json() == {"ids": [2]}


def test_queue_after_a_restart_then_all_is_there(open_client: Open, tmp_path: Path) -> None:
    queue = tmp_path / "kept.sqlite"
    first = open_client(queue=queue)
    first.post("/queue", json={"texts": TEXTS[:5]})
    first.post("/queue/2", json={"state": "confirmed", "labels": ["x"]})
    before = first.get("/queue").json()
    second = open_client(queue=queue)
    assert second.get("/queue").json() == before
    assert second.get("/queue/counts").json()["confirmed"] == 1


def test_process_that_is_killed_then_what_it_had_answered_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "killed.sqlite"
    program = (
        "import os, signal, sys\n"
        "from hedgerow.serve.queue_store import QueueStore\n"
        "store = QueueStore(sys.argv[1])\n"
        "store.add([('a', 0.5, {}), ('b', 0.7, {})], 'm')\n"
        "store.decide(1, 'confirmed', ['x'])\n"
        "store._connection.execute('BEGIN IMMEDIATE')\n"
        "store._connection.execute(\"UPDATE item SET state = 'skipped'\")\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == -9
    store = QueueStore(path)
    assert store.counts() == QueueCounts(waiting=1, confirmed=1)
    assert [(row.text, row.labels) for row in store.export_page(0)] == [("a", ["x"])]
    store.close()


def test_store_of_another_program_or_a_damaged_one_then_it_is_refused_and_untouched(tmp_path: Path) -> None:
    text, other, newer = tmp_path / "text", tmp_path / "other", tmp_path / "newer"
    text.write_text("this is no database, but it is long enough to be taken for one" * 100)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE item (precious TEXT)")
    QueueStore(newer).close()
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 99")
    for path, reason in ((text, "cannot be used"), (other, "another program"), (newer, "newer version")):
        before = path.read_bytes()
        with pytest.raises(QueueError, match=reason):
            QueueStore(path)
        assert path.read_bytes() == before
    with pytest.raises(QueueError, match="unable to open"):
        QueueStore(tmp_path / "no" / "such" / "folder")
    with pytest.raises(QueueError):
        QueueStore(tmp_path)


# The file as version 1 made it.
VERSION_1 = """
CREATE TABLE item (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    text TEXT NOT NULL,
    doubt REAL NOT NULL,
    model TEXT NOT NULL,
    prediction BLOB NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting',
    labels BLOB,
    added REAL NOT NULL,
    decided REAL
);
CREATE INDEX item_by_doubt ON item (state, doubt DESC, id);
CREATE UNIQUE INDEX item_waiting ON item (text) WHERE state = 'waiting';
PRAGMA application_id = 1212633681;
PRAGMA user_version = 1;
INSERT INTO item (text, doubt, model, prediction, added) VALUES ('waits', 0.25, 'm', '{"labels":[]}', 1.0);
INSERT INTO item (text, doubt, model, prediction, state, labels, added, decided)
    VALUES ('done', 0.5, 'm', '{"labels":[]}', 'corrected', '["x"]', 1.0, 2.0);
INSERT INTO item (text, doubt, model, prediction, state, labels, added, decided)
    VALUES ('done', 0.5, 'm', '{"labels":[]}', 'confirmed', '["y"]', 1.0, 3.0);
"""


def old_queue(path: Path) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1)
    connection.close()
    return path


def test_queue_of_an_older_version_then_it_opens_with_all_that_is_in_it(
    open_client: Open, tmp_path: Path
) -> None:
    path = old_queue(tmp_path / "old.sqlite")
    client = open_client(queue=path)
    (item,) = client.get("/queue").json()["items"]
    assert (item["id"], item["text"], item["text_id"], item["knowledge"]) == (1, "waits", None, 0.25)
    assert client.get("/queue/counts").json() == {"waiting": 1, "confirmed": 1, "corrected": 1, "skipped": 0}
    # Without ids, nothing says that the two are the same.
    assert client.get("/queue/export").text == (
        '{"text":"done","labels":["x"]}\n{"text":"done","labels":["y"]}\n'
    )
    added = client.post("/queue", json={"texts": ["waits", "new"], "text_ids": ["w", "n"]})
    assert added.json() == {"ids": [1, 4]}
    again = QueueStore(path)
    assert {item.text: item.text_id for item in again.waiting(9)} == {"waits": "w", "new": "n"}
    again.close()


def test_update_of_an_older_queue_that_fails_then_the_file_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = old_queue(tmp_path / "old.sqlite")
    steps = {1: queue_store._STEPS[1] + "CREATE TABLE item (twice TEXT);"}
    with monkeypatch.context() as patch:
        patch.setattr(queue_store, "_STEPS", steps)
        with pytest.raises(QueueError, match="already exists"):
            QueueStore(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        columns = [row[1] for row in connection.execute("PRAGMA table_info(item)")]
    assert "key" not in columns
    store = QueueStore(path)
    assert store.counts() == QueueCounts(waiting=1, confirmed=1, corrected=1)
    store.close()


def test_store_that_is_cut_off_then_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "queue.sqlite"
    store = QueueStore(path)
    store.add([(f"{number} " * 200, 0.1, {}) for number in range(300)], "m")
    store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(QueueError, match="--queue"):
        QueueStore(path)


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20), max_size=10, unique=True
    ),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_store_then_it_gives_back_any_texts_and_labels(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], data: st.DataObject
) -> None:
    store = QueueStore(tmp_path_factory.mktemp("queue") / "q.sqlite")
    knowledges = data.draw(st.lists(st.floats(0, 1), min_size=len(texts), max_size=len(texts)))
    ids = store.add(
        [(text, knowledge, {"t": text}) for text, knowledge in zip(texts, knowledges, strict=True)], "m"
    )
    order = sorted(range(len(texts)), key=lambda place: (-knowledges[place], place))
    assert [item.text for item in store.waiting(100)] == [texts[place] for place in order]
    expected = []
    for number, text in zip(ids, texts, strict=True):
        labels = data.draw(
            st.lists(
                st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.integers(0, 9), max_size=3
            )
        )
        assert store.decide(number, "corrected", labels)
        expected.append((text, labels))
    assert [(row.text, row.labels) for row in store.export_page(0)] == expected
    store.close()


def test_store_that_is_full_then_nothing_of_the_call_is_kept(tmp_path: Path) -> None:
    store = QueueStore(tmp_path / "q.sqlite", most=2)
    store.add([("a", 0.1, {})], "m")
    with pytest.raises(QueueFull, match="3 texts would wait"):
        store.add([("b", 0.1, {}), ("c", 0.1, {})], "m")
    assert store.counts() == QueueCounts(waiting=1)
    store.close()
