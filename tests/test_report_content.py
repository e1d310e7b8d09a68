"""The file of a report: it holds what it was given, as data, and allows only its own scripts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_contents import a_content, a_hostile_content, an_example, figures

from hedgerow.report import Content, Figure, KnownLabel, Series, render
from hedgerow.report.thinning import thinned


class Blocks(HTMLParser):
    """The title, inline scripts, styles and the policy of a page, as a parser of HTML sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {"title": [], "style": [], "script": [], "data": []}
        self.policy = ""
        self._inside: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        of = dict(attributes)
        if of.get("http-equiv") == "Content-Security-Policy":
            self.policy = of["content"] or ""
        self._inside = "data" if of.get("type") == "application/json" else tag
        if self._inside in self.texts:
            self.texts[self._inside].append("")

    def handle_data(self, text: str) -> None:
        if self._inside in self.texts:
            self.texts[self._inside][-1] += text

    def handle_endtag(self, tag: str) -> None:
        self._inside = None


def units(text: str) -> bytes:
    """Two halves of a surrogate pair are the same as the pair, for JSON as for browsers."""
    return text.encode("utf-16-le", "surrogatepass")


@given(st.text(st.characters(exclude_categories=()) | st.sampled_from("<>&/!-\"'\u2028scriptSCRIPT")))
def test_render_of_any_text_then_the_data_block_holds_it(text: str) -> None:
    page = render(Content("t", notes=[text, f"</script>{text}", f"<!--<script>{text}"]))
    page.encode()
    blocks = Blocks(page)
    assert len(blocks.texts["data"]) == 1
    notes = json.loads(blocks.texts["data"][0])["notes"]
    assert [units(note) for note in notes] == [
        units(note) for note in (text, f"</script>{text}", f"<!--<script>{text}")
    ]
    assert re.search("[<>&\u2028\u2029]", blocks.texts["data"][0]) is None


def test_render_then_the_policy_allows_the_inline_blocks_by_their_hashes_and_nothing_else() -> None:
    blocks = Blocks(render(a_hostile_content()))
    directives = dict(part.strip().split(" ", 1) for part in blocks.policy.split(";"))
    for name in ("style", "script"):
        digests = [hashlib.sha256(text.encode()).digest() for text in blocks.texts[name]]
        expected = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
        assert directives.pop(f"{name}-src").split() == expected
    assert directives == {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'"}


def test_render_of_numbers_that_json_lacks_then_they_are_gaps() -> None:
    series = Series("s", np.array([1, 2, 3], np.int32), np.array([np.nan, np.inf, 0.25], np.float32))
    page = render(Content("t", figures=[Figure("f", "f", "c", "x", "y", [series])]))
    drawn = json.loads(Blocks(page).texts["data"][0])["figures"][0]["series"][0]
    assert drawn["x"] == [1, 2, 3]
    assert drawn["y"] == [None, None, 0.25]


def test_render_of_what_json_cannot_hold_then_the_error_names_it() -> None:
    with pytest.raises(TypeError, match="cannot hold 1j, a complex"):
        render(Content("t", notes=[1j]))  # type: ignore[list-item]


def columns(x: Any, y: Any, scale: str, width: int) -> dict[int, tuple[float, float]]:
    """The lowest and the highest value in every column of pixels."""
    place = np.log10(x) if scale == "log" else np.asarray(x)
    first, last = np.log10([1, 10]) if scale == "log" else np.array([1.0, 10.0])
    pixel = np.floor((place - first) / (last - first) * width).astype(int)
    y = np.asarray(y)
    return {int(p): (y[pixel == p].min(), y[pixel == p].max()) for p in np.unique(pixel)}


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_thinning_of_a_long_curve_then_every_column_of_pixels_spans_the_same(scale: Any) -> None:
    random = np.random.default_rng(0)
    x = np.r_[1, np.sort(1 + 9 * random.random(40_000)), 10]
    y = np.cumsum(random.standard_normal(len(x)))
    band = Series("b", x, y, "band", y - 1, y + 1)
    figure = thinned(Figure("f", "", "", "", "", [Series("s", x, y), band], scale))
    line, area = figure.series
    assert len(line.x) < 0.2 * len(x)
    # Columns of the thinning are whole parts of these.
    assert columns(line.x, line.y, scale, 500) == columns(x, y, scale, 500)
    assert columns(area.x, area.low, scale, 500) == columns(x, y - 1, scale, 500)
    assert columns(area.x, area.high, scale, 500) == columns(x, y + 1, scale, 500)


def test_thinning_of_a_curve_with_gaps_then_the_gaps_remain() -> None:
    x = np.linspace(0, 1, 50_000)
    y = np.where((x > 0.5) & (x < 0.6), np.nan, x)
    (line,) = thinned(Figure("f", "", "", "", "", [Series("s", x, y)])).series
    inside = (np.asarray(line.x) > 0.5) & (np.asarray(line.x) < 0.6)
    assert inside.any()
    assert np.array_equal(np.isnan(line.y), inside)


@pytest.mark.parametrize(
    "series",
    [
        Series("short", np.arange(100), np.arange(100)),
        Series("points", np.arange(9000), np.arange(9000), "points"),
        Series("back and forth", np.tile([0.0, 1.0], 9000), np.arange(18_000)),
        Series("nowhere", np.full(9000, np.nan), np.arange(9000)),
    ],
    ids=lambda series: series.name,
)
def test_thinning_of_what_is_no_long_curve_then_it_stays(series: Series) -> None:
    assert thinned(Figure("f", "", "", "", "", [series])).series[0] is series


def test_render_of_four_thousand_labels_then_the_page_is_small() -> None:
    x = np.linspace(0, 1, 40_000) + 1 / 3
    many = [
        Figure(f"f{i}", "t", "c", "x", "y", [Series(str(j), x, x / 7) for j in range(4)]) for i in range(7)
    ]
    labels = [
        KnownLabel(f"a label of usual length {i}", i, i, i / 4001, i / 4003, i / 4007) for i in range(4000)
    ]
    shown = [an_example(f"input {i}", "word " * 300, [f"label {j}" for j in range(10)]) for i in range(100)]
    page = render(replace(a_content(), figures=many, labels=labels, uncertain=shown, wrong=shown))
    assert len(page.encode()) < 5_000_000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Series("s", [1, 2], [1]), "series 's' has 2 values of x and 1 of y"),
        (lambda: Series("s", [1], [1], "band", [1], []), "1 values of x and 0 of high"),
        (lambda: Series("s", [1], [1], "pie"), "kind 'pie'; it must be one of line, points"),  # type: ignore[arg-type]
        (lambda: Figure("f", "", "", "", "", [], "sqrt"), "x_scale 'sqrt'"),  # type: ignore[arg-type]
        (lambda: Figure("f", "", "", "", "", [], y_limits=(1, 1)), r"y_limits \(1, 1\)"),
        (lambda: Figure("f", "", "", "", "", [], "log", x_limits=(0, 1)), "must be above 0"),
        (lambda: Content("t", figures=[figures()[0]] * 2), "two figures have the id 'tail'"),
    ],
)
def test_content_that_cannot_be_drawn_then_the_error_says_why(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_title_with_markup_then_it_is_escaped() -> None:
    assert "<title>&lt;/script&gt; &amp; co</title>" in render(Content(title="</script> & co"))
