"""Records of several texts over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from served_models import Open
from starlette.testclient import TestClient
from test_fields import NEW, fitted
from test_serve_predict import refusal

from hedgerow import load
from hedgerow.serve.limits import Limits
from hedgerow.serve.schemas import Explanation, ModelInfo, PredictResponse, Queue


@pytest.fixture(scope="module")
def field_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fields") / "m.hedgerow"
    fitted(language="en").save(path)
    return path


@pytest.fixture
def records(open_client: Open, field_model: Path) -> TestClient:
    return open_client(field_model)


def test_records_are_predicted_as_the_model_does(records: TestClient, field_model: Path) -> None:
    answer = records.post("/predict", json={"texts": NEW[:5], "k": 3})
    found = PredictResponse.model_validate_json(answer.content)
    best = load(field_model).top(NEW[:5], k=3)
    assert [[one.label for one in result.labels] for result in found.results] == best.labels.tolist()
    alone = records.post("/predict", json={"text": NEW[0], "k": 3}).json()["results"][0]
    assert alone == answer.json()["results"][0]


def test_text_alone_is_the_last_field(records: TestClient) -> None:
    alone, named = (
        records.post("/predict", json={"text": text}).json()
        for text in ("a music player", {"abstract": "a music player"})
    )
    assert alone == named


def test_model_tells_its_fields(records: TestClient, open_client: Open) -> None:
    assert ModelInfo.model_validate_json(records.get("/model").content).fields == ["title", "abstract"]
    assert open_client().get("/model").json()["fields"] is None


def test_unknown_fields_are_refused(records: TestClient, open_client: Open) -> None:
    error = refusal(records.post("/predict", json={"texts": ["a", {"heading": "b"}]}), 422)
    assert (error["code"], error["where"]) == ("fields", "texts.1")
    assert "title, abstract" in error["message"]
    error = refusal(open_client().post("/predict", json={"text": {"title": "a"}}), 422)
    assert (error["code"], error["where"]) == ("fields", "text")


@pytest.mark.parametrize("text", [{}, {"title": 3}, {"title": None}, ["a"], 3])
def test_what_is_no_text_is_refused(text: object, records: TestClient) -> None:
    refusal(records.post("/predict", json={"text": text}), 422)


def test_texts_of_a_record_are_limited_together(open_client: Open, field_model: Path) -> None:
    client = open_client(field_model, limits=Limits(text=10))
    assert client.post("/predict", json={"text": {"title": "a" * 5, "abstract": "b" * 5}}).status_code == 200
    error = refusal(client.post("/predict", json={"text": {"title": "a" * 6, "abstract": "b" * 5}}), 422)
    assert error["code"] == "too_long"


def test_explanation_names_fields(records: TestClient) -> None:
    label = records.post("/predict", json={"text": NEW[0], "k": 1}).json()["results"][0]["labels"][0]["label"]
    answer = records.post("/explain", json={"text": NEW[0], "label": label})
    found = Explanation.model_validate_json(answer.content)
    effects = found.speaks_for + found.speaks_against
    assert effects
    assert {one.field for one in effects} <= {"title", "abstract"}


def test_records_wait_for_review_and_are_exported_as_they_came(records: TestClient) -> None:
    ids = records.post("/queue", json={"texts": [NEW[0], "a text alone", dict(reversed(NEW[0].items()))]})
    first, second, third = ids.json()["ids"]
    assert first == third != second
    waiting = Queue.model_validate_json(records.get("/queue").content).items
    assert {one.id: one.text for one in waiting} == {first: NEW[0], second: "a text alone"}
    for number in (first, second):
        records.post(f"/queue/{number}", json={"state": "corrected", "labels": ["a"]})
    lines = [json.loads(line) for line in records.get("/queue/export").text.splitlines()]
    assert lines == [{**NEW[0], "labels": ["a"]}, {"text": "a text alone", "labels": ["a"]}]
