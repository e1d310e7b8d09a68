"""Fine-tuning over the label tree: batches, candidates, losses, steps, and going on after a stop."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_encoder import has_gpu, make_tiny_encoder, texts_and_labels

from hedgerow.cli import main
from hedgerow.deep.candidate_scores import NodeWeights, candidate_loss, gather_candidates
from hedgerow.deep.encoder import Encoder
from hedgerow.deep.fine_tuning import EncoderCheckpoint, FineTuning, FineTuningReport, TuningData, fine_tune
from hedgerow.deep.level_batches import bucketed_batches, steps_of, texts_of_pass
from hedgerow.deep.levels import Matching, Targets, chosen_layers, level_truth, match
from hedgerow.deep.team import Team, join_team
from hedgerow.estimators.loading import load
from hedgerow.inputs.labels import encode_labels
from hedgerow.trees.label_tree import LabelTree

CPU = torch.device("cpu")

pytestmark = pytest.mark.deep


@given(st.lists(st.integers(1, 300), min_size=1, max_size=400), st.integers(1, 20), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_batches_hold_every_text_once_whatever_the_lengths(lengths: list[int], size: int, seed: int) -> None:
    batches = bucketed_batches(np.array(lengths), size, (seed,))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert all(1 <= len(batch) <= size for batch in batches)


def test_batches_of_like_length_need_less_padding_than_random_ones() -> None:
    lengths = np.random.default_rng(0).integers(1, 300, 2000)

    def padded(batches: list[Any]) -> int:
        return sum(len(batch) * lengths[batch].max() for batch in batches)

    random = np.array_split(np.random.default_rng(1).permutation(2000), 125)
    assert padded(bucketed_batches(lengths, 16, (0,))) < 0.6 * padded(random)


def test_steps_that_begin_later_are_the_same_steps() -> None:
    lengths = np.arange(1, 24)
    whole = list(steps_of(lengths, 4, (3,), 20))
    for begin in (1, 6, 13, 20):
        later = list(steps_of(lengths, 4, (3,), 20, begin))
        assert [batch.tolist() for batch in later] == [batch.tolist() for batch in whole[begin:]]
    assert sorted(np.concatenate(whole[6:12]).tolist()) == list(range(23))


def random_candidates(rows: int, nodes: int, seed: int) -> sp.csr_array:
    draw = np.random.default_rng(seed).random((rows, nodes))
    return sp.csr_array(np.where(draw < 0.1, 2, np.where(draw < 0.4, 1, 0)).astype(np.int8))


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("seed", range(5))
def test_loss_over_candidates_is_that_of_all_nodes_under_a_mask(loss: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    candidates = random_candidates(12, 30, seed)
    weights, vectors = draw.normal(size=(30, 9)), draw.normal(size=(12, 8))
    rows = draw.permutation(12)[:5]
    batch = gather_candidates(candidates, rows)
    own = torch.from_numpy(weights[batch.nodes]).requires_grad_()
    parts = [torch.from_numpy(a) for a in (batch.places, batch.valid, batch.right)]
    found = candidate_loss(torch.from_numpy(vectors[rows]), own, *parts, loss)
    found.backward()
    dense = candidates[rows].toarray()
    scores = vectors[rows] @ weights[:, :-1].T + weights[:, -1]
    sign = np.where(dense == 2, 1, -1)
    each = (
        np.maximum(0, 1 - sign * scores) ** 2 if loss == "squared_hinge" else np.logaddexp(0, -sign * scores)
    )
    np.testing.assert_allclose(found.item(), each[dense > 0].sum())
    slope = (
        -2 * sign * np.maximum(0, 1 - sign * scores)
        if loss == "squared_hinge"
        else -sign / (1 + np.exp(sign * scores))
    )
    gradient = (slope * (dense > 0)).T @ np.column_stack([vectors[rows], np.ones(5)])
    np.testing.assert_allclose(own.grad.numpy(), gradient[batch.nodes], atol=1e-12)
    assert not gradient[np.setdiff1d(np.arange(30), batch.nodes)].any()
    assert batch.count == (dense > 0).sum()


def test_node_steps_are_those_of_adam_where_all_nodes_take_part() -> None:
    draw = np.random.default_rng(0)
    start = draw.normal(size=(4, 3)).astype(np.float32)
    nodes = NodeWeights(start, CPU)
    parameter = torch.nn.Parameter(torch.from_numpy(start.copy()))
    adam = torch.optim.Adam([parameter], lr=0.1)
    for step in range(1, 6):
        parameter.grad = torch.from_numpy(draw.normal(size=(4, 3)).astype(np.float32))
        adam.step()
        nodes.step(torch.arange(4), parameter.grad, 0.1, step)
    np.testing.assert_allclose(nodes.weights.numpy(), parameter.detach().numpy(), rtol=1e-5)
    before = nodes.weights.clone()
    nodes.step(torch.tensor([2]), torch.ones(1, 3), 0.1, 6)
    assert (nodes.weights != before).any(dim=1).tolist() == [False, False, True, False]


def test_truth_of_a_level_is_what_lies_above_the_labels() -> None:
    tree = LabelTree.from_clusters([[1, 0, 1, 2, 2, 0], [0, 0, 1]], labels=[5, 3, 0, 1, 2, 4])
    Y = sp.csr_array((np.random.default_rng(0).random((40, 6)) < 0.3).astype(np.int8))
    dense = Y.toarray()
    for layer in (1, 2, 3):
        truth = level_truth(tree, Y, layer).toarray()
        expected = np.zeros_like(truth)
        for label in range(6):
            expected[:, tree.path(label)[layer - 1]] |= dense[:, label]
        np.testing.assert_array_equal(truth, expected)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_candidates_are_children_of_the_beam_and_best_nodes_and_all_that_is_right(loss: str) -> None:
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(200, 10)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    Y = sp.csr_array((draw.random((200, 40)) < 0.05).astype(np.int8))
    tree = LabelTree.from_clusters([np.arange(40) // 4])
    tuning = FineTuning(loss=loss, matching=Matching(beam=3, negatives=2))
    upper = match(Targets(Y, tree), vectors, 1, tuning, threads=1)
    assert upper.candidates.nnz == 200 * 10  # below the root, everything
    np.testing.assert_array_equal(upper.candidates.toarray() == 2, level_truth(tree, Y, 1).toarray() == 1)
    level = match(Targets(Y, tree), vectors, 2, tuning, threads=1)
    # The same classifiers, dense: the first layer is trained alike whatever is below it.
    above = vectors @ upper.weights[:, :-1].T + upper.weights[:, -1]
    own = vectors @ level.weights[:, :-1].T + level.weights[:, -1]

    def logs(scores: np.ndarray) -> np.ndarray:
        return -(np.maximum(0, 1 - scores) ** 3) if loss == "squared_hinge" else -np.logaddexp(0, -scores)

    paths = logs(above)[:, np.arange(40) // 4] + logs(own)
    found = level.candidates.toarray()
    np.testing.assert_array_equal(found == 2, level_truth(tree, Y, 2).toarray() == 1)
    for row in range(200):
        best = np.argsort(-above[row])[:3]
        near = {4 * parent + child for parent in best for child in range(4)}
        hard = set(np.argsort(-paths[row])[:2].tolist())
        assert set(np.flatnonzero(found[row])) == near | hard | set(np.flatnonzero(found[row] == 2))


def test_layers_to_fine_tune_on_begin_where_there_are_enough_nodes() -> None:
    tree = LabelTree.from_clusters([np.arange(400) // 10, np.arange(40) // 10])
    assert chosen_layers(tree, None) == [2, 3]
    assert chosen_layers(tree, 1) == [2]
    assert chosen_layers(LabelTree.from_clusters([[0, 0, 1]]), None) == [2]


def test_rate_rises_and_falls_linearly() -> None:
    tuning = FineTuning(learning_rate=1.0, warmup=0.2)
    rates = [tuning.rate(step, 10) for step in range(10)]
    np.testing.assert_allclose(rates, [0.5, 1.0, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])


class Stopped(Exception):  # noqa: N818
    pass


def tuned(
    folder: Path,
    *,
    path: Path | None = None,
    stop: int | None = None,
    mark: str = "m",
    costs: npt.NDArray[np.float32] | None = None,
    **changes: Any,
) -> tuple[Encoder, FineTuningReport]:
    """Fine-tune the tiny encoder; with `stop`, raise in the middle of that step."""
    texts, labels = texts_and_labels(64)
    encoder = Encoder.open(folder)
    Y, _, _ = encode_labels(labels, len(texts))
    tree = LabelTree.from_clusters([np.arange(Y.shape[1]) // 2])
    seen: list[str] = []

    def progress(share: float, what: str) -> None:
        seen.append(what)
        if stop is not None and sum("fine-tuning" in name for name in seen) == stop:
            raise Stopped

    tuning = FineTuning(
        **{"epochs": 2.0, "batch_size": 8, "checkpoint_steps": 3, "learning_rate": 1e-3, **changes}
    )
    report = fine_tune(
        encoder,
        TuningData(encoder.tokenize(texts), Targets(Y, tree, costs)),
        tuning,
        team=Team(CPU, threads=1),
        seed=1,
        checkpoint=None if path is None else EncoderCheckpoint(path, mark),
        progress=progress,
    )
    return encoder, report


def same_weights(one: Encoder, other: Encoder) -> bool:
    first, second = one.weights(), other.weights()
    return all(np.array_equal(first[name], second[name]) for name in first)


@pytest.fixture
def two_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hedgerow.deep.levels._FEWEST_NODES", 2)


@pytest.fixture(scope="module")
def whole(tiny_encoder: Path) -> Encoder:
    """The encoder after a fit of two levels that nothing stopped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hedgerow.deep.levels._FEWEST_NODES", 2)
        encoder, report = tuned(tiny_encoder)
    assert [level.steps for level in report.levels] == [16, 16]
    return encoder


