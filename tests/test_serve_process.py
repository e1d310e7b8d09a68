"""The server as a process: it starts or says why not, finishes what is in flight, and changes its model."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hedgerow.cli import main
from hedgerow.cli.failures import ExitCode
from hedgerow.cli.serve import read_token

COMMAND = "import sys; from hedgerow.cli import main; sys.exit(main())"
# Serves as the command does, but the engine waits for a line on stdin before its first answer.
HELD = """
import sys
from pathlib import Path
from hedgerow.serve.security import Access
from hedgerow.serve.server import listen, serve
from hedgerow.serve.service import ServerSettings, Service

service = Service(ServerSettings(Path(sys.argv[1]), Path(sys.argv[2])))
predict = service.batcher._predict

def held(*arguments):
    print("began", flush=True)
    sys.stdin.readline()
    return predict(*arguments)

service.batcher._predict = held
taken = listen("127.0.0.1", 0)
serve(service, Access(), taken, lambda: print(taken.getsockname()[1], flush=True))
print("ended", flush=True)
"""

# Serves as the command does, and is told to hang up while the model is loaded.
HUNG_UP = """
import os
import signal
import sys
from hedgerow.cli import main
from hedgerow.serve import service

load_model = service.load_model

def interrupted(*arguments):
    os.kill(os.getpid(), signal.SIGHUP)
    return load_model(*arguments)

signal.signal(signal.SIGHUP, signal.SIG_DFL)
service.load_model = interrupted
sys.exit(main())
"""


class Running:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def predict(self) -> tuple[int, Any]:
        return self.ask("POST", "/predict", {"text": "a game", "k": 1})

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def events(self) -> Iterator[dict[str, Any]]:
        """What it logs from now on."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            yield json.loads(line)


