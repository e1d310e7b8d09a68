"""`hedgerow reproduce --base transformer`: one encoder a seed, and the paper's deep tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tiny_encoder import make_tiny_encoder, texts_and_labels

from hedgerow import HedgerowTransformerClassifier, load
from hedgerow.cli import main
from hedgerow.deep import tuning
from hedgerow.deep.encoder import Encoder
from hedgerow.paper import DeepSettings, Experiment, ExperimentSettings, Source, run
from hedgerow.paper.published import DEEP_COLUMNS, DEEP_MISCLASSIFICATION, DEEP_PERFORMANCE, DEEP_RIVALS
from hedgerow.paper.table import Cell
from hedgerow.paper.tables import make_tables

pytestmark = pytest.mark.deep


def write(folder: Path, texts: list[str], labels: list[list[str]]) -> Path:
    folder.mkdir(parents=True)
    for name, rows in (("train", range(96)), ("test", range(96, 120))):
        lines = [json.dumps({"text": texts[row], "labels": labels[row]}) for row in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "hedge", *texts_and_labels(120))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds with which encoders were fine-tuned."""
    seeds: list[int] = []
    own = tuning.fine_tune

    def count(*arguments: Any, **options: Any) -> Any:
        seeds.append(options["seed"])
        return own(*arguments, **options)

    monkeypatch.setattr(tuning, "fine_tune", count)
    return seeds


def reproduce(data: Path, out: Path, encoder: Path, *more: object) -> int:
    options = ["--base", "transformer", "--encoder", encoder, "--device", "cpu", "--steps", "2"]
    options += ["--batch-size", "8", "--members", "2", "--threads", "1"]
    return main([str(word) for word in ("reproduce", data, "--out", out, *options, *more)])


def test_saved_encoder_opens_to_the_same_bits(tiny_encoder: Path, tmp_path: Path) -> None:
    encoder = Encoder.open(tiny_encoder, max_length=12)
    encoder.save(tmp_path / "again")
    again = Encoder.open(tmp_path / "again", max_length=12)
    assert again.fingerprint() == encoder.fingerprint()
    texts = texts_and_labels(20)[0]
    np.testing.assert_array_equal(again.embed(texts), encoder.embed(texts))
    with pytest.raises(FileExistsError, match="exists already"):
        encoder.save(tmp_path / "again")
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


@pytest.mark.parametrize("method", ["single", "boosted-bagging"])
def test_model_over_a_shared_encoder_is_the_one_that_fine_tunes_by_itself(
    tiny_encoder: Path, tmp_path: Path, method: str
) -> None:
    texts, labels = texts_and_labels(96)
    own = {"random_state": 3, "n_jobs": 1, "device": "cpu", "members": 2, "batch_size": 8}
    tuning = {"encoder": tiny_encoder, "steps": 3, "learning_rate": 1e-3}
    HedgerowTransformerClassifier(**own, **tuning).fine_tune(texts, labels, tmp_path / "tuned")
    alone = HedgerowTransformerClassifier(method=method, **own, **tuning).fit(texts, labels)
    shared = HedgerowTransformerClassifier(method=method, encoder=tmp_path / "tuned", epochs=0, **own)
    one, other = alone.predict_votes(texts[:9]), shared.fit(texts, labels).predict_votes(texts[:9])
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.probs, other.probs)
    several = HedgerowTransformerClassifier(method="bagging", encoders=2, **own, **tuning)
    with pytest.raises(ValueError, match="one folder holds one encoder"):
        several.fine_tune(texts, labels, tmp_path / "several")


def test_encoder_that_knows_the_training_data_gives_no_out_of_bag_votes(
    tiny_encoder: Path, tmp_path: Path
) -> None:
    texts, labels = texts_and_labels(200)
    own = {
        "method": "bagging",
        "random_state": 3,
        "n_jobs": 1,
        "device": "cpu",
        "members": 4,
        "batch_size": 8,
    }
    tuning = {"encoder": tiny_encoder, "steps": 3}
    HedgerowTransformerClassifier(**own, **tuning).fine_tune(texts, labels, tmp_path / "tuned")
    alone = HedgerowTransformerClassifier(**own, **tuning).fit(texts, labels)
    shared = HedgerowTransformerClassifier(encoder=tmp_path / "tuned", epochs=0, **own).fit(texts, labels)
    alone.save(tmp_path / "alone")
    loaded = load(tmp_path / "alone")
    changed = HedgerowTransformerClassifier(**own, **tuning).fit(texts, labels)
    changed.set_params(steps=None, epochs=0)
    for model in (alone, shared, loaded, changed):
        with pytest.raises(ValueError, match="encoder that was fine-tuned on all training data"):
            model.calibrate_out_of_bag(texts, labels)
    # One that was fine-tuned on other texts, or not at all, knows none of these.
    others = [f"{text} elsewhere" for text in texts]
    HedgerowTransformerClassifier(**own, **tuning).fine_tune(others, labels, tmp_path / "others")
    for encoder in (tmp_path / "others", tiny_encoder):
        model = HedgerowTransformerClassifier(encoder=encoder, epochs=0, **own).fit(texts, labels)
        model.save(tmp_path / "unknowing", overwrite=True)
        load(tmp_path / "unknowing").calibrate_out_of_bag(texts, labels)


