"""Predictions over HTTP: what the model says, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from served_models import MEMBERS, WIDTH, Open
from starlette.testclient import TestClient

from hedgerow import UncertainLabels, explain, label_uncertainty, load
from hedgerow.data.sample import load_sample
from hedgerow.serve.limits import Limits
from hedgerow.serve.schemas import Explanation, Labels, ModelInfo, PredictResponse

TEXTS = load_sample().test_texts[60:70]
MEASURES = ("probability", "total", "data", "knowledge", "variance")


def refusal(answer: Any, status: int) -> dict[str, str]:
    """The error of an answer, which has nothing else."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    assert set(found) == {"error"}
    assert set(found["error"]) <= {"code", "message", "where"}
    return dict(found["error"])


def test_ids_of_inputs_then_they_come_back_with_their_answers(client: TestClient) -> None:
    def told(**body: Any) -> list[Any]:
        answer = client.post("/predict", json={"k": 1, **body})
        PredictResponse.model_validate_json(answer.content)
        return [result.get("id", "none sent") for result in answer.json()["results"]]

    assert told(text="a", id="x") == ["x"]
    assert told(text="a", id=7) == ["7"]
    assert told(text="a") == ["none sent"]
    assert told(texts=["a", "b"], ids=["x", None]) == ["x", None]
    assert told(texts=["a", "b"]) == ["none sent"] * 2
    error = refusal(client.post("/predict", json={"texts": ["a", "b"], "ids": ["x"]}), 422)
    assert (error["where"], "1 ids for 2 inputs" in error["message"]) == ("ids", True)
    assert refusal(client.post("/predict", json={"text": "a", "id": ""}), 422)["where"].startswith("id")
    assert refusal(client.post("/predict", json={"text": "a", "ids": ["x"]}), 422)["where"] == "ids"


def test_predict_of_texts_then_the_numbers_are_those_of_the_model(
    client: TestClient, text_model: Path
) -> None:
    answer = client.post("/predict", json={"texts": TEXTS, "k": 4})
    found = PredictResponse.model_validate_json(answer.content)
    model = load(text_model)
    best = UncertainLabels.from_votes(model.predict_votes(TEXTS), 4)
    ranked = model.predict_uncertain(TEXTS, k=4)  # without votes in between, so the last bit may differ
    assert best.labels.tolist() == ranked.labels.tolist()
    assert [[label.label for label in result.labels] for result in found.results] == best.labels.tolist()
    for name in MEASURES:
        told = [[getattr(label, name) for label in result.labels] for result in found.results]
        np.testing.assert_array_equal(np.array(told, dtype=np.float32), getattr(best, name))
        np.testing.assert_allclose(told, getattr(ranked, name), rtol=1e-5, atol=1e-6)
    for name in ("expected", "total", "data", "knowledge", "variance"):
        told = [getattr(result.input, name) for result in found.results]
        np.testing.assert_array_equal(np.array(told, dtype=np.float32), getattr(best.instance, name))
        np.testing.assert_allclose(told, getattr(ranked.instance, name), rtol=1e-5, atol=1e-6)


def test_predict_of_one_text_then_it_is_the_same_as_among_several(client: TestClient) -> None:
    together = client.post("/predict", json={"texts": TEXTS, "votes": True}).json()["results"]
    alone = [client.post("/predict", json={"text": text, "votes": True}).json() for text in TEXTS]
    assert [one["results"][0] for one in alone] == together


def test_predict_with_votes_then_they_are_the_members_own(client: TestClient, text_model: Path) -> None:
    found = client.post("/predict", json={"texts": TEXTS, "votes": True, "k": 6}).json()
    model = load(text_model)
    for result, votes in zip(found["results"], (model.predict_votes([text]) for text in TEXTS), strict=True):
        names = model.classes_[votes.labels].tolist()
        measures = label_uncertainty(votes)
        for label in result["labels"]:
            place = names.index(label["label"])
            np.testing.assert_array_equal(np.array(label["votes"], np.float32), votes.probs[place])
            assert label["knowledge"] == pytest.approx(measures.knowledge[place], abs=1e-5)
            assert len(label["votes"]) == MEMBERS


