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
from hedgerow.judge.judging import HEADROOM, Judge, surprise, terms
from hedgerow.judge.verdict import Evidence, Verdict, percent, plain_probability, shapley_values
from hedgerow.serve.schemas import Explanation as Explained
from hedgerow.training.shape import wide_shape
from hedgerow.trees.forest import Ensemble
from hedgerow.verdicts import label_verdicts

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
    """Its wide classifier has all labels in one leaf."""
    return fitted(wide=10_000, method="bagging", members=3)


@pytest.fixture(scope="module")
def grouped() -> HedgerowTextClassifier:
    """Its wide classifier has groups of labels."""
    return fitted(wide=60, method="bagging", members=3)


@pytest.fixture(scope="module")
def alone() -> HedgerowTextClassifier:
    """One tree, and no wide classifier."""
    return fitted()


@pytest.fixture(params=["judged", "grouped", "alone"])
def any_judged(request: pytest.FixtureRequest) -> HedgerowTextClassifier:
    found: HedgerowTextClassifier = request.getfixturevalue(request.param)
    return found


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


def test_probability_is_the_one_that_is_predicted(any_judged: HedgerowTextClassifier) -> None:
    for text in SAMPLE.test_texts[:10]:
        best = any_judged.top([text], k=5)
        for label, probability in zip(best.labels[0], best.probability[0], strict=True):
            assert explain(any_judged, text, label).probability == float(probability)
        assert explain(any_judged, text).label == best.labels[0, 0]


def test_evidence_is_what_members_scorers_and_training_say(any_judged: HedgerowTextClassifier) -> None:
    source = any_judged.source
    judge, scorers = source.judge, source.scorers
    assert judge is not None
    assert scorers is not None
    found = explain(any_judged, TEXT, LABEL)
    column = any_judged.classes_.tolist().index(LABEL)
    rows = source.reader.read((TEXT,), 1).rows
    scores = scorers.score(rows, np.array([0, 1]), np.array([column], dtype=np.int32), 1)[0]
    count = sum(LABEL in labels for labels in SAMPLE.train_labels)
    verdict = found.verdict
    assert verdict is not None
    wanted = ["members", *(["wide"] if any_judged.wide else []), "label", "centroid", "frequency"]
    assert [one.name for one in verdict.evidence] == wanted
    evidence = {one.name: one for one in verdict.evidence}
    assert evidence["members"].value == pytest.approx(found.votes.mean(), rel=1e-4)
    assert found.members_probability == pytest.approx(found.votes.mean())
    assert evidence["frequency"].value == count
    assert verdict.log_odds == pytest.approx(
        dense_log_odds(judge, evidence["members"].value, scores, count), rel=1e-6
    )
    assert verdict.probability == pytest.approx(found.probability, abs=1e-5)
    # Plain probabilities of the tree that is asked, and of its last layer alone.
    classifier = scorers.trees.trees[0] if any_judged.wide else source.forest.trees[0]
    text = any_judged.vectorizer_.transform([TEXT]).toarray()[0]
    whole, own = tree_probabilities(classifier, text, column)
    assert evidence["label"].value == pytest.approx(own, rel=1e-4)
    if any_judged.wide:
        assert evidence["wide"].value == pytest.approx(whole, rel=1e-4)
    else:
        assert evidence["members"].value == pytest.approx(whole, rel=1e-4)
    # The cosine, from the texts themselves.
    features = any_judged.vectorizer_.transform(SAMPLE.train_texts)
    texts = features[[LABEL in labels for labels in SAMPLE.train_labels]]
    mean = np.asarray(texts.sum(axis=0)).ravel()
    kept = np.where(mean >= np.sort(mean)[-100], mean, 0) / np.linalg.norm(mean)
    assert evidence["centroid"].value == pytest.approx(text @ kept / np.linalg.norm(text), abs=0.01)