@pytest.mark.usefixtures("two_levels")
@pytest.mark.parametrize("stop", [1, 3, 7, 16, 17, 32])
def test_fit_that_was_stopped_anywhere_ends_with_the_same_weights(
    tiny_encoder: Path, tmp_path: Path, whole: Encoder, stop: int
) -> None:
    with pytest.raises(Stopped):
        tuned(tiny_encoder, path=tmp_path / "state", stop=stop)
    again, _ = tuned(tiny_encoder, path=tmp_path / "state")
    assert same_weights(again, whole)
    assert not same_weights(again, Encoder.open(tiny_encoder))
    done, report = tuned(tiny_encoder, path=tmp_path / "state")
    assert same_weights(done, whole)
    assert report.tokens == 0  # nothing was left to do


@given(st.lists(st.floats(0, 2.0**40, width=32), min_size=1, max_size=200), st.integers(0, 1000))
def test_texts_of_a_pass_are_as_many_as_there_are_and_each_comes_as_often_as_its_share_says(
    weights: list[float], seed: int
) -> None:
    costs = np.array([*weights, 1.0], dtype=np.float32)
    found = np.bincount(texts_of_pass(costs, (seed,)), minlength=len(costs))
    share = costs.astype(np.float64) * len(costs) / costs.sum(dtype=np.float64)
    assert found.sum() == len(costs)
    assert (np.abs(found - share) < 1 + 1e-6).all()
    assert not found[costs == 0].any()


