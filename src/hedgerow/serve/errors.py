"""What goes wrong with a request, as its sender sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response


class ApiError(Exception):
    """A refusal: a word for programs, what is wrong and how to fix it, and where in the request."""

    def __init__(
        self, status: int, code: str, message: str, where: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.where = where
        self.retry_after = retry_after

    def response(self) -> Response:
        """The answer."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return refusal(self.status, error_body(self.code, self.message, self.where), headers)


def overloaded(reason: str) -> ApiError:
    """The refusal of a server that has too much to do."""
    return ApiError(503, "overloaded", f"{reason}; try again later", retry_after=1)


def refusal(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    """An answer with a body as `error_body` makes it."""
    return Response(body, status, headers, media_type="application/json")


def error_body(code: str, message: str, where: str | None = None) -> bytes:
    """Write the body that every refusal has."""
    error: dict[str, Any] = {"code": code, "message": _encodable(message)}
    if where is not None:
        error["where"] = _encodable(where)
    return orjson.dumps({"error": error})


def _encodable(text: str) -> str:
    """Without halves of surrogate pairs, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()
