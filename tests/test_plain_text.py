"""Plain texts that are read by words and by n-grams of characters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import hedgerow
from hedgerow import HedgerowTextClassifier, explain
from hedgerow.data.sample import load_sample
from hedgerow.features.fields import Fields
from hedgerow.features.tfidf import TfidfVectorizer
from hedgerow.inputs.parameters import ParameterError
from hedgerow.storage.container import Malformed

SAMPLE = load_sample()
TEXTS, LABELS = SAMPLE.train_texts[:400], SAMPLE.train_labels[:400]


@pytest.fixture(scope="module")
def model() -> HedgerowTextClassifier:
    return HedgerowTextClassifier(analyzer="word+char_wb", char_ngrams=(4, 5), random_state=0).fit(
        TEXTS, LABELS
    )


def test_row_is_words_and_beside_them_characters_with_less_weight(model: HedgerowTextClassifier) -> None:
    words = TfidfVectorizer().fit(TEXTS)
    chars = TfidfVectorizer(analyzer="char_wb", char_ngrams=(4, 5)).fit(TEXTS)
    wanted = sp.hstack([words.transform(TEXTS[:5]), 0.7 * chars.transform(TEXTS[:5])])
    found = model.source.reader.plain_features(model.source.inputs(TEXTS[:5]), 1)
    np.testing.assert_allclose(found.toarray(), wanted.toarray(), atol=1e-6)


def test_inputs_are_texts_and_nothing_else(model: HedgerowTextClassifier) -> None:
    assert model.source.reader.text_fields is None
    assert len(model.top(TEXTS[:2], k=3).labels) == 2
    with pytest.raises(TypeError, match="text 0 is of type dict, not str"):
        model.top([{"text": "a text"}], k=1)
    with pytest.raises(TypeError, match="one text"):
        model.top("a text", k=1)


def test_training_texts_are_known_again(model: HedgerowTextClassifier) -> None:
    words = HedgerowTextClassifier(random_state=0).fit(TEXTS, LABELS)
    own, plain = (of.source.hashes(of.source.inputs(TEXTS)) for of in (model, words))
    np.testing.assert_array_equal(own, plain)
    assert model.source.seen(own).all()


def test_saved_model_predicts_the_same_bits(model: HedgerowTextClassifier, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    loaded = hedgerow.load(tmp_path / "m")
    assert loaded.analyzer == "word+char_wb"
    before, after = (of.top(SAMPLE.test_texts[:50], k=5) for of in (model, loaded))
    np.testing.assert_array_equal(before.labels, after.labels)
    np.testing.assert_array_equal(before.probability, after.probability)
    assert loaded.describe()["analyzer"]["name"] == "word+char_wb"


def test_file_whose_readings_are_others_is_refused(
    model: HedgerowTextClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = type(model.source.reader)
    as_it_was = reader.to_file

    def renamed(self: Any) -> Any:
        fitted, header, sections = as_it_was(self)
        header["fields"][0]["name"] = "title"
        return fitted, header, sections

    monkeypatch.setattr(reader, "to_file", renamed)
    model.save(tmp_path / "m")
    with pytest.raises(Malformed, match="a plain text is read as title"):
        hedgerow.load(tmp_path / "m")


def test_explanation_has_no_fields(model: HedgerowTextClassifier) -> None:
    found = explain(model, TEXTS[0], model.top(TEXTS[:1], k=1).labels[0, 0])
    assert found.fields is None


def test_with_fields_it_is_refused() -> None:
    with pytest.raises(ParameterError, match="title~chars"):
        HedgerowTextClassifier(analyzer="word+char_wb", fields=["title"]).fit(["a"], [["b"]])


def test_readings_of_a_plain_text_have_the_names_of_files() -> None:
    assert [field.name for field in Fields.of_plain_text().fields] == ["text", "text~chars"]
