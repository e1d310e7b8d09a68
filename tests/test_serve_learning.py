"""POST /learn: what was reviewed is learned beside a server that goes on answering."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path
from typing import Any

import pytest
from reviewed_models import REVIEWS, TRAINED, Desk, desk, recorded_model
from served_models import Open
from starlette.testclient import TestClient
from test_serve_metrics import samples
from test_serve_process import Running, start
from test_serve_promotion import TOKEN, Serve, answering, serve

from hedgerow import load
from hedgerow.comparison import Judge, RowsWanted
from hedgerow.comparison.model_files import ModelFiles, file_id
from hedgerow.comparison.results import ComparisonSettings
from hedgerow.data.sample import load_sample
from hedgerow.records.file import beside
from hedgerow.serve.learning_worker import Task
from hedgerow.serve.security import Access

__all__ = ["desk", "recorded_model", "serve", "start"]

IDLE = {"state": "idle", "stage": None, "share": None, "outcome": None, "failure": None}
# In the place of the process: it says where it is, and then waits until its server lets go of it.
STUCK = """
import sys

sys.stdin.readline()
print('{"stage": "comparing", "share": 0.25}', flush=True)
sys.stdin.read()
"""


def judge_on(held: Path, margin: float = 90) -> Judge:
    return Judge(RowsWanted((held,), threads=1), settings=ComparisonSettings(margin=margin, draws=100))


def finished(client: TestClient) -> dict[str, Any]:
    """What GET /learn says once it runs no longer."""
    assert client.portal is not None
    client.portal.call(client.app_state["service"].learner.finished)
    return dict(client.get("/learn").json())


def refused(client: TestClient) -> tuple[int, str, str]:
    told = client.post("/learn")
    error = told.json()["error"]
    return told.status_code, error["code"], error["message"]


@pytest.fixture
def learner(serve: Serve, desk: Desk) -> TestClient:
    """A server that can learn."""
    return serve(desk.model, queue=desk.queue, judge=judge_on(desk.held))


@pytest.fixture
def stuck(learner: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Replaces what learns by a process that does not come to an end."""
    (tmp_path / "stuck_worker.py").write_text(STUCK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    learner.app_state["service"].learner.worker = "stuck_worker"


# --- what comes of it ---


def test_reviews_then_they_are_learned_and_the_new_model_answers(learner: TestClient, desk: Desk) -> None:
    desk.review_more()
    old = answering(learner)
    assert learner.get("/learn").json() == {
        **IDLE,
        "reviewed": REVIEWS,
        "waiting": REVIEWS,
        "obstacle": None,
        "can_roll_back": False,
    }
    told = learner.post("/learn")
    assert (told.status_code, told.json()["state"]) == (200, "running")
    assert learner.post("/predict", json={"text": "a game"}).status_code == 200
    told = finished(learner)
    outcome = told["outcome"]
    assert (told["state"], told["reviewed"], told["waiting"]) == ("done", REVIEWS, 0)
    assert (outcome["learned"], outcome["added"], outcome["corrected"]) == (REVIEWS, REVIEWS, 0)
    assert (outcome["promoted"], outcome["words"].startswith(outcome["verdict"])) == (True, True)
    assert told["can_roll_back"]
    new = answering(learner)
    assert new == file_id(desk.model) != old
    assert learner.get("/model").json()["promotion"]["state"] == "promoted"
    model = load(desk.model)
    assert len(model.records().places()) == TRAINED + REVIEWS  # the records have moved along
    # It is the file's model, and was judged already.
    assert learner.post("/reload").json() | {"promotion": None} == {
        "model": new,
        "before": new,
        "labels_that_left": 0,
        "promotion": None,
    }


def test_rollback_then_the_old_model_answers_and_has_not_learned(learner: TestClient, desk: Desk) -> None:
    desk.review_more()
    old = answering(learner)
    learner.post("/learn")
    assert finished(learner)["outcome"]["promoted"]
    new = answering(learner)
    assert learner.post("/rollback").json()["model"] == old
    told = learner.get("/learn").json()
    assert told == {
        **IDLE,
        "reviewed": REVIEWS,
        "waiting": REVIEWS,
        "obstacle": None,
        "can_roll_back": False,
    }
    assert answering(learner) == old != new


def test_update_that_is_worse_then_the_old_model_goes_on_and_the_verdict_says_why(
    serve: Serve, desk: Desk
) -> None:
    client = serve(desk.model, queue=desk.queue, judge=judge_on(desk.held, margin=0.5))
    desk.review_badly()
    old = answering(client)
    client.post("/learn")
    told = finished(client)
    outcome = told["outcome"]
    assert (told["state"], outcome["promoted"], outcome["verdict"]) == ("done", False, "worse")
    assert outcome["words"].startswith("worse: ndcg@5 falls by")
    assert (outcome["corrected"], told["waiting"]) == (TRAINED, TRAINED)
    assert answering(client) == file_id(desk.model) == old
    assert not told["can_roll_back"]


def test_nothing_new_then_it_is_done_without_a_comparison(learner: TestClient, desk: Desk) -> None:
    sample = load_sample()
    desk.review(sample.train_texts[:3], sample.train_labels[:3], ["t0", "t1", "t2"])
    learner.post("/learn")
    told = finished(learner)
    assert (told["waiting"], told["outcome"]["promoted"], told["outcome"]["verdict"]) == (0, None, None)
    assert (told["outcome"]["learned"], told["outcome"]["known"]) == (0, 3)


def test_rows_to_judge_on_that_are_gone_then_it_fails_with_the_reason_and_can_be_tried_again(
    learner: TestClient, desk: Desk
) -> None:
    desk.review_more()
    old = answering(learner)
    desk.held.unlink()
    learner.post("/learn")
    told = finished(learner)
    assert (told["state"], told["outcome"]) == ("failed", None)
    assert "no such file" in told["failure"]
    assert answering(learner) == old
    assert told["obstacle"] is None


def test_metrics_then_what_learning_predicts_is_not_counted(learner: TestClient, desk: Desk) -> None:
    learner.post("/predict", json={"texts": ["a", "b"]})
    desk.review_more(4)
    before = samples(learner.get("/metrics").text)
    learner.post("/learn")
    assert finished(learner)["outcome"]["verdict"] is not None
    after = samples(learner.get("/metrics").text)
    assert {name for name, _ in after} == {name for name, _ in before}
    asked = (
        "hedgerow_requests_total",
        frozenset({("method", "POST"), ("path", "/learn"), ("status", "200")}),
    )
    assert after[asked] == 1
    for name in ("inputs_total", "batch_inputs_count", "in_flight"):
        assert after[f"hedgerow_{name}", frozenset()] == before[f"hedgerow_{name}", frozenset()]


# --- what is refused ---


def test_server_without_judge_then_it_says_how_to_start_one(serve: Serve, desk: Desk) -> None:
    desk.review_more(2)
    client = serve(desk.model, queue=desk.queue)
    status, code, words = refused(client)
    assert (status, code, "--judge-on DATA" in words) == (409, "no_judge", True)
    assert client.get("/learn").json()["obstacle"] == words
    assert client.get("/learn").json()["state"] == "idle"


def test_model_without_records_then_it_says_how_to_get_them(serve: Serve, desk: Desk) -> None:
    desk.review_more(2)
    beside(desk.model).unlink()
    client = serve(desk.model, queue=desk.queue, judge=judge_on(desk.held))
    status, code, words = refused(client)
    assert (status, code, "hedgerow fit" in words) == (409, "no_records", True)
    told = client.get("/learn").json()
    assert (told["obstacle"], told["reviewed"], told["waiting"]) == (words, 2, None)


def test_nothing_reviewed_then_it_says_what_to_do_first(learner: TestClient) -> None:
    status, code, words = refused(learner)
    assert (status, code, "reviewed" in words) == (409, "nothing_reviewed", True)


def test_model_of_features_then_there_is_no_queue(open_client: Open, feature_model: Path) -> None:
    assert refused(open_client(feature_model))[:2] == (409, "no_queue")


def test_no_token_then_nobody_can_start_it_or_look(serve: Serve, desk: Desk) -> None:
    client = serve(desk.model, Access(TOKEN), queue=desk.queue, judge=judge_on(desk.held))
    assert (client.post("/learn").status_code, client.get("/learn").status_code) == (401, 401)
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert client.post("/learn", headers=right).json()["error"]["code"] == "nothing_reviewed"
    elsewhere = {**right, "Origin": "http://elsewhere.example"}
    assert client.post("/learn", headers=elsewhere).status_code == 403


# --- while it runs ---


@pytest.mark.usefixtures("stuck")
def test_learning_that_runs_then_its_stage_is_told_and_a_second_one_is_refused(
    learner: TestClient, desk: Desk
) -> None:
    desk.review_more(2)
    learner.post("/learn")
    while (told := learner.get("/learn").json())["stage"] != "comparing":
        assert told["state"] == "running"
    assert (told["share"], told["waiting"], told["obstacle"]) == (0.25, None, None)
    assert refused(learner)[:2] == (409, "learning")
    assert learner.post("/predict", json={"text": "a game"}).status_code == 200


@pytest.mark.usefixtures("stuck")
def test_server_that_stops_then_the_process_ends(learner: TestClient, desk: Desk) -> None:
    desk.review_more(2)
    learner.post("/learn")
    while learner.get("/learn").json()["stage"] != "comparing":
        pass
    (child,) = children(os.getpid())
    learner.__exit__(None, None, None)
    assert child not in children(os.getpid())


@pytest.mark.usefixtures("stuck")
def test_process_that_is_killed_then_it_failed_and_says_that_the_model_is_whole(
    learner: TestClient, desk: Desk
) -> None:
    desk.review_more(2)
    learner.post("/learn")
    while learner.get("/learn").json()["stage"] != "comparing":
        pass
    (child,) = children(os.getpid())
    os.kill(child, signal.SIGKILL)
    told = finished(learner)
    assert (told["state"], told["waiting"], told["obstacle"]) == ("failed", 2, None)
    assert told["failure"] == (
        "the process that learns was ended with SIGKILL; the model is whole, and learning again goes on"
    )


def children(parent: int) -> set[int]:
    """The processes that learn and were started by another one."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"_worker" in (entry / "cmdline").read_bytes():
                above = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                found |= {int(entry.name)} if above == parent else set()
        except OSError:  # it has ended
            continue
    return found


def test_task_then_a_line_holds_all_of_it(desk: Desk) -> None:
    judge = Judge(
        RowsWanted((desk.held, desk.queue), None, "tags", None, 3),
        "better",
        ComparisonSettings("f1@5", 1.5, 200, 7),
    )
    task = Task(desk.model, desk.queue, judge, 2)
    assert Task.from_line(task.to_line()) == task
    assert task.to_line().count(b"\n") == 1


# --- the process ---


@pytest.mark.parametrize(
    "moment",
    ["updating", *(pytest.param(stage, marks=pytest.mark.slow) for stage in ("reading", "comparing"))],
)
def test_server_that_is_killed_while_it_learns_then_its_process_ends_and_the_next_one_goes_on(
    start: Any, desk: Desk, moment: str
) -> None:
    desk.review_more()
    options = (desk.model, "--promote-if", "no-worse", "--judge-on", desk.held, "--margin", "90")
    running: Running = start(*options)
    assert running.ask("POST", "/learn")[0] == 200
    events = running.events()
    assert next(event for event in events if event.get("stage") == moment)
    (worker,) = children(running.process.pid)
    niceness = [os.getpriority(os.PRIO_PROCESS, of) for of in (worker, running.process.pid)]
    assert niceness[0] > niceness[1]
    with open(os.pidfd_open(worker), "rb") as watched:
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()
        assert select.select([watched], [], [], 60)[0]  # it has ended
    assert len(load(desk.model).records().places()) in (TRAINED, TRAINED + REVIEWS)
    running = start(*options)
    assert running.ask("POST", "/learn")[0] == 200
    ends = ("learned", "learning failed")
    assert next(event["event"] for event in running.events() if event["event"] in ends) == "learned"
    told = running.ask("GET", "/learn")[1]
    assert (told["state"], told["waiting"]) == ("done", 0)
    assert len(load(desk.model).records().places()) == TRAINED + REVIEWS
    assert running.ask("GET", "/model")[1]["id"] == file_id(ModelFiles(desk.model).answering)
