"""Vocabularies of models: kept in the file, set later, and used on the command line."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from scipy.sparse import csr_array
from test_data_real import folder
from vocabularies import vocabularies

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowTextClassifier, Vocabulary, VocabularyWarning
from hedgerow.cli import main
from hedgerow.storage.container import Malformed, read_model, write_model

TEXTS = ["a thorny shrub", "a shrub with thorny twigs", "an evergreen tree", "the evergreen tree"]
LABELS = [["hawthorn"], ["hawthorn"], ["holly"], ["holly"]]
TREES = Vocabulary.from_names({"holly": "Stechpalme", "hawthorn": "Weißdorn", "oak": "Eiche"}, "de")


def fitted(**options: object) -> HedgerowTextClassifier:
    return HedgerowTextClassifier(random_state=0).fit(TEXTS, LABELS, **options)


def test_model_file_keeps_the_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "trees.hedgerow"
    fitted(vocabulary=TREES).save(path)
    for verify in (True, False):
        model = hedgerow.load(path, verify)
        assert model.vocabulary_ == TREES
        assert model.source.vocabulary == TREES
        assert [model.vocabulary_.name(label) for label in model.top(["evergreen"], k=1).labels[0]] == [
            "Stechpalme"
        ]


def test_model_without_a_vocabulary_has_the_bytes_it_always_had(tmp_path: Path) -> None:
    plain, removed = tmp_path / "plain.hedgerow", tmp_path / "removed.hedgerow"
    fitted().save(plain)
    fitted(vocabulary=TREES).set_vocabulary(None).save(removed)
    assert plain.read_bytes() == removed.read_bytes()
    assert hedgerow.load(plain).vocabulary_ is None
    assert not any(name.startswith("vocabulary") for name in read_model(plain).header)
    assert "vocabulary" not in fitted().describe()


def test_vocabulary_changes_no_prediction() -> None:
    plain, named = fitted(), fitted(vocabulary=TREES)
    votes, same = plain.predict_votes(TEXTS), named.predict_votes(TEXTS)
    assert np.array_equal(votes.probs, same.probs)
    assert np.array_equal(votes.labels, same.labels)


def test_labels_that_the_vocabulary_lacks_are_reported_and_predicted() -> None:
    with pytest.warns(VocabularyWarning, match="1 of 2 labels are not in the vocabulary.*'hawthorn'"):
        model = fitted(vocabulary=Vocabulary.from_names({"holly": "Holly"}))
    assert model.top(["thorny"], k=1).labels[0, 0] == "hawthorn"
    assert model.describe()["vocabulary"] == {
        "entries": 1,
        "languages": [],
        "labels_with_a_name": 1,
        "labels_without_an_entry": 1,
        "labels_that_left": [],
    }


def test_all_labels_in_the_vocabulary_give_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", VocabularyWarning)
        fitted(vocabulary=TREES).set_vocabulary(TREES)


def test_labels_that_are_numbers_are_looked_up_as_they_are_written() -> None:
    X, Y = csr_array(np.eye(3)), csr_array(np.eye(3))
    model = HedgerowClassifier(random_state=0).fit(X, Y, vocabulary=Vocabulary.from_names(
        {"0": "zero", "1": "one", "2": "two"}))  # fmt: skip
    assert model.describe()["vocabulary"]["labels_with_a_name"] == 3


def test_what_is_no_vocabulary_is_refused() -> None:
    with pytest.raises(TypeError, match="vocabulary is a dict; read one with"):
        fitted(vocabulary={"holly": "Holly"})
    with pytest.raises(TypeError, match="vocabulary is a str"):
        fitted().set_vocabulary("stw.ttl")
    with pytest.raises(hedgerow.estimators.fitted.NotFittedError):
        HedgerowTextClassifier().set_vocabulary(TREES)


def test_vocabulary_stays_when_the_model_learns_more() -> None:
    model = HedgerowTextClassifier(method="bagging", members=2, random_state=0)
    model.fit(TEXTS * 30, LABELS * 30, vocabulary=TREES)
    held_out = [f"{text} {number}" for number, text in enumerate(TEXTS * 30)]
    model.calibrate(held_out, LABELS * 30).learn_ood(held_out).learn_policy(held_out, LABELS * 30)
    model.add_members(TEXTS * 30, LABELS * 30, 1)
    assert model.vocabulary_ is TREES
    assert model.uncalibrated().vocabulary_ is TREES


@given(vocabulary=vocabularies())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
def test_any_vocabulary_survives_the_model_file(tmp_path: Path, vocabulary: Vocabulary) -> None:
    path = tmp_path / "any.hedgerow"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VocabularyWarning)
        fitted().set_vocabulary(vocabulary).save(path, overwrite=True)
    assert hedgerow.load(path).vocabulary_ == vocabulary


def test_file_with_a_crafted_vocabulary_is_refused(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.hedgerow", tmp_path / "bad.hedgerow"
    fitted(vocabulary=TREES).save(good)
    file = read_model(good)
    begins = file.sections["vocabulary.names.begins"].copy()
    begins[1] = 2**32 - 1
    write_model(bad, file.sections | {"vocabulary.names.begins": begins}, file.header)
    with pytest.raises(Malformed, match=r"does not hold a whole model.*cut wrongly"):
        hedgerow.load(bad)
    header = file.header | {"vocabulary": ["names"]}
    write_model(bad, dict(file.sections), header, overwrite=True)
    with pytest.raises(Malformed, match="does not hold a whole model"):
        hedgerow.load(bad)


# --- command line ---


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    records = [{"text": text, "labels": labels} for text, labels in zip(TEXTS, LABELS, strict=True)]
    Path("records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    Path("trees.tsv").write_text(
        "id\tname_de\tname_en\tbroader\nholly\tStechpalme\tHolly\ttree\ntree\tBaum\n"
    )
    Path("shrubs.json").write_text('{"hawthorn": "<b>Hawthorn</b>"}')
    return tmp_path


def test_fit_keeps_the_vocabulary(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "records.jsonl", "m.hedgerow", "--vocabulary", "trees.tsv", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["vocabulary"]["labels_with_a_name"] == 1
    assert "1 of 2 labels are not in the vocabulary" in err
    assert hedgerow.load("m.hedgerow").vocabulary_.name("holly", "en") == "Holly"


def test_fit_refuses_a_broken_vocabulary_before_it_trains(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("broken.tsv").write_text("a\tA\na\tB\n")
    assert main(["fit", "records.jsonl", "m.hedgerow", "--vocabulary", "broken.tsv"]) == 3
    assert "broken.tsv:2: the id 'a' occurs twice" in capsys.readouterr().err
    assert not Path("m.hedgerow").exists()


def test_set_replaces_the_vocabulary_in_place_and_says_what_left(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["fit", "records.jsonl", "m.hedgerow", "--vocabulary", "trees.tsv"])
    predicted = hedgerow.load("m.hedgerow").predict_votes(TEXTS).probs
    capsys.readouterr()
    assert main(["vocabulary", "set", "m.hedgerow", "shrubs.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "model": "m.hedgerow",
        "entries": 1,
        "languages": [],
        "labels": 2,
        "labels_with_a_name": 1,
        "labels_without_an_entry": ["holly"],
        "labels_that_left": ["holly"],
        "discarded": [],
    }
    model = hedgerow.load("m.hedgerow")
    assert model.vocabulary_.name("hawthorn") == "<b>Hawthorn</b>"
    assert np.array_equal(model.predict_votes(TEXTS).probs, predicted)
    assert main(["vocabulary", "set", "m.hedgerow", "trees.tsv"]) == 0
    out = capsys.readouterr().out
    assert "1 of 2 labels have a name" in out
    assert "1 labels left the vocabulary: hawthorn" in out
    assert main(["inspect", "m.hedgerow", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["vocabulary"]["labels_that_left"] == ["hawthorn"]
    assert main(["inspect", "m.hedgerow"]) == 0
    assert re.search("labels_that_left +hawthorn", capsys.readouterr().out)


def new_only(texts: list[str], labels: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """The second half, without texts of the first."""
    kept = [row for row in range(120, 240) if texts[row] not in texts[:120]]
    return [texts[row] for row in kept], [labels[row] for row in kept]


def test_another_vocabulary_keeps_the_calibration_of_a_model_that_looks_for_no_names(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw = np.random.default_rng(0)
    words = [f"w{number}" for number in range(300)]
    texts = [
        f"a {word} bush {draw.choice(words)}" for word in draw.choice(["thorny", "evergreen", "green"], 240)
    ]
    labels = [["holly"] if "ever" in text else ["hawthorn"] for text in texts]
    model = hedgerow.HedgerowTextClassifier(random_state=0).fit(texts[:120], labels[:120])
    model.calibrate(*new_only(texts, labels))
    model.save("calibrated.hedgerow")
    assert main(["vocabulary", "set", "calibrated.hedgerow", "trees.tsv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["discarded"] == []
    opened = hedgerow.load("calibrated.hedgerow")
    assert opened.model_.calibrated
    assert np.array_equal(opened.predict_votes(texts).probs, model.predict_votes(texts).probs)


def test_set_that_fails_leaves_the_model_as_it_was(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["fit", "records.jsonl", "m.hedgerow"])
    before = Path("m.hedgerow").read_bytes()
    Path("broken.json").write_text('{"a": ')
    assert main(["vocabulary", "set", "m.hedgerow", "broken.json"]) == 3
    assert main(["vocabulary", "set", "m.hedgerow", "trees.tsv", "--out", "records.jsonl"]) == 5
    assert main(["vocabulary", "set", "trees.tsv", "trees.tsv"]) == 4
    assert Path("m.hedgerow").read_bytes() == before
    assert main(["vocabulary", "set", "m.hedgerow", "trees.tsv", "--out", "named.hedgerow"]) == 0
    assert Path("m.hedgerow").read_bytes() == before
    assert hedgerow.load("named.hedgerow").vocabulary_.name("tree") == "Baum"


def test_show_and_search_read_files_and_models(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["fit", "records.jsonl", "m.hedgerow", "--vocabulary", "trees.tsv"])
    capsys.readouterr()
    for source in ("trees.tsv", "m.hedgerow"):
        assert main(["vocabulary", "show", source, "--json"]) == 0
        about = json.loads(capsys.readouterr().out)
        assert (about["entries"], about["names"], about["languages"]) == (2, 3, ["de", "en"])
        assert main(["vocabulary", "show", source, "holly", "--lang", "en", "--json"]) == 0
        entry = json.loads(capsys.readouterr().out)
        assert entry["name"] == "Holly"
        assert entry["broader"] == [{"id": "tree", "name": "Baum"}]
        assert main(["vocabulary", "search", source, "stechplame", "--lang", "en", "--json"]) == 0
        match = json.loads(capsys.readouterr().out)
        assert (match["id"], match["name"], match["matched"]) == ("holly", "Holly", "Stechpalme")
    assert main(["vocabulary", "search", "trees.tsv", "nothing"]) == 0
    assert "Nothing was found" in capsys.readouterr().out
    assert main(["vocabulary", "show", "trees.tsv", "elm"]) == 3
    assert "no entry 'elm'" in capsys.readouterr().err


def test_model_without_a_vocabulary_says_how_to_give_it_one(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["fit", "records.jsonl", "m.hedgerow"])
    assert main(["vocabulary", "show", "m.hedgerow"]) == 4
    assert "hedgerow vocabulary set m.hedgerow FILE" in capsys.readouterr().err


def test_names_are_no_markup_on_the_terminal(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.json").write_text(json.dumps({"[red]x[/red]": "\x1b[2J[bold]y"}))
    for command in (["show", "odd.json", "[red]x[/red]"], ["search", "odd.json", "bold", "y"]):
        assert main(["vocabulary", *command]) == 0
        out = capsys.readouterr().out
        assert "[red]x[/red]" in out
        assert r"\x1b[2J[bold]y" in out
        assert "\x1b" not in out


def test_convert_loses_nothing(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["fit", "records.jsonl", "m.hedgerow", "--vocabulary", "trees.tsv"])
    assert main(["vocabulary", "convert", "m.hedgerow", "trees.ttl.gz"]) == 0
    assert main(["vocabulary", "convert", "trees.ttl.gz", "again.csv"]) == 0
    assert Vocabulary.read("again.csv") == Vocabulary.read("trees.tsv")
    assert main(["vocabulary", "convert", "trees.ttl.gz", "again.csv"]) == 5
    assert main(["vocabulary", "convert", "trees.ttl.gz", "again.rdf"]) == 5
    assert "no format" in capsys.readouterr().err


# --- real vocabularies ---


def test_stw_has_its_known_shape() -> None:
    vocabulary = Vocabulary.read(folder("stw") / "stw-skos.ttl.xz")
    coase = "http://zbw.eu/stw/descriptor/10091-0"
    assert len(vocabulary) == 6244
    assert vocabulary.languages == ("de", "en")
    assert vocabulary.name(coase, "en") == "Coase theorem"
    assert vocabulary.scheme(coase) == "http://zbw.eu/stw"
    assert "http://zbw.eu/stw/descriptor/10094-1" in vocabulary.broader(coase)
    assert all(coase in vocabulary.subtree(id) for id in vocabulary.ancestors(coase))
    assert vocabulary.search("coase theorm")[0].id == coase


def test_tibkat_has_its_known_shape() -> None:
    vocabulary = Vocabulary.read(folder("tibkat") / "vocabulary.tsv.xz")
    assert len(vocabulary) == 215_671
    assert vocabulary.languages == ("de", "en")
    assert vocabulary.name("gnd:10000578-0") == "Ethnologisches Museum Berlin"
    assert vocabulary.search("Ethnologsches Musuem Berlin")[0].id == "gnd:10000578-0"


def test_inspect_shows_the_most_frequent_labels_with_their_names(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["prickly evergreen", "prickly leaf", "acorns", "a thorn"] * 10
    model = HedgerowTextClassifier(random_state=0, n_jobs=1).fit(
        texts, [["t:1"], ["t:1"], ["t:2"], ["t:3"]] * 10
    )
    entries = [
        {"id": "t:1", "names": {"en": "Holly", "de": "Hülse"}},
        {"id": "t:2", "names": {"en": "[red]Oak"}},
    ]
    (tmp_path / "trees.json").write_text(json.dumps(entries))
    model.set_vocabulary(Vocabulary.read(tmp_path / "trees.json")).save(tmp_path / "m")
    capsys.readouterr()
    assert main(["inspect", str(tmp_path / "m"), "--json", "--lang", "de"]) == 0
    assert json.loads(capsys.readouterr().out)["most_frequent_labels"] == [
        {"label": "t:1", "name": "Hülse", "examples": 20},
        {"label": "t:2", "name": "[red]Oak", "examples": 10},
        {"label": "t:3", "name": None, "examples": 10},
    ]
    assert main(["inspect", str(tmp_path / "m")]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["t:1", "Holly", "20"] in shown
    assert ["t:2", "[red]Oak", "10"] in shown
    assert main(["inspect", str(tmp_path / "m"), "--lang", "!"]) == 2


def test_inspect_without_a_vocabulary_shows_labels_without_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    HedgerowTextClassifier(random_state=0, n_jobs=1).fit(["one", "two"] * 9, [[1], [2]] * 9).save(
        tmp_path / "m"
    )
    assert main(["inspect", str(tmp_path / "m"), "--json"]) == 0
    frequent = json.loads(capsys.readouterr().out)["most_frequent_labels"]
    assert frequent == [{"label": 1, "examples": 9}, {"label": 2, "examples": 9}]
