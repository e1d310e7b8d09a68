"""Names as evidence: found in texts, weighed by a second judge, and proposing labels without any example."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from named_texts import LABELS, Named, named_texts
from scipy.special import expit, logit

from hedgerow import HedgerowTextClassifier, Vocabulary, VocabularyWarning, _native, explain, load
from hedgerow.decisions.policy import Policy
from hedgerow.features.name_matcher import NameMatcher
from hedgerow.inputs.search import SearchSettings
from hedgerow.inputs.subset import LabelSubset
from hedgerow.judge import boosting
from hedgerow.judge.boosting import BoostedTrees, Boosting, fit_boosted_trees
from hedgerow.judge.calibration import Calibration
from hedgerow.judge.name_matches import LabelRecord, find_names, number_names
from hedgerow.judge.names import NAMED_EVIDENCE, Said, named_candidates
from hedgerow.serve.prediction import Wanted, predict
from hedgerow.serve.served_model import ServedModel
from hedgerow.storage.container import ModelFileError

TRUE_SHARE = 0.25


@pytest.fixture(scope="module")
def named() -> Named:
    return named_texts(0)


@pytest.fixture(scope="module")
def model(named: Named) -> HedgerowTextClassifier:
    classifier = HedgerowTextClassifier(method="bagging", members=4, judge=True, random_state=0)
    return classifier.fit(named.texts, named.labels, vocabulary=named.vocabulary)


@pytest.fixture(scope="module")
def single(named: Named) -> HedgerowTextClassifier:
    classifier = HedgerowTextClassifier(judge=True, random_state=0)
    return classifier.fit(named.texts, named.labels, vocabulary=named.vocabulary)


# --- boosted trees ---


def examples(seed: int, rows: int = 800) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    seen = draw.normal(size=(rows, 4)).astype(np.float32)
    true = draw.random(rows) < expit(2 * seen[:, 0] - seen[:, 1] ** 2)
    return seen, true


def fitted(seed: int = 0) -> tuple[BoostedTrees, np.ndarray]:
    seen, true = examples(seed)
    how = Boosting(trees=12, leaves=7, rate=0.3, least=20)
    return fit_boosted_trees(
        seen, true, np.ones(len(true), np.float32), [True, False, False, False], how
    ), seen


def test_boosted_trees_say_what_lightgbm_says(monkeypatch: pytest.MonkeyPatch) -> None:
    boosters = []
    train = lightgbm.train
    monkeypatch.setattr(lightgbm, "train", lambda *a, **k: boosters.append(train(*a, **k)) or boosters[-1])
    trees, _ = fitted()
    new = np.random.default_rng(9).normal(size=(500, 4)).astype(np.float32)
    expected = boosters[0].predict(new, raw_score=True)
    np.testing.assert_allclose(trees.log_odds(new, 2), expected, rtol=1e-12, atol=1e-12)


def test_boosted_trees_are_the_sum_of_the_leaves_on_the_way() -> None:
    trees, seen = fitted(1)

    def walked(row: np.ndarray) -> float:
        total = 0.0
        for begin in trees.begins[:-1].tolist():
            node = begin
            while trees.features[node] >= 0:
                left = float(row[trees.features[node]]) <= trees.thresholds[node]
                node = int((trees.left if left else trees.right)[node])
            total += float(trees.thresholds[node])
        return total

    assert trees.log_odds(seen[:50], 1).tolist() == [walked(row) for row in seen[:50]]


def test_boosted_trees_rise_where_they_must() -> None:
    trees, seen = fitted(2)
    higher = seen.copy()
    higher[:, 0] += np.random.default_rng(0).random(len(seen)).astype(np.float32) * 2
    assert (trees.log_odds(higher, 1) >= trees.log_odds(seen, 1)).all()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_boosted_trees_have_the_same_bits_at_any_number_of_threads(threads: int) -> None:
    trees, seen = fitted(3)
    many = np.tile(seen, (20, 1))
    assert trees.log_odds(many, threads).tobytes() == trees.log_odds(many, 1).tobytes()


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("left", 0, 0),
        ("right", 0, -1),
        ("left", 0, 10**6),
        ("features", 0, 4),
        ("features", 0, -2),
        ("thresholds", 0, np.nan),
        ("begins", -1, 10**6),
        ("begins", 0, 1),
    ],
)
def test_trees_that_lead_nowhere_are_refused(name: str, place: int, value: float) -> None:
    trees, _ = fitted()
    sections = {key: array.copy() for key, array in trees.to_sections("t").items()}
    BoostedTrees.from_sections("t", sections, 4)
    sections[f"t.{name}"][place] = value
    with pytest.raises(ValueError, match="trees"):
        BoostedTrees.from_sections("t", sections, 4)


# --- members move ---


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 40))
def test_members_move_by_one_factor_on_their_odds(seed: int, members: int, entries: int) -> None:
    draw = np.random.default_rng(seed)
    probs = expit(draw.normal(-2, 2, (entries, members))).astype(np.float32)
    wanted = draw.normal(-1, 3, entries)
    moved = _native.move_members(wanted, probs, 2).astype(np.float64)
    np.testing.assert_allclose(moved.mean(axis=1), expit(wanted), rtol=2e-4, atol=1e-7)
    inside = np.abs(logit(moved)) < 10
    factors = np.where(inside, logit(moved) - logit(probs.astype(np.float64)), np.nan)
    spread = np.nanmax(factors, axis=1, initial=-np.inf) - np.nanmin(factors, axis=1, initial=np.inf)
    assert np.all((spread < 2e-2) | ~np.isfinite(spread))


# --- what is known of a find ---


def test_finds_are_described_by_text_and_label() -> None:
    names = ["hedge", "hedge school", "yew", "Hecke"]
    matcher = NameMatcher(
        names, ["en", "en", "en", "de"], np.array([0, 1, 2, 0]), np.array([1, 1, 0, 0], bool)
    )
    columns = np.array([7, 3, 5], np.int32)
    titles, abstracts = ("Hedges", "a tree"), ("the hedge school of a hedge", "")
    found = find_names(matcher, columns, [titles, abstracts], 1)
    assert found.indptr.tolist() == [0, 2, 2]
    assert found.labels.tolist() == [3, 7]
    described = {
        label: dict(zip(number_names(2), numbers, strict=False))
        for label, numbers in zip(found.labels.tolist(), found.numbers.tolist(), strict=True)
    }
    school, hedge = described[3], described[7]
    assert school["outer in text 0"] == 0
    assert school["outer in text 1"] == pytest.approx(np.log(2))
    assert school["words"] == 2
    assert hedge["outer in text 0"] == pytest.approx(np.log(2))
    assert hedge["count"] == pytest.approx(np.log(4))  # the title, and twice the abstract
    assert hedge["outer share"] == pytest.approx(2 / 3)  # once within "hedge school"
    assert hedge["exact share"] == pytest.approx(2 / 3)
    assert hedge["preferred"] == 1
    assert hedge["early in text 0"] == 1
    assert hedge["found in input"] == pytest.approx(np.log(3))


def test_a_record_leaves_out_the_input_itself() -> None:
    record = LabelRecord(np.array([4, 1]), np.array([10, 3]), np.array([2, 1]))
    labels = np.array([0, 1, 1], np.int32)
    plain, without = record.describe(labels), record.describe(labels, np.array([False, True, False]))
    np.testing.assert_allclose(plain[0], [np.log(5), np.log(11), np.log(2.5 / 15), 0], rtol=1e-6)
    np.testing.assert_allclose(without[0], [np.log(5), np.log(10), np.log(2.5 / 14), 0], rtol=1e-6)
    np.testing.assert_allclose(without[1], [0, np.log(3), np.log(0.5 / 7), 1], rtol=1e-6)
    np.testing.assert_allclose(without[2], [np.log(2), np.log(3), np.log(1.5 / 7), 0], rtol=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31))
def test_candidates_are_the_best_found_and_the_best_named(seed: int) -> None:
    draw = np.random.default_rng(seed)
    inputs, labels = int(draw.integers(1, 5)), 400
    rows = [np.sort(draw.choice(labels, draw.integers(1, 250), replace=False)) for _ in range(inputs)]
    named = [np.sort(draw.choice(labels, draw.integers(0, 80), replace=False)) for _ in range(inputs)]
    matcher = NameMatcher(
        [f"name{n}x" for n in range(labels)], [None] * labels, np.arange(labels), np.ones(labels, bool)
    )
    texts = tuple(" ".join(f"name{n}x" for n in own.tolist()) for own in named)
    matched = find_names(matcher, np.arange(labels, dtype=np.int32), [texts], 1)
    assert [part.tolist() for part in np.split(matched.labels, matched.indptr[1:-1])] == [
        own.tolist() for own in named
    ]
    said = Said(
        np.cumsum([0, *map(len, rows)]),
        np.concatenate(rows).astype(np.int32),
        draw.normal(-3, 2, sum(map(len, rows))),
    )
    lexical = draw.normal(-3, 2, len(matched.labels))
    described = np.hstack([matched.numbers, np.zeros((len(matched.labels), 4), np.float32)])
    found = named_candidates(said, matched, lexical, described, np.arange(labels, dtype=np.float32))
    for row in range(inputs):
        own, named_here = slice(*said.indptr[row : row + 2]), slice(*matched.indptr[row : row + 2])
        z = dict(zip(said.labels[own].tolist(), said.log_odds[own].tolist(), strict=True))
        lex = dict(zip(matched.labels[named_here].tolist(), lexical[named_here].tolist(), strict=True))
        wanted = set(sorted(z, key=z.get, reverse=True)[:100]) | set(
            sorted(lex, key=lex.get, reverse=True)[:30]
        )
        here = found.rows == row
        assert found.labels[here].tolist() == sorted(wanted)
        evidence = {name: found.evidence[here, n] for n, name in enumerate(NAMED_EVIDENCE)}
        for n, label in enumerate(sorted(wanted)):
            assert evidence["members"][n] == pytest.approx(z.get(label, -14.0), rel=1e-5)
            assert evidence["name"][n] == pytest.approx(lex.get(label, -14.0), rel=1e-5)
            assert evidence["frequency"][n] == label
        places = found.places[here]
        assert [said.labels[at] if at >= 0 else -1 for at in places.tolist()] == [
            label if label in z else -1 for label in sorted(wanted)
        ]


# --- the model ---


def ranked(model: HedgerowTextClassifier, texts: list[str], k: int = 5) -> list[list[str]]:
    return model.top(texts, k=k).labels.tolist()


def test_names_find_labels_that_no_training_text_has(model: HedgerowTextClassifier, named: Named) -> None:
    without = replace(model.model_, names=None)
    blind = without.top(without.inputs(named.test_texts), 5)[0]
    blind_names = without.classes[blind].tolist()
    seeing = ranked(model, named.test_texts)
    unseen = [
        (row, label) for row, own in enumerate(named.test_labels) for label in own if label in named.unseen
    ]
    assert len(unseen) > 50
    assert not any(label in blind_names[row] for row, label in unseen)
    assert np.mean([label in seeing[row] for row, label in unseen]) > 0.5
    hits = [
        np.mean([label in own for label in best]) for own, best in zip(named.test_labels, seeing, strict=True)
    ]
    blind_hits = [
        np.mean([label in own for label in best])
        for own, best in zip(named.test_labels, blind_names, strict=True)
    ]
    assert np.mean(hits) > np.mean(blind_hits)


def test_doubt_about_a_label_without_examples_is_lack_of_knowledge(
    model: HedgerowTextClassifier, named: Named
) -> None:
    found = model.predict_uncertain(named.test_texts, k=5)
    new = np.isin(found.labels.astype(str), sorted(named.unseen)) & (found.probability > 0.02)
    old = ~np.isin(found.labels.astype(str), sorted(named.unseen)) & (found.probability > 0.02)
    share = found.knowledge / np.maximum(found.total, 1e-9)
    assert new.sum() > 50
    assert np.median(share[new]) > 0.5 > np.median(share[old])


def test_doubt_of_a_single_model_about_a_label_without_examples_is_lack_of_knowledge(
    single: HedgerowTextClassifier, named: Named
) -> None:
    found = single.predict_uncertain(named.test_texts, k=5)
    new = np.isin(found.labels.astype(str), sorted(named.unseen))
    assert (new & (found.total > 0.1)).sum() > 50
    np.testing.assert_array_equal(found.knowledge, np.where(new, found.total, 0))
    np.testing.assert_array_equal(found.data, np.where(new, 0, found.total))
    np.testing.assert_allclose(
        found.instance.total, found.instance.data + found.instance.knowledge, rtol=1e-5
    )
    assert (found.instance.knowledge > 0.05).any()
    served = ServedModel(single.source, "0")
    row = int(np.flatnonzero((new & (found.total > 0.1)).any(axis=1))[0])
    said = predict(served, [named.test_texts[row]], Wanted(5, uncertainty=True))[0]
    assert [one["knowledge"] for one in said["labels"]] == found.knowledge[row].tolist()


def test_probabilities_of_labels_without_examples_come_true(
    model: HedgerowTextClassifier, named: Named
) -> None:
    found = model.predict_uncertain(named.test_texts, k=10)
    new = np.isin(found.labels.astype(str), sorted(named.unseen))
    true = np.array(
        [[label in own for label in row] for row, own in zip(found.labels, named.test_labels, strict=True)]
    )
    assert found.probability[new].mean() == pytest.approx(true[new].mean(), abs=0.1)


def test_bits_do_not_depend_on_threads_or_batches(model: HedgerowTextClassifier, named: Named) -> None:
    texts = named.test_texts[:60]
    whole = model.predict_votes(texts)
    other = HedgerowTextClassifier(method="bagging", members=4, judge=True, random_state=0, n_jobs=2)
    again = other.fit(named.texts, named.labels, vocabulary=named.vocabulary).predict_votes(texts)
    assert whole.probs.tobytes() == again.probs.tobytes()
    assert whole.labels.tobytes() == again.labels.tobytes()
    begin = 0
    for size in (1, 7, 52):
        part = model.predict_votes(texts[begin : begin + size])
        entries = slice(whole.indptr[begin], whole.indptr[begin + size])
        assert part.labels.tobytes() == whole.labels[entries].tobytes()
        assert part.probs.tobytes() == whole.probs[entries].tobytes()
        begin += size


def test_a_file_keeps_names(model: HedgerowTextClassifier, named: Named, tmp_path: Path) -> None:
    model.save(tmp_path / "named.hedgerow")
    opened = load(tmp_path / "named.hedgerow")
    assert (
        opened.predict_votes(named.test_texts).probs.tobytes()
        == model.predict_votes(named.test_texts).probs.tobytes()
    )
    opened.save(tmp_path / "again.hedgerow")
    assert (tmp_path / "again.hedgerow").read_bytes() == (tmp_path / "named.hedgerow").read_bytes()


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("names.columns", lambda array: np.zeros_like(array)),
        ("names.columns", lambda array: array[:-1]),
        ("names.columns", lambda array: array + 10**6),
        ("names.found", lambda array: array - 10**6),
        ("names.right", lambda array: array[:-1]),
        ("names.judge.left", lambda array: np.zeros_like(array)),
        ("names.lexical.features", lambda array: array + 10**6),
    ],
)
def test_crafted_names_are_refused(
    model: HedgerowTextClassifier, section: str, change: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = model.model_.names
    assert names is not None
    sections = names.to_sections()
    crafted = {**sections, section: np.ascontiguousarray(change(sections[section]))}
    monkeypatch.setattr(type(names), "to_sections", lambda self: crafted)
    model.save(tmp_path / "crafted.hedgerow")
    with pytest.raises(ModelFileError, match="does not hold a whole model"):
        load(tmp_path / "crafted.hedgerow")


def test_subsets_hold_for_labels_that_names_propose(model: HedgerowTextClassifier, named: Named) -> None:
    some = sorted(named.unseen)[:2]
    exclude = model.top(named.test_texts, k=5, exclude=some).labels
    assert not np.isin(exclude.astype(str), some).any()
    seen = [label for label in model.classes_.tolist() if label not in named.unseen]
    only = model.top(named.test_texts, k=5, only=[*seen[:20], *some]).labels
    assert set(np.unique(only.astype(str))) <= {*seen[:20], *some}
    assert np.isin(only.astype(str), some).any()


def test_another_vocabulary_brings_new_labels_and_keeps_old_ones(
    model: HedgerowTextClassifier, named: Named, tmp_path: Path
) -> None:
    model.save(tmp_path / "m.hedgerow")
    opened = load(tmp_path / "m.hedgerow")
    gone = sorted(named.unseen)[0]
    names = {entry.id: entry.names[0].text for entry in named.vocabulary if entry.id != gone}
    with pytest.warns(UserWarning, match="not in the vocabulary"):
        opened.set_vocabulary(Vocabulary.from_names(names | {"x:new": "zymurgical zeppelin"}, "en"))
    assert gone in opened.classes_.tolist()
    best = ranked(opened, ["zymurgical zeppelin", "something about a zymurgical zeppelin and the rest"], 20)
    assert all("x:new" in row for row in best)
    opened.save(tmp_path / "again.hedgerow")
    assert ranked(load(tmp_path / "again.hedgerow"), named.test_texts) == ranked(opened, named.test_texts)
    opened.set_vocabulary(None)
    assert opened.model_.names is None
    assert not np.isin(np.array(ranked(opened, named.test_texts)).astype(str), sorted(named.unseen)).any()


def test_what_leaves_the_vocabulary_is_answered_as_before_and_listed(
    model: HedgerowTextClassifier, named: Named, tmp_path: Path
) -> None:
    model.save(tmp_path / "m.hedgerow")
    opened = load(tmp_path / "m.hedgerow")
    gone = sorted({*sorted(named.unseen)[:100], *model.top(named.test_texts, k=1).labels.ravel().tolist()})
    names = {entry.id: entry.names[0].text for entry in named.vocabulary}
    opened.model_ = replace(opened.model_, calibration=some_calibration(model, named))
    before = opened.predict_votes(named.test_texts)
    with pytest.warns(VocabularyWarning):
        opened.set_vocabulary(Vocabulary.from_names({id: names[id] for id in names if id not in gone}, "en"))
    opened.save(tmp_path / "left.hedgerow")
    opened = load(tmp_path / "left.hedgerow")
    after = opened.predict_votes(named.test_texts)
    assert opened.model_.calibrated  # as the same names are looked for
    assert after.labels.tobytes() == before.labels.tobytes()
    assert after.probs.tobytes() == before.probs.tobytes()
    assert sorted(opened.describe()["vocabulary"]["labels_that_left"]) == gone
    unseen = next(id for id in gone if id in named.unseen)
    verdict = explain(opened, f"about {names[unseen]}", unseen).names
    assert verdict.name == names[unseen]
    assert verdict.finds

    # Other names discard the calibration, and what left is still found; what comes back has left no more.
    back = {id: names[id] for id in names if id not in gone[1:]} | {"x:new": "zymurgical zeppelin"}
    with pytest.warns(VocabularyWarning):
        opened.set_vocabulary(Vocabulary.from_names(back, "en"))
    assert not opened.model_.calibrated
    assert sorted(opened.describe()["vocabulary"]["labels_that_left"]) == gone[1:]
    assert opened.top([f"about {names[unseen]}"], k=1).labels.tolist() == [[unseen]]
    with pytest.warns(VocabularyWarning):
        opened.set_vocabulary(named.vocabulary)
    assert opened.model_.left is not None
    assert opened.model_.left.ids == ["x:new"]


def test_labels_that_names_find_are_not_unknown_to_a_policy(
    model: HedgerowTextClassifier, named: Named
) -> None:
    learned = copy.copy(model).learn_policy(named.test_texts, named.test_labels)
    policy = learned.policy_
    found = model.predict_votes(named.test_texts)
    candidates = [
        set(model.classes_[found.labels[begin:end]].tolist())
        for begin, end in itertools.pairwise(found.indptr)
    ]
    never = [[label for label in own if label in named.unseen] for own in named.test_labels]
    rows = list(zip(named.test_labels, never, candidates, strict=True))
    by_name = np.mean([len(set(new) & there) / len(own) for own, new, there in rows])
    assert policy.named == pytest.approx(by_name)
    assert policy.named > 0.05
    assert policy.unknown == pytest.approx(np.mean([len(new) / len(own) for own, new, _ in rows]) - by_name)
    assert policy.describe()["lost_by_the_beam"] >= 0
    said = policy.review_guarantee(10).words
    assert f"about {100 * policy.unknown:.2g} % of the right labels have never been seen in training" in said
    assert f"{100 * policy.named:.2g} % more are found by their names only" in said
    header, sections = policy.to_sections()
    assert Policy.from_sections(header, sections).named == policy.named


def some_calibration(model: HedgerowTextClassifier, named: Named) -> Calibration:
    plain = copy.copy(model)
    found = plain.calibrate(named.test_texts, named.test_labels).model_.calibration
    assert found is not None
    return found


def test_names_that_say_nothing_are_left_out(named: Named) -> None:
    ids = [entry.id for entry in named.vocabulary]
    meaningless = Vocabulary.from_names({id: f"nonsense{number}" for number, id in enumerate(ids)})
    classifier = HedgerowTextClassifier(judge=True, random_state=0)
    classifier.fit(named.texts, named.labels, vocabulary=meaningless)
    assert classifier.model_.names is None
    assert classifier.model_.vocabulary is meaningless
    assert not set(classifier.classes_.tolist()) & named.unseen


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [1, 7, 300, 2500])
def test_a_subset_is_all_labels_with_the_others_crossed_out_names_included(
    seed: int, size: int, model: HedgerowTextClassifier, named: Named
) -> None:
    draw = np.random.default_rng(seed)
    texts = [named.test_texts[row] for row in draw.choice(len(named.test_texts), 6, replace=False)]
    columns = np.sort(draw.choice(len(model.classes_), size, replace=False)).astype(np.int32)
    source = replace(model.model_, search=SearchSettings(candidates="all"))
    every = source.answer(texts).votes
    found = source.answer(texts, subset=LabelSubset(columns)).votes
    expected = every.chosen(np.flatnonzero(np.isin(every.labels, columns)))
    heard = found.chosen(np.flatnonzero(found.probs.any(axis=1)))  # others fill up to one label per input
    assert heard.labels.tobytes() == expected.labels.tobytes()
    assert heard.indptr.tolist() == expected.indptr.tolist()
    assert heard.probs.tobytes() == expected.probs.tobytes()


def test_a_beam_finds_k_labels_of_a_subset_and_names_see_those_outside(
    model: HedgerowTextClassifier, named: Named
) -> None:
    seen = [label for label in model.classes_.tolist() if label not in named.unseen]
    few = seen[:: len(seen) // 10]
    found = model.predict_uncertain(named.test_texts, k=8, only=few)
    assert np.isin(found.labels.astype(str), few).all()
    whole = model.predict_uncertain(named.test_texts, k=5)
    of_whole = {
        (row, label): probability
        for row, (labels, values) in enumerate(zip(whole.labels, whole.probability, strict=True))
        for label, probability in zip(labels.tolist(), values.tolist(), strict=True)
    }
    pairs = [
        (probability, of_whole[row, label])
        for row, (labels, values) in enumerate(zip(found.labels, found.probability, strict=True))
        for label, probability in zip(labels.tolist(), values.tolist(), strict=True)
        if (row, label) in of_whole
    ]
    assert len(pairs) > 5
    alone, among_all = np.array(pairs).T
    np.testing.assert_allclose(alone, among_all, atol=0.05)


def test_a_label_that_only_its_name_can_find_may_be_the_only_one(
    model: HedgerowTextClassifier, named: Named
) -> None:
    some = sorted(named.unseen)[:3]
    names = {entry.id: entry.names[0].text for entry in named.vocabulary}
    texts = [f"something about {names[some[1]]}", "nothing of the kind"]
    found = model.predict_uncertain(texts, k=3, only=some)
    assert found.labels[0, 0] == some[1]
    assert found.probability[0, 0] == model.predict_uncertain(texts, k=1).probability[0, 0] > 0.1
    assert sorted(found.labels[1].tolist()) == some
    assert found.probability[1].tolist() == [0, 0, 0]
    assert not found.instance.total[1]
    assert model.top(texts, k=1, only=some[:1]).labels.tolist() == [[some[0]]] * 2
    with pytest.raises(ValueError, match="leave 3 labels"):
        model.top(texts, k=4, only=some)


def test_as_many_labels_as_names_and_trees_know_can_be_asked_for(
    model: HedgerowTextClassifier, named: Named
) -> None:
    assert model.model_.known == len(model.classes_) == LABELS
    assert sorted(model.top(named.test_texts[:1], k=LABELS).labels[0].tolist()) == sorted(
        model.classes_.tolist()
    )


def test_what_learns_trees_is_not_imported_before_it_is_needed() -> None:
    assert "lightgbm" not in vars(boosting)
