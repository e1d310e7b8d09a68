"""From texts to embeddings, and the cache of these."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoder import assert_alike, has_gpu, make_tiny_encoder, texts_and_labels
from transformers import AutoModel, AutoTokenizer

from hedgerow.deep.device import GPU_TOLERANCE, choose_device
from hedgerow.deep.embedding import embed_in_shapes
from hedgerow.deep.embedding_cache import EmbeddingCache
from hedgerow.deep.encoder import DropoutPass, Encoder, EncoderNotFound, Tokens, wide_mask
from hedgerow.deep.fine_tuning import FineTuning, Targets, TuningData, fine_tune
from hedgerow.deep.recording import RecordedPasses
from hedgerow.deep.team import Team
from hedgerow.inputs.labels import encode_labels
from hedgerow.trees.label_tree import LabelTree

pytestmark = pytest.mark.deep

TEXTS = ["a thorny shrub", "an evergreen tree with soft needles seen in spring", "", "wren"]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_embedding_is_that_of_the_library_for_texts_of_any_length(tiny_encoder: Path, pooling: str) -> None:
    found = Encoder.open(tiny_encoder, pooling).embed(TEXTS)
    model = AutoModel.from_pretrained(tiny_encoder).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    with torch.no_grad():
        batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
        hidden = model(**batch).last_hidden_state.numpy()
    mask = batch["attention_mask"].numpy()[..., None]
    pooled = hidden[:, 0] if pooling == "cls" else (hidden * mask).sum(axis=1) / mask.sum(axis=1)
    np.testing.assert_allclose(found, pooled / np.linalg.norm(pooled, axis=1, keepdims=True), atol=1e-5)


def test_embedding_has_the_same_bits_at_any_batch_and_number_of_threads(tiny_encoder: Path) -> None:
    encoder = Encoder.open(tiny_encoder)
    texts, _ = texts_and_labels(50)
    whole = encoder.embed(texts, threads=1)
    np.testing.assert_array_equal(encoder.embed(texts, threads=2), whole)
    np.testing.assert_array_equal(np.concatenate([encoder.embed([text]) for text in texts]), whole)
    assert torch.get_num_threads() >= 1


def test_embedding_on_a_gpu_repeats_its_bits_and_is_near_that_of_other_batches(tiny_encoder: Path) -> None:
    texts, _ = texts_and_labels(50)
    on_cpu = Encoder.open(tiny_encoder).embed(texts)
    encoder = Encoder.open(tiny_encoder).to("auto")  # a GPU where there is one
    assert encoder.device.type == ("cuda" if has_gpu() else "cpu")
    whole = encoder.embed(texts)
    np.testing.assert_array_equal(encoder.embed(texts), whole)
    assert_alike(np.concatenate([encoder.embed([text]) for text in texts]), whole)
    assert_alike(whole, on_cpu)
    passes = [encoder.embed(texts, dropout=DropoutPass(1, 5)) for _ in range(2)]
    np.testing.assert_array_equal(passes[0], passes[1])
    assert_alike(passes[0], Encoder.open(tiny_encoder).embed(texts, dropout=DropoutPass(1, 5)))


def test_embedding_is_alike_with_and_without_recordings(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, _ = texts_and_labels(50)
    recorded = Encoder.open(tiny_encoder).to("auto").embed(texts)
    monkeypatch.setenv("HEDGEROW_RECORD", "0")
    assert_alike(Encoder.open(tiny_encoder).to("auto").embed(texts), recorded)


def test_embedding_in_fixed_shapes_is_near_that_of_single_texts(tiny_encoder: Path) -> None:
    encoder = Encoder.open(tiny_encoder)
    shaped = embed_in_shapes(encoder.reader(), encoder.tokenize(TEXTS), None)  # what a GPU does
    np.testing.assert_allclose(shaped, encoder.embed(TEXTS), atol=GPU_TOLERANCE)
    alone = embed_in_shapes(encoder.reader(), encoder.tokenize(TEXTS[1:2]), None)
    np.testing.assert_array_equal(alone[0], shaped[1])


def test_recorded_passes_are_replayed_in_batches_of_one_shape_for_each_length(tiny_encoder: Path) -> None:
    shapes: set[tuple[int, ...]] = set()

    class Replayed(RecordedPasses):
        """What a GPU would do, without one."""

        def record(self, ids: torch.Tensor, mask: torch.Tensor) -> bool:
            shapes.add(tuple(ids.shape))
            return True

        def replay(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            assert tuple(ids.shape) in shapes
            replays.append(len(ids))
            return encoder.pool(ids, mask)

    replays: list[int] = []
    encoder = Encoder.open(tiny_encoder)
    recorder = Replayed(encoder.pool)
    texts, _ = texts_and_labels(200)
    found = embed_in_shapes(encoder.reader(), encoder.tokenize(texts), recorder)
    np.testing.assert_allclose(found, encoder.embed(texts), atol=GPU_TOLERANCE)
    assert shapes == {(256, 16), (128, 32)}
    assert sorted(replays) == [128, 256]
    alone = embed_in_shapes(encoder.reader(), encoder.tokenize(texts[5:6]), recorder)
    np.testing.assert_array_equal(alone[0], found[5])
    again = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(again.embed(texts[:3]), encoder.embed(texts[:3]))


@pytest.mark.parametrize(("attention", "known"), [("sdpa", True), ("eager", False)])
def test_masks_of_pairs_are_used_only_where_they_mean_the_same(
    tiny_encoder: Path, attention: str, known: bool
) -> None:
    encoder = Encoder.open(tiny_encoder)
    encoder.model.set_attn_implementation(attention)
    encoder.model.train()
    assert encoder.takes_wide_masks() == known
    assert encoder.model.training
    encoder.model.eval()
    ids, mask = (torch.from_numpy(of) for of in encoder.tokenize(TEXTS).padded(np.arange(3), encoder.pad))
    plain = encoder.pool(ids, mask)
    wide = encoder.model(input_ids=ids, attention_mask=wide_mask(mask)).last_hidden_state
    pooled = (wide * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
    near = torch.allclose(torch.nn.functional.normalize(pooled, dim=1), plain, atol=1e-5)
    assert near == known


def test_nothing_is_recorded_without_a_gpu(tiny_encoder: Path) -> None:
    passes = RecordedPasses(Encoder.open(tiny_encoder).pool)
    assert not passes.record(torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.int64))
    assert not passes.works


def test_long_texts_are_cut_at_max_length(tiny_encoder: Path) -> None:
    encoder = Encoder.open(tiny_encoder, max_length=8)
    tokens = encoder.tokenize(["thorny " * 30, "thorny " * 100])
    assert tokens.lengths.tolist() == [8, 8]
    first, second = encoder.embed(["thorny " * 30, "thorny " * 100])
    np.testing.assert_array_equal(first, second)
    assert Encoder.open(tiny_encoder, max_length=10_000).max_length == 40  # as many positions as there are


def test_padded_tokens_are_those_of_the_texts() -> None:
    tokens = Tokens(np.array([0, 2, 2, 5]), np.array([7, 8, 1, 2, 3], dtype=np.int32))
    ids, mask = tokens.padded(np.array([2, 0, 1]), pad=9)
    assert ids.tolist() == [[1, 2, 3], [7, 8, 9], [9, 9, 9]]
    assert mask.tolist() == [[1, 1, 1], [1, 1, 0], [0, 0, 0]]


def test_passes_with_dropout_differ_and_repeat_and_leave_no_trace(tiny_encoder: Path) -> None:
    encoder = Encoder.open(tiny_encoder)
    plain = encoder.embed(TEXTS)
    passes = [encoder.embed(TEXTS, dropout=DropoutPass(number, 5)) for number in range(3)]
    assert len({of.tobytes() for of in passes}) == 3
    np.testing.assert_array_equal(encoder.embed(TEXTS[1:2], dropout=DropoutPass(2, 5))[0], passes[2][1])
    np.testing.assert_array_equal(encoder.embed(TEXTS), plain)
    nothing = encoder.embed(TEXTS, dropout=DropoutPass(0, 5, share=0.0))
    np.testing.assert_array_equal(nothing, plain)


def test_threads_that_share_an_encoder_get_what_each_gets_alone(tiny_encoder: Path) -> None:
    encoder = pickle.loads(pickle.dumps(Encoder.open(tiny_encoder)))
    texts, _ = texts_and_labels(30)

    def embed(dropout: DropoutPass | None) -> Any:
        return encoder.embed(texts, dropout=dropout, threads=1)

    passes = [None, *(DropoutPass(number, 5, share=0.5) for number in range(3))] * 4
    alone = [embed(dropout) for dropout in passes]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(embed, passes))
    np.testing.assert_array_equal(together, alone)


def test_text_without_any_token_has_an_embedding(tiny_encoder: Path) -> None:
    encoder = Encoder.open(tiny_encoder)
    tokens = Tokens(np.array([0, 0, 3]), encoder.tokenize(["thorny"]).ids)
    shaped = embed_in_shapes(encoder.reader(), tokens, None)  # what a GPU does
    assert np.isfinite(shaped).all()
    np.testing.assert_allclose(shaped[1], encoder.embed(["thorny"])[0], atol=1e-5)


def test_encoder_taken_back_from_arrays_embeds_the_same(tiny_encoder: Path) -> None:
    encoder = Encoder.open(tiny_encoder, max_length=20)
    kept = encoder.to_bytes()
    again = Encoder.from_bytes(kept["tokenizer"], kept["config"], encoder.weights(), "mean", 20)
    np.testing.assert_array_equal(again.embed(TEXTS), encoder.embed(TEXTS))
    assert again.fingerprint() == encoder.fingerprint()


def test_fingerprint_follows_weights_that_change_in_place(tiny_encoder: Path) -> None:
    encoder = Encoder.open(tiny_encoder)
    before = encoder.fingerprint()
    weights = next(iter(encoder.model.parameters()))
    with torch.no_grad():
        weights[0, 0] += 1
    changed = encoder.fingerprint()
    with torch.no_grad():
        weights[0, 0] -= 1
    other = encoder.copied()
    assert before != changed
    assert (encoder.fingerprint() == before) == (other.fingerprint() == before)
    encoder.load_weights(Encoder.open(tiny_encoder).weights())
    assert encoder.fingerprint() == before


def test_fingerprint_and_cache_follow_fine_tuning_by_a_fused_optimiser(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused = torch.optim.AdamW

    def always_fused(groups: Any, lr: float, **_: Any) -> torch.optim.AdamW:
        return fused(groups, lr=lr, fused=True)

    monkeypatch.setattr(torch.optim, "AdamW", always_fused)
    encoder = Encoder.open(tiny_encoder)
    cache = EmbeddingCache(tmp_path)
    before = cache.embed(encoder, TEXTS)
    texts, labels = texts_and_labels(32)
    matrix, _, _ = encode_labels(labels, len(texts), None, 1)
    tree = LabelTree.from_clusters([np.arange(matrix.shape[1]) // 5])
    settings = FineTuning(steps=3, batch_size=8, learning_rate=1e-2)
    data = TuningData(encoder.tokenize(texts), Targets(matrix, tree))
    fine_tune(encoder, data, settings, team=Team(torch.device("cpu")))
    after = cache.embed(encoder, TEXTS)
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_allclose(after, encoder.embed(TEXTS), atol=1e-3)


HUGE = {
    "wide": (b'"hidden_size": 32', b'"hidden_size": 32000000'),
    "deep": (b'"num_hidden_layers": 2', b'"num_hidden_layers": 2000000000'),
    "word": (b'"hidden_size": 32', b'"hidden_size": "many"'),
    "kind": (b'"model_type": "bert"', b'"model_type": "oak"'),
}


@pytest.mark.parametrize("damage", ["missing", "shape", "config", "tokenizer", *HUGE])
def test_damaged_arrays_of_an_encoder_are_refused(tiny_encoder: Path, damage: str) -> None:
    encoder = Encoder.open(tiny_encoder)
    kept, weights = encoder.to_bytes(), encoder.weights()
    name = "embeddings.word_embeddings.weight"
    if damage == "missing":
        del weights[name]
    elif damage == "shape":
        weights[name] = weights[name][:-1]
    elif damage in HUGE:
        text = kept["config"].tobytes()
        assert HUGE[damage][0] in text
        kept["config"] = np.frombuffer(text.replace(*HUGE[damage]), dtype=np.uint8)
    else:
        kept[damage] = np.frombuffer(b'{"a": 1}', dtype=np.uint8)
    with pytest.raises(ValueError, match=r"encoder|tokenizer"):
        Encoder.from_bytes(kept["tokenizer"], kept["config"], weights, "mean", 20)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attn_implementation", "strangers/kernel@main"),
        ("_attn_implementation", "strangers/kernel@main"),
        ("experts_implementation", "strangers/kernel@main"),
        ("auto_map", {"AutoModel": "strangers/code--model.Model"}),
        ("quantization_config", {"quant_method": "fp8"}),
        ("_name_or_path", "strangers/code"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_configuration_of_a_file_that_chooses_code_is_refused(
    tiny_encoder: Path, name: str, value: Any, nested: bool
) -> None:
    encoder = Encoder.open(tiny_encoder)
    kept = encoder.to_bytes()
    config = json.loads(kept["config"].tobytes())
    config |= {"text_config": [{name: value}]} if nested else {name: value}
    crafted = np.frombuffer(json.dumps(config).encode(), dtype=np.uint8)
    with pytest.raises(ValueError, match=f"sets '{name}', which no model file may"):
        Encoder.from_bytes(kept["tokenizer"], crafted, encoder.weights(), "mean", 20)


def test_configuration_of_a_file_that_is_nested_without_end_is_refused(tiny_encoder: Path) -> None:
    encoder = Encoder.open(tiny_encoder)
    crafted = np.frombuffer(b"[" * 200_000, dtype=np.uint8)
    with pytest.raises(ValueError, match="nested too deeply"):
        Encoder.from_bytes(encoder.to_bytes()["tokenizer"], crafted, encoder.weights(), "mean", 20)


def test_encoder_whose_settings_chose_code_is_kept_without_them(tiny_encoder: Path) -> None:
    encoder = Encoder.open(tiny_encoder)
    plain = encoder.to_bytes()["config"].tobytes()
    encoder.model.config.auto_map = {"AutoModel": "model.Model"}
    encoder.model.config.quantization_config = {"quant_method": "fp8"}
    kept = encoder.to_bytes()
    assert kept["config"].tobytes() == plain
    again = Encoder.from_bytes(kept["tokenizer"], kept["config"], encoder.weights(), "mean", 20)
    assert again.model.config._attn_implementation == encoder.model.config._attn_implementation == "sdpa"


def test_encoder_with_a_switch_of_its_own_is_taken_back(tiny_encoder: Path) -> None:
    encoder = Encoder.open(tiny_encoder, max_length=20)
    encoder.model.config._remove_final_layer_norm = False
    kept = encoder.to_bytes()
    again = Encoder.from_bytes(kept["tokenizer"], kept["config"], encoder.weights(), "mean", 20)
    assert again.model.config._remove_final_layer_norm is False
    assert again.fingerprint() == encoder.fingerprint()


def test_missing_encoder_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EncoderNotFound, match=r"no config\.json"):
        Encoder.open(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(EncoderNotFound, match="give the folder of an encoder"):
        Encoder.open("no-such/encoder")


def test_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(ValueError, match="torch finds no GPU: use 'cpu' or 'auto'"):
        choose_device("cuda")
    with pytest.raises(ValueError, match="device is 'abacus'"):
        choose_device("abacus")


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_cached_embeddings_are_mapped_and_used_again(
    tiny_encoder: Path, tmp_path: Path, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, cache = Encoder.open(tiny_encoder), EmbeddingCache(tmp_path / "cache", precision)
    first = cache.embed(encoder, TEXTS)
    np.testing.assert_array_equal(first, encoder.embed(TEXTS).astype(precision))
    monkeypatch.setattr(Encoder, "embed", lambda *_, **__: pytest.fail("embedded again"))
    second = cache.embed(Encoder.open(tiny_encoder), TEXTS)
    np.testing.assert_array_equal(second, first)
    assert second.dtype == precision
    assert not second.flags.writeable
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_cache_of_other_texts_or_another_encoder_is_never_used(tiny_encoder: Path, tmp_path: Path) -> None:
    encoder, cache = Encoder.open(tiny_encoder), EmbeddingCache(tmp_path)
    cache.embed(encoder, TEXTS)
    assert cache.read(encoder, TEXTS) is not None
    assert cache.read(encoder, [*TEXTS[:-1], "wrens"]) is None
    assert cache.read(encoder, ["a thorny", " shrub", *TEXTS[1:]]) is None
    assert cache.read(encoder, TEXTS, DropoutPass(0, 0)) is None
    assert EmbeddingCache(tmp_path, "float16").read(encoder, TEXTS) is None
    assert cache.read(Encoder.open(tiny_encoder, max_length=9), TEXTS) is None
    assert cache.read(Encoder.open(tiny_encoder, pooling="cls"), TEXTS) is None
    assert cache.read(Encoder.open(make_tiny_encoder(tmp_path / "other", seed=1)), TEXTS) is None
    with torch.no_grad():
        next(encoder.model.parameters())[0, 0] += 1
    assert cache.read(encoder, TEXTS) is None


def test_cache_is_written_whole_or_not_at_all(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, cache = Encoder.open(tiny_encoder), EmbeddingCache(tmp_path)

    def fail(file: object, *_: object, **__: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(np, "save", fail)
        with pytest.raises(OSError, match="full"):
            cache.embed(encoder, TEXTS)
    assert list(tmp_path.iterdir()) == []
    path = cache.path(encoder, TEXTS)
    path.write_bytes(b"not an array")
    with pytest.raises(ValueError, match="delete it"):
        cache.embed(encoder, TEXTS)
    np.save(path, np.zeros((2, 2), dtype=np.float32))
    with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
        cache.embed(encoder, TEXTS)
    with pytest.raises(ValueError, match="precision is 'int8'"):
        EmbeddingCache(tmp_path, "int8")
