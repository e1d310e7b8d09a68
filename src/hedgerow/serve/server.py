"""The process: socket, signals, event loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import uvicorn

from .app import build
from .connection import connections
from .errors import ApiError
from .logs import log_event, set_up_logs
from .security import Access
from .service import Service

_BACKLOG = 2048
_LAST_SECONDS = 30  # for requests in flight when the server stops
# The engine's thread must not wait long for the interpreter when it has an answer; 5 ms is the default.
_SWITCH = 0.0005


def listen(host: str, port: int) -> socket.socket:
    """Take a port, before a model is loaded in vain; 0 takes any that is free. `OSError` says why it cannot.

    SIGHUP is ignored until `serve` handles it.
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
    # Only the main thread may say what becomes of signals.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return taken


def serve(service: Service, access: Access, taken: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until SIGTERM or Ctrl-C, and then finish what is in flight. SIGHUP re-loads the model.

    `ready` is called when the first request can come.
    """
    set_up_logs()
    sys.setswitchinterval(_SWITCH)

    @contextlib.asynccontextmanager
    async def running() -> AsyncIterator[None]:
        with _signals(server, service):
            log_event("ready", model=service.slot.current.id)
            ready()
            yield

    config = uvicorn.Config(
        build(service, access, running),
        http=connections(service.limits.seconds),
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=_LAST_SECONDS,
        proxy_headers=False,
    )
    server = uvicorn.Server(config)
    # What lives as long as the process need not be looked at by every collection of garbage.
    gc.collect()
    gc.freeze()
    server.run(sockets=[taken])


@contextlib.contextmanager
def _signals(server: uvicorn.Server, service: Service) -> Iterator[None]:
    """Handle signals in the event loop; uvicorn's own handlers would end the process by the signal."""
    loop = asyncio.get_running_loop()
    reloads: set[asyncio.Task[None]] = set()

    def stop(number: signal.Signals) -> None:
        log_event("stopping", signal=number.name)
        if server.should_exit and number == signal.SIGINT:  # Ctrl-C twice
            server.force_exit = True
        server.should_exit = True

    async def try_reload() -> None:
        with contextlib.suppress(ApiError):  # the log has it
            await service.reload()

    def reload() -> None:
        task = loop.create_task(try_reload())
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    loop.add_signal_handler(signal.SIGHUP, reload)
    if service.promoter is not None:  # MODEL may have changed while no server ran
        reload()
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
