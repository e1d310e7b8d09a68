"""A judge beside a transformer: it learns from texts that the encoder does not know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow import HedgerowTransformerClassifier, explain, load
from hedgerow.cli import main
from hedgerow.data.sample import load_sample
from hedgerow.deep import level_batches
from hedgerow.deep.encoder import Encoder
from hedgerow.estimators.held_out import learn_from_held_out
from hedgerow.evaluation.tasks import evaluate
from hedgerow.inputs.search import FLOOR
from hedgerow.inputs.training_record import hash_texts
from hedgerow.storage.container import read_model, write_model

pytestmark = pytest.mark.deep

SAMPLE = load_sample()
TEXTS, LABELS = SAMPLE.train_texts[:700], SAMPLE.train_labels[:700]
NEW, NEW_LABELS = SAMPLE.test_texts[:160], SAMPLE.test_labels[:160]
HALVES = {"title": 0.7, "title~chars": 0.7, "title+rest~words": 1.0}
WAYS: dict[str, dict[str, Any]] = {
    "single": {},
    "wide": {"wide": 40},
    "boosting": {"method": "boosting", "members": 4, "wide": 1000, "fields": HALVES},
    "bagging": {"method": "bagging", "members": 3},
    "boosted-bagging": {"method": "boosted-bagging", "members": 3, "trees": 1, "wide": 40},
}


def model(encoder: Path, **changes: Any) -> HedgerowTransformerClassifier:
    """A model with a judge that learns quickly, with the same bits wherever it is tested."""
    tuning: dict[str, Any] = {"steps": 3, "levels": 1, "batch_size": 8, "learning_rate": 1e-3}
    own = {"max_length": 12, "leaf_size": 20, "judge": True, "device": "cpu", "random_state": 3, "n_jobs": 1}
    return HedgerowTransformerClassifier(encoder=encoder, **{**tuning, **own, **changes})


def records(way: str, texts: list[str]) -> list[Any]:
    if "fields" not in WAYS[way]:
        return texts
    halves = [(text.split()[:6], text.split()[6:]) for text in texts]
    return [{"title": " ".join(first), "rest": " ".join(others)} for first, others in halves]


@pytest.fixture(scope="module")
def judged(tiny_encoder: Path) -> dict[str, HedgerowTransformerClassifier]:
    found = {}
    for way, changes in WAYS.items():
        found[way] = model(tiny_encoder, **changes).fit(records(way, TEXTS), LABELS)
        assert found[way].source.judge is not None
    return found


def same_judge(one: HedgerowTransformerClassifier, other: HedgerowTransformerClassifier) -> None:
    first, second = one.source.judge, other.source.judge
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first.coefficients, second.coefficients)
    np.testing.assert_array_equal(first.range, second.range)


def test_texts_that_teach_the_judge_are_never_drawn_in_fine_tuning(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[np.ndarray] = []
    gather = level_batches.gather_candidates

    def watch(candidates: Any, rows: np.ndarray) -> Any:
        drawn.append(rows)
        return gather(candidates, rows)

    monkeypatch.setattr(level_batches, "gather_candidates", watch)
    texts = [*TEXTS, *TEXTS[:100]]  # the equals of a text that is held out are held out, too
    own = model(tiny_encoder, steps=None, epochs=1.0, batch_size=50).fit(texts, [*LABELS, *LABELS[:100]])
    hashes = hash_texts(texts)
    known = np.unique(hashes[np.concatenate(drawn)])
    np.testing.assert_array_equal(own.encoders_[0].trained_on, known)
    held_out = ~np.isin(hashes, known)
    judge = own.source.judge
    assert judge is not None
    assert judge.rows <= held_out.sum() < 0.25 * len(texts)
    assert held_out.sum() >= 0.15 * len(texts)
    assert own.seen_in_training(texts).all()


def test_encoder_does_not_depend_on_the_labels_of_texts_that_teach_the_judge(
    tiny_encoder: Path, tmp_path: Path
) -> None:
    def tuned(name: str, labels: list[list[str]], judge: bool) -> Encoder:
        model(tiny_encoder, judge=judge).fine_tune(TEXTS, labels, tmp_path / name)
        return Encoder.open(tmp_path / name)

    own = tuned("own", LABELS, True)
    held_out = np.flatnonzero(~np.isin(hash_texts(TEXTS), own.trained_on))
    others = list(LABELS)
    for row, from_row in zip(held_out, np.roll(held_out, 1), strict=True):
        others[row] = LABELS[from_row]
    assert tuned("others", others, True).fingerprint() == own.fingerprint()
    plain = (tuned("plain", LABELS, False), tuned("plain-others", others, False))
    assert plain[0].fingerprint() != plain[1].fingerprint()


@pytest.mark.parametrize("way", ["single", "boosting"])
def test_model_over_an_encoder_that_was_tuned_for_a_judge_is_the_one_that_fine_tunes_by_itself(
    judged: dict[str, HedgerowTransformerClassifier], tiny_encoder: Path, tmp_path: Path, way: str
) -> None:
    texts = records(way, TEXTS)
    # Which texts are held out does not depend on the method, or on whom the judge asks.
    fields = {"fields": WAYS[way].get("fields")}
    model(tiny_encoder, **fields).fine_tune(texts, LABELS, tmp_path / "tuned")
    shared = model(tmp_path / "tuned", **WAYS[way] | {"epochs": 0, "steps": None}).fit(texts, LABELS)
    assert shared.encoders_[0].fingerprint() == judged[way].encoders_[0].fingerprint()
    same_judge(shared, judged[way])
    new = records(way, NEW)
    one, other = judged[way].predict_votes(new), shared.predict_votes(new)
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.probs, other.probs)


def test_encoder_that_knows_the_texts_of_the_judge_is_refused_with_the_way_out(
    tiny_encoder: Path, tmp_path: Path
) -> None:
    model(tiny_encoder, judge=False).fine_tune(TEXTS, LABELS, tmp_path / "all")
    taken: dict[str, Any] = {"epochs": 0, "steps": None}
    with pytest.raises(ValueError, match=r"on 105 of the 105 texts that are to teach the judge.*judge=True"):
        model(tmp_path / "all", **taken).fit(TEXTS, LABELS)
    model(tmp_path / "all", judge=False, **taken).fit(TEXTS, LABELS)
    model(tiny_encoder, random_state=4).fine_tune(TEXTS, LABELS, tmp_path / "other-seed")
    with pytest.raises(ValueError, match="with the same random_state"):
        model(tmp_path / "other-seed", **taken).fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="judge would trust it more than it deserves"):
        model(tmp_path / "other-seed").fine_tune(TEXTS, LABELS, tmp_path / "again")
    # An encoder as it is knows none of them.
    assert model(tiny_encoder, **taken).fit(TEXTS, LABELS).source.judge is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "bagging", "members": 2, "encoders": 2}, "judge and encoders=2 cannot be combined"),
        ({"method": "mc-dropout", "members": 2}, "judge and method 'mc-dropout' cannot be combined"),
        ({"judge": False, "wide": 5}, "set judge=True"),
    ],
)
def test_what_a_judge_cannot_do_is_said(tiny_encoder: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(tiny_encoder, **changes).fit(TEXTS, LABELS)


@pytest.mark.parametrize("way", WAYS)
def test_saved_model_is_the_same_in_bytes_and_answers(
    judged: dict[str, HedgerowTransformerClassifier], tmp_path: Path, way: str
) -> None:
    own, new = judged[way], records(way, NEW)
    own.save(tmp_path / "model")
    again = load(tmp_path / "model").set_params(device="cpu", n_jobs=2)
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert (again.judge, again.wide, again.floor) == (True, own.wide, FLOOR)
    same_judge(own, again)
    one, other = own.predict_votes(new), again.predict_votes(new)
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.probs, other.probs)
    best = again.predict_uncertain(new, k=3)
    np.testing.assert_array_equal(best.labels, own.top(new, k=3).labels)


@pytest.mark.parametrize("way", WAYS)
def test_explanation_is_of_the_prediction_and_adds_up(
    judged: dict[str, HedgerowTransformerClassifier], way: str
) -> None:
    own, new = judged[way], records(way, NEW)
    why = explain(own, new[0])
    assert why.probability == pytest.approx(own.top(new[:1], k=1).probability[0, 0], rel=1e-6)
    assert any(str(name).startswith("embedding[") for name in why.features)
    verdict = why.verdict
    assert verdict is not None
    effects = [one.effect for one in verdict.evidence]
    assert verdict.base + sum(effects) == pytest.approx(verdict.log_odds, abs=1e-10)
    cosine = next(one.value for one in verdict.evidence if one.name == "centroid")
    assert cosine == pytest.approx(_cosine(own, records(way, TEXTS), new[0], why.label), abs=0.02)


def _cosine(model: HedgerowTransformerClassifier, train: list[Any], text: Any, label: str) -> float:
    """Of a text and the mean of a label's texts, whose largest 100 features count, whatever their sign."""
    reader = model.source.reader
    own = [row for row, labels in enumerate(LABELS) if label in labels]
    rows = reader.plain_features(reader.inputs([train[row] for row in own] + [text]), 1).toarray()
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    mean = rows[:-1].sum(axis=0)
    mean /= np.linalg.norm(mean)
    kept = np.where(np.abs(mean) >= np.sort(np.abs(mean))[-100], mean, 0)
    return float(rows[-1] @ kept)


