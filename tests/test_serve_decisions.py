"""Decisions over HTTP: those of the library, and refusals where it cannot promise anything."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import Any

import pytest
from served_models import Open
from starlette.testclient import TestClient

from hedgerow import load
from hedgerow.decisions import DECISIONS, Costs
from hedgerow.sample import load_sample
from hedgerow.serve.schemas import ModelInfo

TEXTS = load_sample().test_texts[:40]
RECIPE = "Whisk the eggs with sugar, fold in the flour and bake the cake until golden."


@pytest.mark.parametrize(
    "wish",
    [
        {"risk": 0.1},
        {"risk": 0.25},
        {"risk": 0.45},
        {},
        {"costs": {"wrong": 1, "missed": 2, "look": 0.2}},
        {"costs": {"wrong": 3, "missed": 0.5, "look": 0.4}},
    ],
)
def test_decide_then_labels_are_sorted_as_the_library_sorts_them(
    open_client: Open, deciding_model: Path, wish: dict[str, Any]
) -> None:
    client = open_client(deciding_model)
    answer = client.post("/predict", json={"texts": TEXTS, "k": 30, "decide": wish})
    asked = {"costs": Costs(**wish["costs"])} if "costs" in wish else {"risk": wish.get("risk", 0.1)}
    own = load(deciding_model).decide(TEXTS, **asked, k=30)
    compared = set()
    for row, result in enumerate(answer.json()["results"]):
        place = slice(own.indptr[row], own.indptr[row + 1])
        names = own.labels[place].tolist()
        codes = dict(zip(names, own.decision[place].tolist(), strict=True))
        for label in result["labels"]:
            assert label["decision"] == DECISIONS[codes[label["label"]]]
            compared.add(label["decision"])
        assert result["unfamiliarity"]["outsider"] == own.outsider[row]
    assert len(compared) > 1


def test_explain_of_a_calibrated_model_then_its_votes_are_those_of_the_prediction(
    open_client: Open, deciding_model: Path
) -> None:
    client = open_client(deciding_model)
    for text in TEXTS[:5]:
        answer = client.post("/predict", json={"text": text, "k": 3, "votes": True}).json()
        for label in answer["results"][0]["labels"]:
            why = client.post("/explain", json={"text": text, "label": label["label"]}).json()
            assert why["votes"] == pytest.approx(label["votes"], abs=1e-5)
            assert why["probability"] == pytest.approx(label["probability"], abs=1e-5)


def test_false_alarm_then_it_sets_who_is_an_outsider(open_client: Open, deciding_model: Path) -> None:
    client = open_client(deciding_model)
    p_value = load(deciding_model).unfamiliarity([RECIPE]).p_value[0]
    for rate, outsider in ((p_value * 1.01, True), (p_value * 0.99, False)):
        body = {"text": RECIPE, "decide": {"risk": 0.2, "false_alarm": rate}}
        told = client.post("/predict", json=body).json()["results"][0]["unfamiliarity"]
        assert told["outsider"] is outsider


def test_policy_of_the_model_then_its_curves_decide_as_the_server_does(
    open_client: Open, deciding_model: Path
) -> None:
    client = open_client(deciding_model)
    info = ModelInfo.model_validate_json(client.get("/model").content)
    assert info.calibrated
    assert info.policy is not None
    policy = info.policy
    assert len(policy.risks) == len(policy.accept) == len(policy.reject)
    assert policy.risks == sorted(policy.risks)
    assert policy.guarantee
    for risk in (0.2, 0.3):
        place = bisect_left(policy.risks, risk)
        accept, reject = policy.accept[place], policy.reject[place]
        assert policy.risks[place] == risk
        assert reject is not None
        answer = client.post("/predict", json={"texts": TEXTS, "k": 20, "decide": {"risk": risk}}).json()
        for result in answer["results"]:
            for label in result["labels"]:
                p = label["probability"]
                expected = (
                    "accept" if accept is not None and p >= accept else "review" if p >= reject else "reject"
                )
                assert label["decision"] == expected
    known = [value for value in policy.reject if value is not None]
    bounds = [value for value in policy.accept if value is not None]
    assert bounds == sorted(bounds, reverse=True)
    assert known


def test_risk_that_cannot_be_promised_then_the_reason_is_told(
    open_client: Open, deciding_model: Path
) -> None:
    client = open_client(deciding_model)
    answer = client.post("/predict", json={"text": "a", "decide": {"risk": 0.0001}})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert (error["code"], error["where"]) == ("no_promise", "decide.risk")
    assert "0.0001" in error["message"]


@pytest.mark.parametrize(
    ("wish", "code"),
    [({"risk": 0.1}, "no_policy"), ({"costs": {"wrong": 1, "missed": 1, "look": 0.1}}, "not_calibrated")],
)
def test_model_that_has_not_learned_to_decide_then_it_says_how(
    client: TestClient, wish: dict[str, Any], code: str
) -> None:
    answer = client.post("/predict", json={"text": "a", "decide": wish})
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == code
    assert "hedgerow calibrate" in answer.json()["error"]["message"]
