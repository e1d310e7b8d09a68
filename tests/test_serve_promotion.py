"""A server that judges a changed model file, goes back to the one before, and listens to a candidate."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from served_models import Open
from starlette.testclient import TestClient
from test_promotion import equal_model, judge, worse_model
from test_serve_metrics import samples
from test_serve_process import failure, start

from hedgerow.cli import main
from hedgerow.cli.failures import ExitCode
from hedgerow.comparison.model_files import ModelFiles, file_id
from hedgerow.comparison.promotion import Judge
from hedgerow.data.sample import load_sample
from hedgerow.serve.app import build
from hedgerow.serve.security import Access
from hedgerow.serve.service import ServerSettings, Service
from hedgerow.serve.shadowing import ShadowSettings

__all__ = ["equal_model", "judge", "start", "worse_model"]

TOKEN = "a-token-of-16-characters"
Serve = Callable[..., TestClient]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server in this process; a second one of the same files is what a restart gives."""
    opened: list[TestClient] = []

    def serve_one(model: Path, access: Access | None = None, **options: Any) -> TestClient:
        while opened:
            opened.pop().__exit__(None, None, None)
        service = Service(ServerSettings(model, **{"queue": tmp_path / "queue.sqlite"} | options))
        client = TestClient(build(service, access), base_url="http://127.0.0.1:8000")
        client.app_state["service"] = service
        client.__enter__()
        opened.append(client)
        return client

    yield serve_one
    for client in opened:
        client.__exit__(None, None, None)


