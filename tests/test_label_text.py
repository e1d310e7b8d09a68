"""Label text: an encoder finds labels by what their names mean, although texts call them otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synonym_encoder import Synonyms, make_synonym_encoder, name, synonym, synonym_texts

from hedgerow import HedgerowTransformerClassifier, Vocabulary, explain, load, read_vocabulary
from hedgerow.cli import main
from hedgerow.deep.embedding_cache import EmbeddingCache
from hedgerow.deep.encoder import Encoder
from hedgerow.estimators.name_learning import name_vectors
from hedgerow.judge import name_fitting
from hedgerow.judge.label_text import NEAR
from hedgerow.judge.name_vectors import directions
from hedgerow.serve.prediction import Wanted, predict
from hedgerow.serve.served_model import ServedModel
from hedgerow.storage.container import ModelFileError, read_model, write_model

pytestmark = pytest.mark.deep


def model(encoder: Path, **changes: Any) -> HedgerowTransformerClassifier:
    own: dict[str, Any] = {"epochs": 0, "max_length": 12, "ngrams": (1, 1), "leaf_size": 50}
    own |= {"judge": True, "label_text": True, "device": "cpu", "n_jobs": 1, "random_state": 0}
    return HedgerowTransformerClassifier(encoder=encoder, **own | changes)


@pytest.fixture(scope="module")
def data() -> Synonyms:
    return synonym_texts()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_synonym_encoder(tmp_path_factory.mktemp("encoders") / "synonyms")


@pytest.fixture(scope="module")
def fitted(data: Synonyms, encoder: Path) -> HedgerowTransformerClassifier:
    return model(encoder).fit(data.texts, data.labels, vocabulary=data.vocabulary)


@pytest.fixture(scope="module")
def file(fitted: HedgerowTransformerClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "label-text.hedgerow"
    fitted.save(path)
    return path


def opened(path: Path) -> HedgerowTransformerClassifier:
    found: HedgerowTransformerClassifier = load(path)
    return found.set_params(device="cpu", n_jobs=1)


def same_bits(
    one: HedgerowTransformerClassifier, other: HedgerowTransformerClassifier, texts: list[str]
) -> None:
    first, second = one.predict_votes(texts), other.predict_votes(texts)
    assert first.labels.tobytes() == second.labels.tobytes()
    assert first.probs.tobytes() == second.probs.tobytes()


def test_labels_that_no_training_text_has_are_found_by_a_synonym_of_their_name(
    fitted: HedgerowTransformerClassifier, data: Synonyms
) -> None:
    unseen = sorted(data.unseen)
    assert len(unseen) > 20
    texts = [f"fillerbbb {synonym(int(label[2:]))} fillerbbd" for label in unseen]
    best = fitted.top(texts, k=5).labels
    assert np.mean([label in row for label, row in zip(unseen, best.tolist(), strict=True)]) > 0.8
    names = fitted.source.names
    # Nothing else in these texts speaks for their label.
    found = names.matcher.match(tuple(texts), threads=1)
    assert not len(found.entries)


def test_it_is_kept_only_where_it_ranks_better_and_says_so(
    fitted: HedgerowTransformerClassifier,
    data: Synonyms,
    encoder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    about = fitted.describe()["names"]["label_text"]
    assert about["width"] == 48
    assert about["proposed"] in (0, NEAR)
    assert about["ndcg"] > about["ndcg_before"]
    plain = model(encoder, label_text=False).fit(data.texts, data.labels, vocabulary=data.vocabulary)
    # Every other text that teaches the judge has the embedding of another one: a judge of the rest misleads.
    learn = name_fitting.learn_names

    def shuffled(lesson: Any, progress: Any = None) -> Any:
        embeddings, rows = np.array(lesson.meant.embeddings), lesson.held_out.rows[1::2]
        embeddings[rows] = embeddings[np.roll(rows, 1)]
        return learn(replace(lesson, meant=replace(lesson.meant, embeddings=embeddings)), progress)

    monkeypatch.setattr("hedgerow.estimators.name_learning.learn_names", shuffled)
    other = model(encoder).fit(data.texts, data.labels, vocabulary=data.vocabulary)
    about = other.describe()["names"]
    assert about["label_text"] is None
    assert about["no_label_text"]["ndcg"] <= about["no_label_text"]["ndcg_before"]
    other.save(tmp_path / "model")
    assert not {"names.vectors", "names.map"} & set(read_model(tmp_path / "model").sections)
    again = opened(tmp_path / "model")
    assert again.describe()["names"] == about
    same_bits(other, again, data.test_texts)
    same_bits(other, plain, data.test_texts)
    assert plain.describe()["names"]["no_label_text"] is None


def test_vectors_are_the_mean_of_preferred_names_in_all_languages(
    fitted: HedgerowTransformerClassifier, data: Synonyms, encoder: Path, tmp_path: Path
) -> None:
    opened_encoder = Encoder.open(encoder, max_length=12)
    names = fitted.source.names.label_text.vectors.directions
    own = opened_encoder.embed([data.vocabulary.name(id) for id in data.vocabulary.ids], threads=1)
    off = np.abs(names.astype(int) - directions(own))
    assert off.max() <= 1  # names of one length are embedded at once, and may differ in the last bits
    # Of several names, those that are preferred count; of an entry that is out of use, none.
    path = tmp_path / "names.tsv"
    lines = ["id\tlabel_en\tlabel_de\talt_en\tdeprecated"]
    lines += [f"a\t{name(1)}\t{name(2)} {name(3)}\t{name(4)}\t", f"b\t{name(5)}\t\t\ttrue", "c\t\t\t\t"]
    path.write_text("\n".join(lines) + "\n")
    reader = fitted.source.reader
    found = name_vectors(reader, (read_vocabulary(path),), 1)
    each = opened_encoder.embed([name(1), f"{name(2)} {name(3)}"], threads=1)
    assert np.abs(found.directions[0].astype(int) - directions(each.mean(axis=0)[None])[0]).max() <= 1
    assert not found.directions[1:].any()


def test_bits_do_not_depend_on_threads_or_batches(
    fitted: HedgerowTransformerClassifier, data: Synonyms, encoder: Path
) -> None:
    again = model(encoder, n_jobs=2).fit(data.texts, data.labels, vocabulary=data.vocabulary)
    same_bits(fitted, again, data.test_texts)
    whole = fitted.predict_votes(data.test_texts)
    begin = 0
    for size in (1, 7, len(data.test_texts) - 8):
        part = fitted.predict_votes(data.test_texts[begin : begin + size])
        entries = slice(whole.indptr[begin], whole.indptr[begin + size])
        assert part.labels.tobytes() == whole.labels[entries].tobytes()
        assert part.probs.tobytes() == whole.probs[entries].tobytes()
        begin += size


def test_a_file_keeps_it(
    fitted: HedgerowTransformerClassifier, file: Path, data: Synonyms, tmp_path: Path
) -> None:
    again = opened(file)
    same_bits(fitted, again, data.test_texts)
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == file.read_bytes()
    sections = read_model(file).sections
    assert sections["names.vectors"].dtype == np.int8
    assert sections["names.vectors"].shape == (len(data.vocabulary), 48)


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("names.vectors", lambda array: array[:-1]),
        ("names.vectors", lambda array: array[:, :-1]),
        ("names.vectors", lambda array: array.astype(np.float32)),
        ("names.vectors", lambda array: np.full_like(array, -128)),
        ("names.vectors", None),
        ("names.map", lambda array: array[:, :-1]),
        ("names.map", lambda array: array.astype(np.int8)),
        ("names.map", None),
        ("names.judge.features", lambda array: array + 2),
    ],
)
def test_crafted_files_are_refused(file: Path, section: str, change: Any, tmp_path: Path) -> None:
    whole = read_model(file)
    sections = dict(whole.sections)
    if change is None:
        del sections[section]
    else:
        sections[section] = np.ascontiguousarray(change(sections[section]))
    write_model(tmp_path / "crafted", sections, json.loads(json.dumps(whole.header)))
    with pytest.raises(ModelFileError, match="does not hold a whole model"):
        load(tmp_path / "crafted")


@pytest.mark.parametrize("change", [{"near": 10**6}, {"near": "20"}, {"after": "good"}, None])
def test_crafted_headers_are_refused(file: Path, change: dict[str, Any] | None, tmp_path: Path) -> None:
    whole = read_model(file)
    header = json.loads(json.dumps(whole.header))
    header["naming"]["label_text"] = None if change is None else header["naming"]["label_text"] | change
    write_model(tmp_path / "crafted", whole.sections, header)
    with pytest.raises(ModelFileError, match="does not hold a whole model"):
        load(tmp_path / "crafted")


def test_the_server_answers_what_python_does(file: Path, data: Synonyms) -> None:
    own = opened(file)
    served = ServedModel(own.source, "0")
    found = own.predict_uncertain(data.test_texts[:20], k=5)
    for row, text in enumerate(data.test_texts[:20]):
        said = predict(served, [text], Wanted(5, uncertainty=True))[0]["labels"]
        assert [one["label"] for one in said] == found.labels[row].tolist()
        assert [one["probability"] for one in said] == found.probability[row].tolist()


def test_explanation_names_the_cosine(fitted: HedgerowTransformerClassifier, data: Synonyms) -> None:
    label = sorted(data.unseen)[0]
    text = f"fillerbbb {synonym(int(label[2:]))} fillerbbd"
    why = explain(fitted, text, label)
    names = why.names
    assert names is not None
    assert not names.finds
    assert names.before is None
    assert why.probability == pytest.approx(names.after, rel=1e-6)
    text_vector, name_vector = (
        fitted.source.names.label_text.map.apply(fitted.encoders_[0].embed([text], threads=1))[0],
        fitted.source.names.label_text.vectors.directions[data.vocabulary.ids.index(label)],
    )
    expected = np.dot(text_vector.astype(float), name_vector.astype(float))
    expected /= np.linalg.norm(text_vector.astype(float)) * np.linalg.norm(name_vector.astype(float))
    assert names.cosine == pytest.approx(expected, abs=1e-6)
    assert names.best_cosine >= names.cosine
    assert any("To the encoder" in sentence for sentence in why.sentences())


def test_another_vocabulary_brings_other_vectors(file: Path, data: Synonyms, tmp_path: Path) -> None:
    own = opened(file)
    gone = sorted(data.unseen)[0]
    names = {id: data.vocabulary.name(id) for id in data.vocabulary.ids if id != gone}
    with pytest.warns(UserWarning, match="not in the vocabulary"):
        own.set_vocabulary(Vocabulary.from_names(names | {"x:new": name(int(gone[2:])) + " namebbb"}, "en"))
    vectors = own.source.names.label_text.vectors.directions
    assert len(vectors) == len(data.vocabulary) + 1  # with what left
    assert vectors.any(axis=1).all()
    assert "x:new" in own.top([f"fillerbbb {synonym(int(gone[2:]))} {synonym(0)}"], k=20).labels[0]
    own.save(tmp_path / "other")
    same_bits(own, opened(tmp_path / "other"), data.test_texts)


def test_names_are_embedded_as_texts_are_and_kept_in_a_cache(encoder: Path, tmp_path: Path) -> None:
    own = Encoder.open(encoder, max_length=12)
    texts = [" ".join(name(label) for label in range(begin, begin + begin % 7 + 1)) for begin in range(400)]
    together = own.embed_together(texts, threads=1)
    np.testing.assert_allclose(together, own.embed(texts, threads=1), atol=1e-5)
    assert own.embed_together(texts, threads=3).tobytes() == together.tobytes()
    cache = EmbeddingCache(tmp_path)
    assert cache.embed_together(own, texts, threads=1).tobytes() == together.tobytes()
    assert cache.read(own, texts) is None  # others' bits are not taken for these
    assert len(list(tmp_path.iterdir())) == 1
    assert cache.embed_together(own, texts, threads=1).tobytes() == together.tobytes()


def test_what_it_needs_is_said(encoder: Path, data: Synonyms) -> None:
    with pytest.raises(ValueError, match="label_text is evidence for a judge; set judge=True"):
        model(encoder, judge=False).fit(data.texts, data.labels, vocabulary=data.vocabulary)
    with pytest.raises(ValueError, match="but none is given"):
        model(encoder).fit(data.texts, data.labels)
    with pytest.raises(ValueError, match="label_text is 'yes'"):
        model(encoder, label_text="yes").fit(data.texts, data.labels, vocabulary=data.vocabulary)


def test_command_says_what_it_gains(
    encoder: Path, data: Synonyms, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        json.dumps({"text": text, "labels": own}) for text, own in zip(data.texts, data.labels, strict=True)
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(lines) + "\n")
    rows = "".join(f"{id}\t{data.vocabulary.name(id)}\n" for id in data.vocabulary.ids)
    (tmp_path / "names.tsv").write_text("id\tlabel_en\n" + rows)
    started = [
        "fit",
        tmp_path / "train.jsonl",
        tmp_path / "model",
        "--base",
        "transformer",
        "--encoder",
        encoder,
    ]
    started += ["--epochs", "0", "--max-length", "12", "--device", "cpu", "--threads", "1", "--label-text"]

    def fit(*more: object) -> int:
        return main([str(word) for word in (*started, *more)])

    assert fit("--vocabulary", tmp_path / "names.tsv") == 2
    assert "evidence for a judge" in capsys.readouterr().err
    assert fit("--judge") == 3
    assert "names of a vocabulary" in capsys.readouterr().err
    assert fit("--judge", "--vocabulary", tmp_path / "names.tsv", "--leaf-size", "50") == 0
    assert "Label text ranks better still (nDCG@5" in " ".join(capsys.readouterr().out.split())
    assert main(["inspect", str(tmp_path / "model"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["names"]["label_text"]["width"] == 48
