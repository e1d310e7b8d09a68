"""Names of labels over HTTP: beside labels, in searches and in the queue; and what chooses labels."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from served_models import WIDTH, Open
from starlette.testclient import TestClient
from test_serve_predict import TEXTS, refusal
from vocabularies import made

import hedgerow
from hedgerow import Vocabulary
from hedgerow.data import read_part
from hedgerow.serve.schemas import Explanation, Labels, ModelInfo, PredictResponse, Queue

MARKUP = "<img src=x onerror=alert(1)>"


def vocabulary(labels: list[str]) -> Vocabulary:
    """Every second label has two names; the first is broader than the others; one entry is no label."""
    named = [
        {
            "id": label,
            "names": [(f"Der Name {label[-4:]} {n}", "de", True), (f"{MARKUP} {n}", "en", True)],
            "broader": [labels[0]] if n else [],
        }
        for n, label in enumerate(labels[::2])
    ]
    new = {"id": "new::holly", "names": [("Stechpalme", "de", True), ("Common holly", "en", True)]}
    return made(*named, new)


@pytest.fixture(scope="module")
def labels(text_model: Path) -> list[str]:
    return hedgerow.load(text_model).classes_.tolist()


def german(labels: list[str]) -> dict[str, str]:
    return {label: f"Der Name {label[-4:]} {n}" for n, label in enumerate(labels[::2])}


def english(labels: list[str]) -> dict[str, str]:
    return {label: f"{MARKUP} {n}" for n, label in enumerate(labels[::2])}


@pytest.fixture(scope="module")
def named_model(text_model: Path, labels: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The text model with a vocabulary."""
    path = tmp_path_factory.mktemp("named") / "named.hedgerow"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hedgerow.VocabularyWarning)
        hedgerow.load(text_model).set_vocabulary(vocabulary(labels)).save(path)
    return path


@pytest.fixture
def named(open_client: Open, named_model: Path) -> TestClient:
    return open_client(named_model)


def stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: stripped(of) for key, of in value.items() if key not in ("name", "model")}
    return [stripped(of) for of in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("lang", "names"), [({}, german), ({"lang": "EN"}, english), ({"lang": "fr"}, german)]
)
def test_predict_has_the_name_beside_the_label(
    named: TestClient,
    client: TestClient,
    labels: list[str],
    lang: dict[str, str],
    names: Callable[[list[str]], dict[str, str]],
) -> None:
    asked = {"texts": TEXTS[:4], "k": 400, "votes": True}  # more than are named at once
    answer = named.post("/predict", json=asked | lang)
    PredictResponse.model_validate_json(answer.content)
    listed = [one for result in answer.json()["results"] for one in result["labels"]]
    assert len(listed) > 500
    expected = names(labels)
    assert all(list(one)[:2] == ["label", "name"] for one in listed)
    assert [one["name"] for one in listed] == [expected.get(one["label"]) for one in listed]
    plain = client.post("/predict", json=asked | lang)
    assert b'"name"' not in plain.content
    assert stripped(plain.json()) == stripped(answer.json())


def test_model_says_its_languages(named: TestClient, client: TestClient) -> None:
    assert ModelInfo.model_validate_json(named.get("/model").content).languages == ["de", "en"]
    assert client.get("/model").json()["languages"] is None


def test_explain_has_the_name(named: TestClient, labels: list[str]) -> None:
    for label in labels[:2]:
        for lang, names in (({}, german(labels)), ({"lang": "en"}, english(labels))):
            answer = named.post("/explain", json={"text": TEXTS[0], "label": label, **lang})
            assert Explanation.model_validate_json(answer.content).name == names.get(label)


@pytest.mark.parametrize("lang", ["", "d e", "x" * 40, "de_AT", "<b>"])
def test_language_that_is_no_tag_is_refused(named: TestClient, lang: str) -> None:
    assert refusal(named.post("/predict", json={"text": "x", "lang": lang}), 422)["where"] == "lang"
    for path in ("/labels", "/queue", "/queue/export"):
        assert refusal(named.get(path, params={"lang": lang}), 422)["where"] == "lang"


# --- searching labels ---


