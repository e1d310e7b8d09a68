"""Connections are closed whose head of a request is too long or never ends, and where nobody reads.

This relies on the inside of uvicorn's protocol: tests/test_serve_connection.py names all of it, and the extra
``serve`` sets the latest version of uvicorn that it is known to work with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .errors import error_body
from .limits import Limits

_HEAD_BYTES = 64 * 1024
_HEAD_SECONDS = 10.0


class Connection(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, with limits on what comes before the body and on clients that do not read.

    `seconds` is the time that a client has to take what was written.
    """

    seconds = Limits.seconds

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_timer = _Timer(self.loop, self._too_slow)
        self._reader_timer = _Timer(self.loop, lambda: self.transport.abort())
        self._in_head = True
        self._head_bytes = 0
        self._in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, but not for ever."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._head_timer.stop()
        self._reader_timer.stop()
        super().connection_lost(exc)

    # --- clients that do not finish what they ask ---

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head is too long by now."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        # Data for no request: an empty line, which belongs to no head, or the rest of a refused body. uvicorn
        # takes any data for a sign of life, and waits no longer for the next request to begin.
        if not self._head_timer.runs and (self.cycle is None or self.cycle.response_complete):
            if self._in_body:
                self._head_timer.start(_HEAD_SECONDS)
            else:
                self._expect_head()
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES:
                message = f"the head of the request is larger than {_HEAD_BYTES} bytes"
                self._refuse(b"431 Request Header Fields Too Large", error_body("head", message))

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        """Its head is complete."""
        self._in_head = False
        self._in_body = True
        self._head_timer.stop()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Its body, too."""
        self._in_body = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP in the form that all errors have here."""
        self._refuse(b"400 Bad Request", error_body("http", "this is not a valid HTTP request"))

    def _expect_head(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        self._head_timer.start(_HEAD_SECONDS)

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            part = "body" if self._in_body else "head"
            message = f"the {part} of the request was not complete after {_HEAD_SECONDS:g} s"
            self._refuse(b"408 Request Timeout", error_body("slow", message))

    def _refuse(self, status: bytes, body: bytes) -> None:
        self._head_timer.stop()
        head = (
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n"
        )
        self.transport.write(head % (status, len(body)) + body)
        self.transport.close()
        self._reader_timer.start(self.seconds)

    # --- clients that do not read ---

    def pause_writing(self) -> None:
        """More was written than the client has taken so far."""
        super().pause_writing()
        self._reader_timer.start(self.seconds)

    def resume_writing(self) -> None:
        """It took nearly all; if the connection is being closed, the rest must go in the same time."""
        if not self.transport.is_closing():
            self._reader_timer.stop()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """An answer is complete."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._reader_timer.start(self.seconds)

    def timeout_keep_alive_handler(self) -> None:
        """No further request came."""
        super().timeout_keep_alive_handler()
        self._reader_timer.start(self.seconds)


class _Timer:
    """Calls back after some seconds, unless it is stopped; one that runs is not started again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
        self._loop = loop
        self._call = call
        self._handle: asyncio.TimerHandle | None = None

    @property
    def runs(self) -> bool:
        return self._handle is not None

    def start(self, seconds: float) -> None:
        if self._handle is None:
            self._handle = self._loop.call_later(seconds, self._end)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _end(self) -> None:
        self._handle = None
        self._call()


def connections(seconds: float) -> type[Connection]:
    """Connections whose clients have `seconds` to take what was written."""
    return type("Connection", (Connection,), {"seconds": seconds})
