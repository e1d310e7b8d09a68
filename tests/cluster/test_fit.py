"""A fit on a cluster is the fit on one machine, whatever is lost on the way; Ray and its nodes are real."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from dense_oracle import random_problem
from local_cluster import STORE

from hedgerow import HedgerowClassifier
from hedgerow.cli import main
from hedgerow.data import write_xmc_text
from hedgerow.training import block_files
from hedgerow.training import block_training as training
from hedgerow.training import tasks as worker
from hedgerow.training.block_files import BlockFiles
from hedgerow.training.blocks import TrainedBlock
from hedgerow.training.ray import ClusterError

if not os.environ.get("CI"):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'hedgerow[ray]'")

SMALL: dict[str, Any] = {"leaf_size": 4, "branching": 4, "random_state": 3, "n_jobs": 1}


@pytest.fixture(scope="module")
def problem() -> tuple[Any, Any]:
    return random_problem(1, 300, 50, 60, density=0.3)


def saved(model: HedgerowClassifier, folder: Path) -> bytes:
    path = folder / "model.hedgerow"
    model.save(path, overwrite=True)
    return path.read_bytes()


def fit(problem: tuple[Any, Any], folder: Path, **settings: Any) -> bytes:
    options = {name: settings.pop(name) for name in ("checkpoint", "progress") if name in settings}
    return saved(HedgerowClassifier(**SMALL | settings).fit(*problem, **options), folder)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"method": "mc-dropout"},
        {"method": "bagging", "members": 3},
        {"method": "bagging", "members": 4, "trees": 2},
        {"method": "boosted-bagging", "members": 3, "negatives": "tfn+man", "matcher_beam": 3},
    ],
    ids=lambda how: "-".join(str(value) for value in how.values()) or "single",
)
def test_model_when_fitted_on_a_cluster_then_is_the_file_of_one_machine(
    nodes: Any, problem: tuple[Any, Any], tmp_path: Path, how: dict[str, Any]
) -> None:
    assert fit(problem, tmp_path, cluster="auto", **how) == fit(problem, tmp_path, **how)


def test_members_when_added_on_a_cluster_then_are_those_of_one_machine(
    nodes: Any, problem: tuple[Any, Any], tmp_path: Path
) -> None:
    X, Y = problem
    model = HedgerowClassifier(**SMALL, method="bagging", members=1, cluster="auto").fit(X, Y)
    model.add_members(X, Y, 2)
    assert saved(model, tmp_path) == fit(problem, tmp_path, method="bagging", members=3)


def test_label_features_and_sample_weights_when_on_a_cluster_then_count_the_same(
    nodes: Any, problem: tuple[Any, Any], tmp_path: Path
) -> None:
    X, Y = problem
    random = np.random.default_rng(0)
    how = {"label_features": random.random((60, 5)), "sample_weight": random.integers(0, 3, 300)}
    here = HedgerowClassifier(**SMALL, method="bagging", members=2).fit(X, Y, **how)
    there = HedgerowClassifier(**SMALL, method="bagging", members=2, cluster="auto").fit(X, Y, **how)
    assert saved(there, tmp_path) == saved(here, tmp_path)


# --- faults -----------------------------------------------------------------------------------------------


@pytest.fixture
def fine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks as small as if the data were large."""
    monkeypatch.setattr(training, "block_work", lambda total, *_: total / 12)


class Once:
    """Calls a function the first time that enough of a fit is done."""

    def __init__(self, function: Callable[[], object], share: float = 0.3) -> None:
        self.function, self.share, self.called = function, share, False

    def __call__(self, share: float, what: str) -> None:
        if share >= self.share and not self.called:
            self.called = True
            self.function()


def dying_train(marks: str) -> Callable[..., Any]:
    """As `worker.train`, but the process that begins with the leaves is killed, three times."""

    def train(engine: Any, *arguments: Any) -> Any:
        import os
        import pathlib
        import signal

        from hedgerow.training import tasks as worker

        if arguments[-1].layer == 2:
            for mark in range(3):
                try:
                    (pathlib.Path(marks) / str(mark)).touch(exist_ok=False)
                except FileExistsError:
                    continue
                os.kill(os.getpid(), signal.SIGKILL)
        return worker.train(engine, *arguments)

    return train