Start = Callable[..., Running]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start_one(
        *arguments: object,
        held: bool = False,
        script: str = COMMAND,
        command: Sequence[str] = ("serve",),
        **environment: str,
    ) -> Running:
        command = [HELD] if held else [script, *command, "--port", "0", "--threads", "1"]
        process = subprocess.Popen(
            [sys.executable, "-c", *command, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line, process.stderr and process.stderr.read()
        port = int(line) if held else int(line.split("http://")[1].split("/")[0].rpartition(":")[2])
        return Running(process, port)

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def test_serve_then_it_says_where_and_answers(start: Start, text_model: Path, tmp_path: Path) -> None:
    queue = tmp_path / "q.sqlite"
    running = start(text_model, "--queue", queue)
    assert running.ask("GET", "/readyz")[0] == 200
    status, found = running.predict()
    assert status == 200
    assert len(found["results"][0]["labels"]) == 1
    assert queue.exists()
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_to_stop_then_what_is_in_flight_is_finished(
    start: Start, text_model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    running = start(text_model, tmp_path / "q.sqlite", held=True)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(running.predict)
        assert running.line() == "began"
        running.process.send_signal(number)
        assert (
            next(event for event in running.events() if event["event"] == "stopping")["signal"] == number.name
        )
        assert running.process.stdin is not None
        running.process.stdin.write("\n")
        running.process.stdin.flush()
        status, found = asked.result()
    assert status == 200
    assert found["results"]
    assert running.line() == "ended"
    assert running.process.wait() == 0
    with pytest.raises(ConnectionRefusedError):
        running.predict()


def test_hang_up_under_load_then_the_model_changes_and_no_request_is_dropped(
    start: Start, text_model: Path, other_text_model: Path, tmp_path: Path
) -> None:
    served = tmp_path / "served.hedgerow"
    served.write_bytes(text_model.read_bytes())
    running = start(served)
    old = running.ask("GET", "/model")[1]["id"]
    changed = threading.Event()

    def keep_asking() -> list[tuple[int, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
        found = []
        after = 0
        while after < 20:
            connection.request("POST", "/predict", '{"text": "a game"}', {"Content-Type": "application/json"})
            answer = connection.getresponse()
            found.append((answer.status, json.loads(answer.read())["model"]))
            after += changed.is_set()
        connection.close()
        return found

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(keep_asking) for _ in range(4)]
        try:
            for number in range(3):
                source = (other_text_model, text_model)[number % 2]
                new = tmp_path / "new"
                new.write_bytes(source.read_bytes())
                new.replace(served)
                running.process.send_signal(signal.SIGHUP)
                event = next(event for event in running.events() if event["event"].startswith("reload"))
                assert event["event"] == "reload"
                assert event["model"] != event["before"]
        finally:
            changed.set()
        for one in asked:
            found = one.result()
            assert {status for status, _ in found} == {200}
            models = [model for _, model in found]
            assert set(models) <= {old, event["model"]}
            assert models[-1] == event["model"]


def test_hang_up_before_the_model_is_loaded_then_the_server_starts_and_minds_the_next(
    start: Start, text_model: Path, tmp_path: Path
) -> None:
    running = start(text_model, "--queue", tmp_path / "q.sqlite", script=HUNG_UP)
    assert running.predict()[0] == 200
    running.process.send_signal(signal.SIGHUP)
    assert any(event["event"] == "reload" for event in running.events())


def test_token_in_the_environment_then_it_is_asked_for(
    start: Start, text_model: Path, tmp_path: Path
) -> None:
    running = start(text_model, "--queue", tmp_path / "q", HEDGEROW_TOKEN="a-token-of-the-environment")
    assert running.predict()[0] == 401
    bearer = {"Authorization": "Bearer a-token-of-the-environment"}
    assert running.ask("POST", "/predict", {"text": "a"}, **bearer)[0] == 200


def test_what_is_no_http_then_it_is_refused_and_the_server_goes_on(
    start: Start, text_model: Path, tmp_path: Path
) -> None:
    running = start(text_model, "--queue", tmp_path / "q")

    def say(said: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", running.port), timeout=60) as connection:
            connection.sendall(said)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
            return answer

    for said in (b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\nbad header\r\n\r\n", b"nonsense\r\n\r\n"):
        answer = say(said)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "http"
    endless = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 200_000
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # closed while we were still talking
        assert say(endless).startswith(b"HTTP/1.1 431 ")
    assert running.ask("GET", "/healthz")[0] == 200


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Run a command that fails; return the code and the one line it prints."""
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("hedgerow: error: ")
    assert captured.err.count("\n") == 1
    return code, captured.err


def test_serve_for_others_without_a_token_then_it_does_not_start(
    text_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEDGEROW_TOKEN", raising=False)
    code, message = failure(capsys, "serve", text_model, "--host", "0.0.0.0", "--port", "0")
    assert code == ExitCode.USAGE
    assert "HEDGEROW_TOKEN" in message


def test_port_that_is_taken_then_it_says_so(text_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, message = failure(capsys, "serve", text_model, "--port", port)
    assert code == ExitCode.USAGE
    assert f"port {port}" in message


def test_host_that_is_none_then_it_says_so(
    text_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEDGEROW_TOKEN", "x" * 20)
    code, message = failure(capsys, "serve", text_model, "--host", "no.such.host.invalid", "--port", "0")
    assert code == ExitCode.USAGE
    assert "no.such.host.invalid" in message


def test_bad_model_or_queue_then_it_does_not_start(
    text_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad"
    bad.write_text("this is neither a model nor a database" * 50)
    code, _ = failure(capsys, "serve", bad, "--port", "0")
    assert code == ExitCode.MODEL
    code, _ = failure(capsys, "serve", tmp_path / "missing", "--port", "0")
    assert code == ExitCode.MODEL
    code, message = failure(capsys, "serve", text_model, "--port", "0", "--queue", bad)
    assert code == ExitCode.WRITE
    assert "--queue" in message


def test_extra_that_is_not_installed_then_it_says_how_to_get_it(
    text_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    code, message = failure(capsys, "serve", text_model, "--port", "0")
    assert code == ExitCode.USAGE
    assert "hedgerow[serve]" in message


def test_token_file_then_its_line_is_the_token(
    tmp_path: Path, text_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-of-a-file\n")
    assert read_token(file) == "a-token-of-a-file"
    file.write_text("\n")
    code, message = failure(capsys, "serve", text_model, "--port", "0", "--token-file", file)
    assert (code, "is empty" in message) == (ExitCode.USAGE, True)
    code, _ = failure(capsys, "serve", text_model, "--port", "0", "--token-file", tmp_path / "none")
    assert code == ExitCode.USAGE


def test_demo_then_one_command_serves_a_model_that_decides_and_a_queue(start: Start) -> None:
    running = start(command=("demo", "--serve"))
    about = running.line()
    folder = Path(about.split(" are in ")[1].split(",")[0])
    assert folder.is_dir()
    _, model = running.ask("GET", "/model")
    assert (model["members"], model["calibrated"], model["detects_ood"]) == (10, True, True)
    assert any(of["accept_from"] is not None for of in model["policy"]["wrong"])
    assert running.ask("GET", "/queue/counts")[1]["waiting"] == 40
    decisions = set()
    for example in running.ask("GET", "/examples")[1]["examples"]:
        body = {
            "text": example["text"],
            "k": 20,
            "votes": True,
            "decide": {"wrong_at_most": 0.1, "missed_at_most": 0.1},
        }
        status, found = running.ask("POST", "/predict", body)
        assert status == 200
        decisions |= {label["decision"] for label in found["results"][0]["labels"]}
        assert found["results"][0]["ood"]["is_ood"] == ("out-of-distribution" in example["about"])
    assert decisions == {"accept", "review", "reject"}
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait() == 0
    assert not folder.exists()


def test_demo_options_of_the_server_without_serve_then_they_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, message = failure(capsys, "demo", "--port", "0")
    assert (code, "--serve" in message) == (ExitCode.USAGE, True)
