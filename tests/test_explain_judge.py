"""With a judge, explanations are of the probability that is predicted, and say what the judge saw."""

from __future__ import annotations

import copy
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from served_models import Open

import hedgerow
from hedgerow import HedgerowTextClassifier, explain
from hedgerow.cli import main
from hedgerow.data.sample import load_sample
from hedgerow.explanation import label_verdicts
from hedgerow.judge.judging import Judge, surprise, terms
from hedgerow.judge.verdict import percent, plain_probability, shapley_values
from hedgerow.serve.schemas import Explanation as Explained

SAMPLE = load_sample()
TEXT = "a fast terminal music player that reads playlists"
LABEL = "works-with::audio"


def fitted(**parameters: Any) -> HedgerowTextClassifier:
    model = HedgerowTextClassifier(judge=True, random_state=0, n_jobs=2, **parameters)
    model.fit(SAMPLE.train_texts, SAMPLE.train_labels)
    assert model.source.judge is not None
    return model


@pytest.fixture(scope="module")
def judged() -> HedgerowTextClassifier:
    return fitted(wide=10_000, method="bagging", members=3)


def dense_log_odds(judge: Judge, members: float, scores: np.ndarray, count: int) -> float:
    """The polynomial of the judge, written out."""
    seen = np.array([surprise(members), *surprise(scores), math.log1p(count)])
    seen = np.clip(seen, judge.range[:, 0], judge.range[:, 1])
    return float((terms(seen[None]) @ judge.coefficients).clip(-20, 20)[0])


