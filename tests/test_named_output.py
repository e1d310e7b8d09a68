"""Names of labels in what a model answers: in Python, on the command line, in files and reports."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from vocabularies import made

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowTextClassifier, Vocabulary
from hedgerow.cli import main
from hedgerow.cli.label_files import LabelTable, json_lines
from hedgerow.decisions.results import BroaderAnswers
from hedgerow.vocabulary.naming import Naming

TEXTS = ["a thorny shrub", "a shrub with thorny twigs", "an evergreen tree", "the evergreen tree"] * 15
LABELS = [["t:1", "t:3"], ["t:1"], ["t:2", "t:4"], ["t:2"]] * 15
SCHEME, OTHER = "http://example.org/plants", "http://example.org/other"
HOSTILE = '<script>alert("1")</script>, \x1b[31m'

# What the file says, once more by hand: t:4 is no entry, t:5 is no label, t:3 has no name.
GERMAN = {"t:1": "Weißdorn", "t:2": "Stechpalme", "t:3": None, "t:4": None, "t:5": "Strauch"}
ENGLISH = {"t:1": "hawthorn", "t:2": HOSTILE, "t:3": None, "t:4": None, "t:5": "Strauch"}


def plants() -> Vocabulary:
    return made(
        {"id": "t:5", "names": [("Strauch", "de", True)]},
        {
            "id": "t:1",
            "names": [("Weißdorn", "de", True), ("hawthorn", "en", True), ("may", "en", False)],
            "broader": ["t:5"],
        },
        {"id": "t:2", "names": [("Stechpalme", "de", True), (HOSTILE, "en", True)]},
        {"id": "t:3", "broader": ["t:1"]},
    )


def in_schemes() -> Vocabulary:
    """The same hierarchy as a file, with schemes."""
    path = Path("plants.tsv")
    rows = [("t:5", "Strauch", "", SCHEME), ("t:1", "Weißdorn", "t:5", SCHEME), ("t:3", "", "t:1", OTHER)]
    lines = ["\t".join(row) for row in [("id", "label_de", "broader", "scheme"), *rows]]
    path.write_text("\n".join([*lines, "t:2\tStechpalme\t\t\n"]))
    return Vocabulary.read(path)


@pytest.fixture(scope="module")
def fitted() -> HedgerowTextClassifier:
    return HedgerowTextClassifier(method="bagging", members=3, random_state=0, n_jobs=1).fit(TEXTS, LABELS)


@pytest.fixture(scope="module")
def calibrated(fitted: HedgerowTextClassifier) -> HedgerowTextClassifier:
    held_out = [f"{text} {number}" for number, text in enumerate(TEXTS * 4)]
    return fitted.calibrate(held_out, LABELS * 4).learn_ood(held_out).learn_policy(held_out, LABELS * 4)


@pytest.fixture
def folder(calibrated: HedgerowTextClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the model, without a vocabulary and with one, and data."""
    monkeypatch.chdir(tmp_path)
    records = [{"id": f"r{n}", "text": text, "labels": own} for n, (text, own) in enumerate(
        zip(TEXTS[:8], LABELS[:8], strict=True))]  # fmt: skip
    Path("data.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    calibrated.save("plain.hedgerow")
    save_named("named.hedgerow", plants())
    return tmp_path


@pytest.mark.filterwarnings("ignore::hedgerow.VocabularyWarning")
def save_named(path: str, vocabulary: Vocabulary) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hedgerow.VocabularyWarning)
        hedgerow.load("plain.hedgerow").set_vocabulary(vocabulary).save(path, overwrite=True)


