"""What is said when there is no cluster, or none that can be used."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from dense_oracle import random_problem

from hedgerow import HedgerowClassifier
from hedgerow.cli import main
from hedgerow.cli.failures import ExitCode
from hedgerow.data import write_xmc_text
from hedgerow.storage.container import Malformed, read_model, write_model
from hedgerow.training.ray import ClusterError, check_address, open_crew
from hedgerow.training.tasks import Engine

if not os.environ.get("CI"):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'hedgerow[ray]'")


@pytest.fixture
def unconnected(monkeypatch: pytest.MonkeyPatch) -> Any:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    return ray


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    "address", ["", "head", "head:10001", "ray://", "ray://head", "http://head:1", "ray://h:x"]
)
def test_address_that_names_no_cluster_is_refused_before_the_fit(address: str) -> None:
    with pytest.raises(ValueError, match="it must be 'auto'"):
        check_address(address)
    with pytest.raises(ValueError, match="it must be 'auto'"):
        HedgerowClassifier(cluster=address).fit([[1.0]], [["a"]])


def test_unreachable_address_is_told(unconnected: Any, closed_port: int) -> None:
    with (
        pytest.raises(ClusterError, match=f"ray://127.0.0.1:{closed_port} does not answer"),
        open_crew(f"ray://127.0.0.1:{closed_port}"),
    ):
        pass


def test_host_that_is_not_known_is_told(unconnected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", unknown)
    with (
        pytest.raises(ClusterError, match=r"ray://no-such-host.invalid:10001 does not answer: .*not known"),
        open_crew("ray://no-such-host.invalid:10001"),
    ):
        pass


def test_unreachable_address_on_the_command_line_is_told_before_the_data_are_read(
    unconnected: Any, closed_port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["fit", "no-such-data", str(tmp_path / "m"), "--cluster", f"ray://127.0.0.1:{closed_port}"])
    assert code == ExitCode.CLUSTER
    assert "does not answer" in capsys.readouterr().err


def test_no_cluster_on_this_machine_is_told(unconnected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(unconnected, "init", init)
    with (
        pytest.raises(ClusterError, match="no Ray cluster runs on this machine; start one"),
        open_crew("auto"),
    ):
        pass


def test_other_version_of_ray_is_told(unconnected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: Any) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 1.0\n    Python: 3.8")

    monkeypatch.setattr(unconnected, "init", init)
    with pytest.raises(ClusterError, match=r"other versions than this process.*Ray: 1\.0"), open_crew("auto"):
        pass


def test_ray_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'hedgerow\[ray\]'"), open_crew("local"):
        pass


def test_processor_that_cannot_compute_the_same_bits_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Engine.here()
    monkeypatch.setenv("HEDGEROW_SIMD", here.simd)
    here.check()
    with pytest.raises(ClusterError, match=f"start the fit with HEDGEROW_SIMD={here.simd}"):
        Engine(here.version, "v9").check()


def test_cluster_is_no_part_of_a_model_file_and_none_is_taken_from_one(tmp_path: Path) -> None:
    X, Y = random_problem(0, 20, 5, 4)
    model = HedgerowClassifier(random_state=0).fit(X, Y)
    model.set_params(cluster="ray://head:10001").save(tmp_path / "model")
    assert HedgerowClassifier.load(tmp_path / "model").cluster is None
    file = read_model(tmp_path / "model")
    file.header["parameters"]["cluster"] = "ray://elsewhere:10001"
    write_model(tmp_path / "crafted", file.sections, file.header)
    with pytest.raises(Malformed, match="the file sets 'cluster', which is not allowed"):
        HedgerowClassifier.load(tmp_path / "crafted")


def test_transformer_on_a_cluster_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, Y = random_problem(0, 20, 5, 4)
    write_xmc_text(tmp_path / "train.txt", X, Y)
    options = ["--base", "transformer", "--cluster", "local"]
    assert main(["fit", str(tmp_path / "train.txt"), str(tmp_path / "m"), *options]) == ExitCode.USAGE
    assert "--cluster" in capsys.readouterr().err
