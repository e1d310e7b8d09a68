"""The outermost layer: counts and logs every request, and lets no exception out."""

from __future__ import annotations

import asyncio
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import ApiError, error_body, refusal
from .logs import log_event, log_failure
from .metrics import Metrics

BUG = error_body("internal", "the server has a bug; see its log")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


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
            await error.response()(scope, receive, observed_send)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log_failure(error, path=_route(scope))
            if not status:
                await refusal(500, BUG)(scope, receive, observed_send)
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
    route = scope.get("route")
    return "other" if route is None else str(route.path)
