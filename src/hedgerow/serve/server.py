"""The process: socket, signals, event loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn

from .app import build
from .connection import connections
from .errors import ApiError
from .logs import LOGGER, set_up_logs
from .security import Access
from .service import Service

__all__ = ["listen", "serve"]

_BACKLOG = 2048
_LAST_SECONDS = 30  # for what is in flight when the server is told to stop
# The engine's thread must not wait long for the interpreter when it has an answer; 5 ms is the default.
_SWITCH = 0.0005


def listen(host: str, port: int) -> socket.socket:
    """Take the port, before a model is loaded in vain. SIGHUP is ignored until `serve` handles it.

    Parameters
    ----------
    host : str
        Address or name.
    port : int
        0 takes any that is free.

    Returns
    -------
    socket

    Raises
    ------
    OSError
        If it cannot be had; the message says which.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        taken = socket.socket(family, kind, protocol)
    except OSError as error:
        raise OSError(f"cannot listen on {host}: {error.strerror or error}") from error
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        taken.listen(_BACKLOG)
    except OSError as error:
        taken.close()
        raise OSError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another --port, or 0 for any"
        ) from error
    _ignore_hang_up()
    return taken


def serve(service: Service, access: Access, taken: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until SIGTERM or Ctrl-C, and then finish what is in flight. SIGHUP loads the model anew.

    Parameters
    ----------
    service : Service
        What answers.
    access : Access
        Who may ask.
    taken : socket
        Where to listen.
    ready : callable
        Called when the first request can come.
    """
    set_up_logs()
    sys.setswitchinterval(_SWITCH)
    config = uvicorn.Config(
        build(service, access),
        http=connections(service.limits.seconds),
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=_LAST_SECONDS,
        proxy_headers=False,
    )
    # What lives as long as the process need not be looked at by every collection of garbage.
    gc.collect()
    gc.freeze()
    server = _Server(config, service, ready)
    server.run(sockets=[taken])


def _ignore_hang_up() -> None:
    # Only the main thread may say what becomes of signals.
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._service = service
        self._ready = ready
        self._reloads: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.should_exit:
            return
        if hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)
        LOGGER.info("ready", extra={"facts": {"model": self._service.slot.current.id}})
        self._ready()

    def _reload(self) -> None:
        task = asyncio.get_running_loop().create_task(self._try_reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _try_reload(self) -> None:
        with contextlib.suppress(ApiError):  # the log has it
            await self._service.reload()

    # uvicorn's own would end the process by the signal again; a server that was told to stop ends well.
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            LOGGER.info("stopping", extra={"facts": {"signal": signal.Signals(number).name}})
            self.handle_exit(number, frame)

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