@given(st.lists(st.integers(0, 49), min_size=50, max_size=50), st.integers(0, 1000))
def test_texts_of_a_bootstrap_come_as_often_as_they_were_drawn(drawn: list[int], seed: int) -> None:
    costs = np.bincount(drawn, minlength=50).astype(np.float32)
    assert texts_of_pass(costs, (seed,)).tolist() == sorted(drawn)


def test_light_texts_come_in_some_passes_and_not_in_others() -> None:
    costs = np.array([0.5, 3.5, 1, 1], dtype=np.float32)
    first = [0 in texts_of_pass(costs, (0, number)) for number in range(400)]
    assert 0.25 < np.mean(first) < 0.42  # a third


def test_equal_costs_count_nothing_and_large_ones_take_no_memory(tiny_encoder: Path) -> None:
    plain, _ = tuned(tiny_encoder, costs=np.ones(64, dtype=np.float32), steps=10)
    tracemalloc.start()
    heavy = np.where(np.arange(64) % 2, 1e8, 1).astype(np.float32)
    other, report = tuned(tiny_encoder, costs=heavy, steps=10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000_000
    assert [level.steps for level in report.levels] == [10]
    assert not same_weights(plain, other)
    again, _ = tuned(tiny_encoder, steps=10)
    assert same_weights(plain, again)


def test_fit_with_costs_that_was_stopped_ends_with_the_same_weights(
    tiny_encoder: Path, tmp_path: Path
) -> None:
    costs = np.linspace(0.1, 5, 64, dtype=np.float32)
    whole, _ = tuned(tiny_encoder, costs=costs)
    with pytest.raises(Stopped):
        tuned(tiny_encoder, costs=costs, path=tmp_path / "state", stop=11)
    again, _ = tuned(tiny_encoder, costs=costs, path=tmp_path / "state")
    assert same_weights(again, whole)


def test_state_of_another_fit_is_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        tuned(tiny_encoder, path=tmp_path / "state", stop=5)
    with pytest.raises(ValueError, match="another fit"):
        tuned(tiny_encoder, path=tmp_path / "state", mark="other")


def test_gradients_of_small_parts_add_up_to_those_of_a_batch(tiny_encoder: Path) -> None:
    def without_dropout(encoder: Encoder) -> None:
        for layer in encoder.model.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0

    opened = Encoder.open

    def quiet(*arguments: Any, **options: Any) -> Encoder:
        encoder = opened(*arguments, **options)
        encoder.model.config.attention_probs_dropout_prob = 0.0
        without_dropout(encoder)
        return encoder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Encoder, "open", quiet)
        whole, _ = tuned(tiny_encoder, steps=3)
        parts, report = tuned(tiny_encoder, steps=3, micro_batch=3)
    assert report.micro_batch == 3
    for name, weights in whole.weights().items():
        np.testing.assert_allclose(parts.weights()[name], weights, atol=2e-4)


