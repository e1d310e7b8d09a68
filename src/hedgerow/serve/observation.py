"""The outermost layer: counts and logs every request, and lets no exception out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from .errors import ApiError, error_body
from .logs import log_event, log_failure
from .metrics import Metrics

__all__ = ["BUG", "ASGIApp", "Message", "Observed", "Receive", "Scope", "Send", "answer"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

BUG = error_body("internal", "the server has a bug; see its log")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


async def answer(
    send: Send, status: int, body: bytes, headers: dict[str, str], kind: str = "application/json"
) -> None:
    """Send a whole answer."""
    fields = {"Content-Type": kind, "Content-Length": str(len(body)), **headers}
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in fields.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})


class Observed:
    """Wraps an application, counts its requests in `metrics`, and logs them."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = time.perf_counter()
        status = 0
        size = 0

        async def observed_send(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)

        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, observed_send)
        except ApiError as error:
            await answer(observed_send, error.status, error.body(), error.headers)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log_failure(error, path=_route(scope))
            if not status:
                await answer(observed_send, 500, BUG, {})
        finally:
            self._metrics.in_flight.dec()
            seconds = time.perf_counter() - begin
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.request(method, _route(scope), status, seconds)
            log_event(
                "request",
                method=method,
                path=_route(scope),
                status=status,
                ms=round(1000 * seconds, 3),
                bytes=size,
                **scope.get("hedgerow.facts", {}),
            )


def _route(scope: Scope) -> str:
    """The route's template: what clients write into a path is neither logged nor counted apart."""
    return getattr(scope.get("route"), "path", "other")
