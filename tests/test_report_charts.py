"""The charts of a report, in a browser: drawn where they should be, and usable with mouse and keyboard."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, expect
from report_browser import Open, Opened, contrast, linear, place
from report_contents import figures

from hedgerow.report import Content, Figure, Series


def ticks(figure: Locator, axis: str) -> list[str]:
    return figure.locator(f".tick-{axis}").all_text_contents()


def drag(opened: Opened, figure: Locator, start: tuple[float, float], end: tuple[float, float]) -> None:
    opened.page.mouse.move(*place(figure, *start))
    opened.page.mouse.down()
    opened.page.mouse.move(*place(figure, *end), steps=4)
    opened.page.mouse.up()


@pytest.mark.parametrize("width", [390, 1280])
def test_figures_then_every_series_is_drawn_at_finite_places(open_page: Open, width: int) -> None:
    opened = open_page(width=width)
    for figure in figures():
        drawn = opened.figure(figure.id).locator(".plot .series")
        assert drawn.count() == len(figure.series)
        for i, series in enumerate(figure.series):
            if figure.id != "empty":
                assert drawn.nth(i).locator("path[d*='M'], rect[height]").count() > 0, series.name
    numbers = opened.page.locator("svg *").evaluate_all(
        "(all) => all.flatMap((e) => [...e.attributes]).filter((a) => a.name !== 'aria-label')"
        ".map((a) => a.value).filter((v) => /NaN|Infinity|undefined|null/.test(v))"
    )
    assert numbers == []


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_figure_with_points_at_ticks_then_they_are_drawn_there(open_page: Open, scale: Any) -> None:
    values = [1.0, 10.0, 100.0] if scale == "log" else [0.0, 0.4, 1.0]
    limits = (values[0], values[-1])
    points = Series("p", values, values, "points")
    opened = open_page(
        Content("t", figures=[Figure("f", "f", "c", "x", "y", [points], scale, scale, limits, limits)])
    )
    places = (
        opened.figure("f")
        .locator(".plot .marker")
        .evaluate_all(
            "(all) => all.map((m) => { const t = m.transform.baseVal[0].matrix; return [t.e, t.f] })"
        )
    )
    for axis, coordinate, attribute in (("x", 0, "x"), ("y", 1, "y")):
        found = (
            opened.figure("f")
            .locator(f".tick-{axis}")
            .evaluate_all(f"(all) => all.map((t) => [t.textContent, t.{attribute}.baseVal[0].value])")
        )
        at = {float(text): value - (4 if axis == "y" else 0) for text, value in found}
        assert [at[value] for value in values] == pytest.approx([p[coordinate] for p in places], abs=0.1)


def test_bars_then_their_heights_are_in_proportion(open_page: Open) -> None:
    bars = open_page().figure("frequency").locator("[data-kind=bars]").first.locator("rect")
    heights = bars.evaluate_all("(all) => all.map((r) => r.height.baseVal.value)")
    assert np.array(heights) / heights[0] == pytest.approx(np.array([0.3, 0.2, 0.2, 0.1]) / 0.3, abs=0.01)


def test_hover_over_a_line_then_its_values_are_shown(open_page: Open) -> None:
    opened = open_page()
    figure = opened.figure("roc")
    expect(figure.locator(".tip")).to_be_hidden()
    opened.page.mouse.move(*place(figure, 0.252, 0.5))
    expect(figure.locator(".tip")).to_be_visible()
    assert figure.locator(".tip p").text_content() == "false alarms: 0.25"
    assert figure.locator(".tip li b").all_text_contents() == ["0.7071", "0.5"]
    assert figure.locator(".crosshair").count() == 1
    opened.page.mouse.move(2, 2)
    expect(figure.locator(".tip")).to_be_hidden()


def test_arrow_keys_in_a_figure_then_they_read_values(open_page: Open) -> None:
    opened = open_page()
    figure = opened.figure("frequency")
    figure.locator(".plot").focus()
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("ArrowRight")
    assert figure.locator(".tip p").text_content() == "training examples: 2 to 3"
    assert figure.locator(".tip li b").all_text_contents() == ["0.2", "0.1"]
    opened.page.keyboard.press("Escape")
    expect(figure.locator(".tip")).to_be_hidden()


@pytest.mark.parametrize("name", ["roc", "theorem"])
def test_drag_then_both_axes_show_the_part_and_a_double_click_shows_all(open_page: Open, name: str) -> None:
    opened = open_page()
    figure = opened.figure(name)
    before = ticks(figure, "x"), ticks(figure, "y")
    drag(opened, figure, (0.2, 0.3), (0.4, 0.7))
    after = ticks(figure, "x"), ticks(figure, "y")
    assert after[0] != before[0]
    assert after[1] != before[1]
    if name == "roc":
        assert all(0.19 <= float(text) <= 0.41 for text in after[0])
        assert all(0.29 <= float(text) <= 0.71 for text in after[1])
    opened.page.mouse.dblclick(*place(figure, 0.5, 0.5))
    assert (ticks(figure, "x"), ticks(figure, "y")) == before


def test_wheel_then_a_figure_in_focus_zooms_and_another_lets_the_page_scroll(open_page: Open) -> None:
    opened = open_page()
    figure = opened.figure("roc")
    before = ticks(figure, "x")
    opened.page.mouse.move(*place(figure, 0.5, 0.5))
    opened.page.mouse.wheel(0, 3000)
    expect(figure).not_to_be_in_viewport()
    assert ticks(figure, "x") == before
    opened.page.mouse.click(*place(figure, 0.5, 0.5))
    for _ in range(3):
        opened.page.mouse.wheel(0, -400)
    expect(figure.get_by_role("button", name="Reset zoom")).to_be_visible()
    assert ticks(figure, "x") != before


def test_buttons_and_keys_then_they_zoom_and_reset(open_page: Open) -> None:
    opened = open_page()
    figure = opened.figure("roc")
    before = ticks(figure, "x")
    for _ in range(3):
        figure.get_by_role("button", name="Zoom in").click()
    assert ticks(figure, "x") != before
    figure.get_by_role("button", name="Reset zoom").click()
    assert ticks(figure, "x") == before
    figure.locator(".plot").focus()
    for _ in range(3):
        opened.page.keyboard.press("+")
    assert ticks(figure, "x") != before
    opened.page.keyboard.press("0")
    assert ticks(figure, "x") == before


def test_legend_then_mouse_and_keyboard_hide_and_show_a_series(open_page: Open) -> None:
    opened = open_page()
    figure = opened.figure("roc")
    button = figure.get_by_role("button", name="knowledge")
    series = figure.locator(".plot .series")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    assert series.count() == 2
    opened.page.mouse.move(*place(figure, 0.252, 0.5))
    assert figure.locator(".tip li b").all_text_contents() == ["0.7071"]
    button.focus()
    opened.page.keyboard.press("Enter")
    assert series.count() == 3
    opened.page.keyboard.press("Space")
    expect(button).to_have_attribute("aria-pressed", "false")
    assert series.count() == 2


def test_figure_then_a_table_and_a_description_say_what_it_shows(open_page: Open) -> None:
    opened = open_page()
    for figure in figures():
        drawn = opened.figure(figure.id)
        described = drawn.locator(".plot svg[role=img]").get_attribute("aria-label") or ""
        assert described.startswith(f"{figure.title}. {figure.caption}")
        drawn.locator("summary").click()
        rows = drawn.locator("tbody tr")
        assert rows.count() == min(12, len({float(x) for series in figure.series for x in series.x}))
    rows = opened.figure("theorem").locator("tbody tr")
    assert rows.nth(1).locator("th, td").all_text_contents() == ["10", "0.01", "0.1"]
    tail = opened.figure("tail").locator("tbody tr")
    assert tail.first.locator("th, td").all_text_contents() == ["1", "0.9 (0.9 to 1.8)"]
    assert tail.last.locator("th").text_content() == "400"


def test_page_that_becomes_narrow_then_figures_follow(open_page: Open) -> None:
    opened = open_page()
    opened.page.set_viewport_size({"width": 420, "height": 900})
    svg = opened.figure("roc").locator(".plot svg[role=img]")
    expect(svg).to_have_attribute("viewBox", re.compile(r"^0 0 3\d\d 2\d\d$"))
    box = svg.bounding_box()
    assert box is not None
    assert box["width"] < 420


# How linear RGB looks without one kind of cone (Machado, Oliveira and Fernandes, 2009; severity 1).
VISIONS = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def lab(colour: str, vision: Any) -> Any:
    """CIELAB, in which about 2 is the smallest difference that people see."""
    rgb = np.clip(vision @ linear(colour), 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    x, y, z = np.cbrt(np.maximum(xyz / [0.9505, 1, 1.089], 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_of_series_then_they_stand_out_from_the_paper_and_one_another(
    open_page: Open, scheme: str
) -> None:
    opened = open_page(
        Content(
            "t", figures=[Figure("f", "f", "c", "x", "y", [Series(str(i), [0, 1], [0, i]) for i in range(6)])]
        ),
        scheme=scheme,
    )
    paper = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    # In one go: a chart is drawn again when its width is known, and what a locator found is then gone.
    lines = opened.page.evaluate(
        "[...document.querySelectorAll('.plot .line')].map((line) =>"
        " [getComputedStyle(line).stroke, line.getAttribute('stroke-dasharray')])"
    )
    assert len({dashes for _, dashes in lines}) == 6
    for vision in VISIONS.values():
        seen = [lab(colour, vision) for colour, _ in lines]
        assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 12
    assert min(contrast(colour, paper) for colour, _ in lines) >= 3
