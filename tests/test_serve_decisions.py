"""Decisions over HTTP: those of the library, and refusals where it cannot guarantee anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served_models import Open, a_text_model
from starlette.testclient import TestClient

from hedgerow import HedgerowTextClassifier, load
from hedgerow.data.sample import load_sample
from hedgerow.decisions.costs import Costs
from hedgerow.decisions.results import Decisions
from hedgerow.decisions.rules import DECISIONS
from hedgerow.estimators.held_out import learn_from_held_out
from hedgerow.model import Model
from hedgerow.serve.limits import Limits
from hedgerow.serve.model_slot import load_model
from hedgerow.serve.schemas import ModelInfo
from hedgerow.storage.container import ModelFileError, read_model, write_model

SAMPLE = load_sample()
TEXTS = SAMPLE.test_texts[:40]
EVERYTHING = {"costs": {"wrong": 1, "missed": 1e9, "look": 0}}  # is to be reviewed that can be true at all
RECIPE = "Whisk the eggs with sugar, fold in the flour and bake the cake until golden."


def asked_of(goal: dict[str, Any]) -> dict[str, Any]:
    """A goal of the API, as the library takes it."""
    return {"costs": Costs(**goal["costs"])} if "costs" in goal else goal


def kept_by(result: dict[str, Any]) -> dict[str, str]:
    """The labels of an answer that are not rejected."""
    return {one["label"]: one["decision"] for one in result["labels"] if one["decision"] != "reject"}


def kept_of(own: Decisions, row: int) -> dict[str, str]:
    """The same of a decision of the library."""
    return dict.fromkeys(own[row].accept, "accept") | dict.fromkeys(own[row].review, "review")


@pytest.mark.parametrize(
    "goal",
    [
        {"missed_at_most": 0.4},
        {"missed_at_most": 0.25, "wrong_at_most": 0.25},
        {"missed_at_most": 0.45, "wrong_at_most": 0.3, "wrong_of": "inputs"},
        {"wrong_at_most": 0.3, "wrong_of": "answered", "review_at_most": 5},
        {"missed_at_most": 0.3, "review_at_most": 20},
        {},
        {"costs": {"wrong": 1, "missed": 2, "look": 0.2}},
        {"costs": {"wrong": 3, "missed": 0.5, "look": 0.4}},
    ],
)
def test_decide_then_labels_are_sorted_as_the_library_sorts_them(
    open_client: Open, deciding_model: Path, goal: dict[str, Any]
) -> None:
    client = open_client(deciding_model)
    answer = client.post("/predict", json={"texts": TEXTS, "k": 30, "decide": goal})
    own = load(deciding_model).decide(TEXTS, **asked_of(goal), k=30)
    compared = set()
    for row, result in enumerate(answer.json()["results"]):
        place = slice(own.indptr[row], own.indptr[row + 1])
        names = own.labels[place].tolist()
        codes = dict(zip(names, own.decision[place].tolist(), strict=True))
        for label in result["labels"]:
            assert label["decision"] == DECISIONS[codes[label["label"]]]
            compared.add(label["decision"])
        assert result["ood"]["is_ood"] == own.is_ood[row]
    assert len(compared) > 1


@pytest.mark.parametrize("k", [1, 10])
@pytest.mark.parametrize(
    "goal",
    [{"missed_at_most": 0.05}, {"review_at_most": 7}, {"costs": {"wrong": 1, "missed": 5, "look": 0.1}}],
)
def test_decide_then_no_more_true_labels_are_lost_than_the_library_rejects(
    open_client: Open, deciding_model: Path, goal: dict[str, Any], k: int
) -> None:
    client = open_client(deciding_model)
    texts, truth = SAMPLE.test_texts, SAMPLE.test_labels
    own = load(deciding_model).decide(texts, **asked_of(goal), k=0)
    lost = rejected = 0
    for begin in range(0, len(texts), 200):
        body = {"texts": texts[begin : begin + 200], "k": k, "uncertainty": False, "decide": goal}
        for row, result in enumerate(client.post("/predict", json=body).json()["results"], begin):
            lost += len(set(truth[row]) - set(kept_by(result)))
            rejected += len(set(truth[row]) - {*own[row].accept, *own[row].review})
            assert kept_by(result) == kept_of(own, row)
            assert len(result["labels"]) == max(k, len(kept_by(result)))
    assert 0 < lost == rejected


def test_decide_then_the_numbers_are_those_of_the_model_and_of_an_answer_without_it(
    open_client: Open, deciding_model: Path
) -> None:
    client, model = open_client(deciding_model), load(deciding_model)
    body = {"texts": TEXTS, "k": 4, "votes": True}
    plain = client.post("/predict", json=body).json()["results"]
    decided = client.post("/predict", json=body | {"decide": {"missed_at_most": 0.1}}).json()["results"]
    votes = model.predict_votes(TEXTS)
    for row, (text, before, result) in enumerate(zip(TEXTS, plain, decided, strict=True)):
        labels = result["labels"]
        assert len(labels) > 4
        assert {**result, "labels": None} == {**before, "labels": None}
        without = [{name: value for name, value in one.items() if name != "decision"} for one in labels]
        assert without[:4] == before["labels"]
        best = model.predict_uncertain([text], k=len(labels))
        places = {label: place for place, label in enumerate(best.labels[0])}
        for one in labels:
            for name in ("probability", "total", "data", "knowledge", "variance"):
                assert np.float32(one[name]) == getattr(best, name)[0, places[one["label"]]]
            own = slice(votes.indptr[row], votes.indptr[row + 1])
            said = votes.probs[own][model.classes_[votes.labels[own]] == one["label"]]
            np.testing.assert_array_equal(np.float32([one["votes"]]), said)
        probabilities = [one["probability"] for one in labels[4:]]
        assert probabilities == sorted(probabilities, reverse=True)


def test_all_labels_to_review_then_all_that_the_search_finds_are_told(
    open_client: Open, deciding_model: Path
) -> None:
    answer = open_client(deciding_model).post("/predict", json={"texts": TEXTS, "k": 1, "decide": EVERYTHING})
    votes = load(deciding_model).predict_votes(TEXTS)
    possible = votes.mean() > 0
    for row, result in enumerate(answer.json()["results"]):
        names = votes.classes[possible[[row]].indices].tolist()
        assert sorted(kept_by(result)) == sorted(names)
        assert len(names) > 300


def test_search_that_finds_few_labels_then_what_it_does_not_find_is_rejected(
    open_client: Open, tmp_path: Path
) -> None:
    model = a_text_model().set_params(beam=1, leaf_size=8)
    model.fit(SAMPLE.train_texts[:600], SAMPLE.train_labels[:600])
    learn_from_held_out(model, SAMPLE.test_texts[100:], SAMPLE.test_labels[100:])
    model.save(tmp_path / "narrow.hedgerow")
    found = np.diff(model.predict_votes(TEXTS).indptr)
    assert found.max() < 100
    client = open_client(tmp_path / "narrow.hedgerow")
    for goal in ({"missed_at_most": 0.9}, EVERYTHING):
        answer = client.post("/predict", json={"texts": TEXTS, "k": 100, "decide": goal})
        own = model.decide(TEXTS, **asked_of(goal), k=0)
        for row, result in enumerate(answer.json()["results"]):
            assert kept_by(result) == kept_of(own, row)
            assert len(result["labels"]) >= 100


def test_groups_of_labels_that_are_calibrated_apart_then_labels_are_sorted_as_the_library_sorts_them(
    open_client: Open, tmp_path: Path
) -> None:
    model = a_text_model()
    learn_from_held_out(model, SAMPLE.test_texts[100:], SAMPLE.test_labels[100:], by="frequency")
    assert not model.calibration_.keeps_order
    model.save(tmp_path / "groups.hedgerow")
    client = open_client(tmp_path / "groups.hedgerow")
    for goal in ({"missed_at_most": 0.1}, {}, {"costs": {"wrong": 1, "missed": 5, "look": 0.1}}):
        answer = client.post("/predict", json={"texts": TEXTS, "k": 2, "decide": goal})
        own = model.decide(TEXTS, **asked_of(goal), k=0)
        for row, result in enumerate(answer.json()["results"]):
            assert kept_by(result) == kept_of(own, row)


def test_more_labels_than_an_answer_may_have_then_it_is_refused(
    open_client: Open, deciding_model: Path
) -> None:
    own = load(deciding_model).decide(TEXTS[:2], missed_at_most=0.1, k=0)
    most = len(own.labels)
    for limit, status in ((most, 200), (most - 1, 422)):
        client = open_client(deciding_model, limits=Limits(labels=limit))
        answer = client.post("/predict", json={"texts": TEXTS[:2], "decide": {"missed_at_most": 0.1}})
        assert answer.status_code == status
    assert answer.json()["error"]["code"] == "too_many"
    assert f"{most} labels" in answer.json()["error"]["message"]


@pytest.mark.parametrize("change", [{"beam": 1}, {"missing": "delta"}, {"candidates": 7}])
def test_search_that_the_policy_was_not_learned_with_then_it_is_refused_in_the_words_of_the_library(
    open_client: Open, deciding_model: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    model = load(deciding_model).set_params(**change)
    model.save(tmp_path / "changed.hedgerow")
    client = open_client(tmp_path / "changed.hedgerow")
    for goal in ({"missed_at_most": 0.2}, {"costs": {"wrong": 1, "missed": 2, "look": 0.2}}):
        with pytest.raises(ValueError, match="but the policy was learned with") as refused:
            model.decide(TEXTS[:1], **asked_of(goal))
        answer = client.post("/predict", json={"text": TEXTS[0], "decide": goal})
        assert answer.status_code == 422
        assert answer.json()["error"] == {
            "code": "other_search",
            "message": str(refused.value),
            "where": "decide",
        }
    assert client.get("/model").json()["policy"] is None
    assert client.post("/predict", json={"text": TEXTS[0]}).status_code == 200


def test_policy_that_can_guarantee_little_then_only_that_can_be_chosen(
    open_client: Open, tmp_path: Path
) -> None:
    model = a_text_model().learn_policy(SAMPLE.test_texts[100:103], SAMPLE.test_labels[100:103])
    model.save(tmp_path / "few.hedgerow")
    policy = open_client(tmp_path / "few.hedgerow").get("/model").json()["policy"]
    assert all(one["share"] > 0.4 for one in policy["wrong"])
    assert all(0 <= one["share"] < 0.6 for one in policy["review"])


def test_policy_of_an_older_release_then_nothing_is_offered(
    open_client: Open, deciding_model: Path, tmp_path: Path
) -> None:
    file = read_model(deciding_model)
    policy = {name: value for name, value in file.header["policy"].items() if name != "most"}
    kept = {n: a for n, a in file.sections.items() if n not in ("policy.given", "policy.ranks")}
    write_model(tmp_path / "old.hedgerow", kept, file.header | {"policy": policy})
    client = open_client(tmp_path / "old.hedgerow")
    assert client.get("/model").json()["policy"] is None
    refused = client.post("/predict", json={"text": "a", "decide": {}})
    assert refused.status_code == 422
    assert "run hedgerow calibrate again" in refused.json()["error"]["message"]
    asked = {"wrong_at_most": 0.3, "wrong_of": "inputs"}
    assert client.post("/predict", json={"text": "a", "decide": asked}).status_code == 200


@pytest.mark.parametrize("method", ["single", "bagging", "boosting", "boosted-bagging", "mc-dropout"])
@pytest.mark.parametrize("of", ["mean", "members"])
def test_explain_then_probability_and_votes_are_those_of_the_prediction(
    open_client: Open, tmp_path: Path, method: str, of: str
) -> None:
    model = HedgerowTextClassifier(method=method, members=3, n_jobs=1, random_state=0)
    model.fit(SAMPLE.train_texts[:300], SAMPLE.train_labels[:300])
    model.calibrate(SAMPLE.test_texts[100:], SAMPLE.test_labels[100:], of=of)
    model.save(tmp_path / "explained.hedgerow")
    client = open_client(tmp_path / "explained.hedgerow")
    answer = client.post("/predict", json={"text": TEXTS[0], "k": 40, "votes": True}).json()
    for label in answer["results"][0]["labels"][::8]:
        why = client.post("/explain", json={"text": TEXTS[0], "label": label["label"]})
        assert why.status_code == 200, why.text
        assert why.json()["votes"] == label["votes"]
        assert why.json()["probability"] == label["probability"]


def test_explain_of_a_label_that_the_search_does_not_find_then_its_votes_are_0(
    open_client: Open, tmp_path: Path
) -> None:
    model = HedgerowTextClassifier(n_jobs=1, random_state=0, beam=1, leaf_size=8)
    model.fit(SAMPLE.train_texts[:300], SAMPLE.train_labels[:300]).save(tmp_path / "narrow.hedgerow")
    candidates = model.classes_[model.predict_votes(TEXTS[:1]).labels]
    other = next(label for label in model.classes_ if label not in candidates)
    why = open_client(tmp_path / "narrow.hedgerow").post("/explain", json={"text": TEXTS[0], "label": other})
    assert (why.json()["probability"], why.json()["votes"]) == (0, [0])
    assert why.json()["speaks_for"]


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


def test_false_alarm_then_it_sets_what_is_out_of_distribution(
    open_client: Open, deciding_model: Path
) -> None:
    client = open_client(deciding_model)
    p_value = load(deciding_model).ood_scores([RECIPE]).p_value[0]
    for rate, is_ood in ((p_value * 1.01, True), (p_value * 0.99, False)):
        body = {"text": RECIPE, "decide": {"missed_at_most": 0.2, "false_alarm": rate}}
        told = client.post("/predict", json=body).json()["results"][0]["ood"]
        assert told["is_ood"] is is_ood


def test_policy_of_the_model_then_its_choices_decide_as_the_server_does(
    open_client: Open, deciding_model: Path
) -> None:
    client = open_client(deciding_model)
    info = ModelInfo.model_validate_json(client.get("/model").content)
    assert info.calibrated
    assert info.policy is not None
    policy = info.policy
    shares = [one.share for one in policy.wrong]
    assert shares == sorted(shares)
    assert policy.limits.startswith("This holds for inputs like the ")
    for wrong in policy.wrong[9::10]:
        for review in policy.review[:2]:
            goal = {"wrong_at_most": wrong.share, "review_at_most": review.labels}
            answer = client.post("/predict", json={"texts": TEXTS, "k": 30, "decide": goal}).json()
            assert [of["words"] for of in answer["guarantees"]] == [wrong.words, review.words]
            assert answer["guarantees"][1]["promised"] == review.share
            for result in answer["results"]:
                for rank, label in enumerate(result["labels"]):
                    least = wrong.accept_from
                    if least is not None and rank < policy.most and np.float32(label["probability"]) >= least:
                        expected = "accept"
                    else:
                        expected = "review" if rank < review.labels else "reject"
                    assert label["decision"] == expected
    bounds = [one.accept_from for one in policy.wrong if one.accept_from is not None]
    assert bounds


def test_goals_of_which_one_cannot_be_kept_then_the_other_is_and_the_reason_is_said(
    open_client: Open, deciding_model: Path
) -> None:
    goal = {"missed_at_most": 0.0001, "review_at_most": 3}
    answer = open_client(deciding_model).post("/predict", json={"text": TEXTS[0], "decide": goal}).json()
    missed, review = answer["guarantees"]
    assert missed["promised"] is None
    assert missed["refused"] in missed["words"]
    assert (review["refused"], review["asked"]) == (None, 3)
    assert len(kept_by(answer["results"][0])) == 3


def test_goal_that_cannot_be_guaranteed_then_the_reason_is_said(
    open_client: Open, deciding_model: Path
) -> None:
    client = open_client(deciding_model)
    answer = client.post("/predict", json={"text": "a", "decide": {"missed_at_most": 0.0001}})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert (error["code"], error["where"]) == ("no_guarantee", "decide")
    assert "0.0001" in error["message"]


@pytest.mark.parametrize(
    ("goal", "code"),
    [
        ({"wrong_at_most": 0.1}, "no_policy"),
        ({"costs": {"wrong": 1, "missed": 1, "look": 0.1}}, "not_calibrated"),
    ],
)
def test_model_that_has_not_learned_to_decide_then_it_says_how(
    client: TestClient, goal: dict[str, Any], code: str
) -> None:
    answer = client.post("/predict", json={"text": "a", "decide": goal})
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == code
    assert "hedgerow calibrate" in answer.json()["error"]["message"]


# --- a model file that is sound, but not its policy ---


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tolerance", "abc"),
        ("tolerance", 7),
        ("tolerance", -0.1),
        ("tolerance", True),
        ("beam", 0),
        ("beam", "wide"),
        ("beam", None),
        ("candidates", "some"),
        ("candidates", 0),
        ("candidates", True),
        ("missing", "nothing"),
        ("missing", 1),
    ],
)
def test_reload_of_a_policy_with_an_odd_search_then_the_model_stays(
    open_client: Open, deciding_model: Path, tmp_path: Path, name: str, value: Any
) -> None:
    served = tmp_path / "served.hedgerow"
    served.write_bytes(deciding_model.read_bytes())
    client = open_client(served)
    file = read_model(deciding_model)
    search = file.header["policy"]["search"] | {name: value}
    header = file.header | {"policy": file.header["policy"] | {"search": search}}
    write_model(served, file.sections, header, overwrite=True)
    answer = client.post("/reload")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_model")
    assert client.post("/predict", json={"text": "a", "decide": {"missed_at_most": 0.2}}).status_code == 200


@pytest.mark.parametrize("search", [{"tolerance": 0.1}, {"tolerance": 0}, {"candidates": 5}])
def test_reload_of_a_policy_of_another_sound_search_then_it_is_taken(
    open_client: Open, deciding_model: Path, tmp_path: Path, search: dict[str, Any]
) -> None:
    served = tmp_path / "served.hedgerow"
    file = read_model(deciding_model)
    policy = file.header["policy"]
    write_model(
        served, file.sections, file.header | {"policy": policy | {"search": policy["search"] | search}}
    )
    assert open_client(served).post("/predict", json={"text": "a"}).status_code == 200


@pytest.mark.parametrize("kind", ["feature_model", "deciding_model"])
def test_model_that_fails_to_decide_or_to_vote_then_it_is_no_model_to_serve(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise IndexError("beyond the end")

    monkeypatch.setattr(Model, "answer", fail)
    with pytest.raises(ModelFileError, match=r"cannot answer: beyond the end"):
        load_model(request.getfixturevalue(kind), 1)


def test_model_that_keeps_more_labels_than_are_told_at_once_then_it_is_served(
    deciding_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Limits, "labels", 1)
    assert load_model(deciding_model, 1).choices is not None


@pytest.mark.parametrize("k", [1, 10, 50])
@pytest.mark.parametrize("goal", [None, {}, {"missed_at_most": 0.3}], ids=str)
def test_decide_then_each_answer_has_the_expected_quality_of_the_library(
    open_client: Open, deciding_model: Path, k: int, goal: dict[str, Any] | None
) -> None:
    asked = {} if goal is None else {"decide": goal}
    results = open_client(deciding_model).post("/predict", json={"texts": TEXTS, "k": k, **asked}).json()
    expected = load(deciding_model).expected_quality(TEXTS)
    for row, result in enumerate(results["results"]):
        of_row = {name: values[row] for name, values in expected.columns().items()}
        assert result["quality"] == {"k": 5, "confidence": 0.9, **of_row}


# --- all inputs of a request together ---


@pytest.mark.parametrize("objective", ["macro-f1@2", "macro-recall@5", "macro-f1@12", "macro-precision@60"])
@pytest.mark.parametrize("k", [1, 10])
def test_optimise_then_labels_are_accepted_as_the_library_chooses_them_for_the_request(
    open_client: Open, deciding_model: Path, objective: str, k: int
) -> None:
    body = {"texts": TEXTS, "k": k, "decide": {"optimise": objective}}
    answer = open_client(deciding_model).post("/predict", json=body).json()
    own = load(deciding_model).decide(TEXTS, optimise=objective, k=0)
    for row, result in enumerate(answer["results"]):
        assert kept_by(result) == kept_of(own, row)
        assert len(kept_by(result)) == int(objective.split("@")[1])
        assert result["ood"]["is_ood"] == own.is_ood[row]
        assert result["quality"]["precision"] == own.quality.precision[row]
    assert answer["guarantees"] == []
    (remark,) = answer["remarks"]
    assert f"chosen for the 40 inputs together so that the expected {objective} is high" in remark
    assert "nothing is guaranteed" in remark


def test_optimise_among_some_labels_then_only_they_are_accepted(
    open_client: Open, deciding_model: Path
) -> None:
    model = load(deciding_model)
    only = model.classes_[:30].tolist()
    body = {"texts": TEXTS, "k": 3, "only": only, "decide": {"optimise": "macro-f1@3"}}
    answer = open_client(deciding_model).post("/predict", json=body).json()
    own = model.decide(TEXTS, optimise="macro-f1@3", only=only, k=0)
    for row, result in enumerate(answer["results"]):
        assert kept_by(result) == kept_of(own, row)


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"text": TEXTS[0], "decide": {"optimise": "macro-f1@5"}}, "one_input", "this is one input"),
        ({"texts": TEXTS[:1], "decide": {"optimise": "macro-f1@5"}}, "one_input", "send several"),
        ({"texts": TEXTS, "decide": {"optimise": "accuracy"}}, "invalid", "macro-recall@5"),
        ({"texts": TEXTS, "decide": {"optimise": "macro-f1@9999"}}, "invalid", "9999 labels of an input"),
        (
            {"texts": TEXTS, "decide": {"optimise": "macro-f1@5", "wrong_at_most": 0.1, "broader": True}},
            "invalid",
            "leave out wrong_at_most, broader",
        ),
    ],
)
def test_optimise_where_it_makes_no_sense_then_the_refusal_says_why(
    open_client: Open, deciding_model: Path, body: dict[str, Any], code: str, words: str
) -> None:
    answer = open_client(deciding_model).post("/predict", json=body)
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert (error["code"], error["where"]) == (code, "decide.optimise")
    assert words in error["message"]


def test_optimise_by_a_model_that_is_not_calibrated_then_it_is_refused(open_client: Open) -> None:
    answer = open_client().post("/predict", json={"texts": TEXTS, "decide": {"optimise": "macro-f1@5"}})
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "not_calibrated"
    assert "hedgerow calibrate" in answer.json()["error"]["message"]
