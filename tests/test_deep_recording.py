"""Gradients that are replayed on a GPU, beside those that are launched one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoder import make_tiny_encoder, texts_and_labels

from hedgerow.deep.encoder import Encoder
from hedgerow.deep.fine_tuning import EncoderCheckpoint, FineTuning, Targets, TuningData, fine_tune
from hedgerow.deep.recording import RecordedGradients, RecordedPasses
from hedgerow.deep.team import Team
from hedgerow.inputs.labels import encode_labels
from hedgerow.trees.label_tree import LabelTree

pytestmark = pytest.mark.deep
# Fine-tuning on a GPU multiplies in bfloat16, which has 8 bits: weights end this far apart where the order of
# sums differs. The same launches end with the same bits.
HALF_PRECISION = 2e-3
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def test_recording_without_a_gpu_is_not_done(tiny_encoder: Path) -> None:
    encoder = Encoder.open(tiny_encoder)
    ids, mask = (torch.from_numpy(of) for of in encoder.tokenize(["a yew"]).padded(np.array([0]), 0))
    assert not RecordedPasses(encoder.pool).record(ids, mask)
    assert not RecordedGradients(encoder.pool, list(encoder.model.parameters())).record(ids, mask)


@on_a_gpu
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_gradients_when_replayed_are_those_of_the_launches(tmp_path: Path, dropout: float) -> None:
    encoder = Encoder.open(make_tiny_encoder(tmp_path / "encoder", dropout=dropout)).to("cuda")
    encoder.model.train()
    parameters = list(encoder.model.parameters())
    recorded = RecordedGradients(encoder.pool, parameters)
    texts, _ = texts_and_labels(24)
    tokens = encoder.tokenize(texts)
    for number, width in enumerate((24, 32, 24, 32)):  # in turns: the shapes share their memory
        rows = np.arange(6 * number, 6 * number + 6)
        ids, mask = (torch.from_numpy(of).cuda() for of in tokens.padded(rows, encoder.pad, width))
        given = torch.randn(6, encoder.width, generator=torch.Generator().manual_seed(number)).cuda()
        assert recorded.record(ids, mask)
        torch.manual_seed(number)
        replayed = recorded.embeddings(ids, mask)
        recorded.learn(ids, given)
        gradients = [None if of.grad is None else of.grad.clone() for of in parameters]
        torch.manual_seed(number)
        launched = encoder.pool(ids, mask)
        wanted = torch.autograd.grad(launched, parameters, given, allow_unused=True)
        torch.testing.assert_close(replayed.detach(), launched.detach())
        assert [of is None for of in gradients] == [of is None for of in wanted]
        for one, other in zip(gradients, wanted, strict=True):
            if one is not None:
                torch.testing.assert_close(one, other)
        del launched, wanted  # what they hold lies on another stream than a recording


@on_a_gpu
def test_recording_that_fails_leaves_dropout_as_it_was(tmp_path: Path) -> None:
    encoder = Encoder.open(make_tiny_encoder(tmp_path / "encoder")).to("cuda")
    encoder.model.train()

    def asks(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        found = encoder.pool(ids, mask)
        return found * found.sum().item()  # waits for the GPU, which no recording can

    ids, mask = (torch.from_numpy(of).cuda() for of in encoder.tokenize(["a yew"]).padded(np.array([0]), 0))
    torch.manual_seed(3)
    before = encoder.pool(ids, mask).detach()
    assert not RecordedGradients(asks, list(encoder.model.parameters())).record(ids, mask)
    torch.manual_seed(3)
    torch.testing.assert_close(encoder.pool(ids, mask).detach(), before)


@on_a_gpu
def test_fine_tuning_that_was_stopped_ends_alike(tmp_path: Path) -> None:
    folder = make_tiny_encoder(tmp_path / "encoder")
    texts, labels = texts_and_labels(64)
    matrix, _, _ = encode_labels(labels, len(texts), None, 1)
    targets = Targets(matrix, LabelTree.from_clusters([np.arange(matrix.shape[1]) // 5]))
    settings = FineTuning(steps=12, batch_size=8, learning_rate=1e-3, checkpoint_steps=3)
    state = EncoderCheckpoint(tmp_path / "state", "fit")

    def stop(share: float, what: str) -> None:
        if "fine-tuning" in what and share > 0.6:
            raise KeyboardInterrupt

    def ended(**options: Any) -> Encoder:
        encoder = Encoder.open(folder).to("cuda")
        data = TuningData(encoder.tokenize(texts), targets)
        fine_tune(encoder, data, settings, team=Team(torch.device("cuda")), **options)
        return encoder

    whole = ended().weights()
    with pytest.raises(KeyboardInterrupt):
        ended(checkpoint=state, progress=stop)
    for name, weights in ended(checkpoint=state).weights().items():
        np.testing.assert_allclose(weights, whole[name], atol=HALF_PRECISION)


@on_a_gpu
def test_fine_tuning_with_and_without_recordings_ends_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_tiny_encoder(tmp_path / "encoder", dropout=0.0)
    texts, labels = texts_and_labels(64)
    ended: list[dict[str, Any]] = []
    for wanted in ("0", "1", "1"):
        monkeypatch.setenv("HEDGEROW_RECORD", wanted)
        encoder = Encoder.open(folder).to("cuda")
        matrix, _, _ = encode_labels(labels, len(texts), None, 1)
        tree = LabelTree.from_clusters([np.arange(matrix.shape[1]) // 5])
        settings = FineTuning(steps=12, batch_size=8, learning_rate=1e-3)
        data = TuningData(encoder.tokenize(texts), Targets(matrix, tree))
        fine_tune(encoder, data, settings, team=Team(torch.device("cuda")))
        ended.append(encoder.weights())
    for name, weights in ended[0].items():
        np.testing.assert_allclose(ended[1][name], weights, atol=HALF_PRECISION)
        np.testing.assert_array_equal(ended[2][name], ended[1][name])
