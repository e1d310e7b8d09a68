"""What may be asked of a transformer that gets more members: it keeps the encoder it was fitted with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_encoder import texts_and_labels

from hedgerow.cli import main
from hedgerow.cli.failures import ExitCode


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    records = [{"text": text, "labels": labels} for text, labels in zip(*texts_and_labels(60), strict=True)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_extend_refuses_another_encoder_and_takes_the_same(
    data: Path, tiny_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "two.hedgerow"
    way = ["--base", "transformer", "--encoder", str(tiny_encoder), "--method", "bagging", "--members", "2"]
    quick = ["--steps", "2", "--batch-size", "8", "--threads", "1", "--device", "cpu"]
    assert main(["fit", str(data), str(model), *way, *quick]) == 0
    capsys.readouterr()

    def extend(*options: str) -> int:
        more = ["--extend", str(model), "--members", "3", "--threads", "1", *options]
        return main(["fit", str(data), str(tmp_path / "three.hedgerow"), *more])

    for option, other, used in (
        ("--encoder", "foo", str(tiny_encoder)),
        ("--max-length", "64", "128"),
        ("--pooling", "cls", "mean"),
    ):
        for base in ([], ["--base", "transformer"]):
            assert extend(option, other, *base) == ExitCode.USAGE
            message = capsys.readouterr().err
            assert f"{option} is {other}, but {model} was fitted with {used}; leave it out" in message
    assert extend("--encoder", str(tiny_encoder), "--device", "cpu") == 0
