"""Connections end where what comes before a body is too slow or too long, and where nobody reads."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

import pytest
import uvicorn
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from hedgerow.serve import connection
from hedgerow.serve.connection import Connection, connections
from hedgerow.serve.limits import Limits

# What hedgerow.serve relies on, and an upgrade of uvicorn may change.
OVERRIDDEN = {
    "connection_made": ("transport",),
    "connection_lost": ("exc",),
    "data_received": ("data",),
    "on_message_begin": (),
    "on_headers_complete": (),
    "on_message_complete": (),
    "on_response_complete": (),
    "pause_writing": (),
    "resume_writing": (),
    "send_400_response": ("msg",),
    "timeout_keep_alive_handler": (),
}
READ = ("cycle", "loop", "tasks", "transport")
SERVER = ("force_exit", "should_exit")
OPTIONS = (
    "access_log",
    "http",
    "lifespan",
    "log_config",
    "proxy_headers",
    "server_header",
    "timeout_graceful_shutdown",
    "ws",
)
CHANGED = (
    f"uvicorn {uvicorn.__version__} has changed {{}}, which hedgerow.serve.connection or .server relies on:"
    " adapt them and this test, or lower the latest version of uvicorn in pyproject.toml"
)

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = asyncio.Event()
        self.aborted = asyncio.Event()

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed.set()

    def abort(self) -> None:
        self.aborted.set()

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def refusal(self) -> tuple[str, str]:
        head, _, body = self.written.partition(b"\r\n\r\n")
        return head.decode().split(" ")[1], json.loads(body)["error"]["code"]


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def connected(**options: Any) -> tuple[Connection, Wire]:
    wire = Wire()
    made = Connection(Config(answer, ws="none", log_config=None, **options), ServerState(), {})
    made.connection_made(wire)
    return made, wire


async def answered(said: bytes) -> tuple[Connection, Wire]:
    """A connection that got an answer to its first request."""
    made, wire = connected()
    made.data_received(said)
    await asyncio.gather(*made.tasks)
    wire.written = b""
    return made, wire


@pytest.mark.parametrize("said", [b"", b"GET", HEAD])
def test_head_that_does_not_end_then_408(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_HEAD_SECONDS", 0.01)

    async def run() -> None:
        made, wire = connected()
        if said:
            made.data_received(said)
        await wire.closed.wait()
        assert wire.refusal() == ("408", "slow")

    asyncio.run(run())


def test_empty_line_after_an_answer_then_the_next_head_is_waited_for_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        made, wire = await answered(HEAD + b"\r\n")
        monkeypatch.setattr(connection, "_HEAD_SECONDS", 0.01)
        made.data_received(b"\r\n")
        await wire.closed.wait()
        assert wire.refusal() == ("408", "slow")

    asyncio.run(run())


def test_endless_empty_lines_then_431() -> None:
    async def run() -> None:
        made, wire = await answered(HEAD + b"\r\n")
        for _ in range(65):
            made.data_received(b"\r\n" * 512)
        assert wire.refusal() == ("431", "head")

    asyncio.run(run())


def test_rest_of_a_body_that_was_answered_already_then_it_may_be_long_but_must_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        made, wire = await answered(HEAD + b"Content-Length: 1000000\r\n\r\n")
        monkeypatch.setattr(connection, "_HEAD_SECONDS", 0.01)
        made.data_received(b"x" * 500_000)
        assert wire.written == b""
        await wire.closed.wait()
        assert wire.refusal() == ("408", "slow")

    asyncio.run(run())


def test_head_that_is_too_long_then_431() -> None:
    async def run() -> None:
        made, wire = connected()
        made.data_received(HEAD)
        sent = 0
        while not wire.is_closing():
            made.data_received(b"X: " + b"y" * 1000 + b"\r\n")
            sent += 1005
        assert 64 * 1024 - 2000 < sent < 64 * 1024 + 2000
        assert wire.refusal() == ("431", "head")

    asyncio.run(run())


def test_head_that_ends_then_the_timer_does_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        made, wire = connected()
        for number in range(1, 4):  # one after the other on the same connection
            made.data_received(HEAD + b"\r\n")
            assert not made._head_timer.runs
            await asyncio.gather(*made.tasks)
            assert wire.written.count(b"200 OK") == number
        assert not wire.is_closing()
        made.connection_lost(None)

    asyncio.run(run())


def test_client_that_goes_then_nothing_waits_for_it() -> None:
    async def run() -> None:
        made, _ = connected()
        made.data_received(b"GET")
        made.connection_lost(None)
        assert not made._head_timer.runs

    asyncio.run(run())


# --- those who do not read ---


def unread(monkeypatch: pytest.MonkeyPatch) -> tuple[Connection, Wire]:
    """A connection to which more was written than the client takes."""
    monkeypatch.setattr(Connection, "seconds", 0.01)
    made, wire = connected()
    made.data_received(HEAD)
    made.pause_writing()
    return made, wire


def test_answer_that_is_not_read_then_the_connection_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        _, wire = unread(monkeypatch)
        await wire.aborted.wait()

    asyncio.run(run())


def test_answer_that_is_read_then_the_connection_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        made, _ = unread(monkeypatch)
        made.resume_writing()
        assert not made._reader_timer.runs

    asyncio.run(run())


def test_last_bytes_that_are_not_read_before_the_end_then_the_connection_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        made, wire = unread(monkeypatch)
        wire.close()
        made.resume_writing()
        await wire.aborted.wait()

    asyncio.run(run())


@pytest.mark.parametrize("said", [b"nonsense\r\n\r\n", HEAD + b"Connection: close\r\n\r\n", HEAD + b"\r\n"])
def test_connection_that_is_closed_but_not_read_then_it_is_cut(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "seconds", 0.01)

    async def run() -> None:
        made, wire = connected(timeout_keep_alive=0)
        made.data_received(said)
        await wire.aborted.wait()
        assert wire.is_closing()

    asyncio.run(run())


def test_client_that_goes_then_nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        made, _ = unread(monkeypatch)
        made.connection_lost(None)
        assert not made._reader_timer.runs

    asyncio.run(run())


def test_connections_of_a_server_then_its_limit_counts() -> None:
    assert connections(2.5).seconds == 2.5
    assert Connection.seconds == Limits().seconds


# --- uvicorn ---


def test_uvicorn_then_it_has_what_connections_override() -> None:
    for name, parameters in OVERRIDDEN.items():
        method = getattr(HttpToolsProtocol, name, None)
        assert callable(method), CHANGED.format(f"HttpToolsProtocol.{name}")
        found = tuple(inspect.signature(method).parameters)[1:]
        assert found == parameters, CHANGED.format(f"the parameters of HttpToolsProtocol.{name}")
    assert {name for name in vars(Connection) if name[0] != "_"} - {"seconds"} == OVERRIDDEN.keys()
    own = {name for name in vars(Connection) if name[0] == "_" and name[:2] != "__"}
    own |= {"_head_timer", "_reader_timer", "_in_head", "_head_bytes", "_in_body"}
    assert not own & set(dir(HttpToolsProtocol)), CHANGED.format("names of HttpToolsProtocol that are ours")


def test_uvicorn_then_it_has_what_connections_and_server_read() -> None:
    async def run() -> None:
        made, _ = connected()
        for name in READ:
            assert hasattr(made, name), CHANGED.format(f"HttpToolsProtocol.{name}")
        made.data_received(HEAD + b"\r\n")
        assert made.cycle is not None, CHANGED.format("HttpToolsProtocol.cycle")
        assert made.cycle.response_complete is False, CHANGED.format("RequestResponseCycle.response_complete")
        await asyncio.gather(*made.tasks)
        assert made.cycle.response_complete is True, CHANGED.format("RequestResponseCycle.response_complete")
        made.connection_lost(None)

    asyncio.run(run())
    server = uvicorn.Server(Config(answer))
    for name in SERVER:
        assert getattr(server, name, None) is False, CHANGED.format(f"Server.{name}")
    assert "sockets" in inspect.signature(uvicorn.Server.run).parameters, CHANGED.format("Server.run")
    for name in OPTIONS:
        assert name in inspect.signature(Config).parameters, CHANGED.format(f"Config({name})")