Run = Callable[..., str]


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command that must end well, and gives what it prints."""

    def run_(*command: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main([*command]) == code
        out, err = capsys.readouterr()
        return err if code else out

    return run_


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def without_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_names(of) for key, of in value.items() if key != "name"}
    return [without_names(of) for of in value] if isinstance(value, list) else value


# --- Python ---


@pytest.mark.parametrize(("lang", "names"), [(None, GERMAN), ("de", GERMAN), ("EN", ENGLISH)])
def test_naming_gives_the_names_of_arrays_of_any_shape(lang: str | None, names: dict[str, Any]) -> None:
    labels = np.array([["t:1", "t:4"], ["t:2", "t:1"], ["t:3", "t:5"]], dtype=object)
    found = Naming(plants(), lang)(labels)
    assert found.dtype == object
    assert found.tolist() == [[names[label] for label in row] for row in labels.tolist()]
    naming = Naming(plants(), lang)
    assert [naming.of(label) for label in names] == list(names.values())
    assert naming(np.empty((0, 3), dtype=object)).shape == (0, 3)


def test_naming_of_many_labels_is_that_of_each() -> None:
    vocabulary = Vocabulary.from_names({str(n): f"name {n}" for n in range(5000)})
    labels = list(range(4000, 7000)) * 2
    expected = [f"name {n}" if n < 5000 else None for n in labels]
    assert Naming(vocabulary)(labels).tolist() == expected
    assert [Naming(vocabulary).of(n) for n in labels[::500]] == expected[::500]


def test_naming_shows_the_label_where_that_says_more() -> None:
    naming = Naming(Vocabulary.from_names({"a": "a", "b": "B"}))
    assert [naming.shown(label) for label in ("a", "b", "c", 7)] == ["a", "B (b)", "c", "7"]


@pytest.mark.filterwarnings("ignore::hedgerow.VocabularyWarning")
def test_name_of_answers_of_a_model() -> None:
    model = HedgerowTextClassifier(random_state=0).fit(TEXTS, LABELS, vocabulary=plants())
    best = model.top(TEXTS[:3], k=2)
    assert model.name_of(best.labels).tolist() == [[GERMAN[one] for one in row] for row in best.labels]
    assert model.name_of(["t:5"], lang="en").tolist() == ["Strauch"]  # no English name: another one
    with pytest.raises(ValueError, match="no names in the language 'fr'; it has de, en"):
        model.name_of(["t:1"], lang="fr")
    with pytest.raises(TypeError, match="lang is 5; give the tag"):
        model.name_of(["t:1"], lang=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"no vocabulary.*call set_vocabulary"):
        model.set_vocabulary(None).name_of(["t:1"])
    with pytest.raises(ValueError, match=r"no vocabulary.*hedgerow vocabulary set"):
        model.name_of(["t:1"], lang="de")


def test_names_of_labels_that_are_numbers() -> None:
    names = Vocabulary.from_names({"0": "zero", "2": "two"}, "en")
    with pytest.warns(hedgerow.VocabularyWarning):
        model = HedgerowClassifier(random_state=0).fit(
            csr_array(np.eye(3)), csr_array(np.eye(3)), vocabulary=names
        )
    assert model.name_of(np.array([[2, 1], [0, 2]])).tolist() == [["two", None], ["zero", "two"]]


def test_labels_in_schemes_and_subtrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns(hedgerow.VocabularyWarning):
        model = HedgerowTextClassifier(random_state=0).fit(TEXTS, LABELS, vocabulary=in_schemes())
    assert model.labels_in(subtree="t:5") == ["t:1", "t:3"]
    assert model.labels_in(subtree="t:3") == ["t:3"]
    assert model.labels_in(scheme=SCHEME) == ["t:1"]
    assert model.labels_in(scheme=OTHER, subtree="t:2") == ["t:2", "t:3"]
    assert model.labels_in() == []
    assert model.vocabulary_.in_scheme(SCHEME) == ["t:5", "t:1"]
    same = model.top(TEXTS, k=2, only=["t:1", "t:3"])
    assert np.array_equal(model.top(TEXTS, k=2, only=model.labels_in(subtree="t:5")).labels, same.labels)
    with pytest.raises(ValueError, match="no id 't:9'"):
        model.labels_in(subtree="t:9")
    with pytest.raises(ValueError, match=f"no scheme 'x'; its schemes are {SCHEME}, {OTHER}"):
        model.labels_in(scheme="x")
    with pytest.raises(ValueError, match="no vocabulary, so it knows no schemes"):
        model.set_vocabulary(None).labels_in(scheme=SCHEME)


# --- command line ---

COMMANDS = [
    ("predict", "--uncertainty"),
    ("predict", "--k", "3"),
    ("decide", "--missed-at-most", "0.4", "--json"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(("lang", "names"), [((), GERMAN), (("--lang", "en"), ENGLISH)])
def test_json_lines_have_the_name_beside_the_label(
    run: Run, command: tuple[str, ...], lang: tuple[str, ...], names: dict[str, Any]
) -> None:
    name, *options = command
    plain = run(name, "plain.hedgerow", "data.jsonl", *options)
    named = run(name, "named.hedgerow", "data.jsonl", *options, *lang)
    assert '"name"' not in plain
    assert "\x1b" not in named
    for record in lines(named):
        for label in record["labels"]:
            assert list(label)[:2] == ["label", "name"]
            assert label["name"] == names[label["label"]]
    assert without_names(lines(named)) == lines(plain)


def test_csv_and_parquet_have_a_column_of_names(run: Run) -> None:
    from pyarrow import parquet

    for command in ("predict", "decide"):
        for out in ("out.csv", "out.parquet"):
            run(command, "named.hedgerow", "data.jsonl", "--out", out, "--overwrite", "--lang", "en")
        with open("out.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0])[:5] == ["row", "id", "rank", "label", "name"]
        assert [row["name"] for row in rows] == [ENGLISH[row["label"]] or "" for row in rows]
        table = parquet.read_table("out.parquet")
        assert table.column_names[:5] == ["row", "id", "rank", "label", "name"]
        assert str(table.schema.field("name").type) == "string"
        assert table["name"].to_pylist() == [ENGLISH[label] for label in table["label"].to_pylist()]
        run(command, "plain.hedgerow", "data.jsonl", "--out", "plain.csv", "--overwrite")
        assert Path("plain.csv").read_text().splitlines()[0].split(",")[3:5] != ["label", "name"]


def test_broader_answers_have_names(folder: Path, tmp_path: Path) -> None:
    """They are entries of the vocabulary that need not be labels, behind the labels of each input."""
    found = hedgerow.load("named.hedgerow").decide(TEXTS[:2], missed_at_most=0.4, k=1)
    one = np.array([0.7], dtype=np.float32)
    broader = BroaderAnswers(np.array([0, 1, 1]), np.array(["t:5"], dtype=object), one, one, one, one, one)
    table = LabelTable.of_decisions(replace(found, broader=broader), None).named(Naming(plants()))
    records = lines(b"".join(json_lines(table)).decode())
    (first, second) = [[(one["label"], one["name"]) for one in record["labels"]] for record in records]
    assert first[-1] == ("t:5", "Strauch")
    assert second == [(label, GERMAN[label]) for label in found.labels[found.indptr[1] :]]
    assert records[0]["labels"][-1]["decision"] == "broader"


def test_tables_on_a_terminal_show_names_and_no_markup(run: Run) -> None:
    table = run("decide", "named.hedgerow", "data.jsonl", "--missed-at-most", "0.4")
    assert "Weißdorn" in table
    assert "Stechpalme" in table
    assert "t:2" not in table
    english = run("decide", "named.hedgerow", "data.jsonl", "--missed-at-most", "0.4", "--lang", "en")
    assert "<script>" in english
    assert "\x1b" not in english


def test_explain_has_the_name(run: Run) -> None:
    command = ("explain", "named.hedgerow", "a thorny shrub", "--label", "t:1")
    assert run(*command).splitlines()[0].startswith("Weißdorn (t:1)  probability")
    found = json.loads(run(*command, "--lang", "en", "--json"))
    assert list(found)[:2] == ["label", "name"]
    assert (found["label"], found["name"]) == ("t:1", "hawthorn")
    plain = run("explain", "plain.hedgerow", "a thorny shrub", "--label", "t:1", "--json")
    assert without_names(found) == json.loads(plain)
    assert "t:3" in run("explain", "named.hedgerow", "a thorny shrub", "--label", "t:3").splitlines()[0]


def test_query_has_names_of_pairs(run: Run) -> None:
    command = ("query", "named.hedgerow", "data.jsonl", "-n", "4", "--pairs")
    found = json.loads(run(*command, "--json"))["queries"]
    assert [one["name"] for one in found] == [GERMAN[one["label"]] for one in found]
    shown = run(*command)
    for one in found:
        name = GERMAN[one["label"]]
        assert (f"{name} ({one['label']})" if name else one["label"]) in shown
    plain = json.loads(run("query", "plain.hedgerow", "data.jsonl", "-n", "4", "--pairs", "--json"))[
        "queries"
    ]
    assert without_names(found) == plain
    run(*command, "--out", "pairs.csv")
    with open("pairs.csv", newline="") as file:
        assert [row["name"] for row in csv.DictReader(file)] == [one["name"] or "" for one in found]


def test_report_has_the_names_of_the_labels_it_shows(run: Run) -> None:
    for model, expected in (("named", {"t:1": "hawthorn", "t:2": HOSTILE}), ("plain", {})):
        lang = ("--lang", "en") if expected else ()
        run("report", f"{model}.hedgerow", "data.jsonl", "--out", f"{model}.html", *lang)
        page = Path(f"{model}.html").read_text()
        data = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S)
        assert data
        content = json.loads(data[1])
        assert {one["label"]: one["name"] for one in content["names"]} == expected
        assert {one["label"] for one in content["labels"]} == {"t:1", "t:2"}  # what occurs more than twice
        assert "<script>alert" not in page


@pytest.mark.parametrize("command", ["predict", "decide", "report", "query"])
def test_language_that_no_name_has_is_refused(run: Run, command: str) -> None:
    more = ("--out", "new.html") if command == "report" else ()
    error = run(command, "named.hedgerow", "data.jsonl", "--lang", "fr", *more, code=2)
    assert "--lang fr: the vocabulary has no names in the language 'fr'; it has de, en" in error
    error = run(command, "plain.hedgerow", "data.jsonl", "--lang", "de", *more, code=2)
    assert "has no vocabulary" in error
    assert "hedgerow vocabulary set" in error
    assert not Path("new.html").exists()


# --- subsets ---


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        (["--only-subtree", "t:5"], {"t:1", "t:3"}),
        (["--only-scheme", SCHEME], {"t:1"}),
        (["--only-scheme", SCHEME, "--only-scheme", OTHER], {"t:1", "t:3"}),
        (["--only-scheme", SCHEME, "--only", "t:4"], {"t:1", "t:4"}),
        (["--only-subtree", "t:5", "--exclude-scheme", OTHER], {"t:1"}),
        (["--exclude-subtree", "t:1"], {"t:2", "t:4"}),
        (["--exclude-subtree", "t:1", "--exclude", "t:4"], {"t:2"}),
    ],
)
def test_schemes_and_subtrees_choose_labels(run: Run, options: list[str], labels: set[str]) -> None:
    save_named("named.hedgerow", in_schemes())
    by_name = [part for label in sorted(labels) for part in ("--only", label)]
    for command in (["predict", "named.hedgerow", "data.jsonl", "--uncertainty"],
                    ["decide", "named.hedgerow", "data.jsonl", "--missed-at-most", "0.4", "--json"],
                    ["explain", "named.hedgerow", "data.jsonl", "--row", "2", "--json"]):  # fmt: skip
        found = run(*command, *options)
        assert found == run(*command, *by_name)
        if command[0] == "predict":
            assert {one["label"] for record in lines(found) for one in record["labels"]} == labels


def test_schemes_and_subtrees_that_name_no_label_are_refused(run: Run) -> None:
    Path("more.json").write_text(
        json.dumps({"entries": [{"id": "t:1", "scheme": "s"}, {"id": "x", "scheme": "e"}]})
    )
    save_named("named.hedgerow", Vocabulary.read("more.json"))
    predict = ("predict", "named.hedgerow", "data.jsonl")
    assert "no scheme 'f'" in run(*predict, "--only-scheme", "f", code=2)
    assert "no id 'y'" in run(*predict, "--exclude-subtree", "y", code=2)
    error = run(*predict, "--only-scheme", "e", "--only-subtree", "x", code=2)
    assert "--only-scheme e and --only-subtree x: no label of the model" in error
    assert len(lines(run(*predict, "--exclude-scheme", "e"))) == 8  # nothing to exclude
    assert "no vocabulary" in run("predict", "plain.hedgerow", "data.jsonl", "--only-scheme", "s", code=2)