def test_search_finds_any_name_with_typing_mistakes(
    named: TestClient, labels: list[str], named_model: Path
) -> None:
    answer = named.get("/labels", params={"query": "comon holy", "lang": "de"})
    found = Labels.model_validate_json(answer.content)
    assert found.labels[0].model_dump() == {
        "label": "new::holly",  # no label of the model yet: a reviewer may give it all the same
        "name": "Stechpalme",
        "count": 0,
        "matched": "Common holly",
    }
    counts = dict(zip(labels, hedgerow.load(named_model).label_counts_.tolist(), strict=True))
    last = labels[::2][-1]
    (exact, *_) = named.get("/labels", params={"query": german(labels)[last], "limit": 1}).json()["labels"]
    assert exact["label"] == last
    assert exact["count"] == counts[last]
    by_id = named.get("/labels", params={"query": last}).json()["labels"][0]
    assert (by_id["label"], by_id["matched"]) == (last, None)


def test_search_finds_labels_without_a_name_by_what_they_are(named: TestClient, labels: list[str]) -> None:
    nameless = labels[1]
    found = named.get("/labels", params={"query": nameless.upper()}).json()["labels"]
    assert {"label": nameless, "name": None} in [
        {key: one[key] for key in ("label", "name")} for one in found
    ]


def test_search_for_nothing_lists_all_labels_with_names(
    named: TestClient, client: TestClient, labels: list[str]
) -> None:
    found, plain = (one.get("/labels", params={"limit": 1000}).json() for one in (named, client))
    assert [one["label"] for one in found["labels"]] == [one["label"] for one in plain["labels"]]
    assert [one["name"] for one in found["labels"]] == [
        german(labels).get(one["label"]) for one in found["labels"]
    ]
    assert all(set(one) == {"label", "count"} for one in plain["labels"])


def test_search_gives_pages_of_one_list(named: TestClient) -> None:
    whole = named.get("/labels", params={"query": "name", "limit": 1000}).json()
    pages = [
        named.get("/labels", params={"query": "name", "limit": 7, "offset": offset}).json()
        for offset in range(0, whole["total"], 7)
    ]
    assert [one for page in pages for one in page["labels"]] == whole["labels"]
    assert {page["total"] for page in pages} == {whole["total"]}


