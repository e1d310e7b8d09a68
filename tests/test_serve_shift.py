"""What a server notices: inputs that are not like the held-out ones, and what reviewers say."""

from __future__ import annotations

import json
import math
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served_models import Open
from test_serve_metrics import samples

from hedgerow import load
from hedgerow.data.sample import load_sample
from hedgerow.serve.adaptation import Adaptation
from hedgerow.serve.queue_store import QueueError, QueueStore
from hedgerow.serve.service import ServerSettings, Service
from hedgerow.shift import AdaptiveRatio, AdaptiveThreshold

SAMPLE = load_sample()
USUAL = SAMPLE.test_texts[100:220]
ODD = [text[::-1] for text in USUAL]
DECIDE = {"wrong_at_most": 0.2, "wrong_of": "inputs", "missed_at_most": 0.2}


def gauges(client: Any) -> dict[str, float]:
    return {
        name: value for (name, labels), value in samples(client.get("/metrics").text).items() if not labels
    }


def ask(client: Any, texts: list[str], size: int = 40, **options: Any) -> list[dict[str, Any]]:
    answers = []
    for begin in range(0, len(texts), size):
        answer = client.post("/predict", json={"texts": texts[begin : begin + size], **options})
        assert answer.status_code == 200, answer.text
        answers.append(answer.json())
    return answers


def test_server_that_was_asked_nothing_then_metrics_have_no_shares(
    open_client: Open, deciding_model: Path
) -> None:
    found = gauges(open_client(deciding_model))
    for name in ("ood_share", "accepted_share", "reviewed_share", "best_probability_mean"):
        assert math.isnan(found[f"hedgerow_{name}"])
    assert found["hedgerow_shift_martingale_log10"] == pytest.approx(-math.log10(7))


def test_metrics_then_shares_are_those_of_the_answers(open_client: Open, deciding_model: Path) -> None:
    client = open_client(deciding_model)
    results = [one for answer in ask(client, USUAL, decide=DECIDE) for one in answer["results"]]
    found = gauges(client)
    decided = [[label.get("decision") for label in one["labels"]] for one in results]
    assert found["hedgerow_ood_share"] == np.mean([one["ood"]["p_value"] <= 0.05 for one in results])
    assert found["hedgerow_accepted_share"] == pytest.approx(np.mean(["accept" in own for own in decided]))
    assert found["hedgerow_reviewed_share"] == pytest.approx(np.mean(["review" in own for own in decided]))
    best = np.mean([one["labels"][0]["probability"] for one in results])
    assert found["hedgerow_best_probability_mean"] == pytest.approx(best)
    assert found["hedgerow_shift_martingale_highest_log10"] < 2
    assert client.get("/model").json()["shift"]["inputs"] == len(USUAL)


def test_inputs_like_the_held_out_ones_then_nothing_is_said(open_client: Open, deciding_model: Path) -> None:
    client = open_client(deciding_model)
    answers = ask(client, USUAL, decide=DECIDE)
    assert all("shift" not in answer for answer in answers)
    assert client.get("/model").json()["shift"]["broken"] is False


def test_other_inputs_then_the_martingale_and_every_decision_say_so(
    open_client: Open, deciding_model: Path
) -> None:
    client = open_client(deciding_model)
    answers = ask(client, ODD, decide=DECIDE)
    assert "Guarantees are not supported here" in answers[-1]["shift"]
    shift = client.get("/model").json()["shift"]
    assert shift["broken"]
    assert shift["words"].startswith("Guarantees are not supported here: these 120 inputs")
    assert gauges(client)["hedgerow_shift_martingale_highest_log10"] == shift["log10"] > 2
    assert "shift" not in ask(client, ODD[:3])[0]  # nothing is guaranteed where nothing is decided


def test_requests_cut_otherwise_then_the_martingale_has_the_same_bits(
    open_client: Open, deciding_model: Path
) -> None:
    found = set()
    for size in (7, 40, 120):
        client = open_client(deciding_model)
        ask(client, USUAL + ODD[:20], size)
        found.add(gauges(client)["hedgerow_shift_martingale_log10"])
    assert len(found) == 1