def test_effects_of_evidence_add_up_and_are_those_of_all_orders(any_judged: HedgerowTextClassifier) -> None:
    source = any_judged.source
    judge, scorers = source.judge, source.scorers
    assert judge is not None
    assert scorers is not None
    rows = source.reader.read((TEXT,), 1).rows
    found = source.forest.votes(rows, 1, source.finding, 1)
    scores = scorers.score(rows, found.indptr, found.labels, 1)
    seen = judge.evidence(found.labels, found.probs, scores)
    typical = np.median(seen, axis=0)
    for place in (0, len(seen) // 2, len(seen) - 1):
        verdict = explain(any_judged, TEXT, any_judged.classes_[found.labels[place]]).verdict
        assert verdict is not None
        effects = [one.effect for one in verdict.evidence]
        assert verdict.base + sum(effects) == pytest.approx(verdict.log_odds, abs=1e-10)
        np.testing.assert_allclose(effects, by_orders(judge.log_odds, seen[place], typical), atol=1e-9)
        assert verdict.base == pytest.approx(judge.log_odds(typical[None])[0])
    by_name = {one.name: one.reference for one in verdict.evidence}
    assert surprise(by_name["members"]) == pytest.approx(typical[0])
    assert math.log1p(by_name["frequency"]) == pytest.approx(typical[-1])
    assert by_name["centroid"] == pytest.approx(1 + HEADROOM - typical[-2])
    assert surprise(by_name["label"]) + HEADROOM == pytest.approx(typical[-3])


def test_typical_wide_probability_is_near_the_median_of_what_the_wide_classifier_gives(
    grouped: HedgerowTextClassifier,
) -> None:
    source = grouped.source
    assert source.scorers is not None
    for text in SAMPLE.test_texts[:5]:
        rows = source.reader.read((text,), 1).rows
        found = source.forest.votes(rows, 1, source.finding, 1)
        wide = Ensemble([source.scorers.trees.trees[0]], source.scorers.trees.labels)
        plain = wide.score(rows, found.indptr, found.labels, 1).probs[:, 0]
        verdict = explain(grouped, text).verdict
        assert verdict is not None
        assert surprise(verdict.evidence[1].reference) == pytest.approx(
            float(np.median(surprise(plain))), abs=0.1
        )


def test_effect_of_a_word_is_what_the_judge_says_without_it(any_judged: HedgerowTextClassifier) -> None:
    source = any_judged.source
    judge, scorers = source.judge, source.scorers
    assert judge is not None
    assert scorers is not None
    found = explain(any_judged, TEXT, LABEL)
    assert found.members_effect is not None
    assert (found.wide_effect is not None) == (any_judged.wide is not None)
    column = np.array([any_judged.classes_.tolist().index(LABEL)], dtype=np.int32)
    for place, own in enumerate(found.effects):
        assert found.features[place] in TEXT.lower()
        if not np.isnan(own).any():
            assert found.effect[place] == pytest.approx(own.mean())
    values = source.reader.plain_features((TEXT,), 1).toarray()[0]
    columns = np.flatnonzero(values)
    names = source.reader.feature_names((TEXT,), columns)
    classifier, centroids = scorers.trees.trees

    def asked(feature: int | None) -> tuple[list[float], list[float]]:
        """What members and scorers say without a feature."""
        probs = [tree_probabilities(tree, values, column[0], feature)[0] for tree in source.forest.trees]
        wide, own = tree_probabilities(classifier, values, column[0], feature, HEADROOM)
        centroid, _ = tree_probabilities(centroids, values, column[0], feature, HEADROOM)
        return probs, [wide, own, centroid] if any_judged.wide else [own, centroid]

    def logs(probs: list[float], scores: list[float]) -> np.ndarray:
        arrays = (np.array([row], dtype=np.float32) for row in (probs, scores))
        return np.asarray(np.log(judge.apply(column, *arrays, 1)[0]))

    compared = 0
    for name, feature in zip(names, columns.tolist(), strict=True):
        place = found.features.tolist().index(name)
        if abs(found.effect[place]) < 1e-3:
            continue
        change = logs(*asked(None)) - logs(*asked(feature))
        assert found.effect[place] == pytest.approx(change.mean(), abs=1e-4)
        compared += 1
    assert compared > 3


def tree_probabilities(
    tree: Any, values: np.ndarray, label: int, without: int | None = None, headroom: float = 0.0
) -> tuple[float, float]:
    """The probability of a label in one tree, and that of its own classifier alone, dense.

    The score of the label, not those of the groups above it, is lowered by the headroom.
    """
    x = values / np.linalg.norm(values)
    if without is not None:
        x = x.copy()
        x[without] = 0
    log, parent, nodes = 0.0, 0, tree.tree.path(label)
    for layer, node in enumerate(nodes):
        begin, end = tree.tree.begins[layer][parent : parent + 2].tolist()
        features, lanes, weights, bias = tree.node_weights(layer, parent)
        dense = np.zeros((len(x), end - begin))
        dense[features, lanes] = weights
        score = x @ dense[:, node - begin] + bias[node - begin]
        if layer + 1 == len(nodes):
            score -= headroom
        own = -(max(0.0, 1.0 - score) ** 3)
        log += own
        parent = node
    return math.exp(log), math.exp(own)


@pytest.mark.parametrize(("which", "wide"), [("judged", 10_000), ("grouped", 60)])
def test_wide_probability_is_that_of_a_wide_classifier_alone(
    which: str, wide: int, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(which)
    shape = wide_shape(len(model.classes_), wide).describe()
    plain = HedgerowTextClassifier(**shape, random_state=0, n_jobs=2)
    plain.fit(SAMPLE.train_texts, SAMPLE.train_labels).set_params(candidates="all")
    for text in SAMPLE.test_texts[:5]:
        best = plain.top([text], k=3)
        for label, probability in zip(best.labels[0], best.probability[0], strict=True):
            verdict = explain(model, text, label).verdict
            assert verdict is not None
            assert verdict.evidence[1].value == pytest.approx(float(probability), abs=0.03)


@pytest.mark.parametrize("transform", ["l3-hinge", "sigmoid"])
def test_plain_probability_takes_back_what_scores_were_lowered_by(transform: str) -> None:
    scores = np.linspace(-2, 3, 30)

    def probability(z: np.ndarray) -> np.ndarray:
        return np.exp(-(np.maximum(0, 1 - z) ** 3)) if transform == "l3-hinge" else np.asarray(expit(z))

    np.testing.assert_allclose(
        plain_probability(probability(scores - HEADROOM), transform), probability(scores), atol=1e-9
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


def test_sentences_say_who_gave_what_and_how_it_moved(
    judged: HedgerowTextClassifier, grouped: HedgerowTextClassifier, alone: HedgerowTextClassifier
) -> None:
    why = explain(grouped, TEXT, LABEL)
    assert why.verdict is not None
    members, wide, label = why.verdict.evidence[:3]
    said = why.sentences()
    assert len(said) == 7
    assert said[1].startswith(f"The trees gave {percent(members.value)} (typical: ")
    assert said[2].startswith(f"The wide classifier gave {percent(wide.value)}")
    assert f"raised the odds {math.exp(wide.effect):,.0f} times" in said[2]
    within = "Within its group of similar labels, the label's own classifier gave"
    assert said[3].startswith(f"{within} {percent(label.value)} (typical: {percent(label.reference)}), ")
    assert said[-1] == f"The judge's answer: {percent(why.probability)}."
    # Where the wide classifier has no groups, a label's own classifier says the same: it is said once.
    why = explain(judged, TEXT, LABEL)
    assert why.verdict is not None
    _, wide, label = why.verdict.evidence[:3]
    assert (wide.value, wide.reference) == (label.value, label.reference)
    said = why.sentences()
    assert len(said) == 6
    assert f"raised the odds {math.exp(wide.effect + label.effect):,.0f} times" in said[2]
    assert "similarity" in said[3]
    # A single tree.
    why = explain(alone, TEXT, LABEL)
    assert why.verdict is not None
    said = why.sentences()
    assert len(said) == 6
    assert said[2].startswith(f"{within} {percent(why.verdict.evidence[1].value)}")


@pytest.mark.parametrize(("cosine", "text"), [(-1e-9, "0.00"), (0, "0.00"), (0.126, "0.13"), (-0.2, "-0.20")])
def test_a_similarity_of_nothing_has_no_sign(cosine: float, text: str) -> None:
    verdict = Verdict((Evidence("centroid", cosine, -1e-12, 0.0),), 0.0, 0.0)
    assert f"is {text} (typical: 0.00), which hardly moved" in verdict.sentences()[1]


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
    assert [one["name"] for one in said["judge"]["evidence"]][1:3] == ["wide", "label"]
    effects = sum(one["effect"] for one in said["judge"]["evidence"])
    assert said["judge"]["base"] + effects == pytest.approx(said["judge"]["log_odds"], abs=1e-10)
    assert said["speaks_for"][0]["wide_effect"] == pytest.approx(why.for_(1)[0].wide_effect)