def test_labels_that_are_numbers_are_found_as_numbers(
    open_client: Open, feature_model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "numbers.hedgerow"
    names = Vocabulary.from_names({"3": "three", "99": "many", "007": "agent"}, "en")
    with pytest.warns(hedgerow.VocabularyWarning):
        hedgerow.load(feature_model).set_vocabulary(names).save(path)
    client = open_client(path)
    found = {
        query: client.get("/labels", params={"query": query}).json()["labels"][0]["label"]
        for query in ("three", "many", "agent")
    }
    assert found == {"three": 3, "many": 99, "agent": "007"}
    asked = {"features": [{"indices": [0], "values": [1.0]}], "k": 15}
    (result,) = client.post("/predict", json=asked).json()["results"]
    assert {one["label"]: one["name"] for one in result["labels"]}[3] == "three"
    X = csr_array(np.eye(1, WIDTH, dtype=np.float32))
    best = hedgerow.load(path).top(X, k=15).labels[0].tolist()
    assert [one["label"] for one in result["labels"]] == best


def test_index_is_built_before_the_first_search_and_with_a_new_model(
    open_client: Open, named_model: Path, other_text_model: Path, labels: list[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from hedgerow.vocabulary.lookup import Lookup

    built = []
    of = Lookup.of
    monkeypatch.setattr(Lookup, "of", lambda names: (built.append(len(names)), of(names))[1])
    path = tmp_path / "served.hedgerow"
    path.write_bytes(other_text_model.read_bytes())
    client = open_client(path)
    assert built == []
    path.unlink()
    path.write_bytes(named_model.read_bytes())
    assert client.post("/reload").status_code == 200
    assert len(built) == 1
    assert client.get("/labels", params={"query": "holly"}).json()["labels"][0]["name"] == "Stechpalme"
    again = open_client(path)
    assert again.get("/labels", params={"query": "holly"}).json()["total"] >= 1
    assert len(built) == 2


# --- the queue ---


def test_queue_and_export_have_names_of_the_model_that_is_served_now(
    named: TestClient, labels: list[str], tmp_path: Path
) -> None:
    (number,) = named.post("/queue", json={"texts": [TEXTS[0]]}).json()["ids"]
    for lang, names in (({}, german(labels)), ({"lang": "en"}, english(labels))):
        answer = named.get("/queue", params=lang)
        (item,) = Queue.model_validate_json(answer.content).items
        assert [one.name for one in item.prediction.labels] == [
            names.get(one.label) for one in item.prediction.labels
        ]
    chosen = [labels[0], labels[1], "new::holly", "of my own"]
    named.post(f"/queue/{number}", json={"state": "corrected", "labels": chosen})
    exported = named.get("/queue/export", params={"lang": "en"})
    record = json.loads(exported.text)
    assert record == {
        "names": [english(labels)[labels[0]], None, "Common holly", None],
        "text": TEXTS[0],
        "labels": chosen,
    }
    path = tmp_path / "reviewed.jsonl"
    path.write_text(exported.text)
    part = read_part(path, labels_field="labels")  # what hedgerow fit reads
    assert part.texts == [TEXTS[0]]
    assert sorted(part.label_names or ()) == sorted(chosen)


def test_queue_of_a_model_without_a_vocabulary_has_no_names(client: TestClient) -> None:
    (number,) = client.post("/queue", json={"texts": [TEXTS[0]]}).json()["ids"]
    assert '"name"' not in client.get("/queue", params={"lang": "de"}).text
    client.post(f"/queue/{number}", json={"state": "corrected", "labels": ["a"]})
    assert json.loads(client.get("/queue/export").text) == {"text": TEXTS[0], "labels": ["a"]}


# --- choosing labels ---


def test_subtrees_choose_labels(named: TestClient, labels: list[str]) -> None:
    below = set(labels[::2])  # the first of them is broader than the others

    def asked(**allowed: list[str]) -> set[str]:
        answer = named.post("/predict", json={"text": TEXTS[0], "k": 1000, **allowed})
        assert answer.status_code == 200, answer.text
        return {one["label"] for one in answer.json()["results"][0]["labels"]}

    everything = asked()
    assert asked(only_subtree=[labels[0]]) == everything & below
    assert asked(exclude_subtree=[labels[0]]) == everything - below
    assert asked(only_subtree=[labels[2]], only=[labels[1]]) == everything & {labels[1], labels[2]}
    assert asked(only_subtree=[labels[0]], exclude=[labels[0]]) == everything & below - {labels[0]}
    assert asked(exclude_subtree=["new::holly"]) == everything


@pytest.mark.parametrize(
    ("field", "values", "words"),
    [
        ("only_subtree", ["t:none"], "no id 't:none'"),
        ("exclude_scheme", ["s:none"], "no scheme 's:none'; it has none"),
        ("only_subtree", ["new::holly"], "no label of the model is among these entries"),
        ("only_scheme", [], "at least 1 item"),
        ("only_scheme", "s", "valid list"),
    ],
)
def test_what_chooses_no_label_is_refused(named: TestClient, field: str, values: Any, words: str) -> None:
    error = refusal(named.post("/predict", json={"text": "x", field: values}), 422)
    assert words in error["message"]
    assert error["where"] == field


def test_schemes_of_a_model_without_a_vocabulary_are_refused(client: TestClient) -> None:
    error = refusal(client.post("/predict", json={"text": "x", "only_scheme": ["s"]}), 422)
    assert "no vocabulary" in error["message"]
    assert error["where"] == "only_scheme"


def test_reload_says_how_many_labels_left_the_vocabulary(
    open_client: Open, named_model: Path, labels: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served = tmp_path / "served.hedgerow"
    served.write_bytes(named_model.read_bytes())
    client = open_client(served)
    classifier = hedgerow.load(served)
    names = {id: classifier.vocabulary_.name(id) or id for id in classifier.vocabulary_.ids[3:]}
    with pytest.warns(hedgerow.VocabularyWarning):
        classifier.set_vocabulary(hedgerow.Vocabulary.from_names(names))
    classifier.save(served, overwrite=True)
    with caplog.at_level("INFO"):
        assert client.post("/reload").json()["labels_that_left"] == 3
    assert any("labels_that_left" in str(vars(record)) for record in caplog.records)
