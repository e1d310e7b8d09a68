"""Fits and scores from outside a cluster, through Ray's client server, and scores while a node is lost."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dense_oracle import random_problem
from local_cluster import STORE, local_cluster

from hedgerow import HedgerowClassifier, HedgerowTextClassifier
from hedgerow.cli import main
from hedgerow.training.ray import Crew

if not os.environ.get("CI"):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'hedgerow[ray]'")

pytestmark = pytest.mark.trust

TEXTS = [f"{kind} number {i}" for i in range(9) for kind in ("elm", "oak", "yew")]
LABELS = [[kind] for _ in range(9) for kind in ("elm", "oak", "yew")]

# One server for one client. That of a head node forks a process for each, beside threads of gRPC, and now and
# then that process dies at once; then the connection is tried again, but it would be chance whether it is
# tested. The port is taken a moment after it was found free, and the server tells when it listens.
SERVER = """
import socket, sys, time
from ray.util.client.server.server import create_ray_handler, serve

with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
server = serve("127.0.0.1", port, create_ray_handler(sys.argv[1], None))
print(port, flush=True)
sys.stdin.read()
"""
CLIENT = """
import pickle, sys
from hedgerow import HedgerowClassifier

address, problem, settings, path = pickle.load(open(sys.argv[1], "rb"))
HedgerowClassifier(**settings, cluster=address).fit(*problem).save(path)
"""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    with local_cluster() as cluster:
        yield cluster


@pytest.fixture
def address(nodes: Any) -> Iterator[str]:
    command = [sys.executable, "-c", SERVER, nodes.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield f"ray://127.0.0.1:{int(server.stdout.readline())}"
        server.stdin.close()
        server.kill()


def test_model_when_fitted_from_outside_the_cluster_then_is_the_file_of_one_machine(
    address: str, tmp_path: Path
) -> None:
    how: dict[str, Any] = {
        "leaf_size": 4,
        "branching": 4,
        "random_state": 3,
        "method": "bagging",
        "members": 2,
    }
    how |= {"negatives": "tfn+man", "matcher_beam": 3}
    problem = random_problem(1, 300, 50, 60, density=0.3)
    given, there, here = tmp_path / "given.pickle", tmp_path / "there", tmp_path / "here"
    given.write_bytes(pickle.dumps((address, problem, how, str(there))))
    subprocess.run([sys.executable, "-c", CLIENT, str(given)], check=True)
    HedgerowClassifier(**how).fit(*problem).save(here)
    assert there.read_bytes() == here.read_bytes()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "trees.hedgerow"
    HedgerowTextClassifier(random_state=0).fit(TEXTS, LABELS).save(path)
    return path


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    folder = tmp_path / "shards"
    folder.mkdir()
    for number in range(9):
        lines = [json.dumps({"text": text}) + "\n" for text in TEXTS[number::9]]
        (folder / f"part-{number}.jsonl").write_text("".join(lines))
    return folder


def assert_as_one_by_one(model: Path, shards: Path, out: Path) -> None:
    (out.parent / "alone").mkdir()
    for path in shards.iterdir():
        alone = out.parent / "alone" / path.name
        assert main(["predict", str(model), str(path), "--out", str(alone)]) == 0
        assert (out / path.name).read_bytes() == alone.read_bytes()


def test_files_when_scored_from_outside_the_cluster_then_are_those_of_one_machine(
    address: str, model: Path, shards: Path, tmp_path: Path
) -> None:
    command = [str(Path(sys.executable).parent / "hedgerow"), "predict", str(model), str(shards)]
    subprocess.run([*command, "--out", str(tmp_path / "out"), "--cluster", address], check=True)
    assert_as_one_by_one(model, shards, tmp_path / "out")


def test_files_when_a_node_is_lost_then_are_all_scored(
    nodes: Any, model: Path, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doomed = nodes.add_node(num_cpus=1, object_store_memory=STORE)
    nodes.wait_for_nodes()
    stream, lost = Crew.stream, []

    def lose_one(self: Crew, *given: Any) -> Iterator[Any]:
        for result in stream(self, *given):
            if not lost:
                lost.append(doomed)
                nodes.remove_node(doomed, allow_graceful=False)
            yield result

    monkeypatch.setattr(Crew, "stream", lose_one)
    out = tmp_path / "out"
    assert main(["predict", str(model), str(shards), "--out", str(out), "--cluster", "auto"]) == 0
    assert lost
    assert_as_one_by_one(model, shards, out)
