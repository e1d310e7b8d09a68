"""Explanations of models that ask for names: the predicted probability, and what names did to it."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from named_texts import Named, named_texts
from served_models import Open
from vocabularies import made

import hedgerow
from hedgerow import Explanation, HedgerowTextClassifier, explain
from hedgerow.cli import main
from hedgerow.cli.failures import ExitCode
from hedgerow.judge.name_verdict import NameFind, NameVerdict
from hedgerow.judge.verdict import percent
from hedgerow.serve.schemas import Explanation as Explained
from hedgerow.verdicts import label_name_verdicts, label_verdicts

Record = dict[str, str]
Case = tuple[Record, str]


@pytest.fixture(scope="module")
def data() -> Named:
    return named_texts(0)


@pytest.fixture(scope="module")
def named(data: Named) -> HedgerowTextClassifier:
    """A model with a judge that asks for names in titles and abstracts."""
    model = HedgerowTextClassifier(
        judge=True, fields=["title", "abstract"], method="bagging", members=3, random_state=0, n_jobs=2
    )
    model.fit([record(text) for text in data.texts], data.labels, vocabulary=data.vocabulary)
    assert model.source.names is not None
    assert model.source.judge is not None
    return model


@pytest.fixture(scope="module")
def texts(data: Named) -> list[Record]:
    return [record(text) for text in data.test_texts]


@pytest.fixture(scope="module")
def unseen(data: Named, texts: list[Record]) -> list[Case]:
    """Texts that have the name of a label of theirs that no training text has, and that label."""
    return [
        (text, label)
        for text, own in zip(texts, data.test_labels, strict=True)
        for label in own
        if label in data.unseen and occurrences(data, text, label)
    ]


def record(text: str) -> Record:
    """The same text as a title and an abstract."""
    words = text.split()
    half = len(words) // 2
    return {"title": " ".join(words[:half]), "abstract": " ".join(words[half:])}


def occurrences(data: Named, text: Record, label: str) -> dict[str, int]:
    """How often the name of a label stands in title and abstract, word for word; all are in lower case."""
    name = data.vocabulary.name(label)
    found = {field: len(re.findall(rf"\b{name}\b", part)) for field, part in text.items()}
    return {field: count for field, count in found.items() if count}


def in_trees(model: HedgerowTextClassifier, label: str) -> bool:
    number = model.classes_.tolist().index(label)
    return any(number in trained.tree.labels for trained in model.source.forest.trees)


def without_names(model: HedgerowTextClassifier) -> HedgerowTextClassifier:
    plain = copy.copy(model)
    plain.model_ = replace(model.model_, names=None)
    return plain


def test_probability_is_the_one_that_is_predicted(named: HedgerowTextClassifier, texts: list[Record]) -> None:
    for text in texts[:10]:
        best = named.top([text], k=5)
        for label, probability in zip(best.labels[0], best.probability[0], strict=True):
            why = explain(named, text, label)
            assert why.found
            assert why.probability == float(probability)
            assert why.names is not None
            assert why.names.after == pytest.approx(float(probability), abs=1e-5)
        assert explain(named, text).label == best.labels[0, 0]


def test_before_is_what_the_model_says_without_names(
    named: HedgerowTextClassifier, texts: list[Record]
) -> None:
    plain, moved = without_names(named), 0
    for text in texts[:15]:
        labels, probability = (part[0] for part in vars(plain.top([text], k=3)).values())
        for label, own in zip(labels, probability, strict=True):
            why = explain(named, text, label)
            assert why.names is not None
            assert why.names.before == pytest.approx(float(own), abs=1e-6)
            assert why.verdict is not None
            assert why.verdict.probability == pytest.approx(float(own), abs=1e-5)
            moved += abs(why.probability - float(own)) > 0.05
            sentence = f"Without names the label would have {percent(why.names.before)}, with them"
            assert any(one.startswith(sentence) for one in why.sentences())
    assert moved > 5


def test_label_that_no_tree_knows_is_explained_by_its_name(
    named: HedgerowTextClassifier, data: Named, unseen: list[Case]
) -> None:
    predicted = 0
    for text, label in unseen[:20]:
        why, name = explain(named, text, label), data.vocabulary.name(label)
        assert why.names is not None
        assert not in_trees(named, label)
        assert (why.names.before, why.names.examples, why.names.name) == (None, 0, name)
        assert {one.field: one.count for one in why.names.finds} == occurrences(data, text, label)
        assert why.verdict is None
        assert not why.votes.any()
        assert (why.for_(), why.against(), why.disputed()) == ([], [], [])
        assert len(why) > 0
        assert not why.effect.any()
        assert np.isnan(why.effects).all()
        best = named.top([text], k=20)
        probability = dict(zip(best.labels[0].tolist(), best.probability[0].tolist(), strict=True))
        if label in probability:
            predicted += 1
            assert why.probability == probability[label]
            assert why.sentences()[-2:] == [
                "No training text has this label: all that speaks for it is its name.",
                f"With it: {percent(why.probability)}.",
            ]
    assert predicted > 10


def test_label_that_nothing_proposes_has_probability_0_and_no_error(
    named: HedgerowTextClassifier, data: Named, texts: list[Record]
) -> None:
    label = next(one for one in sorted(data.unseen) if not occurrences(data, texts[0], one))
    why = explain(named, texts[0], label)
    assert (why.probability, why.found) == (0.0, False)
    assert why.names is not None
    assert (why.names.after, why.names.finds) == (None, ())
    assert why.sentences() == [
        "No name of this label was found in the input.",
        "No training text has this label either, so it is not predicted.",
    ]


def test_finds_are_those_of_a_search_for_each_word(
    named: HedgerowTextClassifier, data: Named, texts: list[Record]
) -> None:
    found = 0
    for text in texts[:15]:
        for label in named.top([text], k=5).labels[0]:
            why = explain(named, text, label).names
            assert why is not None
            assert {one.field: one.count for one in why.finds} == occurrences(data, text, label)
            for one in why.finds:
                assert one.count == one.outer == one.exact == one.same_case
                assert (one.entries, one.preferred, one.shortened) == (1, True, False)
                assert one.words == len((data.vocabulary.name(label) or "").split())
                found += 1
    assert found > 20


def test_case_of_a_name_in_the_text_is_said(named: HedgerowTextClassifier, data: Named) -> None:
    name = data.vocabulary.name("x:3") or ""
    why = explain(named, {"title": f"{name.upper()} of {name}", "abstract": ""}, "x:3").names
    assert why is not None
    (one,) = why.finds
    assert (one.field, one.count, one.same_case, one.exact) == ("title", 2, 1, 2)


def test_label_that_the_search_misses_says_what_it_would_have_if_it_were_found(
    named: HedgerowTextClassifier, texts: list[Record]
) -> None:
    few = copy.copy(named).set_params(candidates=3)
    votes = few.predict_votes([texts[0]])
    missed = next(
        label
        for number, label in enumerate(few.classes_)
        if number not in votes.labels and in_trees(few, label)
    )
    why = explain(few, texts[0], missed)
    assert not why.found
    assert why.names is not None
    assert why.names.before is not None
    assert why.probability == pytest.approx(why.names.after, abs=1e-5)
    assert "does not find this label" in why.sentences()[-1]


def test_known_label_that_only_its_name_proposes_is_said_to_be_so(
    named: HedgerowTextClassifier, texts: list[Record]
) -> None:
    few = copy.copy(named).set_params(candidates=1)
    proposed = []
    for text in texts[:60]:
        heard = without_names(few).predict_votes([text]).labels
        votes = few.predict_votes([text])
        for number in np.setdiff1d(votes.labels, heard).tolist():
            label = few.classes_[number]
            if in_trees(few, label):
                proposed.append((text, label))
    assert proposed
    text, label = proposed[0]
    why = explain(few, text, label)
    assert (why.found, why.verdict) == (True, None)
    assert why.names is not None
    assert why.names.before is None
    assert why.names.examples > 0
    votes = few.predict_votes([text])
    own = votes.probs[votes.labels == few.classes_.tolist().index(label)]
    assert why.probability == pytest.approx(float(own.mean()), rel=1e-6)
    assert why.sentences()[-2].startswith("The search does not find this label for the input: all that")


def test_calibrated_probability_is_the_one_that_is_predicted(
    named: HedgerowTextClassifier, data: Named, texts: list[Record], unseen: list[Case]
) -> None:
    model = copy.copy(named).calibrate(texts, data.test_labels, by="frequency")
    text, label = unseen[0]
    best = model.top([text], k=20)
    for own, probability in zip(best.labels[0], best.probability[0], strict=True):
        why = explain(model, text, own)
        assert why.probability == float(probability)
        assert why.sentences()[-1] == f"After calibration: {percent(why.probability)}."
    assert label in best.labels[0]


def test_names_without_a_judge_are_explained(named: HedgerowTextClassifier, texts: list[Record]) -> None:
    model = copy.copy(named)
    model.model_ = replace(named.model_, judge=None, scorers=None)
    best = model.top(texts[:1], k=3)
    votes = without_names(model).predict_votes(texts[:1])
    for label, probability in zip(best.labels[0], best.probability[0], strict=True):
        why = explain(model, texts[0], label)
        assert why.probability == float(probability)
        assert why.verdict is None
        assert why.names is not None
        own = votes.probs[votes.labels == model.classes_.tolist().index(label)]
        assert why.names.before == pytest.approx(float(own.mean()), rel=1e-5)
        assert why.sentences()[0] == f"The trees gave {percent(why.members_probability)}."


def test_effects_of_words_are_those_of_the_model_without_names(
    named: HedgerowTextClassifier, texts: list[Record]
) -> None:
    label = named.top(texts[:1], k=1).labels[0, 0]
    why, plain = (explain(model, texts[0], label) for model in (named, without_names(named)))
    np.testing.assert_array_equal(why.features, plain.features)
    np.testing.assert_array_equal(why.effects, plain.effects)
    assert why.verdict == plain.verdict
    assert plain.names is None


def test_label_is_refused_only_where_names_cannot_propose_it(
    named: HedgerowTextClassifier, unseen: list[Case]
) -> None:
    text, label = unseen[0]
    with pytest.raises(ValueError, match="not among the 3000 labels"):
        explain(named, text, "x:9999")
    with pytest.raises(ValueError, match="on no input that the model learned from"):
        explain(without_names(named), text, label)


def test_another_vocabulary_gives_the_names(named: HedgerowTextClassifier) -> None:
    model = copy.copy(named)
    entries = [
        {"id": "x:0", "names": [("Hecke", "de", True), ("hedge", "en", False)]},
        {"id": "new", "names": [("Hecke", "de", True), ("hedge school", "en", True)]},
        {"id": "nameless"},
    ]
    with pytest.warns(hedgerow.VocabularyWarning):
        model.set_vocabulary(made(*entries))
    text = {"title": "Hedge schools, and a hedge", "abstract": "die Hecke"}
    why = explain(model, text, "x:0")
    assert why.names is not None
    assert [(one.field, one.count, one.outer, one.entries) for one in why.names.finds] == [
        ("title", 2, 1, 1),
        ("abstract", 1, 1, 2),
    ]
    assert 'A name of "Hecke" stands 2 times in the title and once in the abstract.' in why.sentences()
    assert explain(model, text, "new").sentences()[-2].startswith("No training text has this label")
    assert explain(model, text, "nameless").sentences()[0] == "The vocabulary has no name of this label."
    left = explain(model, text, "x:1")  # it keeps its name until the model is fitted again
    assert left.sentences()[-2] == "No name of this label was found in the input."


def a_verdict(**changes: Any) -> NameVerdict:
    find = NameFind("title", 1, 1, 1, 1, 1, 1, True, False)
    return replace(NameVerdict("Hecke", 1, (find,), 7, 0.12, 0.48, True), **changes)


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        (
            {},
            [
                'Its name "Hecke" stands once in the title.',
                "Without names the label would have 12 %, with them 48 %.",
            ],
        ),
        (
            {"finds": (NameFind(None, 3, 0, 0, 0, 1, 3, True, False),), "names": 2},
            [
                'A name of "Hecke" stands 3 times in the text.',
                "It is always part of a longer name.",
                "2 other entries have the same name.",
                "Without names the label would have 12 %, with them 48 %.",
            ],
        ),
        (
            {"finds": (), "after": 0.12, "considered": False},
            [
                "No name of this label was found in the input.",
                "Names do not change its probability: they are considered for the best candidates only.",
            ],
        ),
        (
            {"before": None, "after": None, "examples": 0},
            [
                'Its name "Hecke" stands once in the title.',
                "Other names in the input say more, so it is not predicted.",
            ],
        ),
    ],
)
def test_sentences_say_where_names_stand_and_what_they_change(
    changes: dict[str, Any], sentences: list[str]
) -> None:
    assert a_verdict(**changes).sentences() == sentences


def test_verdicts_of_many_labels_are_those_of_each(
    named: HedgerowTextClassifier, texts: list[Record]
) -> None:
    best = [row.labels[:4] for row in (named.predict_votes([text])[0] for text in texts[:5])]
    inputs = named.source.inputs(texts[:5])
    found, judged = label_name_verdicts(named, inputs, best), label_verdicts(named, inputs, best)
    assert found is not None
    assert judged is not None
    for text, labels, names, verdicts in zip(texts, best, found, judged, strict=False):
        for label, own, verdict in zip(labels.tolist(), names, verdicts, strict=True):
            why = explain(named, text, named.classes_[label])
            assert (why.names, why.verdict) == (own, verdict)
    assert label_name_verdicts(without_names(named), inputs, best) is None


def test_command_and_json_show_names(
    named: HedgerowTextClassifier, unseen: list[Case], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named.save(tmp_path / "m")
    text, label = unseen[0]
    for own in (label, explain(named, text).label):
        why = explain(named, text, own)
        assert why.names is not None
        command = ["explain", str(tmp_path / "m"), json.dumps(text), "--label", own]
        assert main(command) == 0
        shown = capsys.readouterr().out
        for sentence in why.sentences():
            assert sentence in shown
        assert ("No member knows the label" in shown) == (own == label)
        assert ("the judge's probability without names" in shown) == (own != label)
        assert main([*command, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["probability"] == why.probability
        assert found["sentences"] == why.sentences()
        assert found["names"] == vars(why.names) | {"finds": [vars(one) for one in why.names.finds]}
    assert main(["explain", str(tmp_path / "m"), json.dumps(text), "--label", "x:9999"]) == ExitCode.USAGE


def test_server_gives_the_same_as_the_library(
    named: HedgerowTextClassifier, data: Named, unseen: list[Case], open_client: Open, tmp_path: Path
) -> None:
    named.save(tmp_path / "named.hedgerow")
    client = open_client(tmp_path / "named.hedgerow")
    text, label = unseen[0]
    for own in (label, explain(named, text).label, max(data.unseen)):
        answer = client.post("/explain", json={"text": text, "label": own})
        assert answer.status_code == 200, answer.text
        Explained.model_validate(answer.json())
        said, why = answer.json(), explain(named, text, own)
        assert said["probability"] == pytest.approx(why.probability, rel=1e-6)
        assert said["sentences"] == why.sentences()
        assert why.names is not None
        assert said["names"]["after"] == why.names.after
        assert [one["field"] for one in said["names"]["finds"]] == [one.field for one in why.names.finds]


def test_report_says_what_names_changed(
    named: HedgerowTextClassifier, data: Named, texts: list[Record], tmp_path: Path
) -> None:
    named.save(tmp_path / "m")
    rows = [{**text, "labels": own} for text, own in zip(texts[:60], data.test_labels[:60], strict=True)]
    (tmp_path / "test.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert (
        main(["report", str(tmp_path / "m"), str(tmp_path / "test.jsonl"), "--out", str(tmp_path / "r")]) == 0
    )
    page = (tmp_path / "r").read_text()
    content, _ = json.JSONDecoder().raw_decode(page[page.index('{"title"') :])
    example = content["uncertain"][0]
    (text,) = (one for one in texts if all(part in example["text"] for part in one.values()))
    assert example["predicted"]
    for found in example["predicted"]:
        assert found["reasons"] == explain(named, text, found["label"]).sentences()


def test_describe_and_inspect_say_how_good_names_are(
    named: HedgerowTextClassifier, data: Named, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = named.describe()["names"]
    judge = named.source.names
    assert judge is not None
    assert about == judge.describe()
    assert (about["entries"], about["never_seen"]) == (len(data.vocabulary), len(data.unseen))
    assert without_names(named).describe()["names"] is None
    named.save(tmp_path / "m")
    assert main(["inspect", str(tmp_path / "m"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["names"] == about


def fit_output(
    data: Named, tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int, *options: str
) -> tuple[str, Any]:
    """What fit says to people, and to programs."""
    pairs = zip(data.texts[:count], data.labels[:count], strict=True)
    rows = ({"text": text, "labels": own} for text, own in pairs)
    (tmp_path / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    data.vocabulary.write(tmp_path / "v.tsv", overwrite=True)
    command = ["fit", str(tmp_path / "train.jsonl"), "--vocabulary", str(tmp_path / "v.tsv"), "--overwrite"]
    command = [command[0], command[1], str(tmp_path / "m"), *command[2:], *options]
    assert main(command) == 0
    said = capsys.readouterr()
    assert main([*command, "--json"]) == 0
    return " ".join((said.out + said.err).split()), json.loads(capsys.readouterr().out)


def test_fit_says_how_good_names_are(data: Named, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said, summary = fit_output(data, tmp_path, capsys, 3000)
    names = summary["names"]
    assert names == hedgerow.load(tmp_path / "m").describe()["names"]
    assert (names["entries"], names["never_seen"]) == (len(data.vocabulary), len(data.unseen))
    assert (
        f"Names: 3,000 entries, of which {names['never_seen']:,} have no example; nDCG@5 from"
        f" {100 * names['ndcg_before']:.1f} to {100 * names['ndcg']:.1f} % on held-out texts."
    ) in said
    assert f"{3000 - names['never_seen']:,} labels learned from 3,000 rows" in said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "ranked no better than the model without them, or there was too little data"),
        (("--no-judge",), "are not used, because the model has no judge"),
        (("--preset", "fast"), "are not used, because the model has no judge"),
        (("--preset", "paper"), "are not used, because the model has no judge"),
    ],
)
def test_fit_says_why_names_are_not_used(
    data: Named, options: tuple[str, ...], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said, summary = fit_output(data, tmp_path, capsys, 150, *options)
    assert summary["names"] is None
    assert f"Names in texts {why}" in said


def test_explanation_without_names_says_nothing_of_them() -> None:
    model = HedgerowTextClassifier(random_state=0).fit(["thorny shrub"] * 3, [["x"], ["y"], ["x"]])
    why = explain(model, "thorny shrub")
    assert isinstance(why, Explanation)
    assert (why.names, why.sentences()) == (None, [])
