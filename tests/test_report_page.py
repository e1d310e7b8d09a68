"""The report page, in a browser: it shows what it was given, runs nothing else, and all can use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

import pytest
from playwright.sync_api import expect
from report_browser import TEXT_COLOURS, Open, contrast, luminance, place, violations
from report_contents import HOSTILE, MEMBERS, a_content, a_hostile_content, a_prediction

from hedgerow.report import Content, Example, LabelName


def test_page_of_hostile_content_then_it_is_text_and_nothing_runs(open_page: Open) -> None:
    opened = open_page(a_hostile_content())
    assert opened.page.evaluate("window.hacked") is None
    assert opened.page.locator("h1").text_content() == HOSTILE[1]
    assert opened.page.title() == HOSTILE[1]
    shown = opened.page.locator("#uncertain .card h3 bdi").all_text_contents()
    # A lone half of a pair and NUL cannot travel from the browser to here as they are.
    odd = {HOSTILE.index(text) for text in HOSTILE if "\ud800" in text or "\x00" in text}
    assert [text for i, text in enumerate(shown[: len(HOSTILE)]) if i not in odd] == [
        text for i, text in enumerate(HOSTILE) if i not in odd
    ]
    assert opened.page.locator("main img, main script, main style, main iframe").count() == 0


def test_page_then_a_script_that_is_not_its_own_does_not_run(open_page: Open) -> None:
    opened = open_page()
    with opened.page.expect_event("requestfailed") as failed:
        opened.page.evaluate(
            "() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
            " document.body.append(s);"
            " const i = new Image(); i.src = 'https://example.org/x.png'; document.body.append(i) }"
        )
    assert failed.value.failure == "csp"
    assert opened.page.evaluate("window.hacked") is None
    told = [problem for problem in opened.problems if "policy" in problem.lower()]
    assert any("script-src" in problem for problem in told)
    assert any("img-src" in problem or "default-src" in problem for problem in told)
    opened.problems.clear()


def test_labels_with_names_then_these_are_shown_found_and_sorted_by(open_page: Open) -> None:
    named = replace(
        a_content(), names=[LabelName("sound", "zebra <b>noise</b>"), LabelName("label 7", "aardvark")]
    )
    page = open_page(named).page
    shown = page.locator("#uncertain .predictions bdi").first
    expect(shown).to_have_text("zebra <b>noise</b>")
    expect(shown).to_have_attribute("title", "sound")
    page.get_by_role("button", name="Label", exact=True).click()
    first = page.locator("table.labels tbody th bdi").first
    expect(first).to_have_text("aardvark")
    expect(first).to_have_attribute("title", "label 7")
    for words in ("zebra", "sound"):  # by name and by id
        page.get_by_label("Filter examples and labels by words").fill(words)
        expect(page.locator(".card:visible h3")).to_have_text(["first", "third"])


def test_filter_then_only_examples_and_labels_with_all_words_remain(open_page: Open) -> None:
    opened = open_page()
    opened.page.keyboard.press("/")
    opened.page.keyboard.type("SOUND")
    assert opened.page.locator(".card:visible h3").all_text_contents() == ["first", "third"]
    expect(opened.page.locator(".filter-status")).to_have_text("2 of 3 examples, 0 of 80 labels")
    opened.page.keyboard.type(" music")
    assert opened.page.locator(".card:visible h3").all_text_contents() == ["first"]
    opened.page.locator("#filter").fill("label 7")
    names = opened.page.locator(".labels tbody th").all_text_contents()
    assert names == [f"label {i}" for i in range(80) if "7" in str(i)]
    opened.page.locator("#filter").fill("")
    assert opened.page.locator(".card:visible").count() == 3
    expect(opened.page.locator(".filter-status")).to_be_empty()


def test_labels_then_a_head_sorts_up_and_down_with_unknown_values_last(open_page: Open) -> None:
    opened = open_page()
    content = a_content()
    more = opened.page.get_by_role("button", name="Show more (30 left)")
    more.click()

    def column(i: int) -> list[str]:
        return opened.page.locator(f".labels tbody tr > :nth-child({i})").all_text_contents()

    assert column(1) == [row.label for row in content.labels]
    head = opened.page.get_by_role("columnheader", name="Training examples")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    assert column(2) == [str(n) for n in sorted((row.training_count for row in content.labels), reverse=True)]
    head.get_by_role("button").focus()
    opened.page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert column(2) == [str(n) for n in sorted(row.training_count for row in content.labels)]
    for _ in range(2):
        opened.page.get_by_role("columnheader", name="Found").get_by_role("button").click()
        assert column(4)[-16:] == ["\N{EN DASH}"] * 16
    opened.page.get_by_role("columnheader", name="Label", exact=True).get_by_role("button").click()
    assert column(1) == [f"label {i}" for i in range(80)]


def test_long_text_then_a_button_shows_all_of_it(open_page: Open) -> None:
    opened = open_page()
    card = opened.page.locator(".card").nth(1)
    text = card.locator(".text")
    assert len(text.text_content() or "") < 500
    card.get_by_role("button", name="Show more").click()
    assert text.text_content() == "word " * 2000
    card.get_by_role("button", name="Show less").click()
    assert len(text.text_content() or "") < 500


def test_prediction_then_its_votes_and_its_truth_can_be_seen_and_heard(open_page: Open) -> None:
    row = open_page().page.locator(".card").first.locator(".prediction").first
    votes = asdict(a_prediction("sound", 0.9))["votes"]
    assert row.locator(".vote").count() == MEMBERS
    centres = row.locator(".vote").evaluate_all("(all) => all.map((c) => c.cx.baseVal.value)")
    # The axis runs from 6 to 234.
    assert centres == pytest.approx(list(6 + votes * 228), abs=0.06)
    assert row.locator("svg.strip").get_attribute("aria-label") == (
        "10 members, from 60 % to 100 %, mean probability 90 %"
    )
    assert row.locator(".name").text_content() == "right: sound"
    assert "the members disagree" in (row.locator(".uncertainty").text_content() or "")


@pytest.mark.parametrize(
    ("probability", "data", "knowledge", "text", "words"),
    [
        (0.95, 0.1, 0.05, "a text", "nearly sure that it is right"),
        (0.05, 0.1, 0.05, "a text", "nearly sure that it is wrong"),
        (0.4, 0.55, 0.1, "a text", "data uncertainty: could be right or wrong"),
        (0.4, 0.35, 0.3, "a text", "knowledge uncertainty: the members disagree"),
        (0.4, 0.0, 0.65, "a text", "knowledge uncertainty: no training text has this label"),
        (0.4, 0.0, 0.65, None, "knowledge uncertainty: no training input has this label"),
    ],
)
def test_uncertainty_then_words_say_its_kind(
    open_page: Open, probability: float, data: float, knowledge: float, text: str | None, words: str
) -> None:
    measures = {"probability": probability, "total": data + knowledge, "data": data, "knowledge": knowledge}
    found = replace(a_prediction("a"), **measures)
    example = Example("e", text, ["a"], [found], 1, 1, 1, None, "Why.")
    assert open_page(Content("t", wrong=[example])).page.locator(".uncertainty").text_content() == words


def test_true_labels_that_were_not_predicted_then_they_are_listed(open_page: Open) -> None:
    assert open_page().page.locator(".card").first.locator(".missed li").all_text_contents() == [
        "missed label"
    ]


@pytest.mark.parametrize("content", [a_content, a_hostile_content])
@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_page_then_it_does_not_scroll_sideways(
    open_page: Open, width: int, content: Callable[[], Content]
) -> None:
    assert open_page(content(), width).page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_then_its_contrast_is_enough(open_page: Open, scheme: str) -> None:
    opened = open_page(scheme=scheme)
    opened.page.locator("#filter").fill("sound")
    opened.figure("roc").get_by_role("button", name="knowledge").click()
    opened.page.mouse.move(*place(opened.figure("roc"), 0.5, 0.5))
    expect(opened.figure("roc").locator(".tip")).to_be_visible()
    pairs = opened.page.evaluate(TEXT_COLOURS)
    assert len(pairs) > 15
    paper = luminance(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert paper > 0.8 if scheme == "light" else paper < 0.05
    assert [pair for pair in pairs if contrast(*pair[:2]) < 4.5] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_page_then_the_checker_of_accessibility_finds_nothing(
    open_page: Open, width: int, scheme: str
) -> None:
    opened = open_page(width=width, scheme=scheme)
    for summary in opened.page.locator("summary").all():
        summary.click()
    assert violations(opened.page, scheme) == []


def test_theme_button_then_the_page_turns_dark_and_back(open_page: Open) -> None:
    opened = open_page()

    def paper() -> float:
        return luminance(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    opened.page.get_by_role("button", name="Dark").click()
    assert paper() < 0.05
    opened.page.reload()
    assert paper() < 0.05
    opened.page.get_by_role("button", name="Light").click()
    assert paper() > 0.8


def test_tab_then_every_control_is_reached_and_seen(open_page: Open) -> None:
    opened = open_page(replace(a_content(), labels=a_content().labels[:2]))
    controls = opened.page.locator("a[href], button:visible, input, summary, [tabindex='0']:visible").count()
    reached = set()
    for _ in range(controls + 5):
        opened.page.keyboard.press("Tab")
        reached.add(
            opened.page.evaluate(
                "(() => { const e = document.activeElement; e.number ??= Math.random();"
                " return e === document.body ? null : e.number + getComputedStyle(e).outlineStyle })()"
            )
        )
    reached.discard(None)
    assert len(reached) == controls
    assert all(str(one).endswith("solid") for one in reached)


def test_parts_without_content_then_they_are_left_out(open_page: Open) -> None:
    opened = open_page(Content("Only a title", notes=["And a note."]))
    assert opened.page.locator("section").count() == 1
    assert opened.page.locator("nav a").all_text_contents() == ["How this report was made"]
    assert opened.page.locator("#filter").count() == 0


def test_print_then_controls_are_gone_and_the_paper_is_white(open_page: Open) -> None:
    opened = open_page(scheme="dark")
    opened.page.emulate_media(media="print")
    expect(opened.page.locator("#sections")).to_be_hidden()
    expect(opened.figure("roc").locator(".tools")).to_be_hidden()
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