def test_predict_without_uncertainty_then_labels_have_probabilities_only(
    client: TestClient, text_model: Path
) -> None:
    result = client.post("/predict", json={"text": TEXTS[0], "uncertainty": False, "k": 3}).json()["results"][
        0
    ]
    assert set(result) == {"labels"}
    assert all(set(label) == {"label", "probability"} for label in result["labels"])
    assert [label["label"] for label in result["labels"]] == load(text_model).top(TEXTS[:1], 3).labels[
        0
    ].tolist()


def test_predict_of_an_ood_text_then_it_is_flagged_at_the_rate_asked_for(
    client: TestClient, text_model: Path
) -> None:
    recipe = "Whisk the eggs with sugar, fold in the flour and bake the cake until golden."
    p_value = load(text_model).ood_scores([recipe]).p_value[0]
    assert p_value < 0.1
    told = client.post("/predict", json={"text": recipe}).json()["results"][0]["ood"]
    assert told["p_value"] == p_value
    assert told["is_ood"] == (p_value <= 0.05)


def test_predict_of_features_then_the_numbers_are_those_of_the_model(
    open_client: Open, feature_model: Path
) -> None:
    rows = [{"indices": [7, 2, 30], "values": [1.5, 0.5, -2]}, {"indices": [], "values": []}]
    answer = open_client(feature_model).post("/predict", json={"features": rows, "k": 5})
    dense = np.zeros((2, WIDTH), dtype=np.float32)
    dense[0, [7, 2, 30]] = [1.5, 0.5, -2]
    best = load(feature_model).predict_uncertain(sp.csr_array(dense), k=5)
    found = answer.json()["results"]
    assert [[label["label"] for label in result["labels"]] for result in found] == best.labels.tolist()
    told = [[label["probability"] for label in result["labels"]] for result in found]
    np.testing.assert_array_equal(np.array(told, dtype=np.float32), best.probability)
    assert found[0]["ood"] is None


def test_k_beyond_the_labels_then_all_are_told(open_client: Open, feature_model: Path) -> None:
    rows = [{"indices": [1], "values": [1.0]}]
    answer = open_client(feature_model).post("/predict", json={"features": rows, "k": 1000})
    assert len(answer.json()["results"][0]["labels"]) == load(feature_model).model_.forest.known


@pytest.mark.parametrize(
    ("row", "where"),
    [
        ({"indices": [1, 2], "values": [1.0]}, "features.0"),
        ({"indices": [WIDTH], "values": [1.0]}, "features.0.indices"),
        ({"indices": [3, 3], "values": [1.0, 2.0]}, "features.0.indices"),
        ({"indices": [-1], "values": [1.0]}, "features.0.indices.0"),
        ({"indices": [1], "values": [1e39]}, "features.0.values.0"),
        ({"indices": [10**30], "values": [1.0]}, "features.0.indices.0"),
        ({"indices": [True], "values": [1.0]}, "features.0.indices.0"),
    ],
)
def test_features_that_are_not_sound_then_the_refusal_says_where(
    open_client: Open, feature_model: Path, row: dict[str, Any], where: str
) -> None:
    error = refusal(open_client(feature_model).post("/predict", json={"features": [row]}), 422)
    assert error["where"] == where


