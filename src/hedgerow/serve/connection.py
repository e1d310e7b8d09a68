"""Connections whose head of a request is too long, or never ends, are closed."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .errors import error_body

__all__ = ["Connection"]

_HEAD_BYTES = 64 * 1024
_HEAD_SECONDS = 10.0


class Connection(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, with limits on what comes before the body."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head = True
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, but not for ever."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head is too long by now."""
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES and not self.transport.is_closing():
                message = f"the head of the request is larger than {_HEAD_BYTES} bytes"
                self._refuse(b"431 Request Header Fields Too Large", error_body("head", message))

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def _expect_head(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(_HEAD_SECONDS, self._too_slow)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            message = f"the head of the request was not whole after {_HEAD_SECONDS:g} s"
            self._refuse(b"408 Request Timeout", error_body("slow", message))

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