def test_reload_of_another_file_then_the_test_begins_anew(
    open_client: Open, deciding_model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "m.hedgerow"
    path.write_bytes(deciding_model.read_bytes())
    client = open_client(path)
    ask(client, ODD)
    assert client.get("/model").json()["shift"]["broken"]
    client.post("/reload")
    assert client.get("/model").json()["shift"]["broken"]  # the same file: the same model goes on
    model = load(path)
    model.learn_policy(SAMPLE.test_texts[300:], SAMPLE.test_labels[300:]).save(path, overwrite=True)
    client.post("/reload")
    assert client.get("/model").json()["shift"] == {
        "broken": False,
        "words": client.get("/model").json()["shift"]["words"],
        "inputs": 0,
        "log10": pytest.approx(-math.log10(7)),
        "evidence": [],
    }


def test_only_some_labels_then_only_what_is_about_inputs_is_compared(
    open_client: Open, deciding_model: Path
) -> None:
    client = open_client(deciding_model)
    ask(client, USUAL[:20], only=["role::program"], k=1)
    evidence = client.get("/model").json()["shift"]["evidence"]
    assert {one["name"] for one in evidence} == {"ood", "unknown_words", "words"}


def test_model_without_policy_then_nothing_is_tested(open_client: Open) -> None:
    client = open_client()
    ask(client, USUAL[:5])
    assert client.get("/model").json()["shift"] is None
    found = gauges(client)
    assert math.isnan(found["hedgerow_shift_martingale_log10"])
    assert found["hedgerow_best_probability_mean"] > 0


# --- thresholds that follow reviews ---


def adapting(open_client: Open, model: Path, queue: Path, target: float = 0.2) -> Any:
    opened = []

    def change(service: Service) -> None:
        service.adaptation = Adaptation(service.store, target)
        service.adaptation.check(service.slot.current)
        opened.append(service)

    client = open_client(model, queue=queue, change=change)
    client.service = opened[0]
    return client


def review_all(client: Any, right: bool) -> None:
    """Reviewers find that all labels of each text are right, or none."""
    for item in client.get("/queue?limit=100").json()["items"]:
        labels = [one["label"] for one in item["prediction"]["labels"]] if right else ["something else"]
        body = {"labels": labels, "state": "confirmed" if right else "corrected"}
        assert client.post(f"/queue/{item['id']}", json=body).status_code == 200


def accept_from(client: Any) -> float:
    return client.get("/model").json()["adapted"]["accept_from"] or math.inf


def test_reviews_then_the_threshold_is_that_of_the_library(
    open_client: Open, deciding_model: Path, tmp_path: Path
) -> None:
    client = adapting(open_client, deciding_model, tmp_path / "q.sqlite")
    client.post("/queue", json={"texts": USUAL[:30]})
    curve = load(deciding_model).policy_.wrong["probability"]
    expected = AdaptiveThreshold.of_wrong(curve, 0.2)
    for item in client.get("/queue?limit=100").json()["items"]:
        given = [
            one["label"] for one in item["prediction"]["labels"] if one["probability"] >= expected.threshold
        ]
        right = given[::2]
        expected = expected.updated((len(given) - len(right)) / max(1, len(given)))
        client.post(f"/queue/{item['id']}", json={"labels": right, "state": "corrected"})
    found = client.get("/model").json()["adapted"]
    assert found["reviews"] == expected.rounds == 30
    assert found["accept_from"] == expected.threshold
    assert found["wrong"] == pytest.approx(expected.mean_loss)
    assert found["at_most"] == expected.bound


def test_reviews_then_the_threshold_for_all_labels_is_that_of_the_library(
    open_client: Open, deciding_model: Path, tmp_path: Path
) -> None:
    client = adapting(open_client, deciding_model, tmp_path / "q.sqlite", target=0.3)
    client.post("/queue", json={"texts": USUAL[:40]})
    expected = AdaptiveRatio.of_given(load(deciding_model).policy_.given, 0.3)
    for number, item in enumerate(client.get("/queue?limit=100").json()["items"]):
        best = item["prediction"]["labels"][: expected.most]
        given = [one["label"] for one in best if one["probability"] >= expected.threshold]
        right = given[::2] if number % 3 else []
        expected = expected.updated(len(given), len(given) - len(right))
        client.post(f"/queue/{item['id']}", json={"labels": [*right, "another"], "state": "corrected"})
    found = client.get("/model").json()["adapted"]["labels"]
    assert expected.given > 10
    assert found == {
        "accept_from": expected.threshold if math.isfinite(expected.threshold) else None,
        "reviews": 40,
        "accepted": expected.given,
        "wrong": pytest.approx(expected.share),
        "at_most": expected.bound,
    }


@pytest.mark.parametrize(("target", "asked"), [(0.4, {"wrong_at_most": 0.4}), (0.1, {})])
def test_threshold_for_all_labels_then_decisions_follow_it(
    open_client: Open, deciding_model: Path, tmp_path: Path, target: float, asked: dict[str, Any]
) -> None:
    client = adapting(open_client, deciding_model, tmp_path / "q.sqlite", target)
    client.post("/queue", json={"texts": USUAL[:60]})
    review_all(client, right=True)
    now = client.get("/model").json()["adapted"]["labels"]
    accept = math.inf if now["accept_from"] is None else now["accept_from"]
    (answer,) = ask(client, USUAL[60:90], decide=asked)
    model = load(deciding_model)
    best = model.predict_uncertain(USUAL[60:90], model.policy_.given.most)
    for row, result in enumerate(answer["results"]):
        accepted = [one["label"] for one in result["labels"] if one["decision"] == "accept"]
        assert accepted == best.labels[row][best.probability[row] >= np.float32(accept)].tolist()
    assert (now["accepted"] > 10) == (target > 0.1)
    said = next(one for one in answer["guarantees"] if one["kind"] == "wrong")
    percent = f"{100 * target:g} %"
    assert said["words"].startswith(
        f"In the long run, at most {percent} of all accepted labels of reviewed inputs"
    )
    assert (said["reached"], said["confidence"], said["refused"]) == (now["wrong"], None, None)


def test_state_that_an_older_version_stored_then_only_the_share_of_all_labels_begins_anew(
    deciding_model: Path, tmp_path: Path
) -> None:
    queue = tmp_path / "q.sqlite"
    service = Service(ServerSettings(deciding_model, queue, adapt=0.2))
    older = AdaptiveThreshold.of_wrong(_curve(service), 0.2).updated(1.0)
    state = {"model": service.slot.current.id, **older.to_dict()}
    service.close()
    connection = sqlite3.connect(queue)
    connection.execute("INSERT INTO state VALUES ('adaptive threshold', ?)", (json.dumps(state).encode(),))
    connection.commit()
    connection.close()
    service = Service(ServerSettings(deciding_model, queue, adapt=0.2))
    found = service.adaptation.describe(service.slot.current)
    service.close()
    assert (found["reviews"], found["labels"]["reviews"]) == (1, 0)


def test_wrong_labels_then_fewer_are_accepted_and_only_where_that_share_is_asked_for(
    open_client: Open, deciding_model: Path, tmp_path: Path
) -> None:
    client = adapting(open_client, deciding_model, tmp_path / "q.sqlite")
    before = accept_from(client)
    client.post("/queue", json={"texts": USUAL[:60]})
    review_all(client, right=False)
    assert accept_from(client) > before

    def accepted(share: float) -> list[float]:
        answers = ask(client, USUAL[60:], decide={"wrong_at_most": share, "wrong_of": "inputs"})
        labels = [one for answer in answers for result in answer["results"] for one in result["labels"]]
        return [one["probability"] for one in labels if one["decision"] == "accept"]

    assert min(accepted(0.2), default=math.inf) >= accept_from(client)
    (said,) = ask(client, USUAL[:1], decide={"wrong_at_most": 0.2, "wrong_of": "inputs"})[0]["guarantees"]
    assert said["words"].startswith("In the long run, at most 20 % of an input's accepted labels are wrong")
    assert "follows reviews, 60 of them" in said["words"]
    assert said["confidence"] is None
    (other,) = ask(client, USUAL[:1], decide={"wrong_at_most": 0.3, "wrong_of": "inputs"})[0]["guarantees"]
    assert "Learn then Test" in other["words"]
    plain = load(deciding_model).decide(USUAL[60:], wrong_at_most=0.3, wrong_of="inputs")
    assert sorted(accepted(0.3)) == pytest.approx(sorted(plain.probability[plain.decision == 2].tolist()))


def test_server_that_starts_again_then_goes_on_where_it_was(
    open_client: Open, deciding_model: Path, tmp_path: Path
) -> None:
    queue = tmp_path / "q.sqlite"
    client = adapting(open_client, deciding_model, queue)
    client.post("/queue", json={"texts": USUAL[:20]})
    review_all(client, right=False)
    before = client.get("/model").json()["adapted"]
    assert before["reviews"] == 20
    client.__exit__(None, None, None)
    client.__exit__ = lambda *args: None
    assert adapting(open_client, deciding_model, queue).get("/model").json()["adapted"] == before
    other = adapting(open_client, deciding_model, queue, target=0.1).get("/model").json()["adapted"]
    assert (other["target"], other["reviews"]) == (0.1, 0)


def test_review_that_is_changed_or_skipped_then_counts_once(
    open_client: Open, deciding_model: Path, tmp_path: Path
) -> None:
    client = adapting(open_client, deciding_model, tmp_path / "q.sqlite")
    first, second = client.post("/queue", json={"texts": USUAL[:2]}).json()["ids"]
    for labels in (["a"], ["b"]):
        client.post(f"/queue/{first}", json={"labels": labels, "state": "corrected"})
    client.post(f"/queue/{second}", json={"state": "skipped"})
    assert client.get("/model").json()["adapted"]["reviews"] == 1
    assert client.post("/queue/99", json={"labels": ["a"], "state": "corrected"}).status_code == 404


@pytest.mark.parametrize(
    "stored", [b"{", b"[]", b'{"model": "%s"}', b'{"model": "%s", "target": 0.2, "rate": 0.02, "level": 9}']
)
def test_stored_threshold_that_is_damaged_then_the_server_says_so(
    deciding_model: Path, tmp_path: Path, stored: bytes
) -> None:
    queue = tmp_path / "q.sqlite"
    service = Service(ServerSettings(deciding_model, queue, adapt=0.2))
    id, first = service.slot.current.id, service.adaptation
    assert first is not None
    state = {"model": id, **AdaptiveThreshold.of_wrong(_curve(service), 0.2).to_dict()}
    service.close()
    connection = sqlite3.connect(queue)
    connection.execute("INSERT INTO state VALUES ('adaptive threshold', ?)", (json.dumps(state).encode(),))
    connection.commit()
    Service(ServerSettings(deciding_model, queue, adapt=0.2)).close()
    damaged = stored.replace(b"%s", id.encode())
    if b"target" not in damaged and b"model" in damaged:
        damaged = json.dumps({**state, "rounds": -1}).encode()
    connection.execute("UPDATE state SET value = ?", (damaged,))
    connection.commit()
    connection.close()
    with pytest.raises(QueueError, match="--queue"):
        Service(ServerSettings(deciding_model, queue, adapt=0.2))


def _curve(service: Service) -> Any:
    return service.slot.current.model.policy.wrong["probability"]


def test_queue_of_an_older_version_then_gets_a_place_for_what_is_learned(tmp_path: Path) -> None:
    path = tmp_path / "q.sqlite"
    store = QueueStore(path)
    store.add([("a text", 0.5, {"labels": []})], "m")
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE state")
    connection.commit()
    connection.close()
    again = QueueStore(path)
    assert again.state("anything") is None
    assert again.decide(1, "confirmed", ["x"], learn=("n", lambda item: {"seen": item.text}))
    assert again.state("n") == {"seen": "a text"}
    again.close()


def test_learning_that_fails_then_the_review_is_not_stored(tmp_path: Path) -> None:
    store = QueueStore(tmp_path / "q.sqlite")
    store.add([("a text", 0.5, {"labels": []})], "m")

    def fails(item: Any) -> Any:
        raise RuntimeError("cannot learn")

    with pytest.raises(RuntimeError, match="cannot learn"):
        store.decide(1, "confirmed", ["x"], learn=("n", fails))
    assert store.counts().waiting == 1
    store.close()
