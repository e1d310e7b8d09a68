"""How much, how long, and how many at once: what is beyond the limits is refused before it is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import ApiError, overloaded
from .limits import Limits

# Probes get an answer from a busy server; a re-load and an export may take as long as they need.
_ALWAYS = ("/healthz", "/readyz", "/metrics")
_UNHURRIED = ("/reload", "/rollback", "/promote", "/learn", "/queue/export")


class Admitted:
    """Wraps an application, and lets through what is within the limits.

    A request that is refused here never reaches the router: `route_of` finds the route that it would have
    taken, under which it is counted.
    """

    def __init__(
        self, app: ASGIApp, limits: Limits, route_of: Callable[[Scope], Any] = lambda scope: None
    ) -> None:
        self._app = app
        self._limits = limits
        self._route_of = route_of
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["path"] in _ALWAYS:
            await self._app(scope, receive, send)
            return
        try:
            if self._in_flight >= self._limits.in_flight:
                raise overloaded(f"the server is answering {self._in_flight} requests, its limit")
            self._in_flight += 1
            try:
                await self._answer(scope, receive, send)
            finally:
                self._in_flight -= 1
        except ApiError:
            scope.setdefault("route", self._route_of(scope))
            raise

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = read = False

        async def noted_send(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        seconds = self._limits.seconds
        try:
            async with asyncio.timeout(seconds) as deadline:
                body = await self._read(scope, receive)
                read = True
                if scope["path"] in _UNHURRIED:
                    deadline.reschedule(None)
                await self._app(scope, _replay(body, receive), noted_send)
        except TimeoutError:
            if begun or not deadline.expired():  # half an answer cannot be taken back
                raise
            if not read:
                raise ApiError(408, "slow", f"the request was not complete after {seconds:g} s") from None
            raise ApiError(
                504, "timeout", f"there was no answer within {seconds:g} s; ask for less", retry_after=1
            ) from None

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, or a refusal as soon as it is known to be too long."""
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"")
        kind = headers.get(b"content-type", b"")
        most = self._limits.body
        too_large = ApiError(413, "too_large", f"the body is larger than {most} bytes; send less at once")
        if declared.isdigit() and int(declared[:20]) > most:
            raise too_large
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ApiError(400, "incomplete", "the request ended before its body did")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise too_large
            if not message.get("more_body", False):
                break
        if size and scope["method"] == "POST" and kind.split(b";")[0].strip().lower() != b"application/json":
            raise ApiError(415, "media_type", "send JSON, with 'Content-Type: application/json'")
        return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
