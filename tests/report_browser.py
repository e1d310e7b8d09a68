"""A report page in Chromium, and what went wrong in it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pytest
from report_contents import a_content

from hedgerow.report import Content, render

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page


def no_browser(config: pytest.Config, reason: str) -> NoReturn:
    reason = f"the page needs a browser: {reason}; try `make chromium`"
    if config.getoption("--require-all"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser(pytestconfig: pytest.Config) -> Iterator[Browser]:
    # Other tests share this file's fixtures and need no browser.
    from playwright.sync_api import Error, expect, sync_playwright

    expect.set_options(timeout=60_000)  # what is expected comes, but late where the machine is busy
    chromium = shutil.which("chromium")
    if chromium is None:
        no_browser(pytestconfig, "chromium is not on the PATH")
    with sync_playwright() as driver:
        try:
            started = driver.chromium.launch(executable_path=chromium)
        except Error as error:
            no_browser(pytestconfig, str(error))
        yield started
        started.close()


@dataclass
class Opened:
    """A page, and what went wrong in it: messages, violations of the policy, requests, dialogs."""

    page: Page
    problems: list[str]

    def figure(self, name: str) -> Locator:
        return self.page.locator(f"#figure-{name}")


Open = Callable[..., Opened]


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    contexts = []
    opened: list[Opened] = []

    def open_(content: Content | None = None, width: int = 1280, scheme: str = "light") -> Opened:
        file = tmp_path / "report.html"
        file.write_text(render(content or a_content()), encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        found = Opened(page, [])
        page.on("console", lambda message: found.problems.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: found.problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (found.problems.append("dialog"), dialog.dismiss()))
        page.on("request", lambda r: r.url != file.as_uri() and found.problems.append(f"request: {r.url}"))
        page.add_init_script(
            "addEventListener('securitypolicyviolation',"
            " (event) => console.error('policy: ' + event.violatedDirective))"
        )
        page.goto(file.as_uri())
        opened.append(found)
        return found

    yield open_
    problems = [problem for one in opened for problem in one.problems]
    for context in contexts:
        context.close()
    assert problems == []


# The colours of all text that can be seen, with what lies behind it and its class.
TEXT_COLOURS = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    let behind = element;
    while (behind && getComputedStyle(behind).backgroundColor.endsWith(", 0)")) behind = behind.parentElement;
    const paper = getComputedStyle(behind ?? document.body).backgroundColor;
    const ink = element instanceof SVGElement ? style.fill : style.color;
    found.add(JSON.stringify([ink, paper, element.getAttribute("class")]));
  }
  return [...found].map((text) => JSON.parse(text));
}"""


def linear(colour: str) -> list[float]:
    """The channels of a colour as amounts of light."""
    channels = [float(part) / 255 for part in re.findall(r"[\d.]+", colour)[:3]]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]


def luminance(colour: str) -> float:
    return float(np.dot(linear(colour), [0.2126, 0.7152, 0.0722]))


def contrast(first: str, second: str) -> float:
    dark, light = sorted([luminance(first), luminance(second)])
    return (light + 0.05) / (dark + 0.05)


def place(figure: Locator, x: float, y: float) -> tuple[float, float]:
    """Where shares of the plot's width and height are on the screen."""
    figure.scroll_into_view_if_needed()
    box = figure.locator(".frame").bounding_box()
    assert box is not None
    return box["x"] + x * box["width"], box["y"] + (1 - y) * box["height"]


def violations(page: Page, scheme: str) -> list[tuple[str, list[str]]]:
    """The rules of accessibility that a page breaks, and where."""
    from axe_core_python.sync_playwright import Axe

    # The elements are the same in the dark; only their colours are not.
    options: dict[str, list[str]] = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}
    found = Axe().run(page, options={**options, "resultTypes": ["violations"]})
    return [(one["id"], [node["html"] for node in one["nodes"][:3]]) for one in found["violations"]]