def test_kind_of_input_that_the_model_does_not_read_then_it_says_what_it_reads(
    client: TestClient, open_client: Open, feature_model: Path
) -> None:
    rows = [{"indices": [1], "values": [1.0]}]
    assert "reads texts" in refusal(client.post("/predict", json={"features": rows}), 422)["message"]
    other = open_client(feature_model)
    for path, body in (
        ("/predict", {"text": "a"}),
        ("/queue", {"texts": ["a"]}),
        ("/explain", {"text": "a", "label": 1}),
    ):
        assert "reads features" in refusal(other.post(path, json=body), 422)["message"]
    assert other.get("/examples").json() == {"examples": []}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b'{"text": "a", "texts": ["b"]}',
        b'{"text": null}',
        b'{"text": 1}',
        b'{"texts": []}',
        b'{"texts": "a"}',
        b'{"text": "a", "k": 0}',
        b'{"text": "a", "k": 1.5}',
        b'{"text": "a", "k": "5"}',
        b'{"text": "a", "k": true}',
        b'{"text": "a", "k": 100000000000000000000000000000000}',
        b'{"text": "a", "k": 1001}',
        b'{"text": "a", "uncertainty": 1}',
        b'{"text": "a", "more": 1}',
        b'{"text": "a", "k": NaN}',
        b'{"text": "\\ud800"}',
        b'{"text": "\xff\xfe"}',
        b'{"text": "a", "decide": {"wrong_at_most": 0}}',
        b'{"text": "a", "decide": {"missed_at_most": 1e400}}',
        b'{"text": "a", "decide": {"wrong_at_most": 5e-324}}',
        b'{"text": "a", "decide": {"review_at_most": 10, "false_alarm": 1}}',
        b'{"text": "a", "decide": {"review_at_most": 10, "costs": {"wrong": 1, "missed": 1, "look": 1}}}',
        b'{"text": "a", "decide": {"costs": {"wrong": -1, "missed": 1, "look": 1}}}',
        b'{"features": [{"indices": [1], "values": [Infinity]}]}',
        b"[" * 100_000,
        b'{"text":' * 100_000,
        b'{"text": "a", "k": ' + b"9" * 10_000 + b"}",
    ],
    ids=lambda body: body[:40].decode("latin-1"),
)
def test_body_that_is_not_valid_then_it_is_refused_with_a_reason(client: TestClient, body: bytes) -> None:
    answer = client.post("/predict", content=body, headers={"Content-Type": "application/json"})
    assert refusal(answer, 422)["message"]


def test_refusal_then_the_reason_does_not_repeat_what_was_sent(client: TestClient) -> None:
    answer = client.post("/predict", json={"text": {"secret": "swordfish"}})
    assert refusal(answer, 422)["where"] == "text"
    assert "swordfish" not in answer.text


def test_odd_texts_then_they_are_predicted(client: TestClient) -> None:
    texts = ["", " ", "\x00", "\u202eevil", "👩‍👩‍👧", "<script>alert(1)</script>", "a" * 99_000, "字" * 9_000]
    answer = client.post("/predict", json={"texts": texts, "votes": True})
    assert len(PredictResponse.model_validate_json(answer.content).results) == len(texts)


def test_limits_then_what_is_beyond_is_refused(open_client: Open) -> None:
    client = open_client(limits=Limits(body=2000, batch=2, text=10, k=3))
    assert client.post("/predict", json={"text": "a" * 10, "k": 3}).status_code == 200
    assert refusal(client.post("/predict", json={"text": "a" * 11}), 422)["where"] == "text"
    assert refusal(client.post("/predict", json={"texts": ["a", "a" * 11]}), 422)["where"] == "texts.1"
    assert refusal(client.post("/predict", json={"texts": ["a"] * 3}), 422)["code"] == "too_many"
    assert refusal(client.post("/predict", json={"text": "a", "k": 4}), 422)["where"] == "k"
    assert refusal(client.post("/explain", json={"text": "a" * 11, "label": "x"}), 422)["where"] == "text"
    assert refusal(client.post("/predict", json={"text": "a" * 3000}), 413)["code"] == "too_large"
    pieces = (b"x" * 1000 for _ in range(100))  # without a declared length
    answer = client.post("/predict", content=pieces, headers={"Content-Type": "application/json"})
    assert refusal(answer, 413)["code"] == "too_large"