def test_fine_tuning_lowers_the_loss_and_reports_its_speed(tiny_encoder: Path) -> None:
    _, short = tuned(tiny_encoder, epochs=1.0)
    _, long = tuned(tiny_encoder, epochs=7.0, learning_rate=1e-2)
    assert long.levels[0].loss < 0.5 * short.levels[0].loss
    texts, _ = texts_and_labels(64)
    tokens = Encoder.open(tiny_encoder).tokenize(texts)
    assert short.tokens == int(tokens.lengths.sum())
    assert short.tokens_per_second == short.tokens / short.seconds > 0
    assert 0 <= short.waiting <= short.seconds


def test_memory_that_ends_halves_the_parts_of_a_batch(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Encoder.pool
    sizes: list[int] = []

    def small(self: Encoder, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.model.training:
            sizes.append(len(ids))
            if len(ids) > most:
                raise torch.cuda.OutOfMemoryError("no room")
        return pool(self, ids, mask)

    monkeypatch.setattr(Encoder, "pool", small)
    most = 3
    _, report = tuned(tiny_encoder, steps=2)
    assert report.micro_batch == 2
    assert sizes == [8, 4, 2, 2, 2, 2, 2, 2, 2, 2]
    most = 0
    with pytest.raises(MemoryError, match="smaller max_length"):
        tuned(tiny_encoder, steps=2)


PROGRAM = "from hedgerow.cli import main; import sys; sys.exit(main())"


@pytest.fixture
def fit_options(tmp_path: Path) -> list[str]:
    """`fit` and its options, for texts and an encoder in `tmp_path`, and a program to launch it with."""
    encoder = make_tiny_encoder(tmp_path / "encoder", dropout=0.0)  # each process draws its own dropout
    texts, labels = texts_and_labels(48)
    lines = [json.dumps({"text": t, "labels": own}) for t, own in zip(texts, labels, strict=True)]
    (tmp_path / "train.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--base", "transformer", "--encoder", str(encoder), "--steps", "3", "--batch-size", "8"]
    return ["fit", str(tmp_path / "train.jsonl"), *options, "--threads", "1", "--learning-rate", "1e-3"]


def launched(folder: Path, processes: int, arguments: list[str]) -> list[tuple[int, str]]:
    """Start processes as torchrun does, without the seconds that it takes itself: exit codes and errors."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared |= {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes), "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, "program.py", *arguments],
            cwd=folder,
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    try:
        errors = [process.communicate(timeout=240)[1] for process in running]
        return [(process.returncode, error) for process, error in zip(running, errors, strict=True)]
    finally:
        for process in running:
            process.kill()


def test_several_processes_learn_what_one_learns(tmp_path: Path, fit_options: list[str]) -> None:
    assert main([*fit_options, str(tmp_path / "one"), "--device", "cpu"]) == 0
    for code, error in launched(tmp_path, 2, [*fit_options, "two", "--device", "cpu"]):
        assert code == 0, error
    one, two = (load(tmp_path / name).encoders_[0].weights() for name in ("one", "two"))  # type: ignore[attr-defined]
    for name, weights in one.items():
        np.testing.assert_allclose(two[name], weights, atol=1e-4)
    assert sorted(path.name for path in tmp_path.glob("two*")) == ["two", "two.data"]


@pytest.mark.skipif(not has_gpu(), reason="there is no GPU")
def test_more_processes_than_gpus_end_with_the_way_out(tmp_path: Path, fit_options: list[str]) -> None:
    gpus = torch.cuda.device_count()
    for code, error in launched(tmp_path, gpus + 1, [*fit_options, "model"]):
        assert code != 0
        assert f"{gpus + 1} processes were started on a machine with {gpus} GPU" in error
        assert "--device cpu" in error
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("place", [0, 2])
def test_each_process_needs_a_gpu_of_its_own(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = {"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "LOCAL_RANK": str(place), "RANK": str(place)}
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for device in ("auto", "cuda"):
        with pytest.raises(ValueError, match=r"3 processes were started on a machine with 2 GPUs.*at most 2"):
            join_team(device)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    with pytest.raises(ValueError, match="device is 'cuda:1', but 3 processes were started"):
        join_team("cuda:1")


def test_process_alone_is_a_team_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    team = join_team("cpu", threads=2)
    assert team == Team(CPU, rank=0, size=1, threads=2)
    assert team.total(torch.ones(2)).tolist() == [1, 1]
    team.wait()