def test_model_with_a_judge_is_evaluated_calibrated_and_decides(tiny_encoder: Path, tmp_path: Path) -> None:
    own = model(tiny_encoder, **WAYS["bagging"]).fit(TEXTS, LABELS)
    found = evaluate(own, NEW, NEW_LABELS)
    assert found.ranking.precision[1] > 0.5
    assert "knowledge" in found.misclassification
    learn_from_held_out(own, SAMPLE.test_texts[160:], SAMPLE.test_labels[160:])
    own.save(tmp_path / "model")
    again = load(tmp_path / "model").set_params(device="cpu", n_jobs=1)
    for one, other in zip(
        own.decide(NEW, missed_at_most=0.5), again.decide(NEW, missed_at_most=0.5), strict=True
    ):
        assert one == other
    with pytest.raises(ValueError, match="what the judge asks was trained on all training data"):
        own.calibrate_out_of_bag(TEXTS, LABELS)
    with pytest.raises(ValueError, match="a model with a judge, which knows those it has"):
        own.add_members(TEXTS, LABELS, 1)


def test_file_of_an_ensemble_without_a_floor_keeps_its_search(tiny_encoder: Path, tmp_path: Path) -> None:
    own = model(tiny_encoder, method="bagging", members=2, judge=False, steps=0).fit(
        TEXTS[:200], LABELS[:200]
    )
    own.save(tmp_path / "model")
    file = read_model(tmp_path / "model")
    header = json.loads(json.dumps(file.header))
    assert header["parameters"].pop("floor") == FLOOR
    assert not {"judge", "wide"} & set(header["parameters"])
    write_model(tmp_path / "older", file.sections, header)
    assert load(tmp_path / "older").source.search.floor == 0.0
    assert load(tmp_path / "model").source.search.floor == FLOOR


def test_command_trains_a_judge_and_says_what_it_gains(
    tiny_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps({"text": text, "labels": labels}) for text, labels in zip(TEXTS, LABELS, strict=True)]
    (tmp_path / "train.jsonl").write_text("\n".join(lines) + "\n")
    started = ["fit", tmp_path / "train.jsonl", tmp_path / "model", "--base", "transformer"]
    started += ["--encoder", tiny_encoder, "--steps", "0", "--max-length", "12", "--device", "cpu"]

    def fit(*more: object) -> int:
        return main([str(word) for word in (*started, "--threads", "1", *more)])

    assert fit("--preset", "balanced") == 2
    assert "give --judge and --wide N yourself" in capsys.readouterr().err
    assert fit("--wide", "40") == 2
    assert "wide is for a judge" in capsys.readouterr().err
    assert fit("--judge", "--method", "mc-dropout") == 2
    assert "cannot be combined" in capsys.readouterr().err
    assert fit("--judge", "--wide", "40", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["judge"]["sees"] == ["members", "wide", "label", "centroid", "frequency"]
    assert (summary["settings"]["judge"], summary["settings"]["wide"]) == (True, 40)
    assert load(tmp_path / "model").wide == 40