def by_orders(function: Any, point: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Shapley values by their definition: the mean over all orders of putting coordinates in."""
    values = np.zeros(len(point))
    orders = list(itertools.permutations(range(len(point))))
    for order in orders:
        mixed = reference.copy()
        for own in order:
            before = function(mixed[None])[0]
            mixed[own] = point[own]
            values[own] += function(mixed[None])[0] - before
    return values / len(orders)


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_shapley_values_of_any_function_are_those_of_all_orders_and_add_up(count: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    weights = draw.normal(size=(3, count))

    def function(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.sin(x @ weights[0]) + (x @ weights[1]) ** 3 * (x @ weights[2]))

    point, reference = draw.normal(size=(2, count))
    base, values = shapley_values(function, point, reference)
    assert base == pytest.approx(function(reference[None])[0])
    np.testing.assert_allclose(values, by_orders(function, point, reference), atol=1e-9)
    assert base + values.sum() == pytest.approx(function(point[None])[0], abs=1e-9)


def test_probability_is_the_one_that_is_predicted(judged: HedgerowTextClassifier) -> None:
    for text in SAMPLE.test_texts[:10]:
        best = judged.top([text], k=5)
        for label, probability in zip(best.labels[0], best.probability[0], strict=True):
            assert explain(judged, text, label).probability == float(probability)
        assert explain(judged, text).label == best.labels[0, 0]


def test_evidence_is_what_members_scorers_and_training_say(judged: HedgerowTextClassifier) -> None:
    source = judged.source
    judge, scorers = source.judge, source.scorers
    assert judge is not None
    assert scorers is not None
    found = explain(judged, TEXT, LABEL)
    column = judged.classes_.tolist().index(LABEL)
    rows = source.reader.read((TEXT,), 1).rows
    scores = scorers.score(rows, np.array([0, 1]), np.array([column], dtype=np.int32), 1)[0]
    count = sum(LABEL in labels for labels in SAMPLE.train_labels)
    verdict = found.verdict
    assert verdict is not None
    assert [one.name for one in verdict.evidence] == ["members", "wide", "centroid", "frequency"]
    members, wide, centroid, frequency = verdict.evidence
    assert members.value == pytest.approx(found.votes.mean(), rel=1e-4)
    assert found.members_probability == pytest.approx(found.votes.mean())
    assert frequency.value == count
    assert wide.value == pytest.approx(plain_probability(scores[0], "l3-hinge"))
    assert verdict.log_odds == pytest.approx(dense_log_odds(judge, members.value, scores, count))
    assert verdict.probability == pytest.approx(found.probability, abs=1e-5)
    # The cosine, from the texts themselves.
    features = judged.vectorizer_.transform(SAMPLE.train_texts)
    own = features[[LABEL in labels for labels in SAMPLE.train_labels]]
    mean = np.asarray(own.sum(axis=0)).ravel()
    kept = np.where(mean >= np.sort(mean)[-100], mean, 0) / np.linalg.norm(mean)
    text = judged.vectorizer_.transform([TEXT]).toarray()[0]
    assert centroid.value == pytest.approx(text @ kept / np.linalg.norm(text), abs=0.01)


def test_effects_of_evidence_add_up_and_are_those_of_all_orders(judged: HedgerowTextClassifier) -> None:
    judge = judged.source.judge
    assert judge is not None
    found = judged.source.forest.votes(judged.source.reader.read((TEXT,), 1).rows, 1, judged.source.search, 1)
    rows = judged.source.reader.read((TEXT,), 1).rows
    assert judged.source.scorers is not None
    scores = judged.source.scorers.score(rows, found.indptr, found.labels, 1)
    seen = judge.evidence(found.labels, found.probs, scores)
    typical = np.median(seen, axis=0)
    for place in (0, len(seen) // 2, len(seen) - 1):
        verdict = explain(judged, TEXT, judged.classes_[found.labels[place]]).verdict
        assert verdict is not None
        effects = [one.effect for one in verdict.evidence]
        assert verdict.base + sum(effects) == pytest.approx(verdict.log_odds, abs=1e-10)
        np.testing.assert_allclose(effects, by_orders(judge.log_odds, seen[place], typical), atol=1e-9)
        assert verdict.base == pytest.approx(judge.log_odds(typical[None])[0])
    reference = verdict.evidence[0].reference
    assert surprise(reference) == pytest.approx(typical[0])
    assert math.log1p(verdict.evidence[3].reference) == pytest.approx(typical[3])


def test_effect_of_a_word_is_what_the_judge_says_without_it(judged: HedgerowTextClassifier) -> None:
    source = judged.source
    judge, scorers = source.judge, source.scorers
    assert judge is not None
    assert scorers is not None
    found = explain(judged, TEXT, LABEL)
    assert found.members_effect is not None
    assert found.wide_effect is not None
    column = np.array([judged.classes_.tolist().index(LABEL)], dtype=np.int32)
    for place, own in enumerate(found.effects):
        # Members without the word, from what it does to each of them alone.
        word = found.features[place]
        assert word in TEXT.lower()
        if np.isnan(own).any():
            continue
        assert found.effect[place] == pytest.approx(own.mean())
    row = source.reader.plain_features((TEXT,), 1)
    values = row.toarray()[0]
    columns = np.flatnonzero(values)
    names = source.reader.feature_names((TEXT,), columns)
    compared = 0
    for name, feature in zip(names, columns.tolist(), strict=True):
        place = found.features.tolist().index(name)
        if abs(found.effect[place]) < 1e-3:
            continue
        # The engine normalises inputs, so what is removed is put where no weight is: scores stay as they are.
        logs = []
        for removed in (False, True):
            probs = [
                tree_probability(tree, values, column[0], feature if removed else None)
                for tree in source.forest.trees
            ]
            scores = [
                tree_probability(tree, values, column[0], feature if removed else None)
                for tree in scorers.trees
            ]
            said = judge.apply(
                column, np.array([probs], dtype=np.float32), np.array([scores], dtype=np.float32), 1
            )
            logs.append(np.log(said[0]))
        assert found.effect[place] == pytest.approx((logs[0] - logs[1]).mean(), abs=1e-4)
        compared += 1
    assert compared > 3


def tree_probability(tree: Any, values: np.ndarray, label: int, without: int | None) -> float:
    """The probability of a label in one tree, dense."""
    x = values / np.linalg.norm(values)
    if without is not None:
        x = x.copy()
        x[without] = 0
    log = 0.0
    parent = 0
    for layer, node in enumerate(tree.tree.path(label)):
        begin, end = tree.tree.begins[layer][parent : parent + 2].tolist()
        features, lanes, weights, bias = tree.node_weights(layer, parent)
        dense = np.zeros((len(x), end - begin))
        dense[features, lanes] = weights
        score = x @ dense[:, node - begin] + bias[node - begin]
        log -= max(0.0, 1.0 - score) ** 3
        parent = node
    return math.exp(log)


def test_wide_probability_is_that_of_a_wide_classifier_alone(judged: HedgerowTextClassifier) -> None:
    # One leaf with all labels, trained as members are: what the wide classifier is.
    alone = HedgerowTextClassifier(branching=16, leaf_size=10_000, random_state=0, n_jobs=2)
    alone.fit(SAMPLE.train_texts, SAMPLE.train_labels).set_params(candidates="all")
    for text in SAMPLE.test_texts[:5]:
        best = alone.top([text], k=3)
        for label, probability in zip(best.labels[0], best.probability[0], strict=True):
            verdict = explain(judged, text, label).verdict
            assert verdict is not None
            assert verdict.evidence[1].value == pytest.approx(float(probability), abs=0.01)


@pytest.mark.parametrize("transform", ["l3-hinge", "sigmoid"])
def test_plain_probability_takes_back_what_scores_were_lowered_by(transform: str) -> None:
    scores = np.linspace(-2, 3, 30)

    def probability(z: np.ndarray) -> np.ndarray:
        return np.exp(-(np.maximum(0, 1 - z) ** 3)) if transform == "l3-hinge" else np.asarray(expit(z))

    np.testing.assert_allclose(
        plain_probability(probability(scores - 1.5), transform), probability(scores), atol=1e-9
    )


def test_judge_with_logistic_loss_is_saved_loaded_and_explained(tmp_path: Path) -> None:
    model = fitted(wide=10_000, loss="logistic")
    model.save(tmp_path / "m.hedgerow")
    loaded = hedgerow.load(tmp_path / "m.hedgerow")
    found = explain(loaded, TEXT)
    assert (
        found.probability
        == explain(model, TEXT).probability
        == float(model.top([TEXT], k=1).probability[0, 0])
    )
    assert found.verdict is not None
    assert found.verdict.log_odds == pytest.approx(logit(found.probability), abs=1e-3)


def test_calibrated_probability_is_the_one_that_is_predicted() -> None:
    model = HedgerowTextClassifier(method="bagging", members=3, random_state=0, n_jobs=2)
    model.fit(SAMPLE.train_texts, SAMPLE.train_labels)
    plain = explain(model, TEXT, LABEL)
    assert plain.sentences() == []
    model = model.calibrate(SAMPLE.test_texts, SAMPLE.test_labels)
    found = explain(model, TEXT)
    assert found.probability == float(model.top([TEXT], k=1).probability[0, 0])
    assert found.members_probability == pytest.approx(found.votes.mean())
    assert found.members_probability != pytest.approx(found.probability, abs=1e-3)
    assert found.sentences()[-1] == f"After calibration: {percent(found.probability)}."


def test_label_that_the_search_does_not_find_is_said_to_be_so(judged: HedgerowTextClassifier) -> None:
    judged = copy.copy(judged).set_params(candidates=5)
    found = judged.predict_votes([TEXT])
    others = np.setdiff1d(np.arange(len(judged.classes_)), found.labels)
    label = next(
        one for one in others.tolist() if any(one in t.tree.labels for t in judged.source.forest.trees)
    )
    why = explain(judged, TEXT, judged.classes_[label])
    assert not why.found
    assert "does not find this label" in why.sentences()[-1]
    assert why.verdict is not None
    assert why.verdict.probability == pytest.approx(why.probability, rel=1e-3)


def test_verdicts_of_many_labels_are_those_of_each(judged: HedgerowTextClassifier) -> None:
    texts = SAMPLE.test_texts[:3]
    votes = judged.predict_votes(texts)
    wanted = [votes[row].labels[[3, 1]] for row in range(3)]
    unknown = np.setdiff1d(np.arange(len(judged.classes_), dtype=np.int32), votes[0].labels)[:1]
    wanted[0] = np.concatenate([unknown, wanted[0]])
    found = label_verdicts(judged, judged.source.inputs(texts), wanted)
    assert found is not None
    assert found[0][0] is None
    for text, labels, verdicts in zip(texts, wanted, found, strict=True):
        for label, verdict in zip(labels.tolist(), verdicts, strict=True):
            if label not in unknown:
                assert verdict == explain(judged, text, judged.classes_[label]).verdict


def test_sentences_say_who_gave_what_and_how_it_moved(judged: HedgerowTextClassifier) -> None:
    why = explain(judged, TEXT, LABEL)
    assert why.verdict is not None
    members, wide = why.verdict.evidence[:2]
    said = why.sentences()
    assert said[1].startswith(f"The trees gave {percent(members.value)} (typical: ")
    assert said[2].startswith(f"The wide classifier gave {percent(wide.value)}")
    assert f"raised the odds {math.exp(wide.effect):,.0f} times" in said[2]
    assert said[-1] == f"The judge's answer: {percent(why.probability)}."


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (1e-9, "less than 0.01 %"),
        (0.0004, "0.04 %"),
        (0.031, "3.1 %"),
        (0.31, "31 %"),
        (0.9951, "99.5 %"),
        (0.99999, "more than 99.99 %"),
    ],
)
def test_percentages_keep_what_matters(share: float, text: str) -> None:
    assert percent(share) == text


def test_command_and_json_show_the_judge(
    judged: HedgerowTextClassifier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged.save(tmp_path / "m")
    why = explain(judged, TEXT, LABEL)
    assert main(["explain", str(tmp_path / "m"), TEXT, "--label", LABEL]) == 0
    text = capsys.readouterr().out
    for sentence in why.sentences():
        assert sentence in text
    header = text.split("Words for it")[1].splitlines()[1]
    assert header.split()[:3] == ["effect", "trees", "wide"]
    assert "before the judge" in text
    assert main(["explain", str(tmp_path / "m"), TEXT, "--label", LABEL, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["probability"] == why.probability
    evidence = found["judge"]["evidence"]
    total = found["judge"]["base"] + sum(one["effect"] for one in evidence)
    assert total == pytest.approx(found["judge"]["log_odds"], abs=1e-10)
    assert found["sentences"] == why.sentences()
    first = why.for_(1)[0]
    assert found["for"][0]["members_effect"] == first.members_effect
    assert found["for"][0]["wide_effect"] == first.wide_effect


def test_report_says_why_each_label_is_as_probable(judged: HedgerowTextClassifier, tmp_path: Path) -> None:
    judged.save(tmp_path / "m")
    data = tmp_path / "test.jsonl"
    rows = zip(SAMPLE.test_texts[:60], SAMPLE.test_labels[:60], strict=True)
    data.write_text("".join(f"{json.dumps({'text': text, 'labels': labels})}\n" for text, labels in rows))
    assert main(["report", str(tmp_path / "m"), str(data), "--out", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    start = page.index('{"title"')
    content, _ = json.JSONDecoder().raw_decode(page[start:])
    example = content["uncertain"][0]
    text = next(text for text in SAMPLE.test_texts[:60] if text == example["text"])
    for found in example["predicted"]:
        verdict = explain(judged, text, found["label"]).verdict
        assert verdict is not None
        assert found["reasons"] == verdict.sentences()


def test_server_gives_the_same_judge_as_the_library(
    judged: HedgerowTextClassifier, open_client: Open, tmp_path: Path
) -> None:
    judged.save(tmp_path / "judged.hedgerow")
    client = open_client(tmp_path / "judged.hedgerow")
    answer = client.post("/explain", json={"text": TEXT, "label": LABEL})
    assert answer.status_code == 200, answer.text
    Explained.model_validate(answer.json())
    said, why = answer.json(), explain(judged, TEXT, LABEL)
    assert said["probability"] == pytest.approx(why.probability, rel=1e-6)
    assert said["members_probability"] == pytest.approx(why.members_probability)
    assert said["sentences"] == why.sentences()
    assert said["judge"]["evidence"][1]["name"] == "wide"
    effects = sum(one["effect"] for one in said["judge"]["evidence"])
    assert said["judge"]["base"] + effects == pytest.approx(said["judge"]["log_odds"], abs=1e-10)
    assert said["speaks_for"][0]["wide_effect"] == pytest.approx(why.for_(1)[0].wide_effect)
