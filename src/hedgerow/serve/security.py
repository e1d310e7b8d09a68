"""Who may ask, and from where: host names, origins, tokens, and headers that restrict browsers."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import ApiError

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
# What a browser must load before it can ask for the token, and probes.
_OPEN = ("/", "/healthz", "/readyz", "/favicon.ico")
_PROXY = (
    "A proxy in front of it must pass on the Host that the browser sent (nginx: proxy_set_header Host"
    " $http_host;), and --allow-host NAME must allow that name"
)
_SHOWN = 100  # characters of a header in an error
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Access:
    """Who may ask: with which token, and under which host names; None is any.

    Without the check of names, a page of another site could let its own name point to this machine and read
    the answers (DNS rebinding).
    """

    token: str | None = None
    hosts: frozenset[str] | None = frozenset(_LOOPBACK_NAMES)

    @classmethod
    def of(cls, host: str, token: str | None, more: Collection[str] = ()) -> Access:
        """Decide by the address that the server listens on, and by further names that a proxy gives it.

        Raises `ValueError` if others can reach it and there is no token.
        """
        if token is not None and (not token.isascii() or not token.isprintable() or len(token) < 16):
            raise ValueError("the token must be at least 16 printable ASCII characters")
        if not is_loopback(host) or not all(is_loopback(name) for name in more):
            if token is None:
                reached = host if not is_loopback(host) else ", ".join(more)
                raise ValueError(
                    f"others can reach {reached}, so a token is needed: set HEDGEROW_TOKEN or --token-file"
                )
            if not is_loopback(host):
                return cls(token, None)
        return cls(token, frozenset((*_LOOPBACK_NAMES, host.lower(), *(name.lower() for name in more))))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guarded:
    """Wraps an application, and lets through who may ask."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._token = None if access.token is None else access.token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                headers += _HEADERS
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message["headers"] = headers
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, guarded_send)
        except ApiError as error:
            await error.response()(scope, receive, guarded_send)

    def _check(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in headers and name in (b"host", b"authorization", b"origin", b"content-length"):
                raise ApiError(400, "headers", f"the header {name.decode()} occurs twice")
            headers[name] = value
        host = headers.get(b"host", b"").decode("latin-1").lower()
        hosts = self._access.hosts
        if hosts is not None and _name(host) not in hosts:
            raise _wrong_host(_name(host))
        if scope["method"] not in _SAFE_METHODS:
            origin = headers.get(b"origin")
            site = headers.get(b"sec-fetch-site", b"none")
            # The scheme may differ behind a proxy; name and port may not.
            if (origin is not None and _place(origin) != host) or site not in (b"same-origin", b"none"):
                raise _wrong_origin(origin, host)
        is_open = scope["path"] in _OPEN or scope["path"].startswith("/static/")
        if self._token is not None and not is_open:
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            if kind.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._token):
                raise ApiError(401, "token", "send the server's token as 'Authorization: Bearer TOKEN'")


def _wrong_host(name: str) -> ApiError:
    shown = name[:_SHOWN]
    seen = f"the request came with the Host {shown!r}" if shown else "the request has no Host header"
    return ApiError(
        403,
        "host",
        f"{seen}, and this server does not answer under that name. If it is one of its names, start it"
        f" with --allow-host {shown or 'NAME'}. {_PROXY}",
    )


def _wrong_origin(origin: bytes | None, host: str) -> ApiError:
    page = "another site" if origin is None else origin.decode("latin-1")[:_SHOWN]
    return ApiError(
        403,
        "origin",
        f"the request came from a page of {page}, but with the Host {host[:_SHOWN]!r}: pages of other sites"
        f" may not use this server. {_PROXY}",
    )


def _name(host: str) -> str:
    """The host without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _place(origin: bytes) -> str | None:
    try:
        return urlsplit(origin.decode("latin-1").lower()).netloc or None
    except ValueError:
        return None
