"""The served page of a model with a vocabulary, in a browser whose language is English."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect
from report_browser import violations
from serve_browser import OpenPage
from test_named_output import LABELS, TEXTS
from test_serve_page import Serve
from vocabularies import made

from hedgerow import HedgerowTextClassifier

HOSTILE = "<img src=x onerror=alert(1)> holly"
NAMES = {"t:1": "hawthorn", "t:2": HOSTILE, "t:3": "t:3", "t:4": "Baum"}


@pytest.fixture
def named() -> HedgerowTextClassifier:
    """t:3 has no name, t:4 no English one, and t:5 is no label."""
    vocabulary = made(
        {"id": "t:1", "names": [("Weißdorn", "de", True), ("hawthorn", "en", True)]},
        {"id": "t:2", "names": [("Stechpalme", "de", True), (HOSTILE, "en", True)]},
        {"id": "t:3"},
        {"id": "t:4", "names": [("Baum", "de", True)]},
        {"id": "t:5", "names": [("Strauch", "de", True), ("shrub", "en", True), ("Busch", "de", False)]},
    )
    model = HedgerowTextClassifier(method="bagging", members=3, random_state=0, n_jobs=1)
    return model.fit(TEXTS, LABELS, vocabulary=vocabulary)


def test_answer_then_labels_have_their_names_and_ids_as_tooltips(
    named: HedgerowTextClassifier, serve_model: Serve, open_served: OpenPage
) -> None:
    server = serve_model(named)
    opened = open_served(server)
    page = opened.page
    opened.ask("a thorny evergreen shrub")
    expected = server.model.top(["a thorny evergreen shrub"], k=4).labels[0].tolist()
    shown = page.locator(".found-name bdi")
    assert shown.all_text_contents() == [NAMES[label] for label in expected]
    titles = [one.get_attribute("title") for one in shown.all()]
    assert titles == [None if NAMES[label] == label else label for label in expected]
    assert page.locator("#answer img").count() == 0
    expect(page.locator("#ask-status")).to_contain_text(NAMES[expected[0]])
    opened.row("hawthorn").get_by_role("button", name="Why? hawthorn").click()
    expect(page.locator(".why-words h4").first).to_be_visible()
    assert violations(page, "light") == []


def test_missing_label_then_it_is_found_by_any_name_and_stored_by_its_id(
    named: HedgerowTextClassifier, serve_model: Serve, open_served: OpenPage
) -> None:
    server = serve_model(named)
    server.service.fill_queue(["a thorny shrub", "an evergreen tree"])
    (first, _) = server.service.store.waiting(2)
    opened = open_served(server, "#review")
    page = opened.page
    desk = page.locator(".desk")
    expect(desk).to_be_visible()
    shown = desk.locator(".choice bdi").all_text_contents()
    assert shown == [NAMES[one["label"]] for one in first.prediction["labels"]]
    page.locator("#picker").fill("Bucsh")
    option = page.get_by_role("option").first
    expect(option.locator("bdi")).to_have_text("shrub")
    expect(option).to_contain_text("“Busch”, 0 examples")
    page.keyboard.press("Enter")
    added = desk.locator(".choice bdi").last
    expect(added).to_have_text("shrub")
    expect(added).to_have_attribute("title", "t:5")
    page.keyboard.press("Enter")
    expect(page.locator("#review-status")).to_contain_text("Corrected.")
    page.keyboard.press("b")
    expect(desk.locator(".choice bdi").last).to_have_text("shrub")
    page.keyboard.press("Enter")
    expect(page.locator("#review-status")).to_contain_text("One text left.")
    with page.expect_download() as download:
        page.locator("#export").click()
    record = json.loads(download.value.path().read_text())
    assert "t:5" in record["labels"]
    assert record["names"][record["labels"].index("t:5")] == "Strauch"
