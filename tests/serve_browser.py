"""A server on this machine, its page in Chromium, and what went wrong in it."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hedgerow import HedgerowClassifier
from hedgerow.cli.demonstration import prepare

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Route

    from hedgerow.serve.service import Service


@dataclass
class Server:
    """A server that runs, with what it serves."""

    url: str
    service: Service
    model: HedgerowClassifier
    texts: list[str] = field(default_factory=list)


@contextmanager
def serving(
    model: HedgerowClassifier, folder: Path, token: str | None = None, **settings: Any
) -> Iterator[Server]:
    """Serve a model from another thread until the block ends."""
    # Other tests share this file's fixtures and need no server.
    import uvicorn

    from hedgerow.serve.app import build
    from hedgerow.serve.security import Access
    from hedgerow.serve.server import listen
    from hedgerow.serve.service import ServerSettings, Service

    file = folder / "served.hedgerow"
    model.save(file)
    service = Service(ServerSettings(file, folder / "queue.sqlite", **settings))
    up = threading.Event()

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        up.set()
        yield

    taken = listen("127.0.0.1", 0)
    app = build(service, Access.of("127.0.0.1", token), running)
    server = uvicorn.Server(uvicorn.Config(app, lifespan="on", log_config=None, ws="none"))
    thread = threading.Thread(target=server.run, args=([taken],))
    thread.start()
    try:
        assert up.wait(60)
        yield Server(f"http://127.0.0.1:{taken.getsockname()[1]}/", service, model)
    finally:
        server.should_exit = True
        thread.join(60)
        taken.close()


@pytest.fixture(scope="session")
def demo_model() -> tuple[HedgerowClassifier, list[str]]:
    """What ``hedgerow demo --serve`` serves, and the texts that wait there for review."""
    return prepare(n_jobs=2)


@pytest.fixture
def serve_model(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    with ExitStack() as stack:

        def serve(model: HedgerowClassifier, token: str | None = None) -> Server:
            return stack.enter_context(serving(model, tmp_path, token))

        yield serve


@pytest.fixture(scope="module")
def demo_server(
    demo_model: tuple[HedgerowClassifier, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The demonstration, with an empty queue. Tests that fill it serve their own."""
    with serving(demo_model[0], tmp_path_factory.mktemp("demo")) as server:
        yield server


@dataclass
class OpenedPage:
    """A page, and what went wrong in it: messages, violations of the policy, foreign requests, dialogs."""

    page: Page
    problems: list[str]

    def ask(self, text: str) -> None:
        self.page.locator("#suggest:enabled").wait_for()
        self.page.locator("#text").fill(text)
        self.page.locator("#text").press("Control+Enter")
        self.page.locator("#answer:not([aria-busy]) .found").first.wait_for()

    def group(self, name: str) -> list[str]:
        """The labels under a decision."""
        return self.page.locator(f".group.{name} .found-name bdi").all_text_contents()

    def reveal(self) -> None:
        """Show all labels that the page has."""
        more = self.page.locator(".rest .more:visible")
        while more.count():
            more.first.click()

    def row(self, label: str) -> Locator:
        return self.page.locator(".found").filter(
            has=self.page.locator(".found-name").get_by_text(label, exact=True)
        )

    def refused(self, *statuses: int) -> None:
        """Forget that the browser told of refusals that the test wanted."""
        wanted = tuple(f"status of {status} " for status in statuses)
        self.problems[:] = [one for one in self.problems if not any(part in one for part in wanted)]


OpenPage = Callable[..., OpenedPage]


@pytest.fixture
def open_served(browser: Browser) -> Iterator[OpenPage]:
    """Open the page of a server; `answers` replaces the server's answers by paths."""
    contexts = []
    opened: list[OpenedPage] = []

    def open_(
        server: Server,
        part: str = "",
        width: int = 1280,
        scheme: str = "light",
        answers: Mapping[str, Any] | None = None,
    ) -> OpenedPage:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]
            reduced_motion="reduce",
            accept_downloads=True,
        )
        contexts.append(context)
        page = context.new_page()
        found = OpenedPage(page, [])
        page.on("console", lambda message: found.problems.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: found.problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (found.problems.append("dialog"), dialog.dismiss()))
        page.on("request", lambda r: _is_ours(r.url, server) or found.problems.append(f"request: {r.url}"))
        page.add_init_script(
            "addEventListener('securitypolicyviolation',"
            " (event) => console.error('policy: ' + event.violatedDirective))"
        )
        for path, answer in (answers or {}).items():
            page.route(server.url + path, _answering(answer))
        page.goto(server.url + part)
        opened.append(found)
        return found

    yield open_
    problems = [problem for one in opened for problem in one.problems]
    for context in contexts:
        context.close()
    assert problems == []


def _is_ours(url: str, server: Server) -> bool:
    return url.startswith((server.url, f"blob:{server.url}"))


def _answering(answer: Any) -> Callable[[Route], None]:
    if callable(answer):
        return answer  # type: ignore[no-any-return]
    return lambda route: route.fulfill(status=200, content_type="application/json", body=json.dumps(answer))
