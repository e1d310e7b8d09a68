"""Broader terms over HTTP: those of the library."""

from __future__ import annotations

from pathlib import Path

import pytest
from broader_trees import a_vague_text, saved_tree_model, tree_records
from served_models import Open

from hedgerow import load
from hedgerow.serve.schemas import ModelInfo, PredictResponse

MEASURES = ("probability", "total", "data", "knowledge", "variance")


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_tree_model(tmp_path_factory.mktemp("trees"))


def test_broader_then_terms_and_labels_are_those_that_the_library_accepts(
    open_client: Open, trees: Path
) -> None:
    texts, _ = tree_records(40, 2)
    asked = {"texts": texts, "k": 2, "decide": {"wrong_at_most": 0.1, "broader": True}}
    answer = open_client(trees).post("/predict", json=asked)
    assert answer.status_code == 200, answer.text
    PredictResponse.model_validate(answer.json())
    own = load(trees).decide(texts, wrong_at_most=0.1, broader=True)
    assert len(own.broader.terms) > 5
    for row, result in enumerate(answer.json()["results"]):
        assert [one["label"] for one in result["broader"]] == own[row].broader
        assert [one["name"] for one in result["broader"]] == [f"{term}s" for term in own[row].broader]
        begin = own.broader.indptr[row]
        for place, one in enumerate(result["broader"], begin):
            assert [one[name] for name in MEASURES] == pytest.approx(
                [getattr(own.broader, name)[place] for name in MEASURES]
            )
        accepted = [one["label"] for one in result["labels"] if one["decision"] == "accept"]
        assert accepted == own[row].accept


def test_no_uncertainty_then_broader_terms_have_a_probability_only(open_client: Open, trees: Path) -> None:
    asked = {
        "text": a_vague_text(load(trees)),
        "uncertainty": False,
        "decide": {"wrong_at_most": 0.1, "broader": True},
    }
    (result,) = open_client(trees).post("/predict", json=asked).json()["results"]
    assert [set(one) for one in result["broader"]] == [{"label", "name", "probability"}]


def test_broader_not_asked_for_then_the_answer_has_none(open_client: Open, trees: Path) -> None:
    answer = open_client(trees).post("/predict", json={"text": "conifer", "decide": {"wrong_at_most": 0.1}})
    assert "broader" not in answer.json()["results"][0]


def test_model_says_whether_it_answers_broader_terms(
    open_client: Open, trees: Path, deciding_model: Path
) -> None:
    said = open_client(trees).get("/model").json()
    ModelInfo.model_validate(said)
    assert (said["broader"], said["hierarchy"], said["schemes"]) == (True, True, [])
    client = open_client(deciding_model)
    assert client.get("/model").json()["broader"] is False
    refused = client.post("/predict", json={"text": "a tree", "decide": {"broader": True}})
    assert refused.status_code == 422
    assert refused.json()["error"]["where"] == "decide.broader"
    assert "hedgerow calibrate --broader" in refused.json()["error"]["message"]


def test_broader_with_costs_then_it_is_refused(open_client: Open, trees: Path) -> None:
    costs = {"wrong": 1, "missed": 1, "look": 0.2}
    asked = {"text": "a tree", "decide": {"costs": costs, "broader": True}}
    answer = open_client(trees).post("/predict", json=asked)
    assert answer.status_code == 422
    assert "broader" in answer.json()["error"]["message"]