@pytest.fixture
def used(text_model: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    path = folder / "used.hedgerow"
    path.write_bytes(text_model.read_bytes())
    return path


def put(source: Path, target: Path) -> str:
    """Put a model in the place of another, as mv does; return its id."""
    new = target.with_name("new")
    new.write_bytes(source.read_bytes())
    new.replace(target)
    return file_id(target)


def answering(client: TestClient) -> str:
    found = client.post("/predict", json={"text": "a game"}).json()["model"]
    assert client.get("/model").json()["id"] == found
    return str(found)


# --- promotion ---


def test_worse_model_then_the_old_one_goes_on_and_everything_says_why(
    serve: Serve, used: Path, worse_model: Path, judge: Judge, caplog: pytest.LogCaptureFixture
) -> None:
    client = serve(used, judge=judge)
    old = answering(client)
    assert client.get("/healthz").json() == {"status": "alive", "promotion": "none"}
    new = put(worse_model, used)
    told = client.post("/reload")
    assert told.status_code == 200
    assert (told.json()["model"], told.json()["before"]) == (old, old)
    promotion = told.json()["promotion"]
    assert (promotion["state"], promotion["candidate"]) == ("refused", new)
    assert promotion["words"].startswith("worse: ndcg@5 falls by")
    assert (promotion["can_roll_back"], promotion["can_promote"]) == (False, True)
    assert answering(client) == old
    assert client.get("/healthz").json()["promotion"] == "refused"
    assert client.get("/model").json()["promotion"] == promotion
    found = samples(client.get("/metrics").text)
    assert found["hedgerow_promotions_total", frozenset({("result", "refused")})] == 1
    assert found["hedgerow_candidate_refused", frozenset()] == 1
    (event,) = [record for record in caplog.records if record.msg == "promotion refused"]
    assert vars(event)["facts"] == {"candidate": new, "reason": promotion["words"]}


def test_equal_model_then_it_answers_and_a_rollback_brings_the_old_one_back(
    serve: Serve, used: Path, equal_model: Path, judge: Judge
) -> None:
    client = serve(used, judge=judge)
    old = answering(client)
    new = put(equal_model, used)
    assert client.post("/reload").json()["model"] == new
    assert answering(client) == new
    assert client.get("/metrics").text.count("hedgerow_candidate_refused 0.0") == 1
    told = client.post("/rollback")
    assert told.status_code == 200
    assert (told.json()["model"], told.json()["before"]) == (old, new)
    assert told.json()["promotion"]["state"] == "rolled-back"
    assert answering(client) == old
    # Pinned: the file is still the newer one, and that is not judged again.
    assert client.post("/reload").json()["model"] == old
    assert client.post("/rollback").json()["error"]["code"] == "no_other_model"
    assert client.post("/promote").json()["model"] == new
    assert answering(client) == new
    assert client.post("/promote").status_code == 409


def test_refused_model_then_somebody_can_promote_it_all_the_same(
    serve: Serve, used: Path, worse_model: Path, judge: Judge
) -> None:
    client = serve(used, judge=judge)
    old = answering(client)
    new = put(worse_model, used)
    assert client.post("/reload").json()["model"] == old
    assert client.post("/promote").json() | {"promotion": None} == {
        "model": new,
        "before": old,
        "promotion": None,
    }
    assert client.post("/reload").json()["model"] == new  # the file is what answers
    assert client.post("/rollback").json()["model"] == old


@pytest.mark.parametrize("what", ["refused", "rolled back", "promoted"])
def test_restart_then_the_same_model_answers(
    serve: Serve, used: Path, worse_model: Path, equal_model: Path, judge: Judge, what: str
) -> None:
    client = serve(used, judge=judge)
    put(worse_model if what == "refused" else equal_model, used)
    client.post("/reload")
    if what == "rolled back":
        client.post("/rollback")
    expected = answering(client)
    before = client.get("/model").json()["promotion"]
    client = serve(used, judge=judge)
    assert answering(client) == expected
    assert client.post("/reload").json()["model"] == expected  # what the server does when it has started
    promotion = client.get("/model").json()["promotion"]
    for key in ("can_roll_back", "can_promote"):
        assert promotion[key] == before[key]
    if what != "promoted":
        assert promotion["state"] == "refused"
        assert "not judged again until it changes" in promotion["words"]
        # The next file is judged again.
        other = put(equal_model if what == "refused" else worse_model, used)
        assert (client.post("/reload").json()["model"] == other) == (what == "refused")


def test_file_that_changed_while_no_server_ran_then_it_is_judged(
    serve: Serve, used: Path, worse_model: Path, judge: Judge
) -> None:
    old = answering(serve(used, judge=judge))
    put(worse_model, used)
    client = serve(used, judge=judge)
    assert answering(client) == old
    assert client.post("/reload").json()["promotion"]["state"] == "refused"


def test_file_that_is_written_in_place_then_the_model_that_answers_is_unharmed(
    serve: Serve, used: Path, judge: Judge
) -> None:
    client = serve(used, judge=judge)
    old = answering(client)
    used.write_bytes(b"no model" * 1000)
    told = client.post("/reload")
    assert (told.status_code, told.json()["error"]["code"]) == (422, "bad_model")
    assert answering(client) == old
    assert client.get("/model").json()["promotion"]["state"] == "failed"
    assert answering(serve(used, judge=judge)) == old


def test_data_to_judge_on_that_are_gone_then_nothing_changes_and_the_next_call_tries_again(
    serve: Serve, used: Path, equal_model: Path, judge: Judge, tmp_path: Path
) -> None:
    (data,) = judge.rows.paths
    own = tmp_path / "held.jsonl"
    own.write_bytes(data.read_bytes())
    client = serve(used, judge=replace(judge, rows=replace(judge.rows, paths=(own,))))
    old = answering(client)
    own.unlink()
    new = put(equal_model, used)
    told = client.post("/reload")
    assert told.status_code == 422
    assert "no such file" in told.json()["error"]["message"]
    assert answering(client) == old
    own.write_bytes(data.read_bytes())
    assert client.post("/reload").json()["model"] == new


def test_rollback_on_the_command_line_then_the_server_follows_at_the_next_reload(
    serve: Serve, used: Path, equal_model: Path, judge: Judge
) -> None:
    client = serve(used, judge=judge)
    old = answering(client)
    new = put(equal_model, used)
    assert client.post("/reload").json()["model"] == new
    assert main(["rollback", str(used)]) == 0
    assert answering(client) == new
    assert client.post("/reload").json()["model"] == old
    assert answering(client) == old


def test_server_without_judge_then_swaps_are_refused_and_an_accepted_model_is_mentioned(
    serve: Serve, used: Path, judge: Judge, caplog: pytest.LogCaptureFixture
) -> None:
    client = serve(used)
    for path in ("/rollback", "/promote"):
        told = client.post(path)
        assert (told.status_code, told.json()["error"]["code"]) == (409, "no_promotion")
    assert client.get("/model").json()["promotion"] is None
    assert client.get("/healthz").json() == {"status": "alive"}
    serve(used, judge=judge)
    serve(used)
    assert "accepted model ignored" in [record.msg for record in caplog.records]


def test_swaps_then_they_need_the_token_and_an_own_origin(
    serve: Serve, used: Path, equal_model: Path, judge: Judge
) -> None:
    client = serve(used, Access.of("127.0.0.1", TOKEN), judge=judge)
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    for path in ("/rollback", "/promote"):
        assert client.post(path).status_code == 401
        assert client.post(path, headers={**bearer, "Origin": "http://elsewhere"}).status_code == 403
        assert client.post(path, headers=bearer).status_code == 409
    assert client.get("/shadow").status_code == 401


# --- the shadow ---


def shadowed(client: TestClient) -> dict[str, Any]:
    """What was found once the candidate has answered all it was given."""
    client.app_state["service"].shadow._thread.submit(lambda: None).result()
    found: dict[str, Any] = client.get("/shadow").json()
    return found


TEXTS = ["a game with cards", "a library for fonts", "an editor of texts", "a compiler", "sound and music"]


def test_shadow_that_is_the_same_model_then_nothing_differs(
    serve: Serve, used: Path, deciding_model: Path
) -> None:
    used.write_bytes(deciding_model.read_bytes())
    client = serve(used, shadow=ShadowSettings(deciding_model))
    for body in (
        {"texts": TEXTS},
        {"texts": TEXTS, "decide": {"missed_at_most": 0.2}},
        {"text": "a", "k": 1},
    ):
        assert client.post("/predict", json=body).status_code == 200
    # What is chosen for all inputs together is not compared.
    body = {"texts": TEXTS, "decide": {"optimise": "macro-f1@5"}}
    assert client.post("/predict", json=body).status_code == 200
    found = shadowed(client)
    assert (found["requests"], found["inputs"], found["decided"]) == (3, 11, 5)
    assert (found["best_differs"], found["set_differs"], found["accepted_differs"]) == (0, 0, 0)
    assert (found["probability_difference"], found["errors"], found["dropped"]) == (0, 0, 0)
    assert found["seconds"] > 0
    assert found["live_seconds"] > 0


def test_shadow_that_is_another_model_then_answers_stay_and_differences_are_those_by_hand(
    serve: Serve, used: Path, worse_model: Path, text_model: Path
) -> None:
    texts = load_sample().test_texts[:60]
    plain = serve(used).post("/predict", json={"texts": texts, "k": 20}).json()
    theirs = serve(worse_model).post("/predict", json={"texts": texts, "k": 20}).json()
    client = serve(used, shadow=ShadowSettings(worse_model))
    assert client.post("/predict", json={"texts": texts, "k": 20}).json() == plain
    found = shadowed(client)
    lists = [
        [{one["label"]: one["probability"] for one in result["labels"]} for result in told["results"]]
        for told in (plain, theirs)
    ]
    best, sets, differences = 0, 0, []
    for own, other in zip(*lists, strict=True):
        first, second = list(own)[:5], list(other)[:5]
        best += first[0] != second[0]
        sets += set(first) != set(second)
        differences += [abs(own[label] - other.get(label, 0)) for label in first]
    assert found["best_differs"] == best / len(texts) > 0
    assert found["set_differs"] == sets / len(texts)
    assert found["probability_difference"] == pytest.approx(sum(differences) / len(differences))
    assert found["live"] == plain["model"]
    assert found["model"] == theirs["model"]
    text = samples(client.get("/metrics").text)
    assert text["hedgerow_shadow_inputs_total", frozenset()] == len(texts)
    assert text["hedgerow_shadow_best_differs", frozenset()] == found["best_differs"]


def test_share_of_shadow_then_that_many_requests_are_answered(
    serve: Serve, used: Path, text_model: Path
) -> None:
    client = serve(used, shadow=ShadowSettings(text_model, 0.1))
    for _ in range(30):
        client.post("/predict", json={"text": "a"})
    assert shadowed(client)["requests"] == 3


def test_shadow_that_fails_then_clients_notice_nothing(
    serve: Serve, used: Path, worse_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = serve(used, shadow=ShadowSettings(worse_model))
    known = client.get("/labels", params={"query": "", "limit": 100}).json()["labels"]
    shadow = client.app_state["service"].shadow
    strange = next(of["label"] for of in known if of["label"] not in shadow._served.labels)
    for _ in range(2):
        told = client.post("/predict", json={"text": "a secret", "only": [strange]})
        assert told.status_code == 200
    found = shadowed(client)
    assert (found["errors"], found["requests"]) == (2, 0)
    assert (found["best_differs"], found["seconds"]) == (None, None)
    failures = [record for record in caplog.records if record.msg == "failure"]
    assert len(failures) == 1  # the second is like the first
    assert "secret" not in str(vars(failures[0]))


def test_shadow_that_is_slow_then_requests_are_dropped_and_not_kept(serve: Serve, used: Path) -> None:
    client = serve(used, shadow=ShadowSettings(used))
    shadow = client.app_state["service"].shadow
    shadow._waiting = 64
    assert client.post("/predict", json={"text": "a"}).status_code == 200
    assert client.get("/shadow").json()["dropped"] == 1
    shadow._waiting = 0
    client.post("/predict", json={"text": "a"})
    assert shadowed(client)["requests"] == 1


def test_live_model_that_changes_then_the_shadow_is_compared_with_the_new_one(
    serve: Serve, used: Path, equal_model: Path, text_model: Path, judge: Judge
) -> None:
    client = serve(used, judge=judge, shadow=ShadowSettings(text_model))
    client.post("/predict", json={"text": "a"})
    assert shadowed(client)["requests"] == 1
    new = put(equal_model, used)
    client.post("/reload")
    client.post("/predict", json={"texts": ["a", "b"]})
    found = shadowed(client)
    assert (found["live"], found["requests"], found["inputs"]) == (new, 1, 2)


def test_server_without_shadow_then_there_is_none(open_client: Open) -> None:
    told = open_client().get("/shadow")
    assert (told.status_code, told.json()["error"]["code"]) == (404, "no_shadow")


# --- the process ---


def test_killed_server_then_the_next_one_serves_the_accepted_model_and_judges_what_is_there(
    start: Any, used: Path, worse_model: Path, judge: Judge
) -> None:
    (data,) = judge.rows.paths
    options = (used, "--promote-if", "no-worse", "--judge-on", data)
    running = start(*options)
    old = running.ask("GET", "/model")[1]["id"]
    running.process.send_signal(signal.SIGKILL)
    running.process.wait()
    new = put(worse_model, used)
    running = start(*options)
    assert running.ask("GET", "/model")[1]["id"] == old
    event = next(event for event in running.events() if event["event"].startswith("promotion"))
    assert (event["event"], event["candidate"]) == ("promotion refused", new)
    assert running.predict()[1]["model"] == old
    assert ModelFiles(used).refused.read_bytes() == worse_model.read_bytes()


def test_options_that_do_not_fit_then_the_server_does_not_start(
    used: Path, feature_model: Path, judge: Judge, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, message = failure(capsys, "serve", used, "--port", 0, "--promote-if", "better")
    assert (code, "--judge-on" in message) == (ExitCode.USAGE, True)
    missing = tmp_path / "missing.jsonl"
    code, message = failure(
        capsys, "serve", used, "--port", 0, "--promote-if", "better", "--judge-on", missing
    )
    assert (code, "no such file" in message) == (ExitCode.DATA, True)
    code, message = failure(capsys, "serve", used, "--port", 0, "--shadow", feature_model)
    assert (code, "the one of --shadow reads features" in message) == (ExitCode.MODEL, True)


def test_shadow_in_a_process_then_its_share_is_taken(start: Any, used: Path, worse_model: Path) -> None:
    running = start(used, "--shadow", worse_model, "--shadow-share", "0.5")
    for _ in range(4):
        running.predict()
    assert running.ask("GET", "/shadow")[1]["share"] == 0.5
