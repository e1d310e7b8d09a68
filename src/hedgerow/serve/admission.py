"""How much, how long, and how many at once: what is beyond the limits is refused before it is read."""

from __future__ import annotations

import asyncio
from types import TracebackType

from .errors import ApiError
from .limits import Limits
from .observation import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Admitted", "Deadline"]

# Who watches over a busy server must get an answer; loading a model or an export may take its time.
_ALWAYS = ("/healthz", "/readyz", "/metrics")
_UNHURRIED = ("/reload", "/queue/export")


class Deadline:
    """Ends what runs within it after some seconds by `TimeoutError`.

    ``asyncio.timeout`` does this from Python 3.11 on.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._passed = False

    async def __aenter__(self) -> Deadline:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline is for a task")
        self._task = task
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._end)
        return self

    def lift(self) -> None:
        """From here on it may take its time."""
        self._timer.cancel()

    def _end(self) -> None:
        self._passed = True
        self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._passed and kind is asyncio.CancelledError:
            if hasattr(self._task, "uncancel"):
                self._task.uncancel()
            raise TimeoutError from error


class Admitted:
    """Wraps an application, and lets through what is within the limits.

    Parameters
    ----------
    app : ASGIApp
        Who answers.
    limits : Limits
        The limits.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["path"] in _ALWAYS:
            await self._app(scope, receive, send)
            return
        if self._in_flight >= self._limits.in_flight:
            raise ApiError(
                503,
                "overloaded",
                f"{self._in_flight} requests are being answered, and no more may; try again later",
                retry_after=1,
            )
        self._in_flight += 1
        begun = False

        async def noted_send(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        seconds = self._limits.seconds
        try:
            read = False
            try:
                async with Deadline(seconds) as deadline:
                    body = await self._read(scope, receive)
                    read = True
                    if scope["path"] in _UNHURRIED:
                        deadline.lift()
                    await self._app(scope, _replay(body, receive), noted_send)
            except TimeoutError:
                if begun:  # half an answer cannot be taken back
                    raise
                if not read:
                    raise ApiError(408, "slow", f"the request was not whole after {seconds:g} s") from None
                raise ApiError(
                    504, "timeout", f"there was no answer within {seconds:g} s; ask for less", retry_after=1
                ) from None
        finally:
            self._in_flight -= 1

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, or a refusal as soon as it is known to be too long."""
        declared, kind = b"", b""
        for name, value in scope["headers"]:
            if name == b"content-length":
                declared = value
            elif name == b"content-type":
                kind = value
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
