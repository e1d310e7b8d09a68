"""Connections are closed whose head of a request is too long or never ends, and where nobody reads."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .errors import error_body
from .limits import Limits

__all__ = ["Connection", "connections"]

_HEAD_BYTES = 64 * 1024
_HEAD_SECONDS = 10.0


class Connection(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, with limits on what comes before the body and on who does not read.

    Attributes
    ----------
    seconds : float
        Time for a client to take what was written.
    """

    seconds = Limits.seconds

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head = True
        self._head_bytes = 0
        self._in_body = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, but not for ever."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_timer()
        self._stop_reader_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head is too long by now."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
            self._expect_more()
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
        """Its head is whole."""
        self._in_head = False
        self._in_body = True
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Its body, too."""
        self._in_body = False
        super().on_message_complete()

    def _expect_more(self) -> None:
        """Data came for no request: an empty line, which is part of no head, or the rest of a refused body.

        uvicorn takes any data for a sign of life, and waits no longer for the next request to begin.
        """
        if self._in_body:
            self._start_timer()
        else:
            self._expect_head()

    def _expect_head(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        self._start_timer()

    def _start_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(_HEAD_SECONDS, self._too_slow)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            part = "body" if self._in_body else "head"
            message = f"the {part} of the request was not whole after {_HEAD_SECONDS:g} s"
            self._refuse(b"408 Request Timeout", error_body("slow", message))

    def pause_writing(self) -> None:
        """More was written than the client took so far."""
        super().pause_writing()
        self._expect_reader()

    def resume_writing(self) -> None:
        """It took nearly all; who is about to go must take the rest in the same time."""
        if not self.transport.is_closing():
            self._stop_reader_timer()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """An answer is whole."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._expect_reader()

    def timeout_keep_alive_handler(self) -> None:
        """No further request came."""
        super().timeout_keep_alive_handler()
        self._expect_reader()

    def _expect_reader(self) -> None:
        if self._reader_timer is None:
            self._reader_timer = self.loop.call_later(self.seconds, self.transport.abort)

    def _stop_reader_timer(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    # What uvicorn sends for what is no HTTP, in the form that all errors have here.
    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        self._refuse(b"400 Bad Request", error_body("http", "this is no sound HTTP request"))

    def _refuse(self, status: bytes, body: bytes) -> None:
        self._stop_timer()
        head = (
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n"
        )
        self.transport.write(head % (status, len(body)) + body)
        self.transport.close()
        self._expect_reader()


def connections(seconds: float) -> type[Connection]:
    """Connections whose clients have so many seconds to take what was written."""
    return type("Connection", (Connection,), {"seconds": seconds})
