"""The command line with a transformer, end to end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoder import assert_alike, texts_and_labels

from hedgerow.cli import main
from hedgerow.deep.embedding_cache import EmbeddingCache
from hedgerow.deep.encoder import Encoder
from hedgerow.deep.level_training import LevelTraining
from hedgerow.estimators.loading import load

pytestmark = pytest.mark.deep

QUICK = ["--steps", "2", "--batch-size", "8", "--threads", "1", "--device", "cpu"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    texts, labels = texts_and_labels(120)
    folder = tmp_path / "data"
    folder.mkdir()
    for name, rows in (("train", range(96)), ("test", range(96, 120))):
        lines = [json.dumps({"text": texts[row], "labels": labels[row]}) for row in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def fit(data: Path, model: Path, encoder: Path, *more: object) -> int:
    return run("fit", data, model, "--base", "transformer", "--encoder", encoder, *QUICK, *more)


@pytest.mark.parametrize(
    "way", [["--method", "single"], ["--method", "boosted-bagging", "--members", "2", "--encoders", "2"]]
)
def test_model_is_fitted_and_used_by_every_command(
    data: Path, tiny_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], way: list[str]
) -> None:
    model = tmp_path / "deep.hedgerow"
    assert fit(data, model, tiny_encoder, *way, "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["fine_tuning"][0]["tokens_per_second"] > 0
    assert summary["settings"]["steps"] == 2
    assert not Path(f"{model}.members").exists()
    assert run("predict", model, data, "--uncertainty", "--threads", "1") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 24
    assert {"probability", "knowledge"} <= set(lines[0]["labels"][0])
    assert run("evaluate", model, data, "--json", "-", "--threads", "1") == 0
    assert json.loads(capsys.readouterr().out)["precision"]["1"] > 0.5
    assert run("report", model, data, "--out", tmp_path / "page.html", "--threads", "1") == 0
    assert "hedgehog" in (tmp_path / "page.html").read_text()
    capsys.readouterr()
    assert run("inspect", model, "--json") == 0
    about = json.loads(capsys.readouterr().out)
    assert about["type"] == "HedgerowTransformerClassifier"
    assert about["encoder"]["width"] == 32
    assert about["encoder"]["kind"] == "bert"
    assert run("explain", model, "a thorny shrub", "--json", "--threads", "1") == 0


def test_fit_that_was_stopped_goes_on_from_its_folder(
    data: Path,
    tiny_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole, model = tmp_path / "whole", tmp_path / "deep"
    assert fit(data, whole, tiny_encoder, "--steps", "4") == 0
    calls: list[int] = []
    kept = LevelTraining.gradients

    def stop(self: Any, step: int, *arguments: Any) -> Any:
        calls.append(step)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return kept(self, step, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(LevelTraining, "gradients", stop)
        assert fit(data, model, tiny_encoder, "--steps", "4") == 130
    assert "state of fine-tuning is kept" in capsys.readouterr().err
    assert [path.name for path in Path(f"{model}.members").iterdir()] == ["encoder-0000.hedgerow"]
    assert fit(data, model, tiny_encoder, "--steps", "4") == 0
    assert "state of fine-tuning found" in capsys.readouterr().err
    assert model.read_bytes() == whole.read_bytes()
    assert not Path(f"{model}.members").exists()


def test_ensemble_over_one_encoder_is_extended(
    data: Path, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)  # the same bytes on a processor alone
    way = ["--method", "bagging"]
    assert fit(data, tmp_path / "two", tiny_encoder, *way, "--members", "2") == 0
    assert fit(data, tmp_path / "three", tiny_encoder, *way, "--members", "3") == 0
    assert run("fit", data, tmp_path / "more", "--extend", tmp_path / "two", "--members", "3") == 0
    assert (tmp_path / "more").read_bytes() == (tmp_path / "three").read_bytes()


def test_embeddings_are_made_once_and_used_by_fit(
    data: Path,
    tiny_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "embeddings"
    assert run("embed", tiny_encoder, data, "--out", out, "--threads", "1", "--json") == 0
    (about,) = json.loads(capsys.readouterr().out)["embeddings"]
    assert (about["rows"], about["width"], about["new"]) == (96, 32, True)
    texts = texts_and_labels(120)[0][:96]
    assert_alike(np.load(about["file"]), Encoder.open(tiny_encoder).embed(texts))
    assert run("embed", tiny_encoder, data, "--out", out) == 0
    assert "there already" in capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "embed", lambda *_, **__: pytest.fail("embedded again"))
        assert (
            fit(data, tmp_path / "model", tiny_encoder, "--epochs", "0", "--steps", "0", "--cache", out) == 0
        )
    capsys.readouterr()
    assert (
        run("embed", tmp_path / "model", data, "--out", out, "--part", "test", "--precision", "float16") == 0
    )
    model = load(tmp_path / "model")
    texts = texts_and_labels(120)[0][96:]
    assert EmbeddingCache(out, "float16").read(model.encoders_[0], texts) is not None  # type: ignore[attr-defined]


def failure(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err.strip()
    assert error.startswith("hedgerow: error: ")
    assert "\n" not in error
    return error


def test_what_is_wrong_is_said_in_one_line_before_any_work(
    data: Path,
    tiny_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    model = tmp_path / "model"
    assert fit(data, model, tiny_encoder, "--device", "cuda") == 2
    assert "torch finds no GPU" in failure(capsys)
    assert fit(data, model, tmp_path / "nowhere") == 2
    assert "there is no folder" in failure(capsys)
    assert fit(data, model, tiny_encoder, "--encoders", "2") == 2
    assert "method 'single' has one encoder" in failure(capsys)
    assert run("fit", data, model, "--encoder", tiny_encoder) == 2
    assert "needs --base transformer" in failure(capsys)
    (tmp_path / "numbers.txt").write_text("2 3 2\n0 0:1 1:1\n1 2:1\n")
    assert fit(tmp_path / "numbers.txt", model, tiny_encoder) == 3
    assert "which a transformer reads" in failure(capsys)
    assert run("embed", tmp_path, data, "--out", tmp_path / "out") == 2
    assert "no config.json" in failure(capsys)
    (tmp_path / "file").write_text("")
    assert run("embed", tiny_encoder, data, "--out", tmp_path / "file") == 5
    assert "is a file" in failure(capsys)
    assert not model.exists()


def test_missing_torch_is_said_with_the_way_out(
    data: Path,
    tiny_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = tmp_path / "model"
    assert fit(data, model, tiny_encoder) == 0
    capsys.readouterr()
    monkeypatch.setitem(sys.modules, "torch", None)
    for arguments, code in (
        (["fit", data, tmp_path / "new", "--base", "transformer"], 2),
        (["embed", tiny_encoder, data, "--out", tmp_path / "out"], 2),
        (["predict", model, data], 4),
        (["inspect", model], 4),
    ):
        assert run(*arguments) == code
        assert "pip install 'hedgerow[deep]'" in failure(capsys)


def test_model_without_an_encoder_cannot_embed(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", data, tmp_path / "linear", "--threads", "1") == 0
    capsys.readouterr()
    assert run("embed", tmp_path / "linear", data, "--out", tmp_path / "out") == 4
    assert "has no encoder" in failure(capsys)


def test_gpu_without_memory_is_said_with_the_way_out(
    data: Path,
    tiny_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError("no room")

    monkeypatch.setattr(Encoder, "pool", full)
    assert fit(data, tmp_path / "model", tiny_encoder) == 1
    assert "too little memory to embed texts" in failure(capsys)
    monkeypatch.setattr(
        Encoder, "embed", lambda self, texts, **_: np.eye(len(texts), 32, dtype=np.float32) + 0.1
    )
    assert fit(data, tmp_path / "model", tiny_encoder) == 1
    assert "for a single text; choose a smaller max_length (--max-length)" in failure(capsys)
