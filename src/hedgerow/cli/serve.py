"""``hedgerow serve``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import hedgerow.cli.options as options
import hedgerow.cli.server_options as server_options
from hedgerow.serve.limits import Limits

from .comparison_options import Accuracy, PromoteIf, deciding_option, margin_option
from .failures import ExitCode, Failure, failing_as
from .options import finite, limit_option, share_option
from .terminal import say

if TYPE_CHECKING:
    from hedgerow.comparison.promotion import Judge
    from hedgerow.serve.service import Service

NEEDED = ("fastapi", "uvicorn", "httptools", "prometheus_client")
TOKEN = "HEDGEROW_TOKEN"


CHANGE = "Another model"


@dataclass(frozen=True)
class Change:
    """What is asked of a model that is to answer, and the data to judge it on."""

    target: str
    data: tuple[Path, ...]
    by: str
    margin: float
    labels_field: str


@dataclass(frozen=True)
class Place:
    """Where to listen, and who may ask."""

    host: str
    port: int
    token_file: Path | None
    allow_hosts: tuple[str, ...] = ()


def serve(
    model: options.ModelFile,
    host: server_options.Host = "127.0.0.1",
    port: server_options.Port = 8000,
    queue: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The review queue. Default: MODEL.queue.sqlite.")
    ] = None,
    token_file: server_options.TokenFile = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Also answer requests whose Host header has this name. Needed behind a proxy: its public"
            " name if it passes Host on, or the name that it puts there if it rewrites Host; the server"
            " refuses other names with status 403. Needs a token. Repeat for more.",
        ),
    ] = None,
    threads: Annotated[
        int, typer.Option(min=0, help="Threads per prediction; 0 means all cores but one.")
    ] = 0,
    max_body: Annotated[int, limit_option("Bytes per request.", min=1)] = Limits.body,
    max_batch: Annotated[int, limit_option("Inputs per request.", min=1)] = Limits.batch,
    max_text: Annotated[int, limit_option("Characters per text.", min=1)] = Limits.text,
    max_seconds: Annotated[
        float, limit_option("Seconds per request.", min=0.01, callback=finite)
    ] = Limits.seconds,
    max_waiting: Annotated[
        int, limit_option("Inputs that wait at the same time; more get status 503.", min=1)
    ] = Limits.waiting,
    adapt: Annotated[
        float | None,
        share_option(
            "Let the threshold of accepted labels follow the reviews in the queue, so that in the long run at"
            " most this share of them is wrong, whatever drifts. For requests with the same wrong_at_most,"
            " and wrong_of labels (the share of all accepted labels) or inputs (the mean over all inputs)."
        ),
    ] = None,
    promote_if: Annotated[
        PromoteIf | None,
        typer.Option(
            help="Let a changed model file answer only if hedgerow compare says on the data of --judge-on"
            " that it is better, or no worse; otherwise the model before goes on.",
            rich_help_panel=CHANGE,
        ),
    ] = None,
    judge_on: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DATA",
            help="Labelled data that no model learned from, for --promote-if. Repeat for more.",
            rich_help_panel=CHANGE,
        ),
    ] = None,
    by: Annotated[Accuracy, deciding_option(CHANGE)] = Accuracy.ndcg_5,
    margin: Annotated[float, margin_option(CHANGE)] = 0.5,
    labels_field: Annotated[
        str,
        typer.Option(metavar="NAME", help="The field of --judge-on with the labels.", rich_help_panel=CHANGE),
    ] = "labels",
    shadow: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL2",
            help="Let this model answer what clients ask, too, without anyone seeing its answers; GET /shadow"
            " and /metrics say how they differ.",
            rich_help_panel=CHANGE,
        ),
    ] = None,
    shadow_share: Annotated[
        float,
        typer.Option(
            min=0.0001,
            max=1.0,
            callback=finite,
            help="The share of requests that the model of --shadow answers, too.",
            rich_help_panel=CHANGE,
        ),
    ] = 1.0,
) -> None:
    """Serve MODEL: a web page, an API, and a queue for reviewers.

    The page is at /, the description of the API at /openapi.json. SIGHUP, or POST /reload, loads MODEL again
    without dropping a request; SIGTERM and Ctrl-C finish the requests that have begun.

    Only this machine can reach the server, unless --host says otherwise. Then a token is needed: in the
    variable HEDGEROW_TOKEN or in --token-file.

    \b
    Examples:
      hedgerow serve tags.hedgerow
      hedgerow serve tags.hedgerow --host 0.0.0.0 --token-file token.txt
      hedgerow serve tags.hedgerow --allow-host tags.example.org --token-file token.txt
      hedgerow serve tags.hedgerow --promote-if no-worse --judge-on held-out.jsonl
      curl -s localhost:8000/predict --json '{"text": "an address book", "k": 3}'
    """  # noqa: D301
    limits = Limits(body=max_body, batch=max_batch, text=max_text, seconds=max_seconds, waiting=max_waiting)
    place = Place(host, port, token_file, tuple(allow_host or ()))
    if (promote_if is None) != (not judge_on):
        raise Failure(
            ExitCode.USAGE, "--promote-if and --judge-on need each other: what to ask, and on which data"
        )
    change = None
    if promote_if is not None:
        change = Change(promote_if.value, tuple(judge_on or ()), by.value, margin, labels_field)
    run_server(
        model,
        place,
        threads,
        limits,
        queue,
        adapt=adapt,
        change=change,
        shadow=None if shadow is None else (shadow, shadow_share),
    )


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


def run_server(
    model: Path,
    place: Place,
    threads: int,
    limits: Limits,
    queue: Path | None = None,
    about: str | None = None,
    texts: Sequence[str] = (),
    adapt: float | None = None,
    change: Change | None = None,
    shadow: tuple[Path, float] | None = None,
) -> None:
    """Take the port, load model and queue, put texts into the queue, and answer until stopped."""
    check_extra()
    from hedgerow.serve.queue_store import QueueError
    from hedgerow.serve.security import Access
    from hedgerow.serve.server import listen
    from hedgerow.serve.server import serve as answer
    from hedgerow.serve.service import ServerSettings, Service
    from hedgerow.serve.shadowing import ShadowSettings
    from hedgerow.storage.container import ModelFileError

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
            adapt,
            None if change is None else _judge(change),
            None if shadow is None else ShadowSettings(*shadow),
        )
        try:
            with failing_as(ExitCode.MODEL, ModelFileError):
                service = Service(settings)
            service.fill_queue(texts)
            _check_judge(service)
        except QueueError as error:
            raise Failure(ExitCode.WRITE, str(error)) from error
        name = f"[{place.host}]" if ":" in place.host else place.host

        def ready() -> None:
            address = f"http://{name}:{taken.getsockname()[1]}/"
            say(f"Serving {model} at {address} (Ctrl-C stops)")
            if about is not None:
                say(about)

        answer(service, access, taken, ready)


def _judge(change: Change) -> Judge:
    from hedgerow.comparison.held_rows import RowsWanted
    from hedgerow.comparison.promotion import Judge
    from hedgerow.comparison.results import ComparisonSettings

    rows = RowsWanted(change.data, labels_field=change.labels_field, threads=1)
    return Judge(rows, change.target, ComparisonSettings(change.by, change.margin))


def _check_judge(service: Service) -> None:
    """Refuse data that a model could not be judged on, before it is needed."""
    from hedgerow.data import DataError

    if service.promoter is not None:
        with failing_as(ExitCode.DATA, DataError, ValueError):
            service.promoter.check(service.slot.current)


def read_token(file: Path | None) -> str | None:
    """The token, from a file or from the environment."""
    if file is None:
        return os.environ.get(TOKEN) or None
    with failing_as(ExitCode.USAGE, UnicodeDecodeError):
        token = file.read_text(encoding="ascii").strip()
    if not token:
        raise Failure(ExitCode.USAGE, f"{file} is empty; write a token into it")
    return token
