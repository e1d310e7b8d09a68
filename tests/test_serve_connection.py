"""What comes before a body: it ends in time and is not too long, or the connection ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from hedgerow.serve import connection
from hedgerow.serve.connection import Connection

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = asyncio.Event()

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed.set()

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


def connected() -> tuple[Connection, Wire]:
    wire = Wire()
    made = Connection(Config(answer, ws="none", log_config=None), ServerState(), {})
    made.connection_made(wire)
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
            assert made._head_timer is None
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
        assert made._head_timer is None

    asyncio.run(run())
