"""Records of several texts."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import Stemmer
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import hstack

import hedgerow
from hedgerow import HedgerowTextClassifier, TfidfVectorizer, explain
from hedgerow.cli import main
from hedgerow.data import DataError, read_part
from hedgerow.data.sample import load_sample
from hedgerow.features.field_reader import FieldReader
from hedgerow.features.fields import Fields, Record
from hedgerow.storage.container import ModelFileError, read_model, write_model

SAMPLE = load_sample()
ROWS = 240


def split(text: str) -> dict[str, str]:
    """A text as a record: its first line is a title."""
    title, _, rest = text.partition("\n")
    words = title.split()
    return {"title": " ".join(words[:6]), "abstract": f"{' '.join(words[6:])} {rest}".strip()}


RECORDS = [split(text) for text in SAMPLE.train_texts[:ROWS]]
LABELS = SAMPLE.train_labels[:ROWS]
NEW = [split(text) for text in SAMPLE.test_texts[:80]]


def fitted(fields: Any = ("title", "abstract"), **parameters: Any) -> HedgerowTextClassifier:
    settings = {"method": "bagging", "members": 3, "random_state": 0, **parameters}
    return HedgerowTextClassifier(fields=fields, **settings).fit(RECORDS, LABELS)


@pytest.fixture(scope="module")
def model() -> HedgerowTextClassifier:
    return fitted(language="en")


# --- rows ---


def test_row_is_the_weighted_rows_of_all_fields_one_after_the_other() -> None:
    model = fitted({"title": 2, "title+abstract": 0.5})
    titles = [record["title"] for record in RECORDS]
    whole = ["\n".join(filter(None, record.values())) for record in RECORDS]
    parts = [TfidfVectorizer().fit_transform(texts) for texts in (titles, whole)]
    expected = hstack([2 * parts[0], 0.5 * parts[1]], format="csr")
    source = model.source
    found = source.reader.plain_features(source.inputs(RECORDS), 1)
    assert found.shape == expected.shape
    assert abs(found - expected).max() < 1e-6
    assert found.has_sorted_indices


def test_field_can_be_read_by_characters_and_without_pairs(tmp_path: Path) -> None:
    fields = {"title": 1.0, "title~chars": 0.5, "abstract~words": 2.0}
    model = fitted(fields, char_ngrams=(4, 4), language="auto")
    titles = [record["title"] for record in RECORDS]
    characters = TfidfVectorizer(analyzer="char_wb", char_ngrams=(4, 4)).fit(titles)
    own = model.vectorizers_
    assert set(own["title~chars"].get_feature_names_out()) == set(characters.get_feature_names_out())
    assert not own["abstract~words"].has_pairs
    assert own["title"].has_pairs
    rows = model.source.reader.tfidf(Fields.of(fields).records(NEW), 1).features
    begin = len(own["title"].idf_)
    end = begin + len(own["title~chars"].idf_)
    there = characters.transform([record["title"] for record in NEW])
    np.testing.assert_allclose(rows[:, begin:end].toarray(), 0.5 * there.toarray(), rtol=1e-6)
    model.save(tmp_path / "model")
    again = hedgerow.load(tmp_path / "model")
    assert again.vectorizers_["abstract~words"].ngrams == (1, 1)
    np.testing.assert_array_equal(again.top(NEW, k=5).probability, model.top(NEW, k=5).probability)
    why = explain(again, NEW[0], again.top(NEW[:1], k=1).labels[0, 0])
    assert {one for one in why.fields if one is not None} <= set(fields)


def test_characters_do_not_count_as_unknown_words() -> None:
    strange = [{"title": "qqqqxx zzzzyy", "abstract": "a hedge"}]
    counted = []
    for fields in (["title", "abstract"], ["title", "title~chars", "abstract"]):
        reader = fitted(fields).source.reader
        counted.append(reader.tfidf(reader.inputs(strange), 1, wording=True).wording)
    assert counted[0].words.tolist() == counted[1].words.tolist() == [3]  # a is no word
    assert counted[0].unknown_words.tolist() == counted[1].unknown_words.tolist()


def test_model_with_one_field_predicts_what_a_model_of_its_texts_predicts() -> None:
    titles = [record["title"] for record in RECORDS]
    plain = HedgerowTextClassifier(method="bagging", members=3, random_state=0).fit(titles, LABELS)
    own = fitted(["title"])
    new = [record["title"] for record in NEW]
    assert own.predict_votes(NEW).probs.tobytes() == plain.predict_votes(new).probs.tobytes()
    np.testing.assert_array_equal(own.source.reader.vectorizers[0].idf_, plain.vectorizer_.idf_)


def test_all_forms_of_inputs_are_the_same_records(model: HedgerowTextClassifier) -> None:
    columns = {name: [record[name] for record in NEW] for name in ("title", "abstract")}
    frame = pandas.DataFrame({**columns, "year": range(len(NEW))})
    arrow = pandas.DataFrame(columns, dtype="string")
    expected = model.predict_votes(NEW)
    for form in (columns, frame, arrow, iter(NEW), model.source.inputs(NEW), list(model.source.inputs(NEW))):
        assert model.predict_votes(form).probs.tobytes() == expected.probs.tobytes()


GERMAN_ABSTRACT = "Wie die Hecken zwischen den Gärten wachsen und was in ihnen mit der Zeit lebt"
ENGLISH_ABSTRACT = "How the hedges between the gardens grow, and what is living in them"


def test_language_of_a_title_is_that_of_its_record() -> None:
    # Alone, the titles have no function words, and would take the usual language.
    records = [
        {"title": "Wachsende Hecken", "abstract": GERMAN_ABSTRACT},
        {"title": "Growing Hedges", "abstract": ENGLISH_ABSTRACT},
        {"title": "Living Gardens", "abstract": ENGLISH_ABSTRACT},
    ]
    model = HedgerowTextClassifier(
        fields=["title", "abstract"], language="auto", min_count=1, ngrams=(1, 1), random_state=0
    ).fit(records, [["de"], ["en"], ["en"]])
    title, abstract = model.source.reader.vectorizers
    german, english = Stemmer.Stemmer("german").stemWord, Stemmer.Stemmer("english").stemWord
    words = {"wachsende": german, "hecken": german, "growing": english, "hedges": english}
    words |= {"living": english, "gardens": english}
    assert set(title.get_feature_names_out()) == {stem(word) for word, stem in words.items()}
    assert german("hecken") != english("hecken")
    assert title.analyzer_.to_header()["decided"] == abstract.analyzer_.to_header()["decided"] == "record"
    # Features of a record are those of the stems, in a batch and alone.
    new = [
        {"title": "Hecken", "abstract": GERMAN_ABSTRACT},
        {"title": "Hedges", "abstract": ENGLISH_ABSTRACT},
        {"title": "Hecken"},
    ]
    rows = model.source.reader.plain_features(model.source.inputs(new), 1)
    column = title.vocabulary_[german("hecken")]
    assert rows[0, column] == 1
    assert rows[1, title.vocabulary_[english("hedges")]] == 1
    assert rows[2, column] == 0  # nothing says that it is German
    for row, record in enumerate(new):
        alone = model.source.reader.plain_features(model.source.inputs([record]), 1)
        np.testing.assert_array_equal(alone.toarray(), rows[[row]].toarray())
    why = explain(model, new[0], "de")
    assert ("hecken", "title") in zip(why.features, why.fields, strict=True)


def test_language_of_records_stays_in_the_file_and_old_files_decide_by_text(tmp_path: Path) -> None:
    records = [
        {"title": "Wachsende Hecken", "abstract": GERMAN_ABSTRACT},
        {"title": "Growing Hedges", "abstract": ENGLISH_ABSTRACT},
    ] * 2
    options: dict[str, Any] = {"language": "auto", "min_count": 1, "random_state": 0}
    model = HedgerowTextClassifier(fields=["title", "abstract"], **options)
    model.fit(records, [["de"], ["en"]] * 2).save(tmp_path / "m")
    again = hedgerow.load(tmp_path / "m")
    expected = model.source.reader.plain_features(model.source.inputs(records), 1)
    found = again.source.reader.plain_features(again.source.inputs(records), 2)
    assert (expected != found).nnz == 0
    file = read_model(tmp_path / "m")
    entries = [
        {**entry, "analyzer": {k: v for k, v in entry["analyzer"].items() if k != "decided"}}
        for entry in file.header["fields"]
    ]
    write_model(tmp_path / "old", dict(file.sections), {**file.header, "fields": entries})
    old = hedgerow.load(tmp_path / "old").source.reader
    title = old.vectorizers[0]
    rows = old.plain_features(old.inputs(records[:1]), 1)
    alone = title.transform([records[0]["title"]])
    assert (rows[:, : alone.shape[1]] != alone).nnz == 0
    write_model(
        tmp_path / "bad",
        dict(file.sections),
        {**file.header, "fields": [file.header["fields"][0], entries[1]]},
    )
    with pytest.raises(ModelFileError, match="language of the record"):
        hedgerow.load(tmp_path / "bad")


def test_single_field_decides_by_its_text() -> None:
    texts = [GERMAN_ABSTRACT, ENGLISH_ABSTRACT]
    model = HedgerowTextClassifier(fields=["abstract"], language="auto", min_count=1, random_state=0)
    model.fit([{"abstract": text} for text in texts], [["de"], ["en"]])
    assert "decided" not in model.source.reader.vectorizers[0].analyzer_.to_header()


def test_missing_texts_are_empty_and_a_text_alone_is_the_last_one() -> None:
    fields = Fields.of(["title", "abstract"])
    nothing = pandas.DataFrame({"title": [None, "a"], "abstract": ["b", float("nan")]})
    assert fields.records(nothing) == (("", "b"), ("a", ""))
    assert fields.records([{"title": "a"}, {"abstract": None}, "b", {}, {"title": "", "year": 3}]) == (
        ("a", ""),
        ("", ""),
        ("", "b"),
        ("", ""),
        ("", ""),
    )
    assert Fields.of(["title", "title+abstract"]).sources == ("title", "abstract")


@settings(max_examples=50)
@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), min_size=2, max_size=6))
def test_hashes_of_records_are_equal_for_equal_records_only(pairs: list[tuple[str, str]]) -> None:
    hashes = Fields.of(["a", "b"]).hashes([Record(pair) for pair in pairs]).tolist()
    for i, first in enumerate(pairs):
        for j, second in enumerate(pairs):
            assert (hashes[i] == hashes[j]) == (first == second)


def test_features_depend_neither_on_threads_nor_on_batches(model: HedgerowTextClassifier) -> None:
    expected = model.predict_proba(NEW).toarray()
    for threads in (1, 3):
        model.set_params(n_jobs=threads)
        for step in (1, 7):
            parts = [model.predict_proba(NEW[i : i + step]).toarray() for i in range(0, len(NEW), step)]
            assert np.concatenate(parts).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("title", "list of names"),
        ([], "at least one"),
        (["title", "title"], "each of them once"),
        (["title+"], "title\\+"),
        (["a+a"], "a\\+a"),
        ([3], "fields has 3"),
        (["title~letters"], "after ~ there can be chars or words"),
        (["~chars"], "a field is the name of a text"),
        ({"title": 0}, "weight"),
        ({"title": float("inf")}, "weight"),
        ({"title": "much"}, "weight"),
    ],
)
def test_impossible_fields_are_refused(fields: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fitted(fields)


@pytest.mark.parametrize(
    ("X", "error", "said"),
    [
        ("a text", TypeError, "one text"),
        ([3], TypeError, "input 0 is of type int"),
        ([{"heading": "a"}], ValueError, "none of the texts title, abstract"),
        ([{"title": 3}], TypeError, "title of input 0"),
        ({"heading": ["a"]}, TypeError, "none of the texts"),
        ({"title": ["a"], "abstract": []}, ValueError, "differ in number"),
        (3, TypeError, "type int"),
    ],
)
def test_inputs_without_the_texts_are_refused(
    X: Any, error: type[Exception], said: str, model: HedgerowTextClassifier
) -> None:
    with pytest.raises(error, match=said):
        model.top(X)


def test_field_without_words_is_named() -> None:
    with pytest.raises(ValueError, match="field 'title': no word"):
        HedgerowTextClassifier(fields=["title", "abstract"]).fit([{"abstract": "a hedge"}] * 3, [["a"]] * 3)


# --- models ---


@pytest.mark.parametrize(
    "fields", [["title", "abstract"], {"title": 2, "abstract": 1}, ["abstract", "title"]]
)
def test_saved_model_keeps_fields_and_predicts_the_same_bits(fields: Any, tmp_path: Path) -> None:
    model = fitted(fields, language="auto")
    model.save(tmp_path / "m")
    again = hedgerow.load(tmp_path / "m")
    assert again.predict_votes(NEW).probs.tobytes() == model.predict_votes(NEW).probs.tobytes()
    assert Fields.of(again.fields) == Fields.of(fields)
    assert list(again.vectorizers_) == list(fields)
    assert [one["field"] for one in again.describe()["fields"]] == list(fields)
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    refitted = again.fit(RECORDS, LABELS)
    assert refitted.predict_votes(NEW).probs.tobytes() == model.predict_votes(NEW).probs.tobytes()


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "title"},
        {"name": "title", "weight": -1},
        {"name": "title", "weight": "x"},
        {"name": "a++b", "weight": 1},
        {"name": "abstract", "weight": 1},
        {"name": "title", "weight": 1, "color": "red"},
        {"name": "title", "weight": 1, "analyzer": {"name": "sentence"}},
        {"name": ["title"], "weight": 1},
        "title",
    ],
)
def test_file_with_impossible_fields_is_refused(
    entry: Any, model: HedgerowTextClassifier, tmp_path: Path
) -> None:
    model.save(tmp_path / "m")
    file = read_model(tmp_path / "m")
    header = {**file.header, "fields": [entry, *file.header["fields"][1:]]}
    write_model(tmp_path / "bad", dict(file.sections), header)
    with pytest.raises(ModelFileError, match="does not hold a whole model"):
        hedgerow.load(tmp_path / "bad")


def test_explanation_names_the_field_of_each_word(model: HedgerowTextClassifier) -> None:
    why = hedgerow.explain(model, {"title": "Libraries", "abstract": "It plays music for the library"})
    found = set(zip(why.features, why.fields, strict=True))
    assert {("libraries", "title"), ("library", "abstract"), ("plays", "abstract")} <= found
    assert {one.field for one in why.for_(None) + why.against(None)} <= {"title", "abstract"}
    reader = model.source.reader
    assert isinstance(reader, FieldReader)
    titles = len(reader.vectorizers[0].idf_)
    assert reader.feature_name(0) == f"title: {reader.vectorizers[0].feature_name(0)}"
    assert reader.feature_name(titles) == f"abstract: {reader.vectorizers[1].feature_name(0)}"
    with pytest.raises(IndexError):
        reader.feature_name(reader.width)


def test_unknown_words_are_counted_over_all_fields(model: HedgerowTextClassifier) -> None:
    reader = model.source.reader
    record = {"title": "library qqqq", "abstract": "files zzzz yyyy"}
    wording = reader.tfidf(reader.inputs([record, "", {}]), 1, wording=True).wording
    assert wording.words.tolist() == [5, 0, 0]
    assert wording.unknown_words.tolist() == [3, 0, 0]
    assert np.isfinite(wording.rarity).all()


def test_model_with_fields_is_calibrated_decides_and_knows_its_training_data(
    model: HedgerowTextClassifier,
) -> None:
    held_out = [split(text) for text in SAMPLE.test_texts[:400]]
    hedgerow.learn_from_held_out(model, held_out, SAMPLE.test_labels[:400])
    assert model.seen_in_training(RECORDS[:5]).all()
    swapped = [{"title": one["abstract"], "abstract": one["title"]} for one in RECORDS[:5]]
    assert not model.seen_in_training(swapped).any()
    assert len(model.decide(NEW, missed_at_most=0.3)) == len(NEW)
    assert len(model.ood_scores(NEW).score) == len(NEW)
    found = hedgerow.query(model, NEW, n=3)
    assert len(found) == 3


def test_members_are_added_only_with_the_same_texts_in_all_fields() -> None:
    model = fitted()
    other = [{**RECORDS[0], "title": "another"}, *RECORDS[1:]]
    with pytest.raises(ValueError, match="not what the model was fitted to"):
        model.add_members(other, LABELS, 1)
    assert model.add_members(RECORDS, LABELS, 1).members == 4


def test_interrupted_fit_does_not_resume_with_another_title(tmp_path: Path) -> None:
    first = fitted()
    for records, same in ((RECORDS, True), ([{**RECORDS[0], "title": "music another"}, *RECORDS[1:]], False)):
        classifier = HedgerowTextClassifier(
            fields=["title", "abstract"], method="bagging", members=3, random_state=0
        )
        classifier.fit(records, LABELS, checkpoint=tmp_path / "members" / str(same))
        votes = classifier.predict_votes(NEW)
        assert (votes.probs.tobytes() == first.predict_votes(NEW).probs.tobytes()) == same


# --- data ---


def write_records(folder: Path, suffix: str, records: list[dict[str, Any]]) -> Path:
    path = folder / f"records{suffix}"
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    elif suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["title", "abstract", "labels"])
            writer.writeheader()
            writer.writerows({**one, "labels": ";".join(one["labels"])} for one in records)
    else:
        pandas.DataFrame(records).to_parquet(path)
    return path


WITH_LABELS = [{**record, "labels": list(labels)} for record, labels in zip(RECORDS, LABELS, strict=True)]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_files_of_records_give_texts_by_name(suffix: str, tmp_path: Path) -> None:
    path = write_records(tmp_path, suffix, WITH_LABELS[:20])
    part = read_part(path, None, text_fields=["title", "abstract"])
    assert part.texts == RECORDS[:20]
    assert part.whole_texts == ["\n".join(filter(None, one.values())) for one in RECORDS[:20]]
    with pytest.raises(DataError, match="heading"):
        read_part(path, None, text_fields=["heading"])


def test_record_may_lack_texts_or_have_one_alone(tmp_path: Path) -> None:
    lines = [{"title": "a"}, {"title": None, "abstract": None}, {"text": "b"}, {"abstract": "c"}]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    part = read_part(path, None, text_fields=["title", "abstract"])
    assert part.texts == [{"title": "a"}, {"title": ""}, "b", {"abstract": "c"}]
    path.write_text('{"title": 3}')
    with pytest.raises(DataError, match="the title is 3"):
        read_part(path, None, text_fields=["title"])


# --- the command line ---


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_commands_know_the_fields_from_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_records(tmp_path, ".jsonl", WITH_LABELS)
    path = tmp_path / "m.hedgerow"
    fields = ["--text-field", "title:2", "--text-field", "title+abstract"]
    assert run("fit", data, path, *fields, "--method", "bagging", "--members", 2, "--preset", "fast") == 0
    assert Fields.of(hedgerow.load(path).fields) == Fields.of({"title": 2, "title+abstract": 1})
    table = write_records(tmp_path, ".csv", WITH_LABELS)
    capsys.readouterr()
    assert run("predict", path, data) == 0
    from_json = capsys.readouterr().out
    assert run("predict", path, table) == 0
    assert capsys.readouterr().out == from_json
    assert run("evaluate", path, data) == 0
    assert run("query", path, data, "--n", 2) == 0
    assert run("inspect", path) == 0
    capsys.readouterr()
    assert run("explain", path, '{"title": "music", "abstract": "music files"}', "--json") == 0
    why = json.loads(capsys.readouterr().out)
    assert {one["field"] for one in why["for"] + why["against"]} <= {"title", "title+abstract"}
    assert run("explain", path, data, "--row", 1) == 0
    assert run("explain", path, "a music player") == 0
    more = tmp_path / "more"
    assert run("fit", data, more, "--extend", path, "--members", 3, *fields) == 0
    assert (
        run("fit", data, tmp_path / "other", "--extend", path, "--members", 3, "--text-field", "title") == 2
    )


@pytest.mark.parametrize("field", ["", "a+", "title:0"])
def test_impossible_fields_are_refused_on_the_command_line(field: str, tmp_path: Path) -> None:
    data = write_records(tmp_path, ".jsonl", WITH_LABELS[:20])
    assert run("fit", data, tmp_path / "m", "--text-field", field) == 2


def test_fields_are_refused_where_data_have_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train_texts.txt").write_text("a hedge\na hedge\n")
    (tmp_path / "train_labels.txt").write_text("x\ny\n")
    assert run("fit", tmp_path, tmp_path / "m", "--text-field", "title") == 2
    assert "--text-field" in capsys.readouterr().err
