"""The picture of `bench.frontier`: measures against the cost of training, a panel for each and each data set.

SVG by hand: names stand next to their points, and colours follow the reader's light or dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape

from bench.name_places import Box, Spot, place

WIDTH = 830.0  # of a README
MARGIN = 14.0
HEAD = 58.0  # title and subtitle
FONT = 12.5
MARK = 6.0  # half the width of what belongs to a point
TITLE = "Accuracy against the cost of training"
SUBTITLE = "Higher: better. Left: cheaper. Dashed: the most that a budget buys."
BARS, ONE_SEED = " Bars: deviation over seeds.", " One seed."

STYLE = """
 .back { fill: #ffffff; stroke: #d1d9e0; } .grid { stroke: #e6eaef; } .axis { stroke: #818b98; }
 text { fill: #1f2328; font: 12.5px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
 .head { font-size: 16px; font-weight: 600; } .panel { font-weight: 600; } .quiet { fill: #59636e; }
 .halo { stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round; paint-order: stroke; }
 .ours { fill: #116329; } .peer { fill: #953800; }
 .mark.ours { stroke: #116329; fill: #1a7f37; }
 .mark.peer { stroke: #bc4c00; fill: #ffffff; stroke-width: 2; }
 .whisker.ours, .lead.ours { stroke: #1a7f37; } .whisker.peer, .lead.peer { stroke: #bc4c00; }
 .lead { stroke-width: 0.8; } .whisker { stroke-width: 1.5; }
 .frontier { fill: none; stroke: #818b98; stroke-dasharray: 4 4; }
 @media (prefers-color-scheme: dark) {
  .back { fill: #0d1117; stroke: #3d444d; } .grid { stroke: #242b34; } .axis { stroke: #656c76; }
  text { fill: #f0f6fc; } .quiet { fill: #a9b1ba; } .halo { stroke: #0d1117; }
  .ours { fill: #56d364; } .peer { fill: #ffa657; }
  .mark.ours { stroke: #56d364; fill: #3fb950; } .mark.peer { stroke: #f0883e; fill: #0d1117; }
  .whisker.ours, .lead.ours { stroke: #3fb950; } .whisker.peer, .lead.peer { stroke: #f0883e; }
  .frontier { stroke: #656c76; }
 }
"""


@dataclass(frozen=True)
class Point:
    """A contender: what it costs, how good it is, and how far that goes up and down over seeds."""

    name: str
    cost: float
    value: float
    deviation: float
    ours: bool


@dataclass(frozen=True)
class Panel:
    """A data set."""

    title: str
    points: list[Point]


@dataclass(frozen=True)
class Scale:
    """From costs (logarithmic) and values to places in the picture."""

    inside: Box
    costs: tuple[float, float]
    values: tuple[float, float]

    @staticmethod
    def of(points: Sequence[Point], inside: Box) -> Scale:
        """Some room on all sides, because names want to stand there."""
        low, high = (pick(math.log10(point.cost) for point in points) for pick in (min, max))
        room = max(0.15, 0.15 * (high - low))
        bottom = min(point.value - point.deviation for point in points)
        top = max(point.value + point.deviation for point in points)
        air = max(0.25, 0.15 * (top - bottom))
        return Scale(inside, (low - room, high + room), (bottom - air, top + air))

    def x(self, cost: float) -> float:
        low, high = self.costs
        share = (math.log10(cost) - low) / (high - low)
        return self.inside.left + share * (self.inside.right - self.inside.left)

    def y(self, value: float) -> float:
        low, high = self.values
        return self.inside.bottom - (value - low) / (high - low) * (self.inside.bottom - self.inside.top)

    def cost_ticks(self) -> list[float]:
        """1, 2 and 5 of each power of ten; where these are many, 1 and 3, or 1."""
        low, high = self.costs
        steps = (1, 2, 5) if high - low < 2.5 else (1, 3) if high - low < 4.5 else (1,)
        powers = range(math.floor(low), math.ceil(high) + 1)
        ticks = [step * 10.0**power for power in powers for step in steps]
        return [tick for tick in ticks if low <= math.log10(tick) <= high]

    def value_ticks(self) -> list[float]:
        """Round numbers, three to seven of them."""
        low, high = self.values
        step = next(step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if (high - low) / step <= 7)
        return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def draw(panels: Sequence[Panel]) -> str:
    """The SVG file."""
    columns = min(2, len(panels))
    height = 400.0 if columns == 1 else 330.0
    width = (WIDTH - 2 * MARGIN) / max(1, columns)
    rows = math.ceil(len(panels) / max(1, columns))
    whole = HEAD + rows * height + MARGIN
    varied = any(point.deviation for panel in panels for point in panel.points)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {whole:g}" width="{WIDTH:g}"'
        f' height="{whole:g}" role="img" aria-label="{TITLE}">',
        f"<style>{STYLE}</style>",
        f'<rect class="back" x="0.5" y="0.5" width="{WIDTH - 1:g}" height="{whole - 1:g}" rx="6"/>',
        _text(MARGIN + 4, 28, TITLE, "head"),
        _text(MARGIN + 4, 48, SUBTITLE + (BARS if varied else ONE_SEED), "quiet"),
    ]
    for number, panel in enumerate(panels):
        left, top = MARGIN + number % columns * width, HEAD + number // columns * height
        lines += _panel(panel, Box(left, top, left + width, top + height))
    return "\n".join([*lines, "</svg>"]) + "\n"


def frontier(points: Sequence[Point]) -> list[Point]:
    """Those that nobody beats at the same cost or less, cheapest first."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.cost, -point.value)):
        if not best or point.value > best[-1].value:
            best.append(point)
    return best


def text_width(text: str) -> float:
    """About the width of a name in pixels, rather too much: readers have different fonts."""
    wide, narrow = "mwMW@%", "iljtfr.,:;'|!()-I "
    shares = (0.95 if each in wide else 0.38 if each in narrow else 0.64 for each in text)
    return FONT * sum(shares)


def _panel(panel: Panel, box: Box) -> Iterator[str]:
    inside = Box(box.left + 40, box.top + 34, box.right - 8, box.bottom - 42)
    scale = Scale.of(panel.points, inside)
    yield _text(box.left + 4, box.top + 20, panel.title, "panel")
    for value in scale.value_ticks():
        y = scale.y(value)
        yield _line((inside.left, y), (inside.right, y), "grid")
        yield _text(inside.left - 6, y + 4, f"{value:g}" if value % 1 else f"{value:.0f}", "quiet", "end")
    for cost in scale.cost_ticks():
        x = scale.x(cost)
        yield _line((x, inside.top), (x, inside.bottom), "grid")
        yield _text(x, inside.bottom + 17, f"{cost:,.0f}" if cost >= 1 else f"{cost:g}", "quiet", "middle")
    yield _line((inside.left, inside.bottom), (inside.right, inside.bottom), "axis")
    middle = (inside.left + inside.right) / 2
    yield _text(middle, inside.bottom + 35, "CPU seconds of the fit", "quiet", "middle")
    steps = _steps(scale, frontier(panel.points))
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in steps)
    yield f'<polyline class="frontier" points="{path}"/>'
    yield from _names_and_points(panel.points, scale, steps)


def _steps(scale: Scale, best: Sequence[Point]) -> list[tuple[float, float]]:
    """The most accuracy for at most some cost: flat until a more expensive one is better."""
    corners = [(scale.x(best[0].cost), scale.y(best[0].value))]
    for point in best[1:]:
        corners += [(scale.x(point.cost), corners[-1][1]), (scale.x(point.cost), scale.y(point.value))]
    return [*corners, (scale.inside.right, corners[-1][1])]


def _spot(point: Point, scale: Scale) -> Spot:
    """Where a point is; its mark is as high as the bar of its deviation."""
    x, y = scale.x(point.cost), scale.y(point.value)
    up, down = (scale.y(point.value + sign * point.deviation) for sign in (1, -1))
    mark = Box(x - MARK, min(y - MARK, up), x + MARK, max(y + MARK, down))
    return Spot(x, y, mark, text_width(point.name), FONT + 3)


def _names_and_points(
    points: Sequence[Point], scale: Scale, steps: Sequence[tuple[float, float]]
) -> Iterator[str]:
    spots = [_spot(point, scale) for point in points]
    dashes = [
        Box(min(one[0], other[0]), min(one[1], other[1]), max(one[0], other[0]), max(one[1], other[1]))
        for one, other in pairwise(steps)
    ]
    places = place(spots, scale.inside, dashes)
    for point, (x, y, *_), found in zip(points, spots, places, strict=True):
        kind = "ours" if point.ours else "peer"
        if found.line:
            yield _line(found.line.start, found.line.end, f"lead {kind}")
        if point.deviation:
            top, bottom = scale.y(point.value + point.deviation), scale.y(point.value - point.deviation)
            yield _line((x, top), (x, bottom), f"whisker {kind}")
        if point.ours:
            yield f'<circle class="mark ours" cx="{x:.1f}" cy="{y:.1f}" r="{MARK - 1:g}"/>'
        else:
            side = 2 * MARK - 3
            yield (
                f'<rect class="mark peer" x="{x - side / 2:.1f}" y="{y - side / 2:.1f}"'
                f' width="{side:g}" height="{side:g}"/>'
            )
    for point, (x, *_), found in zip(points, spots, places, strict=True):
        # A narrower font than expected leaves room: on the side away from the point, where it does not show.
        box, kind = found.box, "ours" if point.ours else "peer"
        baseline = box.bottom - 4.5
        if box.right < x:
            yield _text(box.right, baseline, point.name, f"halo {kind}", "end")
        elif box.left > x:
            yield _text(box.left, baseline, point.name, f"halo {kind}")
        else:
            yield _text((box.left + box.right) / 2, baseline, point.name, f"halo {kind}", "middle")


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(start: tuple[float, float], end: tuple[float, float], kind: str) -> str:
    ends = f'x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
    return f'<line class="{kind}" {ends}/>'
