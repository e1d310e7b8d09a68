"""Fits and scores from outside a cluster, through Ray's client server."""

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
from local_cluster import local_cluster

from hedgerow import HedgerowClassifier, HedgerowTextClassifier
from hedgerow.cli import main

if not os.environ.get("CI"):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'hedgerow[ray]'")

pytestmark = pytest.mark.trust

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
def head() -> Iterator[str]:
    with local_cluster() as cluster:
        yield str(cluster.address)


@pytest.fixture
def address(head: str) -> Iterator[str]:
    command = [sys.executable, "-c", SERVER, head]
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


def test_files_when_scored_from_outside_the_cluster_then_are_those_of_one_machine(
    address: str, tmp_path: Path
) -> None:
    texts = [f"{kind} number {i}" for i in range(9) for kind in ("elm", "oak", "yew")]
    labels = [[kind] for _ in range(9) for kind in ("elm", "oak", "yew")]
    HedgerowTextClassifier(random_state=0).fit(texts, labels).save(tmp_path / "model")
    shards = tmp_path / "shards"
    shards.mkdir()
    for number in range(4):
        lines = [json.dumps({"text": text}) + "\n" for text in texts[number::4]]
        (shards / f"part-{number}.jsonl").write_text("".join(lines))
    command = [str(Path(sys.executable).parent / "hedgerow"), "predict", str(tmp_path / "model"), str(shards)]
    subprocess.run([*command, "--out", str(tmp_path / "out"), "--cluster", address], check=True)
    for path in shards.iterdir():
        alone = str(tmp_path / path.name)
        assert main(["predict", str(tmp_path / "model"), str(path), "--out", alone]) == 0
        assert (tmp_path / "out" / path.name).read_bytes() == Path(alone).read_bytes()