def test_reproduce_fine_tunes_once_a_seed_and_writes_the_deep_tables(
    data: Path,
    tiny_encoder: Path,
    tmp_path: Path,
    counted: list[int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    odd = tmp_path / "odd"
    odd.mkdir()
    lines = [json.dumps({"text": f"quagga and okapi {number}"}) for number in range(12)]
    (odd / "test.jsonl").write_text("\n".join(lines) + "\n")
    out = tmp_path / "out"
    assert reproduce(data, out, tiny_encoder, "--seeds", 2, "--ood", odd) == 0
    assert counted == [0, 1]
    tables = json.loads((out / "tables.json").read_text())
    titles = ["Words alone, single model", "Single model", "MC dropout", "Boosting", "Bagging"]
    assert [row[0] for row in tables["performance"]["rows"]] == ["hedge", *titles, "Boosted bagging"]
    assert tables["performance"]["title"].startswith("Table 6")
    assert tables["misclassification"]["title"].startswith("Table 7")
    assert tables["misclassification"]["header"][1:4] == ["Words alone Energy", "Energy", "MC dropout PV"]
    assert tables["rivals"]["title"].startswith("Table 8")
    assert tables["rivals"]["header"] == ["", "hedge P@1", "hedge P@3", "hedge P@5"]
    assert [row[0] for row in tables["ood"]["rows"]] == ["hedge → odd"]
    assert tables["times"]["rows"][1][0] == "Fine-tuning"
    assert tables["settings"]["machine"]["GPU"] == "none"
    markdown = (out / "tables.md").read_text()
    assert "batches of 8" in markdown
    assert str(tmp_path) not in markdown
    assert {path.name for path in out.rglob("*.npy")} == {"trained_on.npy"}  # of the encoders; no embeddings
    kept = sorted((out / "experiments").rglob("*.json"))
    assert len(kept) == 2 * 6
    before = [path.stat().st_mtime_ns for path in kept]
    # One more row needs new encoders for its members, and nothing else anew.
    assert reproduce(data, out, tiny_encoder, "--seeds", 2, "--ood", odd, "--encoders") == 0
    assert len(counted) == 2 + 2 * 2
    assert [path.stat().st_mtime_ns for path in kept] == before
    tables = json.loads((out / "tables.json").read_text())
    assert tables["performance"]["rows"][-1][0] == "Boosted bagging, an encoder each"


def test_experiments_of_another_machine_make_tables_without_any_work(
    data: Path, tiny_encoder: Path, tmp_path: Path, counted: list[int]
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    assert reproduce(data, there, tiny_encoder, "--seeds", 1, "--method", "single") == 0
    shutil.copytree(there / "experiments", here / "experiments")
    elsewhere = shutil.copytree(tiny_encoder, tmp_path / "encoder of another name")
    moved = shutil.copytree(data, tmp_path / "place" / "hedge")
    counted.clear()
    assert reproduce(moved, here, elsewhere, "--seeds", 1, "--method", "single") == 0
    assert not counted
    one, other = (json.loads((folder / "tables.json").read_text()) for folder in (there, here))
    assert one["performance"] == other["performance"]


def test_encoder_is_named_by_its_weights_however_they_are_written(tiny_encoder: Path, tmp_path: Path) -> None:
    again = shutil.copytree(tiny_encoder, tmp_path / "again")
    weights = load_file(again / "model.safetensors")
    save_file(dict(reversed(weights.items())), again / "model.safetensors", metadata={"made": "elsewhere"})
    one, other = (DeepSettings(str(folder)).mark() for folder in (tiny_encoder, again))
    assert one == other
    first = next(iter(weights))
    save_file({**weights, first: weights[first] + 1}, again / "model.safetensors")
    assert DeepSettings(str(again)).mark()["encoder"] != one["encoder"]


def test_experiments_on_other_data_or_with_another_encoder_are_refused(
    data: Path, tiny_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert reproduce(data, out, tiny_encoder, "--seeds", 1, "--method", "single") == 0
    texts, labels = texts_and_labels(120)
    changed = write(tmp_path / "changed" / "hedge", [f"{text} again" for text in texts], labels)
    capsys.readouterr()
    assert reproduce(changed, out, tiny_encoder, "--seeds", 2, "--method", "single") == 3
    assert "was made with other data of the name hedge" in capsys.readouterr().err
    other = make_tiny_encoder(tmp_path / "other", seed=1)
    assert reproduce(data, out, other, "--seeds", 1, "--method", "single") == 3
    assert "was made with encoder = " in capsys.readouterr().err
    assert main(["reproduce", str(data), "--out", str(out), "--seeds", "1", "--method", "single"]) == 3
    assert "choose another folder" in capsys.readouterr().err


def test_reproduction_that_was_stopped_while_fine_tuning_goes_on(
    data: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    deep = DeepSettings(str(tiny_encoder), steps=4, batch_size=8, device="cpu", learning_rate=1e-3)
    settings = ExperimentSettings(methods=["single"], seeds=1, members=2, deep=deep)

    def stop(_: float, what: str) -> None:
        if "fine-tuning" in what:
            stopped.append(what)
            if len(stopped) == 3:
                raise KeyboardInterrupt

    stopped: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run([Source(data)], [], tmp_path / "out", settings, 1, stop)
    (again,) = (e for e in run([Source(data)], [], tmp_path / "out", settings, 1) if e.method == "single")
    (whole,) = (e for e in run([Source(data)], [], tmp_path / "whole", settings, 1) if e.method == "single")
    for name in ("precision", "misclassification", "long_tail"):
        assert again.found[name] == whole.found[name]


def test_what_a_transformer_cannot_do_is_said_before_any_work(
    data: Path, tiny_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["reproduce", str(data), "--out", str(out), "--encoder", str(tiny_encoder)]) == 2
    assert "needs --base transformer" in capsys.readouterr().err
    assert reproduce(data, out, tmp_path / "nowhere") == 2
    assert "there is no folder" in capsys.readouterr().err
    features = tmp_path / "features"
    features.mkdir()
    for name in ("train", "test"):
        (features / f"{name}.txt").write_text("2 3 2\n0 0:1 1:1\n1 2:1\n")
    assert reproduce(features, out, tiny_encoder, "--method", "single") == 3
    assert "which a transformer reads" in capsys.readouterr().err


def test_deep_tables_have_the_figures_of_the_paper_beside() -> None:
    assert set(DEEP_PERFORMANCE) == set(DEEP_MISCLASSIFICATION)
    assert all(len(figures) == 9 for figures in DEEP_RIVALS.values())
    assert all(len(figures) == len(DEEP_COLUMNS) for figures in DEEP_MISCLASSIFICATION.values())
    numbers = {"1": 0.88, "3": 0.7, "5": 0.6}
    found: dict[str, Any] = {
        "precision": numbers,
        "recall": numbers,
        "ndcg": numbers,
        "psp": None,
        "macro_f1": numbers,
        "coverage": None,
        "misclassification": {"energy": 0.9, "total": 0.95},
        "ood": {},
        "ood_details": {},
        "seconds_by_step": {"predict": 2.0, "judge": 0.1},
    }
    runs = [Experiment("eurlex-4k", method, 0, found) for method in ("linear", "single", "boosted-bagging")]
    tables = {table.id: table for table in make_tables(runs, deep=True)}
    rows = {str(row[0]): row for row in tables["performance"].rows}
    assert rows["Boosted bagging, paper"][1] == "88.10"
    rows = {str(row[0]): row for row in tables["rivals"].rows}
    assert rows["AttentionXML, paper"][1:] == ["85.49", "73.08", "61.10"]
    assert rows["XR-Transformer, paper"][1] == "87.17"
    cell = rows["XR-Linear (words alone)"][1]
    assert isinstance(cell, Cell)
    assert cell.text == "88.00"
    rows = {str(row[0]): row for row in tables["misclassification"].rows}
    assert rows["Eurlex-4K, paper"] == ["Eurlex-4K, paper", None, "90.10", "91.74", "92.75", "92.03"]