def test_body_of_another_kind_then_415(client: TestClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        answer = client.post("/predict", content=b'{"text": "a"}', headers={"Content-Type": kind})
        assert refusal(answer, 415)["code"] == "media_type"
    plain = client.post("/predict", content=b'{"text": "a"}')
    assert refusal(plain, 415)["code"] == "media_type"
    charset = {"Content-Type": "application/json; charset=utf-8"}
    assert client.post("/predict", content=b'{"text": "a"}', headers=charset).status_code == 200


def test_unknown_page_or_method_then_404_and_405(client: TestClient) -> None:
    assert refusal(client.get("/nothing/<b>"), 404)["code"] == "not_found"
    answer = client.get("/predict")
    assert refusal(answer, 405)["code"] == "method"
    assert answer.headers["allow"] == "POST"
    for page in ("/docs", "/redoc"):  # they would load scripts from elsewhere
        refusal(client.get(page), 404)


def test_explain_then_the_words_are_those_of_the_library(client: TestClient, text_model: Path) -> None:
    model = load(text_model)
    label = model.top(TEXTS[:1], 1).labels[0, 0]
    answer = client.post("/explain", json={"text": TEXTS[0], "label": label, "top": 4})
    found = Explanation.model_validate_json(answer.content)
    why = explain(model, TEXTS[0], label)
    assert found.probability == pytest.approx(why.probability, abs=1e-6)
    assert found.votes == pytest.approx(why.votes.tolist(), abs=1e-6)
    for told, own in ((found.speaks_for, why.for_(4)), (found.speaks_against, why.against(4))):
        assert [(one.word, one.effect, one.disagreement) for one in told] == [
            (one.feature, one.effect, one.disagreement) for one in own
        ]


@pytest.mark.parametrize("label", ["no such label", 3, ""])
def test_explain_of_an_unknown_label_then_it_is_refused(client: TestClient, label: object) -> None:
    assert refusal(client.post("/explain", json={"text": "a", "label": label}), 422)["where"] == "label"


def test_labels_then_those_that_begin_with_the_query_come_first(client: TestClient, text_model: Path) -> None:
    model = load(text_model)
    names = model.classes_.tolist()
    counts = dict(zip(names, model.label_counts_.tolist(), strict=True))
    found = Labels.model_validate_json(client.get("/labels", params={"query": "GAME", "limit": 1000}).content)
    told = [one.label for one in found.labels]
    assert set(told) == {name for name in names if "game" in name.lower()}
    assert found.total == len(told)
    ranks = [(not name.startswith("game"), -counts[name], name) for name in told]
    assert ranks == sorted(ranks)
    assert [one.count for one in found.labels] == [counts[name] for name in told]
    everything = client.get("/labels").json()
    assert everything["total"] == len(names)
    assert len(everything["labels"]) == 50
    page = client.get("/labels", params={"offset": 3, "limit": 4}).json()["labels"]
    assert page == everything["labels"][3:7]
    assert client.get("/labels", params={"offset": 10**6}).json()["labels"] == []


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "offset=-1", "offset=x", "offset=99999999999", "more=1", "limit=1e2"]
)
def test_labels_with_bad_parameters_then_they_are_refused(client: TestClient, query: str) -> None:
    refusal(client.get(f"/labels?{query}"), 422)


def test_model_then_it_tells_what_it_is(client: TestClient, text_model: Path) -> None:
    found = ModelInfo.model_validate_json(client.get("/model").content)
    described = load(text_model).describe()
    assert (found.labels, found.members, found.method) == (
        described["labels"],
        described["members"],
        described["method"],
    )
    assert (found.texts, found.calibrated, found.detects_ood, found.policy) == (True, False, True, None)
    assert client.post("/predict", json={"text": "a"}).json()["model"] == found.id


def test_examples_then_they_are_of_the_sample_and_one_is_out_of_distribution(client: TestClient) -> None:
    found = client.get("/examples").json()["examples"]
    sample = set(load_sample().test_texts)
    assert [one["text"] in sample for one in found] == [True] * (len(found) - 1) + [False]
    assert all(one["about"] for one in found)


def test_description_then_it_has_limits_and_valid_examples(open_client: Open) -> None:
    description = open_client(limits=Limits(text=77, batch=5, k=9)).get("/openapi.json").json()
    schemas = description["components"]["schemas"]
    text, record = schemas["TextRequest"]["properties"]["text"]["anyOf"]
    assert (text["maxLength"], record["additionalProperties"]["maxLength"]) == (77, 77)
    assert schemas["TextsRequest"]["properties"]["texts"]["maxItems"] == 5
    assert schemas["FeaturesRequest"]["properties"]["k"]["maximum"] == 9
    assert all(
        "examples" in schemas[name]
        for name in ("TextRequest", "TextsRequest", "FeaturesRequest", "PredictResponse", "Review", "Queue")
    )
    assert "HTTPValidationError" not in schemas
    assert "traceback" not in json.dumps(description).lower()
