"""Updates of models: single promises, beside full fits and plain records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from dense_oracle import random_problem
from update_truth import Known, Truth

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowTextClassifier, learn_from_held_out
from hedgerow.records.file import NoRecordsError
from hedgerow.records.lineage import Event, Lineage

SMALL: dict[str, Any] = {"branching": 3, "leaf_size": 3, "random_state": 3, "n_jobs": 1}
KINDS = ["ash", "elm", "hazel", "holly", "ivy", "oak", "rose", "sloe", "willow", "yew"]
AT = "2030-01-01T00:00:00"
HELD_OUT: dict[str, Any] = {"method": "isotonic", "by": "all", "of": "mean"}


def texts_of(kind: str, count: int, first: int = 0) -> list[str]:
    return [f"{kind} leaf {kind} number{number}" for number in range(first, first + count)]


def some_records(each: int = 6, first: int = 0) -> tuple[list[str], list[list[str]], list[str]]:
    texts = [text for kind in KINDS for text in texts_of(kind, each, first)]
    labels = [[kind] for kind in KINDS for _ in range(each)]
    return texts, labels, [f"{first}-{number}" for number in range(len(texts))]


def a_model(**settings: Any) -> HedgerowTextClassifier:
    texts, labels, ids = some_records()
    model = HedgerowTextClassifier(**SMALL | settings)
    return model.fit(texts, labels, ids=ids, keep_records=True)


def files(model: Any, folder: Path) -> tuple[bytes, bytes]:
    path = folder / "model.hedgerow"
    model.save(path, overwrite=True)
    return path.read_bytes(), Path(f"{path}.data").read_bytes()


def best(model: Any, texts: list[str]) -> list[str]:
    return model.top(texts, k=1).labels[:, 0].tolist()


def solved(model: Any) -> dict[str, int]:
    """With which update the classifier of each label was trained last."""
    when = model.records_.solved[0][-1].tolist()
    return {model.classes_[label]: when[place] for place, label in enumerate(model.tree_.labels.tolist())}


# --- what is trained again ---


def test_update_when_nothing_is_asked_then_keeps_all_trees_and_adds_an_event() -> None:
    model = a_model()
    before = model.model_.forest.trees[0]
    report = model.update(at=AT)
    after = model.model_.forest.trees[0]
    for chunk in range(sum(before.tree.layer_sizes[:-1])):
        np.testing.assert_array_equal(after.native.block(chunk), before.native.block(chunk))
    assert report.refitted is None
    assert model.lineage_.events == (Event("update", AT, 60),)


def test_record_when_it_leaves_after_its_label_was_renamed_then_counts_as_lost_for_the_new_name() -> None:
    model = a_model()
    model.update(rename={"ash": "Fraxinus"}, at=AT)
    assert set(solved(model).values()) == {0, 1}
    when = solved(model)["Fraxinus"]
    model.update(remove=["0-0", "0-1"], at=AT)
    assert when < solved(model)["Fraxinus"] == 2
    assert solved(model)["yew"] == 0
    assert model.label_counts_[model.classes_.tolist().index("Fraxinus")] == 4


def test_two_labels_when_renamed_to_one_new_name_then_are_one_label_in_the_tree() -> None:
    model = a_model()
    model.update(rename={"ash": "broad", "elm": "broad"}, at=AT)
    assert sorted(model.classes_.tolist()) == sorted([*KINDS[2:], "broad"])
    assert len(set(model.tree_.labels.tolist())) == len(model.tree_.labels) == 9
    assert model.label_counts_[model.classes_.tolist().index("broad")] == 12
    assert best(model, texts_of("ash", 3) + texts_of("elm", 3) + texts_of("oak", 1)) == ["broad"] * 6 + [
        "oak"
    ]


def test_labels_that_are_integers_stay_what_they_are_when_all_is_trained_again() -> None:
    texts, labels, ids = some_records()
    number = {kind: 10**9 * place - 7 for place, kind in enumerate(KINDS)}
    model = HedgerowTextClassifier(**SMALL)
    model.fit(texts, [[number[own[0]]] for own in labels], ids=ids, keep_records=True)
    model.update(texts_of("leaf", 2), [[5], [5]], at=AT)
    assert model.classes_.tolist() == [*sorted(number.values()), 5]
    report = model.update(remove=ids[:20], at=AT)
    assert report.refitted is not None
    assert model.classes_.tolist() == sorted({5, *(number[own[0]] for own in labels[20:])})
    assert best(model, texts_of("yew", 1)) == [number["yew"]]


# --- full fits ---


def test_update_when_a_quarter_changed_then_is_a_fresh_fit_to_the_records_in_their_order(
    tmp_path: Path,
) -> None:
    model = a_model()
    texts, labels, ids = some_records()
    new, theirs = texts_of("Zelkova", 5) + texts_of("Abies", 10), [["Zelkova"]] * 5 + [["Abies"]] * 10
    report = model.update(new, theirs, ids=[f"z{place}" for place in range(15)], at=AT)
    assert report.refitted is None  # exactly a quarter
    assert model.update(remove=["0-0"], at=AT).refitted is not None
    texts = texts[1:] + texts_of("Zelkova", 5) + texts_of("Abies", 10)
    labels = labels[1:] + [["Zelkova"]] * 5 + [["Abies"]] * 10
    ids = ids[1:] + [f"z{place}" for place in range(15)]
    assert (model.records().now, len(model.records().arrived)) == (0, 74)  # what left is gone from the file
    fresh = HedgerowTextClassifier(**SMALL).fit(texts, labels, ids=ids, keep_records=True)
    assert model.lineage_.events == (Event("fit again", AT, 74),)
    assert model.lineage_.parent is None
    fresh._begin(Event("fit again", AT, 74))
    assert files(model, tmp_path) == files(fresh, tmp_path)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"method": "boosting", "members": 2}, "mistakes"),
        ({"method": "boosted-bagging", "members": 2}, "mistakes"),
        ({"method": "bagging", "members": 2, "trees": 1}, "share a tree"),
    ],
)
def test_members_that_depend_on_each_other_are_trained_again_with_the_reason(
    tmp_path: Path, settings: dict[str, Any], reason: str
) -> None:
    model = a_model(**settings)
    report = model.update([*texts_of("fir", 2)], [["fir"], ["fir"]], ids=["a", "b"], at=AT)
    assert reason in str(report.refitted)
    texts, labels, ids = some_records()
    fresh = HedgerowTextClassifier(**SMALL | settings).fit(
        texts + texts_of("fir", 2), [*labels, ["fir"], ["fir"]], ids=[*ids, "a", "b"], keep_records=True
    )
    fresh._begin(Event("fit again", AT, 62))
    assert files(model, tmp_path) == files(fresh, tmp_path)


@pytest.mark.parametrize(
    "settings", [{"method": "bagging", "members": 2}, {"loss": "logistic"}, {"normalize": False}]
)
def test_model_whose_settings_were_changed_is_trained_again_with_them(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    model = a_model().set_params(**settings)
    assert "settings" in str(model.update(remove=["0-1"], at=AT).refitted)
    texts, labels, ids = ([*part[:1], *part[2:]] for part in some_records())
    fresh = HedgerowTextClassifier(**SMALL | settings).fit(texts, labels, ids=ids, keep_records=True)
    fresh._begin(Event("fit again", AT, 59))
    assert files(model, tmp_path) == files(fresh, tmp_path)


# --- forgetting ---


def test_record_that_is_named_twice_leaves_once() -> None:
    model = a_model()
    assert model.update(remove=["0-1", "0-1"], at=AT).event.removed == 1
    assert model.lineage_.events[-1].records == model.n_samples_ == 59
    assert model.forget(["0-2", "0-2"]).event.removed == 1
    assert model.n_samples_ == 58


def test_forgetting_a_record_leaves_neither_its_words_nor_the_label_that_only_it_had(tmp_path: Path) -> None:
    model = a_model()
    model.update(["secretword ash", "oak elm"], [["secretlabel"], ["oak", "newer"]], ids=["s", "t"], at=AT)
    model.update(rename={"secretlabel": "secretname", "oak": "Quercus"}, at=AT)
    model.update(remove_labels=["secretname"], at=AT)
    model.forget(["s"])
    model.save(tmp_path / "m")
    table = hedgerow.load(tmp_path / "m").records()
    assert table.names[-1] == "newer"
    assert not any("secret" in text for text in table.texts.values())
    for name in ("m", "m.data"):
        assert b"secret" not in (tmp_path / name).read_bytes()
    assert [(event.added, event.labels_renamed, event.labels_removed) for event in model.lineage_.events] == [
        (1, 0, 0),
        (0, 1, 0),
        (0, 0, 0),
    ]


def test_order_of_new_labels_does_not_tell_of_a_record_that_was_forgotten(tmp_path: Path) -> None:
    def with_records(names: list[str]) -> HedgerowTextClassifier:
        model = a_model()
        new = {"s": ["zebra"], "t": ["aspen", "beech"], "u": ["beech"]}
        model.update([f"fir {name}" for name in names], [new[name] for name in names], ids=names, at=AT)
        model.update(texts_of("pine", 2), [["zebra"], ["yew"]], ids=["v", "w"], at=AT)
        return model

    model = with_records(["s", "t", "u"])
    model.forget(["s"])
    assert files(model, tmp_path) == files(with_records(["t", "u"]), tmp_path)


def test_model_without_a_fixed_seed_keeps_its_own_when_all_is_trained_again() -> None:
    model = a_model(random_state=None)
    seed = model.training_.seed
    model.forget(["0-0"])
    assert model.training_.seed == seed
    assert model.random_state is None
    model.update(remove=[f"0-{number}" for number in range(1, 21)], at=AT)
    assert (model.training_.seed, model.random_state) == (seed, None)


def test_forgetting_what_was_never_known_changes_nothing(tmp_path: Path) -> None:
    model = a_model()
    before = files(model, tmp_path)
    with pytest.raises(ValueError, match="no record has the id 'nobody'"):
        model.forget(["0-1", "nobody"])
    assert files(model, tmp_path) == before


@pytest.mark.parametrize("how", ["remove", "forget"])
def test_last_record_stays(how: str, tmp_path: Path) -> None:
    model = a_model()
    before = files(model, tmp_path)
    ids = some_records()[2]
    with pytest.raises(ValueError, match="no record would be left that has a label"):
        model.forget(ids) if how == "forget" else model.update(remove=ids, at=AT)
    assert files(model, tmp_path) == before


def test_last_label_stays(tmp_path: Path) -> None:
    model = a_model()
    before = files(model, tmp_path)
    with pytest.raises(ValueError, match="no record would be left that has a label"):
        model.update(remove_labels=KINDS, at=AT)
    assert files(model, tmp_path) == before


# --- what was learned from held-out data ---


def held_out(model: Any, each: int = 12, keep: bool = True) -> tuple[list[str], list[list[str]]]:
    texts, labels, _ = some_records(each, first=100)
    learn_from_held_out(model, texts, labels, **HELD_OUT)
    if keep:
        model.keep_held_out(texts, labels, HELD_OUT)
    return texts, labels


def test_held_out_data_that_were_kept_are_learned_from_again_and_others_dropped() -> None:
    kept, dropped = a_model(), a_model()
    texts, labels = held_out(kept)
    held_out(dropped, keep=False)
    change: dict[str, Any] = {"X": texts_of("fir", 3), "Y": [["fir"]] * 3, "at": AT}
    first, second = kept.update(**change), dropped.update(**change)
    assert first.learned_again
    assert (first.dropped, second.learned_again) == ((), ())
    assert second.dropped == first.learned_again
    learn_from_held_out(dropped, texts, labels, **HELD_OUT)
    X = texts_of("fir", 2) + texts_of("yew", 2)
    mine, theirs = kept.predict_uncertain(X, k=3), dropped.predict_uncertain(X, k=3)
    np.testing.assert_array_equal(mine.probability, theirs.probability)


def test_record_that_was_held_out_when_it_is_learned_then_is_held_out_no_more() -> None:
    model = a_model()
    texts, labels = held_out(model)
    report = model.update(texts[:12], labels[:12], at=AT)
    assert report.learned_again
    assert len(model.records().held_out.labels) == len(texts) - 12
    assert model.seen_in_training(texts).tolist() == [True] * 12 + [False] * (len(texts) - 12)


@pytest.mark.parametrize("left", [0, 60])
def test_held_out_data_when_too_few_are_left_then_end_no_update(left: int) -> None:
    model = a_model()
    texts, labels = held_out(model)
    learned = model.model_.learned
    report = model.update(texts[left:], labels[left:], at=AT)
    assert (report.learned_again, report.dropped) == ((), learned)
    assert model.model_.learned == ()
    assert model.n_samples_ == 60 + len(texts) - left


def test_labels_of_held_out_data_are_renamed_and_removed_with_those_of_records() -> None:
    model = a_model()
    held_out(model)
    model.update(rename={"ash": "oak", "elm": "Ulmus"}, remove_labels=["yew"], at=AT)
    found = [tuple(own) for own in model.records().held_out.labels]
    assert {kind: found.count((kind,)) for kind in ("oak", "Ulmus", "ash", "elm", "yew")} == {
        "oak": 24, "Ulmus": 12, "ash": 0, "elm": 0, "yew": 0,
    }  # fmt: skip
    assert found.count(()) == 12


# --- how good it is ---


def test_model_that_was_updated_often_finds_labels_as_one_that_was_fitted_again() -> None:
    random = np.random.default_rng(0)
    kinds = [f"kind{number}" for number in range(40)]

    def some(count: int, among: int) -> tuple[list[str], list[list[str]]]:
        drawn = [sorted(set(random.choice(kinds[:among], 2).tolist())) for _ in range(count)]
        noise = random.choice(kinds, (count, 2)).tolist()
        return [" ".join(own * 3 + more) for own, more in zip(drawn, noise, strict=True)], drawn

    texts, labels = some(400, 36)
    model = HedgerowTextClassifier(**SMALL).fit(texts, labels, keep_records=True)
    for _ in range(8):
        new, theirs = some(12, 40)
        assert model.update(new, theirs, at=AT).refitted is None
        texts, labels = texts + new, labels + theirs
    again = HedgerowTextClassifier(**SMALL).fit(texts, labels)
    asked, truth = some(300, 40)

    def right(one: Any) -> float:
        return float(np.mean([name in own for name, own in zip(best(one, asked), truth, strict=True)]))

    assert right(again) > 0.9
    assert right(model) > right(again) - 0.03


# --- what is refused ---


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"X": ["ash"]}, "Y is missing"),
        ({"X": ["ash"], "Y": [["a"], ["b"]]}, "1 inputs, but Y has 2 lists"),
        ({"X": ["ash"], "Y": [["a"]], "ids": ["x", "y"]}, "1 records, but 2 ids"),
        ({"X": ["ash"], "Y": [["a"]], "ids": [3]}, "ids are strings"),
        ({"X": ["ash", "elm"], "Y": [["a"], ["a"]], "ids": ["x", "x"]}, "two of the new records have the id"),
        ({"X": ["ash"], "Y": [["a"]], "ids": ["0-1"], "remove": ["0-1"]}, "removed and comes again"),
        ({"remove": "0-1"}, "give a list"),
        ({"remove_labels": "ash"}, "give a list"),
        ({"remove": ["nobody"]}, "no record has the id 'nobody'"),
        ({"rename": {"unheard": "of"}}, "no record has the label 'unheard'"),
        ({"rename": {"ash": "ash"}}, "name its last name"),
        ({"rename": {"ash": "elm", "elm": "oak"}}, "name its last name"),
        ({"rename": {"ash": 3}}, "all strings or all numbers"),
        ({"remove_labels": ["unheard"]}, "no record has the label 'unheard'"),
        ({"rename": {"ash": "elm"}, "remove_labels": ["elm"]}, "choose one of both"),
        ({"X": ["ash"], "Y": [[7]]}, "the model's labels are strings"),
        ({"X": ["ash"], "Y": [[None]]}, "a missing label"),
        ({"X": ["ash"], "Y": [["a", 3]]}, "mixes strings and integers"),
        ({"X": ["ash"], "Y": ["ash"]}, "list|string"),
        ({"X": [3], "Y": [["a"]]}, "text|str"),
    ],
)
def test_change_that_makes_no_sense_is_refused_and_changes_nothing(
    change: dict[str, Any], match: str, tmp_path: Path
) -> None:
    model = a_model()
    before = files(model, tmp_path)
    with pytest.raises((ValueError, TypeError), match=match):
        model.update(**change, at=AT)
    assert files(model, tmp_path) == before


def test_model_without_records_says_how_to_get_some(tmp_path: Path) -> None:
    texts, labels, ids = some_records()
    model = HedgerowTextClassifier(**SMALL).fit(texts, labels)
    with pytest.raises(NoRecordsError, match="keep_records=True"):
        model.update(at=AT)
    with pytest.raises(ValueError, match=r"not the data|other"):
        model.adopt_records(texts[1:], labels[1:])
    model.adopt_records(texts, labels, ids=ids)
    assert files(model, tmp_path) == files(a_model(), tmp_path)


@pytest.mark.parametrize(
    ("ids", "match"),
    [(["a", "a", None], "two records have the id 'a'"), (["a"], "1 ids"), ([1, 2, 3], "ids are")],
)
def test_fit_when_ids_cannot_tell_records_apart_then_refuses(ids: list[Any], match: str) -> None:
    model = HedgerowTextClassifier(**SMALL)
    with pytest.raises((ValueError, TypeError), match=match):
        model.fit(texts_of("ash", 3), [["ash"], ["elm"], ["oak"]], ids=ids, keep_records=True)


def test_interrupted_update_changes_nothing(tmp_path: Path) -> None:
    model = a_model(method="bagging", members=3)
    before = files(model, tmp_path)

    def stop(share: float, what: str) -> None:
        raise KeyboardInterrupt

    for change in (
        lambda: model.update(texts_of("fir", 3), [["fir"]] * 3, at=AT, progress=stop),
        lambda: model.forget(["0-1"], progress=stop),
    ):
        with pytest.raises(KeyboardInterrupt):
            change()
        assert files(model, tmp_path) == before


# --- the same, however it was fitted ---


@pytest.mark.parametrize("method", ["single", "bagging"])
def test_model_fitted_within_a_memory_budget_updates_to_the_same_bytes(method: str, tmp_path: Path) -> None:
    X, Y = random_problem(1, 120, 50, 30, density=0.3)

    def updated(**place: Any) -> tuple[bytes, bytes]:
        model = HedgerowClassifier(**SMALL, method=method, members=2, **place)
        model.fit(X[:100], Y[:100], ids=[f"r{row}" for row in range(100)], keep_records=True)
        wider = sp.csr_array((Y.data, Y.indices, Y.indptr), shape=(120, 33)).tolil()
        wider[100:110, 31] = 1
        model.update(X[100:110], sp.csr_array(wider)[100:110], remove=["r3"], at=AT)
        model.forget(["r7"])
        model.update(X[110:], Y[110:], ids=["r1", *[None] * 9], at=AT)
        return files(model, tmp_path)

    assert updated(memory="8GB") == updated()


def test_matrix_of_labels_keeps_its_columns_whatever_becomes_of_them() -> None:
    X, Y = random_problem(1, 120, 50, 30, density=0.3)
    model = HedgerowClassifier(**SMALL).fit(X, Y, ids=[f"r{row}" for row in range(120)], keep_records=True)
    mine = [f"r{row}" for row in np.flatnonzero(Y.toarray()[:, 12])]
    model.update(remove=mine, at=AT)
    assert model.classes_.tolist() == list(range(30))
    assert model.label_counts_[12] == 0
    assert 12 not in model.tree_.labels.tolist()
    model.update(remove=[f"r{row}" for row in range(40) if f"r{row}" not in mine], at=AT)
    assert model.lineage_.events[-1].kind == "fit again"
    assert model.classes_.tolist() == list(range(30))


def test_truth_of_these_tests_understands_changes() -> None:
    truth = Truth()
    truth.apply({"records": [Known("a", 1, frozenset("xy")), Known(None, 2, frozenset("x"))], "at": AT})
    truth.apply({"records": [Known("a", 3, frozenset("z"))], "rename": {"x": "y"}, "at": AT})
    assert [(one.id, one.input, one.labels) for one in truth.records] == [
        (None, 2, frozenset("y")),
        ("a", 3, frozenset("z")),
    ]
    assert [change.get("rename") for change in truth.without({"a"})] == [{}, {"x": "y"}]


def test_lineage_tells_models_apart_by_every_update() -> None:
    one = Lineage().then(Event("update", AT, 5, added=1), "a")
    other = Lineage().then(Event("update", AT, 5, corrected=1), "a")
    assert len({one.hash, other.hash, one.then(Event("update", AT, 5), "a").hash}) == 3
    assert one.then(Event("update", AT, 5), "b").parent == one.hash


def test_calibrated_model_when_it_forgets_then_is_calibrated_as_if_it_had_never_known(tmp_path: Path) -> None:
    def calibrated(*gone: str) -> HedgerowTextClassifier:
        rows = [row for row in zip(*some_records(), strict=True) if row[2] not in gone]
        texts, labels, ids = (list(part) for part in zip(*rows, strict=True))
        model = HedgerowTextClassifier(**SMALL).fit(texts, labels, ids=ids, keep_records=True)
        held_out(model)
        model.update(["fir leaf"], [["fir"]], at=AT)
        return model

    model = calibrated()
    assert model.forget(["0-1", "0-59"]).learned_again
    assert files(model, tmp_path) == files(calibrated("0-1", "0-59"), tmp_path)