def test_fit_when_workers_are_killed_then_finishes_with_the_same_bytes(
    nodes: Any, fine: None, problem: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = tmp_path / "killed"
    marks.mkdir()
    monkeypatch.setattr(training.worker, "train", dying_train(str(marks)))
    there = fit(problem, tmp_path, cluster="auto", method="bagging", members=2)
    assert len(list(marks.iterdir())) == 3
    assert there == fit(problem, tmp_path, method="bagging", members=2)


def test_fit_when_a_node_is_lost_then_finishes_with_the_same_bytes(
    nodes: Any, fine: None, problem: tuple[Any, Any], tmp_path: Path
) -> None:
    doomed = nodes.add_node(num_cpus=1, object_store_memory=STORE)
    nodes.wait_for_nodes()
    lose = Once(lambda: nodes.remove_node(doomed, allow_graceful=False))
    ensemble = {"method": "bagging", "members": 3, "negatives": "tfn+man", "matcher_beam": 3}
    there = fit(problem, tmp_path, cluster="auto", progress=lose, **ensemble)
    assert lose.called
    assert there == fit(problem, tmp_path, **ensemble)


KILLED_DRIVER = """
import os, pickle, signal, sys
import ray
from hedgerow import HedgerowClassifier
from hedgerow.training import block_training as training

address, problem, folder, settings = pickle.load(open(sys.argv[1], "rb"))
training.block_work = lambda total, *_: total / 12
ray.init(address=address, log_to_driver=False, logging_level="ERROR")

def die(share, what):
    if share > 0.4:
        os.kill(os.getpid(), signal.SIGKILL)

HedgerowClassifier(**settings, cluster="auto").fit(*problem, checkpoint=folder, progress=die)
"""


def test_fit_when_its_driver_was_killed_then_goes_on_from_finished_blocks(
    nodes: Any,
    fine: None,
    problem: tuple[Any, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    how = {"method": "boosting", "members": 2, "negatives": "tfn+man", "matcher_beam": 3}
    folder = tmp_path / "kept"
    given = tmp_path / "given.pickle"
    given.write_bytes(pickle.dumps((nodes.address, problem, str(folder), SMALL | how)))
    ended = subprocess.run([sys.executable, "-c", KILLED_DRIVER, str(given)], check=False)
    assert ended.returncode == -signal.SIGKILL
    before = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert any(name.startswith("block-") for name in before)

    written: list[str] = []
    write = block_files.write_model

    def note(path: Path, *rest: Any, **options: Any) -> None:
        written.append(path.name)
        write(path, *rest, **options)

    monkeypatch.setattr(block_files, "write_model", note)
    there = fit(problem, tmp_path, cluster="auto", checkpoint=folder, **how)
    assert there == fit(problem, tmp_path, **how)
    assert written
    assert not before & set(written)
    assert not list(folder.glob("block-*"))


def test_fit_when_blocks_come_back_then_hold_no_memory_of_the_driver(
    nodes: Any, fine: None, problem: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[weakref.ref[Any]] = []
    alive: list[int] = []
    write = BlockFiles.write

    def count(self: BlockFiles, number: int, trained: TrainedBlock) -> None:
        seen.append(weakref.ref(trained.weights))
        alive.append(sum(each() is not None for each in seen))
        write(self, number, trained)

    monkeypatch.setattr(BlockFiles, "write", count)
    fit(problem, tmp_path, cluster="auto", method="bagging", members=2)
    assert len(alive) > 12
    assert max(alive) <= 2  # the one that is written, and the one before it


def test_fit_when_data_are_larger_than_the_object_store_then_finishes_with_the_same_bytes(
    nodes: Any, tmp_path: Path
) -> None:
    draw = np.random.default_rng(0)
    rows, each, features = 7000, 1600, 4000
    patterns = np.sort(np.array([draw.choice(features, each, replace=False) for _ in range(16)]))
    kind = draw.integers(0, 16, rows)
    values = draw.random(rows * each, dtype=np.float32)
    indices = patterns[kind].ravel().astype(np.int32)
    X = sp.csr_array((values, indices, np.arange(rows + 1) * each), shape=(rows, features))
    Y = sp.csr_array((np.ones(rows), kind, np.arange(rows + 1)), shape=(rows, 16))
    assert values.nbytes + indices.nbytes > STORE
    how = {"max_passes": 1, "branching": 2, "leaf_size": 8}
    assert fit((X, Y), tmp_path, cluster="auto", **how) == fit((X, Y), tmp_path, **how)


def test_object_store_that_cannot_spill_is_told(
    nodes: Any, problem: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    def put(_: Any) -> None:
        raise ray.exceptions.ObjectStoreFullError("full")

    monkeypatch.setattr(ray, "put", put)
    with pytest.raises(ClusterError, match="larger --object-store-memory"):
        HedgerowClassifier(**SMALL, cluster="auto").fit(*problem)


def test_checkpoint_of_another_fit_is_refused(nodes: Any, problem: tuple[Any, Any], tmp_path: Path) -> None:
    X, Y = problem
    BlockFiles(tmp_path, "other").write_tree(0, HedgerowClassifier(**SMALL).fit(X, Y).tree_)
    with pytest.raises(ValueError, match="another fit"):
        fit(problem, tmp_path, cluster="auto", checkpoint=tmp_path)


def test_error_of_the_data_when_met_on_a_worker_then_is_told_as_on_one_machine(
    nodes: Any, problem: tuple[Any, Any]
) -> None:
    X, Y = problem
    for cluster in (None, "auto"):
        model = HedgerowClassifier(**SMALL, normalize=False, cluster=cluster)
        with pytest.raises(ValueError, match="too large for float32"):
            model.fit(X * 1e25, Y)


def test_node_with_another_version_is_refused(
    nodes: Any, problem: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = worker.Engine.here()
    monkeypatch.setattr(worker.Engine, "here", lambda: worker.Engine("0.0.1", here.simd))
    with pytest.raises(ClusterError, match=r"started with 0\.0\.1; install the same version"):
        HedgerowClassifier(**SMALL, method="bagging", members=2, cluster="auto").fit(*problem)


# --- command line -----------------------------------------------------------------------------------------


def test_command_line_when_given_a_cluster_then_writes_the_same_file(
    nodes: Any, problem: tuple[Any, Any], tmp_path: Path
) -> None:
    X, Y = problem
    write_xmc_text(tmp_path / "train.txt", X, Y)
    for name, options in (("here", ["--preset", "paper"]), ("there", ["--cluster", "auto"])):
        assert main(["fit", str(tmp_path / "train.txt"), str(tmp_path / name), *options]) == 0
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()
    assert not (tmp_path / "there.members").exists()
