"""The panel of the served page that learns from reviews: four steps, the verdict, and the way back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect
from report_browser import violations
from reviewed_models import REVIEWS, Desk, desk, recorded_model
from serve_browser import OpenPage, Server, serving

from hedgerow import load
from hedgerow.comparison import Judge, RowsWanted
from hedgerow.comparison.model_files import file_id
from hedgerow.comparison.results import ComparisonSettings

__all__ = ["desk", "recorded_model"]

IDLE: dict[str, Any] = {
    "state": "idle",
    "stage": None,
    "share": None,
    "reviewed": 7,
    "waiting": 3,
    "obstacle": None,
    "can_roll_back": False,
    "outcome": None,
    "failure": None,
}
WORKING = {**IDLE, "state": "running", "reviewed": None, "waiting": None}
OUTCOME: dict[str, Any] = {
    "learned": 3,
    "known": 4,
    "added": 2,
    "corrected": 1,
    "promoted": True,
    "verdict": "no worse",
    "words": "no worse: <b>ndcg@5</b> falls by 0.1 at most",
}


class Answers:
    """Answers of GET /learn, one after the other; the last stays. Notes what was posted."""

    def __init__(self, *told: dict[str, Any]) -> None:
        self.told = list(told)
        self.posted: list[str] = []

    def __call__(self, route: Route) -> None:
        if route.request.method == "POST":
            self.posted.append(route.request.url.rpartition("/")[2])
            answer: dict[str, Any] = {}
        else:
            answer = self.told.pop(0) if len(self.told) > 1 else self.told[0]
        route.fulfill(status=200, content_type="application/json", body=json.dumps(answer))


@pytest.fixture
def show(demo_server: Server, open_served: OpenPage) -> Callable[..., tuple[Page, Answers]]:
    """Opens the page of a server that tells of learning what a test wants."""

    def show_one(*told: dict[str, Any], width: int = 1280, scheme: str = "light") -> tuple[Page, Answers]:
        answers = Answers(*told)
        routes = {"learn": answers, "rollback": answers}
        opened = open_served(demo_server, "#review", width, scheme, routes)
        expect(opened.page.locator("#learn-words")).not_to_be_empty()
        return opened.page, answers

    return show_one


def steps(page: Page) -> list[str]:
    return page.locator("#learn-steps li .hint").all_text_contents()


def current(page: Page) -> list[str]:
    return page.locator("#learn-steps li[aria-current=step] b").all_text_contents()


def learn_button(page: Page) -> Any:
    return page.get_by_role("button", name="Learn from reviews")


def back_button(page: Page) -> Any:
    return page.get_by_role("button", name="Go back to the previous model")


def test_reviewed_texts_then_it_says_how_many_are_new(show: Callable[..., Any]) -> None:
    page, _ = show(IDLE)
    assert page.locator("#learn-steps b").all_text_contents() == ["Review", "Update", "Compare", "Promote"]
    assert steps(page) == ["Seven texts reviewed, 3 not learned yet", "", "", ""]
    assert current(page) == []
    expect(learn_button(page)).to_be_enabled()
    expect(back_button(page)).to_be_hidden()
    expect(page.get_by_role("progressbar")).to_be_hidden()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"obstacle": "start it with <i>--judge-on</i>"},
            "Nothing can be learned now: start it with <i>--judge",
        ),
        ({"waiting": 0}, "The model has learned all reviewed texts already."),
    ],
)
def test_nothing_to_learn_then_it_says_why_and_the_button_cannot_be_pressed(
    show: Callable[..., Any], changes: dict[str, Any], words: str
) -> None:
    page, _ = show({**IDLE, **changes})
    expect(page.locator("#learn-words")).to_contain_text(words)
    expect(learn_button(page)).to_be_disabled()


def test_learning_then_its_steps_follow_and_the_bar_never_goes_back(show: Callable[..., Any]) -> None:
    page, answers = show(IDLE)
    page.evaluate(
        "(() => { window.values = []; const bar = document.getElementById('learn-bar');"
        " new MutationObserver(() => values.push([bar.value, bar.hidden]))"
        ".observe(bar, { attributes: true }); })()"
    )
    running = [
        {"stage": "updating", "share": 0.75},
        {"stage": "updating", "share": 0.25},
        {"stage": "comparing", "share": 0.5},
    ]
    answers.told = [{**WORKING, **told} for told in running]
    learn_button(page).click()
    expect(page.locator("#learn-steps li[aria-current=step] b")).to_have_text("Update")
    expect(page.locator("#learn-words")).to_have_text(
        "Updating a copy of the model with what was reviewed. The model goes on answering."
    )
    expect(learn_button(page)).to_be_disabled()
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.locator("#learn-steps li[aria-current=step] b")).to_have_text("Compare")
    assert steps(page)[0] == "Seven texts reviewed, 3 not learned yet"  # what it was before
    answers.told = [{**IDLE, "state": "done", "waiting": 0, "outcome": OUTCOME, "can_roll_back": True}]
    expect(page.locator("#learn-words")).to_have_text(
        "The updated model is no worse: <b>ndcg@5</b> falls by 0.1 at most. It answers now."
    )
    assert answers.posted == ["learn"]
    assert steps(page) == [
        "Seven texts reviewed, all learned",
        "2 added, 1 corrected",
        "no worse",
        "it answers now",
    ]
    values = [value for value, hidden in page.evaluate("values") if not hidden]
    assert values == sorted(values)
    assert max(values) == pytest.approx((1 + 0.5) / 3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"verdict": "worse", "words": "worse: ndcg@5 falls by 9"},
            "The updated model is worse: ndcg@5 falls by 9. So the model stays as it was.",
        ),
        (
            {"verdict": None, "words": "the old model is calibrated and the new one is not"},
            "The updated model was refused: the old model is calibrated and the new one is not. So the model"
            " stays as it was.",
        ),
    ],
)
def test_refused_update_then_it_says_why(
    show: Callable[..., Any], changes: dict[str, Any], words: str
) -> None:
    outcome = {**OUTCOME, "promoted": False, **changes}
    page, _ = show({**IDLE, "state": "done", "outcome": outcome})
    expect(page.locator("#learn-words")).to_have_text(words)
    assert steps(page)[2:] == [changes["verdict"] or "", "refused"]
    expect(learn_button(page)).to_be_enabled()


def test_failure_then_it_is_an_alert_with_the_reason(show: Callable[..., Any]) -> None:
    page, _ = show({**IDLE, "state": "failed", "failure": "no such file: <b>held.jsonl</b>"})
    expect(page.locator("#learn-trouble")).to_have_text(
        "Learning failed, and the model is as it was: no such file: <b>held.jsonl</b>."
    )


def test_way_back_then_it_is_taken_and_said(show: Callable[..., Any]) -> None:
    page, answers = show({**IDLE, "can_roll_back": True}, IDLE)
    back_button(page).click()
    expect(page.locator("#learn-words")).to_have_text("The previous model answers again.")
    assert answers.posted == ["rollback"]
    expect(back_button(page)).to_be_hidden()
    expect(page.locator("#learn-title")).to_be_focused()  # the button with the focus is gone


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_panel_at_work_then_the_checker_of_accessibility_finds_nothing_and_it_fits(
    show: Callable[..., Any], width: int, scheme: str
) -> None:
    at_work = {**WORKING, "stage": "comparing", "share": 0.5, "can_roll_back": True, "outcome": OUTCOME}
    page, _ = show(at_work, width=width, scheme=scheme)
    assert current(page) == ["Compare"]
    assert violations(page, scheme) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


# --- with a server that learns ---


@pytest.fixture
def teaching(desk: Desk) -> Iterator[tuple[Server, Desk]]:
    judge = Judge(RowsWanted((desk.held,), threads=1), settings=ComparisonSettings(margin=90, draws=100))
    served = Desk(desk.model.with_name("served.hedgerow"), desk.model.with_name("queue.sqlite"), desk.held)
    model = load(desk.model)
    model.records()  # so that they are saved with it
    with serving(model, desk.model.parent, judge=judge) as server:
        yield server, served


def test_review_learn_and_go_back_then_the_server_answers_with_each_model(
    teaching: tuple[Server, Desk], open_served: OpenPage
) -> None:
    server, served = teaching
    old = file_id(served.model)
    served.review_more()
    page = open_served(server, "#review").page
    expect(page.locator("#learn-steps li").first).to_contain_text(f"{REVIEWS} not learned yet")
    learn_button(page).click()
    expect(page.locator("#learn-words")).to_contain_text("It answers now.", timeout=60_000)
    assert steps(page)[0].endswith("all learned")
    assert steps(page)[1] == f"{REVIEWS} added, 0 corrected"
    new = server.service.slot.current.id
    assert new == file_id(served.model) != old
    back_button(page).click()
    expect(page.locator("#learn-words")).to_have_text("The previous model answers again.")
    assert server.service.slot.current.id == old
    expect(learn_button(page)).to_be_enabled()
