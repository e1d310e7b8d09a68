"""``hedgerow serve``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from hedgerow.storage.container import ModelFileError

from .failures import ExitCode, Failure, failing_as
from .terminal import cell

if TYPE_CHECKING:
    from hedgerow.serve.limits import Limits

NEEDED = ("fastapi", "uvicorn", "httptools", "prometheus_client")
TOKEN = "HEDGEROW_TOKEN"


@dataclass(frozen=True)
class Place:
    """Where to listen, and who may ask."""

    host: str
    port: int
    token_file: Path | None
    allow_hosts: tuple[str, ...] = ()


def check_extra() -> None:
    """Fail if the packages of the extra ``serve`` are not installed."""
    for name in NEEDED:
        try:
            import_module(name)
        except ImportError as error:
            raise Failure(
                ExitCode.USAGE,
                f"the server needs the package {name} ({error}); install it with: pip install"
                " 'hedgerow[serve]'",
            ) from error


def run_serve(
    model: Path,
    place: Place,
    queue: Path | None,
    threads: int,
    limits: Limits,
    about: str | None = None,
    texts: Sequence[str] = (),
) -> None:
    """Take the port, load model and queue, put texts into the queue, and answer until told to stop."""
    check_extra()
    from hedgerow.serve.queue_store import QueueError
    from hedgerow.serve.security import Access
    from hedgerow.serve.server import listen, serve
    from hedgerow.serve.service import ServerSettings, Service

    token = read_token(place.token_file)
    with failing_as(ExitCode.USAGE, ValueError):
        access = Access.of(place.host, token, place.allow_hosts)
    with failing_as(ExitCode.USAGE):
        taken = listen(place.host, place.port)
    with taken:
        settings = ServerSettings(
            model,
            queue or model.with_name(f"{model.name}.queue.sqlite"),
            threads or max(1, (os.cpu_count() or 1) - 1),
            limits,
        )
        try:
            with failing_as(ExitCode.MODEL, ModelFileError):
                service = Service(settings)
            service.fill_queue(texts)
        except QueueError as error:
            raise Failure(ExitCode.WRITE, str(error)) from error
        console = Console(highlight=False)
        name = f"[{place.host}]" if ":" in place.host else place.host

        def ready() -> None:
            address = f"http://{name}:{taken.getsockname()[1]}/"
            console.print(cell(f"Serving {model} at {address} (Ctrl-C stops)"), soft_wrap=True)
            if about is not None:
                console.print(cell(about), soft_wrap=True)

        serve(service, access, taken, ready)


def read_token(file: Path | None) -> str | None:
    """The token, from a file or from the environment."""
    if file is None:
        return os.environ.get(TOKEN) or None
    with failing_as(ExitCode.USAGE, UnicodeDecodeError):
        token = file.read_text(encoding="ascii").strip()
    if not token:
        raise Failure(ExitCode.USAGE, f"{file} is empty; write a token into it")
    return token
