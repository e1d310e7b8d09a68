"""Names stand next to their points, and nothing covers anything."""

from __future__ import annotations

import importlib
import itertools
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))
name_places = importlib.import_module("bench.name_places")
frontier_picture = importlib.import_module("bench.frontier_picture")

AREA = name_places.Box(0, 0, 360, 250)
HALF = 6.0
SVG = "{http://www.w3.org/2000/svg}"
# A panel leaves room around its points: see Scale.of.
inside = st.tuples(st.integers(42, 318), st.integers(29, 221), st.integers(30, 170))
points = st.builds(
    frontier_picture.Point,
    name=st.just("a name & <another>"),
    cost=st.floats(0.1, 1e5),
    value=st.floats(0, 100),
    deviation=st.just(0.0) | st.floats(0.01, 2),
    ours=st.booleans(),
)


def spot(x: float, y: float, width: float) -> Any:
    mark = name_places.Box(x - HALF, y - HALF, x + HALF, y + HALF)
    return name_places.Spot(x, y, mark, width, 15.0)


def share(one: Any, other: Any) -> float:
    """The area that two boxes share: another way to ask whether they meet."""
    across = min(one.right, other.right) - max(one.left, other.left)
    down = min(one.bottom, other.bottom) - max(one.top, other.top)
    return float(max(0.0, across) * max(0.0, down))


def along(line: Any, steps: int = 200) -> list[tuple[float, float]]:
    (x, y), (to_x, to_y) = line
    return [(x + (to_x - x) * i / steps, y + (to_y - y) * i / steps) for i in range(steps + 1)]


@settings(max_examples=60, deadline=None)
@given(st.lists(inside, min_size=1, max_size=9))
def test_names_when_placed_then_cover_no_name_and_no_point(places: list[tuple[int, int, int]]) -> None:
    spots = [spot(*each) for each in places]
    found = name_places.place(spots, AREA)
    assert len(found) == len(spots)
    for one, other in itertools.combinations(found, 2):
        assert share(one.box, other.box) == 0
    for name, each in zip(found, spots, strict=True):
        assert share(name.box, AREA) == pytest.approx(each.width * each.height)
        assert not any(share(name.box, other.mark) for other in spots)


def test_lines_when_names_are_crowded_then_run_under_no_name() -> None:
    random = np.random.default_rng(0)
    lines = 0
    for _ in range(10):
        spots = [spot(*each) for each in zip(*random.uniform(100, 200, (2, 6)), [60.0] * 6, strict=True)]
        found = name_places.place(spots, AREA)
        for name, other in itertools.permutations(found, 2):
            if other.line:
                lines += 1
                assert not [
                    (x, y)
                    for x, y in along(other.line)
                    if name.box.left + 1e-6 < x < name.box.right - 1e-6
                    and name.box.top + 1e-6 < y < name.box.bottom - 1e-6
                ]
    assert lines


def test_name_when_there_is_room_then_stands_on_the_right_without_a_line() -> None:
    [found] = name_places.place([spot(100, 100, 80)], AREA)
    assert found.line is None
    assert found.box.left == pytest.approx(100 + name_places.GAP)
    assert (found.box.top + found.box.bottom) / 2 == pytest.approx(100)


def test_name_when_the_right_edge_is_near_then_stands_on_the_left() -> None:
    [found] = name_places.place([spot(340, 100, 80)], AREA)
    assert found.box.right == pytest.approx(340 - name_places.GAP)


def test_name_when_as_close_to_another_point_then_has_a_line_to_its_own() -> None:
    ring = [
        (100, 100),
        (100, 125),
        (100, 75),
        (125, 100),
        (75, 100),
        (122, 122),
        (78, 78),
        (122, 78),
        (78, 122),
    ]
    middle = name_places.place([spot(x, y, 60) for x, y in ring], AREA)[0]
    assert middle.line is not None
    assert middle.line.start == (100, 100)


@given(st.lists(points, min_size=1, max_size=12))
def test_frontier_when_drawn_then_is_of_those_that_nobody_beats(found: list[Any]) -> None:
    best = frontier_picture.frontier(found)
    for point in found:
        beaten = any(
            other.cost <= point.cost
            and other.value >= point.value
            and (other.cost, other.value) != (point.cost, point.value)
            for other in found
        )
        assert beaten == all((point.cost, point.value) != (each.cost, each.value) for each in best)
    assert [each.cost for each in best] == sorted(each.cost for each in best)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(points, min_size=1, max_size=7), min_size=1, max_size=4))
def test_picture_when_drawn_then_has_every_name_once_within_its_frame(panels: list[list[Any]]) -> None:
    drawn = frontier_picture.draw(
        [frontier_picture.Panel(f"set {number}", each) for number, each in enumerate(panels)]
    )
    root = ET.fromstring(drawn)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert width == frontier_picture.WIDTH
    texts = root.findall(f"{SVG}text")
    names = [text for text in texts if "halo" in text.attrib["class"]]
    assert [text.text for text in names] == ["a name & <another>"] * sum(map(len, panels))
    marks = [each for each in root if each.attrib.get("class", "").startswith("mark")]
    assert len(marks) == len(names)
    for text in texts:
        assert 0 <= float(text.attrib["x"]) <= width
        assert 0 <= float(text.attrib["y"]) <= height
    for mark in marks:
        place = mark.attrib.get("cx") or mark.attrib["x"]
        assert 0 < float(place) < width


@pytest.mark.parametrize("costs", [(2.0, 3.0), (2.7, 546.0), (0.5, 90_000.0)])
def test_ticks_are_few_and_on_the_scale(costs: tuple[float, float]) -> None:
    ends = [
        frontier_picture.Point("", cost, value, 0.0, True)
        for cost, value in zip(costs, (80.6, 83.7), strict=True)
    ]
    scale = frontier_picture.Scale.of(ends, AREA)
    for ticks, place, low, high in (
        (scale.cost_ticks(), scale.x, AREA.left, AREA.right),
        (scale.value_ticks(), scale.y, AREA.top, AREA.bottom),
    ):
        assert 1 <= len(ticks) <= 10
        assert all(low <= place(tick) <= high for tick in ticks)
    assert scale.x(costs[0]) < scale.x(costs[1])
    assert scale.y(83.7) < scale.y(80.6)  # upwards
