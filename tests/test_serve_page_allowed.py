"""The served page where only some labels may be answered, or broader terms too."""

from __future__ import annotations

import json
from typing import Any

import pytest
from broader_trees import a_vague_text, tree_model
from playwright.sync_api import Page, Request, expect
from report_browser import violations
from serve_browser import OpenPage
from test_named_output import LABELS, TEXTS
from test_serve_page import Serve

from hedgerow import HedgerowTextClassifier
from hedgerow.vocabulary.building import Builder
from hedgerow.vocabulary.vocabulary import Vocabulary

TEXT = "a thorny evergreen shrub"


@pytest.fixture
def schemed() -> HedgerowTextClassifier:
    """t:1 and t:2 are below t:9, which is no label; t:3 and t:4 are in another scheme."""
    builder = Builder()
    for number, scheme in ((1, "t:wood"), (2, "t:wood"), (3, "t:herb"), (4, "t:herb"), (9, "t:wood")):
        builder.entry(f"t:{number}")
        builder.name(f"plant {number}", "en", True)
        builder.scheme(scheme)
        if number < 3:
            builder.broader("t:9")
    model = HedgerowTextClassifier(method="bagging", members=3, random_state=0, n_jobs=1)
    return model.fit(TEXTS, LABELS, vocabulary=Vocabulary(builder.finish()))


def chosen(page: Page, name: str) -> None:
    if not page.locator("#restrict").get_attribute("open"):
        page.locator("#restrict").evaluate("(one) => (one.open = true)")
    page.locator("#restrict-picker").fill(name)
    expect(page.get_by_role("option").first).to_contain_text(name)
    page.keyboard.press("Enter")


def answered(page: Page) -> list[str]:
    return [one.get_attribute("title") or "" for one in page.locator("#answer .found-name bdi").all()]


def test_subtree_chosen_then_only_what_is_below_is_answered(
    schemed: HedgerowTextClassifier, serve_model: Serve, open_served: OpenPage
) -> None:
    opened = open_served(serve_model(schemed))
    page = opened.page
    opened.ask(TEXT)
    assert set(answered(page)) == {"t:1", "t:2", "t:3", "t:4"}
    chosen(page, "plant 9")
    kind = page.get_by_label("What is meant by plant 9")
    expect(kind).to_be_focused()
    expect(kind).to_have_value("only_subtree")
    opened.ask(TEXT)
    expect(page.locator("#restricted")).to_contain_text("Only some labels were asked for")
    assert set(answered(page)) == {"t:1", "t:2"}
    kind.select_option("exclude_subtree")
    opened.ask(TEXT)
    expect(page.locator("#answer .found")).to_have_count(2)
    assert set(answered(page)) == {"t:3", "t:4"}
    assert violations(page, "light") == []
    page.get_by_role("button", name="Remove plant 9").click()
    expect(page.locator("#restrict-picker")).to_be_focused()
    opened.ask(TEXT)
    expect(page.locator("#answer .found")).to_have_count(4)
    expect(page.locator("#restricted")).to_have_count(0)


def test_scheme_and_label_chosen_then_the_question_names_both(
    schemed: HedgerowTextClassifier, serve_model: Serve, open_served: OpenPage
) -> None:
    opened = open_served(serve_model(schemed))
    page = opened.page
    sent: list[dict[str, Any]] = []

    def note(request: Request) -> None:
        if request.url.endswith("/predict"):
            sent.append(json.loads(request.post_data or "{}"))

    page.on("request", note)
    chosen(page, "plant 3")
    page.get_by_label("What is meant by plant 3").select_option("exclude")
    page.get_by_label("Scheme").select_option("t:herb")
    expect(page.locator("#restrict summary")).to_have_text("Answer only some labels (two choices)")
    opened.ask(TEXT)
    assert answered(page) == ["t:4"]
    assert sent[-1]["exclude"] == ["t:3"]
    assert sent[-1]["only_scheme"] == ["t:herb"]


def test_name_that_the_server_does_not_know_then_it_cannot_be_chosen(
    schemed: HedgerowTextClassifier, serve_model: Serve, open_served: OpenPage
) -> None:
    opened = open_served(serve_model(schemed))
    page = opened.page
    page.locator("#restrict summary").click()
    with page.expect_response("**/labels?*"):
        page.locator("#restrict-picker").fill("zzzz")
    page.keyboard.press("Enter")
    expect(page.locator(".restricted li")).to_have_count(0)
    expect(page.locator("#restrict-picker")).to_have_attribute("aria-expanded", "false")


def test_broader_terms_opened_then_they_are_those_of_the_library(
    serve_model: Serve, open_served: OpenPage
) -> None:
    model = tree_model()
    opened = open_served(serve_model(model))
    page = opened.page
    text = a_vague_text(model)
    opened.ask(text)
    section = page.locator("#broader")
    expect(section.locator(".found")).to_have_count(0)
    section.locator("summary").click()
    own = model.decide([text], wrong_at_most=0.1, broader=True)
    expect(section.locator(".found-name bdi")).to_have_text(
        [f"{term}s" for term in own[0].broader] + own[0].accept
    )
    expect(section).to_contain_text("At most 10 % of an input's accepted labels and broader terms are wrong")
    assert violations(page, "light") == []
