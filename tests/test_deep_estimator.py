"""The classifier that reads texts with a transformer."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from tiny_encoder import assert_alike, make_tiny_encoder, texts_and_labels

from hedgerow import HedgerowTransformerClassifier, Votes, explain, label_uncertainty, load, query
from hedgerow.deep.encoder import DropoutPass, Encoder
from hedgerow.deep.features import join_features
from hedgerow.evaluation.tasks import evaluate
from hedgerow.inputs.matrices import as_rows
from hedgerow.storage.container import ExtraMissing, Malformed, read_model, write_model
from hedgerow.training.checkpoint import Checkpoint

pytestmark = pytest.mark.deep

TEXTS, LABELS = texts_and_labels(96)
NEW, NEW_LABELS = texts_and_labels(120)
NEW, NEW_LABELS = NEW[96:], NEW_LABELS[96:]
WAYS: dict[str, dict[str, Any]] = {
    "single": {"method": "single"},
    "bagging": {"method": "bagging", "members": 3},
    "boosted-bagging": {"method": "boosted-bagging", "members": 3},
    "encoders": {"method": "boosted-bagging", "members": 3, "encoders": 3},
    "mc-dropout": {"method": "mc-dropout", "members": 4},
}


def model(encoder: Path, **changes: Any) -> HedgerowTransformerClassifier:
    """A model that learns quickly, on a GPU where there is one."""
    known: dict[str, Any] = {"steps": 4, "batch_size": 8, "learning_rate": 1e-3, "leaf_size": 4}
    return HedgerowTransformerClassifier(
        encoder=encoder,
        **{**known, "branching": 2, "n_jobs": 1, "random_state": 3, **changes},
    )


@pytest.fixture(scope="module")
def fitted(tiny_encoder: Path) -> dict[str, HedgerowTransformerClassifier]:
    return {name: model(tiny_encoder, **way).fit(TEXTS, LABELS) for name, way in WAYS.items()}


def same_votes(one: Votes, other: Votes) -> None:
    np.testing.assert_array_equal(one.indptr, other.indptr)
    np.testing.assert_array_equal(one.labels, other.labels)
    assert_alike(one.probs, other.probs)


@pytest.mark.parametrize("way", WAYS)
def test_saved_model_predicts_the_same(
    fitted: dict[str, HedgerowTransformerClassifier], tmp_path: Path, way: str
) -> None:
    own = fitted[way]
    own.save(tmp_path / "model")
    again = load(tmp_path / "model").set_params(n_jobs=2)
    assert isinstance(again, HedgerowTransformerClassifier)
    same_votes(again.predict_votes(NEW), own.predict_votes(NEW))
    assert again.describe()["members"] == own.describe()["members"] == WAYS[way].get("members", 1)
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    same_votes(pickle.loads(pickle.dumps(own)).predict_votes(NEW), own.predict_votes(NEW))


@pytest.mark.parametrize("way", WAYS)
def test_prediction_is_the_same_again_and_alike_in_any_batch(
    fitted: dict[str, HedgerowTransformerClassifier], way: str
) -> None:
    whole = fitted[way].predict_votes(NEW)
    np.testing.assert_array_equal(fitted[way].predict_votes(NEW).probs, whole.probs)
    parts = [fitted[way].predict_votes(NEW[begin : begin + 5]) for begin in range(0, len(NEW), 5)]
    same_votes(Votes.concatenate(parts), whole)


@pytest.mark.parametrize("way", WAYS)
def test_best_labels_and_uncertainties_are_those_of_the_votes(
    fitted: dict[str, HedgerowTransformerClassifier], way: str
) -> None:
    own = fitted[way]
    best = own.predict_uncertain(NEW, k=3)
    np.testing.assert_array_equal(own.top(NEW, k=3).labels, best.labels)
    votes = own.predict_votes(NEW)
    measures = label_uncertainty(votes)
    mean = votes.mean().toarray()
    np.testing.assert_allclose(best.probability, -np.sort(-mean, axis=1)[:, :3], atol=1e-5)
    place = {name: number for number, name in enumerate(own.classes_.tolist())}
    for row in range(len(NEW)):
        entries = slice(votes.indptr[row], votes.indptr[row + 1])
        known = dict(zip(votes.labels[entries].tolist(), range(entries.start, entries.stop), strict=True))
        at = [known[place[label]] for label in best.labels[row]]
        np.testing.assert_allclose(best.knowledge[row], measures.knowledge[at], atol=1e-5)
        np.testing.assert_allclose(best.variance[row], measures.variance[at], atol=1e-5)
    assert best.instance.expected.shape == (len(NEW),)


@pytest.mark.parametrize("way", WAYS)
def test_evaluation_and_familiarity_work_for_every_way(
    fitted: dict[str, HedgerowTransformerClassifier], way: str, tmp_path: Path
) -> None:
    found = evaluate(fitted[way], NEW, NEW_LABELS, ood={"odd": ["quagga and okapi"] * 12})
    assert found.ranking.precision[1] > 0.5
    assert ("knowledge" in found.misclassification) == (way != "single")
    own = fitted[way].learn_ood(NEW * 3)
    odd = own.ood_scores(["quagga okapi graze far away", NEW[0]])
    assert odd.score[0] > odd.score[1]
    own.save(tmp_path / "model")
    again = load(tmp_path / "model").ood_scores(NEW)
    assert_alike(again.score, own.ood_scores(NEW).score, times=100)  # in deviations of what is usual
    own.model_ = replace(own.model_, ood=None)


def test_features_are_tfidf_and_behind_it_the_embedding(
    fitted: dict[str, HedgerowTransformerClassifier],
) -> None:
    own = fitted["single"]
    features = own.source.reader.plain_features(NEW, 1)
    words = own.vectorizer_.transform(NEW)
    np.testing.assert_array_equal(features[:, : words.shape[1]].toarray(), words.toarray())
    np.testing.assert_array_equal(features[:, words.shape[1] :].toarray(), own.encoders_[0].embed(NEW))
    assert features.nnz == words.nnz + 32 * len(NEW)


@pytest.mark.parametrize("scale", [False, True])
def test_joined_features_are_those_of_dense_blocks(scale: bool) -> None:
    draw = np.random.default_rng(0)
    words = draw.random((7, 9)) * (draw.random((7, 9)) < 0.4)
    words[3] = 0
    words /= np.maximum(np.linalg.norm(words, axis=1, keepdims=True), 1e-12)
    vectors = [draw.normal(size=(7, 4)) for _ in range(2)]
    vectors = [of / np.linalg.norm(of, axis=1, keepdims=True) for of in vectors]
    found = join_features(sp.csr_array(words.astype(np.float32)), vectors, [0, 2], 3, 0.5, scale)
    dense = np.hstack([words, 0.5 * vectors[0], np.zeros((7, 4)), 0.5 * vectors[1]])
    if scale:  # what one member sees has length 1
        dense /= np.linalg.norm(dense[:, :13], axis=1, keepdims=True)
    np.testing.assert_allclose(found.toarray(), dense, atol=1e-6)
    assert found.has_sorted_indices


def test_each_member_with_an_encoder_of_its_own_sees_its_own_embedding_alone(
    fitted: dict[str, HedgerowTransformerClassifier],
) -> None:
    own = fitted["encoders"]
    weights = [encoder.weights()["encoder.layer.0.output.dense.weight"] for encoder in own.encoders_]
    assert len({of.tobytes() for of in weights}) == 3
    words = len(own.vectorizer_.idf_)
    for number, tree in enumerate(own.model_.forest.trees):
        used = np.unique(
            np.concatenate(
                [tree.native.chunk_entries(chunk).features for chunk in range(len(tree.native.table()))]
            )
        )
        blocks = set(((used[used >= words] - words) // 32).tolist())
        assert blocks == {number}


def test_passes_are_those_of_the_encoder_with_dropout(
    fitted: dict[str, HedgerowTransformerClassifier],
) -> None:
    own = fitted["mc-dropout"]
    votes = own.predict_votes(NEW)
    words = own.vectorizer_.transform(NEW)
    for number in range(4):
        vectors = own.encoders_[0].embed(NEW, dropout=DropoutPass(number, 3))
        features = join_features(words, [vectors], [0], 1, 1.0, False)
        labels, probability = own.model_.forest.trees[0].top(as_rows(features), 5, 50, False, 1)
        member = votes.member(number).toarray()
        np.testing.assert_allclose(np.take_along_axis(member, labels, axis=1), probability, atol=1e-6)
    assert label_uncertainty(votes).knowledge.max() > 0


def test_dropout_of_the_ranker_is_not_used(tiny_encoder: Path, tmp_path: Path) -> None:
    still = make_tiny_encoder(tmp_path / "still", dropout=0.0)
    found = model(still, method="mc-dropout", members=3, steps=0).fit(TEXTS, LABELS).predict_votes(NEW)
    assert (found.probs == found.probs[:, :1]).all()
    moved = model(still, method="mc-dropout", members=3, steps=0, dropout=0.2).fit(TEXTS, LABELS)
    assert not (moved.predict_votes(NEW).probs == found.probs).all()


@pytest.mark.parametrize("way", ["single", "encoders", "mc-dropout"])
def test_parameters_that_change_later_leave_the_fitted_model_as_it_is(
    fitted: dict[str, HedgerowTransformerClassifier], tmp_path: Path, way: str
) -> None:
    own = pickle.loads(pickle.dumps(fitted[way]))
    before = own.predict_votes(NEW)
    own.set_params(embedding_weight=5.0, dropout=0.7)
    same_votes(own.predict_votes(NEW), before)
    own.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.get_params()["embedding_weight"] == 5.0
    same_votes(again.predict_votes(NEW), before)
    assert not np.array_equal(own.fit(TEXTS, LABELS).predict_votes(NEW).probs, before.probs)


def test_fit_that_was_stopped_goes_on_to_the_same_file(tiny_encoder: Path, tmp_path: Path) -> None:
    way = {"method": "bagging", "members": 2, "checkpoint_steps": 2, "device": "cpu"}
    model(tiny_encoder, **way).fit(TEXTS, LABELS).save(tmp_path / "whole")
    seen: list[str] = []

    def stop(_: float, name: str) -> None:
        seen.append(name)
        if sum("fine-tuning" in one for one in seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model(tiny_encoder, **way).fit(TEXTS, LABELS, checkpoint=tmp_path / "kept", progress=stop)
    write = Checkpoint.write

    def write_one(self: Checkpoint, number: int, member: Any) -> None:
        if number == 1:
            raise KeyboardInterrupt
        write(self, number, member)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "write", write_one)
        with pytest.raises(KeyboardInterrupt):
            model(tiny_encoder, **way).fit(TEXTS, LABELS, checkpoint=tmp_path / "kept")
    names = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert names == ["encoder-0000.hedgerow", "member-0000.hedgerow"]
    model(tiny_encoder, **way).fit(TEXTS, LABELS, checkpoint=tmp_path / "kept").save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "whole").read_bytes()
    with pytest.raises(ValueError, match="another fit"):
        model(tiny_encoder, **way).fit(TEXTS[:-1], LABELS[:-1], checkpoint=tmp_path / "kept")


def test_cache_does_not_change_the_model(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(tiny_encoder, device="cpu").fit(TEXTS, LABELS).save(tmp_path / "plain")
    cached = model(tiny_encoder, device="cpu", cache=tmp_path / "cache").fit(TEXTS, LABELS)
    cached.save(tmp_path / "cached")
    assert (tmp_path / "cached").read_bytes() == (tmp_path / "plain").read_bytes()
    assert len(list((tmp_path / "cache").iterdir())) == 2  # before and after fine-tuning
    expected = cached.predict_votes(NEW)
    monkeypatch.setattr(Encoder, "embed", lambda *_, **__: pytest.fail("embedded again"))
    same_votes(cached.predict_votes(NEW), expected)


def test_file_without_what_was_fitted_goes_by_its_parameters(
    fitted: dict[str, HedgerowTransformerClassifier], tmp_path: Path
) -> None:
    fitted["mc-dropout"].save(tmp_path / "model")
    file = read_model(tmp_path / "model")
    header = json.loads(json.dumps(file.header))
    del header["encoder"]["weight"], header["encoder"]["dropout"]
    write_model(tmp_path / "older", file.sections, header)
    same_votes(load(tmp_path / "older").predict_votes(NEW), fitted["mc-dropout"].predict_votes(NEW))


def test_more_members_share_the_encoder(tiny_encoder: Path) -> None:
    way = {"method": "bagging", "device": "cpu"}
    grown = model(tiny_encoder, members=2, **way).fit(TEXTS, LABELS).add_members(TEXTS, LABELS, 1)
    whole = model(tiny_encoder, members=3, **way).fit(TEXTS, LABELS)
    same_votes(grown.predict_votes(NEW), whole.predict_votes(NEW))


@pytest.mark.parametrize("way", WAYS)
def test_explanations_name_words_and_embeddings_and_questions_can_be_asked(
    fitted: dict[str, HedgerowTransformerClassifier], way: str
) -> None:
    why = explain(fitted[way], NEW[0])
    assert any(str(name).startswith("embedding[") for name in why.features)
    assert any(" " not in str(name) and "[" not in str(name) for name in why.features)
    assert why.without_dropout == (way == "mc-dropout")
    if way == "single":
        np.testing.assert_allclose(
            why.probability, fitted[way].top(NEW[:1], k=1).probability[0, 0], atol=1e-5
        )
    else:
        assert len(query(fitted[way], NEW, 3)) == 3
        assert len(query(fitted[way], NEW, 3, pairs=True)) == 3


def test_parameters_are_those_that_were_given(tiny_encoder: Path) -> None:
    own = model(tiny_encoder, dropout=0.3, levels=1)
    assert clone(own).get_params() == own.get_params()
    assert own.get_params()["dropout"] == 0.3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoders": 3}, "method 'single' has one encoder"),
        ({"encoders": 2, "method": "bagging", "members": 3}, "use 1 encoder for all members, or one"),
        ({"encoders": 3, "method": "bagging", "members": 3, "trees": 1}, "one encoder and one tree for each"),
        ({"device": "abacus"}, "device is 'abacus'"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"pooling": "max"}, "pooling"),
        ({"encoder": "no/such/folder"}, "there is no folder"),
    ],
)
def test_wrong_parameters_are_refused(
    tiny_encoder: Path, changes: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=message):
        model(changes.pop("encoder", tiny_encoder), **changes).fit(TEXTS, LABELS)


def test_wrong_inputs_are_refused(
    tiny_encoder: Path, fitted: dict[str, HedgerowTransformerClassifier]
) -> None:
    with pytest.raises(TypeError, match="not one string"):
        model(tiny_encoder).fit("a text", [["a"]])
    with pytest.raises(TypeError, match="text 1 is of type int"):
        fitted["single"].top(["a", 5])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="97 lists of labels"):
        model(tiny_encoder).fit(TEXTS, [*LABELS, ["x"]])
    with pytest.raises(ValueError, match="integer random_state"):
        model(tiny_encoder, random_state=None).fit(TEXTS, LABELS, checkpoint="nowhere")
    with pytest.raises(ValueError, match="where each has its own encoder; fit again"):
        fitted["encoders"].add_members(TEXTS, LABELS, 1)


@pytest.mark.parametrize(
    "damage", ["no weights", "other width", "odd passes", "config", "odd weight", "odd dropout"]
)
def test_damaged_model_file_is_refused(
    fitted: dict[str, HedgerowTransformerClassifier], tmp_path: Path, damage: str
) -> None:
    fitted["mc-dropout"].save(tmp_path / "model")
    file = read_model(tmp_path / "model")
    sections, header = dict(file.sections), json.loads(json.dumps(file.header))
    if damage == "no weights":
        sections = {name: of for name, of in sections.items() if not name.startswith("encoder.0/")}
    elif damage == "other width":
        del sections["encoder.0/pooler.dense.bias"]
    elif damage == "odd passes":
        header["passes"] = {"count": "many", "seed": 0}
    elif damage == "odd weight":
        header["encoder"]["weight"] = -1.0
    elif damage == "odd dropout":
        header["encoder"]["dropout"] = "much"
    else:
        sections["encoder.config"] = np.frombuffer(b"[]", dtype=np.uint8)
    write_model(tmp_path / "odd", sections, header)
    with pytest.raises(Malformed, match="does not hold a whole model"):
        load(tmp_path / "odd")


def test_model_without_torch_says_what_is_missing(
    fitted: dict[str, HedgerowTransformerClassifier], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted["single"].save(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'hedgerow\[deep\]'"):
        load(tmp_path / "model")
    with pytest.raises(ImportError, match=r"pip install 'hedgerow\[deep\]'"):
        HedgerowTransformerClassifier().fit(TEXTS, LABELS)


def test_rest_of_the_package_never_imports_torch() -> None:
    script = (
        "import sys, hedgerow, hedgerow.cli.app, hedgerow.cli.fit, hedgerow.saving\n"
        "from hedgerow import HedgerowTransformerClassifier, HedgerowTextClassifier\n"
        "HedgerowTextClassifier(random_state=0).fit(['an elm', 'an elm'], [['x'], ['x']])\n"
        "assert not {'torch', 'transformers', 'tokenizers'} & set(sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("way", ["single", "encoders", "mc-dropout"])
def test_encoder_reads_the_fields_of_a_record_as_one_text(
    way: str, tiny_encoder: Path, tmp_path: Path
) -> None:
    def records(texts: list[str]) -> list[dict[str, str]]:
        halves = [(text.split()[:3], text.split()[3:]) for text in texts]
        return [{"title": " ".join(first), "abstract": " ".join(rest)} for first, rest in halves]

    own = model(tiny_encoder, fields={"title": 2, "abstract": 1}, **WAYS[way])
    own.fit(records(TEXTS), LABELS)
    own.save(tmp_path / "m")
    same_votes(load(tmp_path / "m").predict_votes(records(NEW)), own.predict_votes(records(NEW)))
    reader = own.source.reader
    inputs = reader.inputs(records(NEW))
    whole = [" ".join(text.split()[:3]) + "\n" + " ".join(text.split()[3:]) for text in NEW]
    embedded = own.encoders_[0].embed(whole, threads=1)
    features = reader.plain_features(inputs, 1)
    words = reader.words.width
    lengths = np.sqrt((features[:, :words] ** 2).sum(axis=1))
    np.testing.assert_allclose(lengths / lengths.max(), 1, rtol=1e-5)
    ratio = features[:, words : words + embedded.shape[1]].toarray() / lengths[:, None]
    np.testing.assert_allclose(ratio, embedded, rtol=1e-3, atol=1e-5)
    why = explain(own, records(NEW)[0])
    assert {"title", "abstract", None} >= set(why.fields)
