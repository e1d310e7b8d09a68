"""Where to write the names of points, so that no name covers another, a point or the way to it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

GAP = 8.0  # from the middle of a point to its name
NEAR = 10.0  # a name further away than this gets a line to its point
RINGS = (0.0, 5.0, 10.0, 16.0, 24.0, 34.0, 46.0, 60.0, 80.0, 105.0, 135.0, 170.0, 210.0, 260.0)
ANGLES = 24
TRIES = 100  # the best result counts
KEPT = 0.7  # the share of places that a try may use
CROSSED = 1e3  # the cost of a line under a name
NO_ROOM = 1e6  # the cost of a name over something else


class Box(NamedTuple):
    """A rectangle; y grows downwards, as in a picture."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def within(self, other: Box) -> bool:
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.top >= other.top
            and self.bottom <= other.bottom
        )

    def nearest(self, x: float, y: float) -> tuple[float, float]:
        """The place of the box that is closest to a point."""
        return min(max(x, self.left), self.right), min(max(y, self.top), self.bottom)

    def distance(self, spot: Spot) -> float:
        """From the box to a point."""
        return math.dist((spot.x, spot.y), self.nearest(spot.x, spot.y))


class Line(NamedTuple):
    """From a point to its name."""

    start: tuple[float, float]
    end: tuple[float, float]

    def meets(self, box: Box) -> bool:
        """Whether any of it lies inside a box: within both pairs of edges at once."""
        first, last = 0.0, 1.0
        for axis, (low, high) in enumerate(((box.left, box.right), (box.top, box.bottom))):
            start, step = self.start[axis], self.end[axis] - self.start[axis]
            if step == 0:
                if not low < start < high:
                    return False
                continue
            near, far = sorted(((low - start) / step, (high - start) / step))
            first, last = max(first, near), min(last, far)
        return first < last


class Place(NamedTuple):
    """The box of a name; a line leads to it where it is far from its point, or as close to another."""

    box: Box
    line: Line | None
    cost: float


class Spot(NamedTuple):
    """A point with its mark, which no name may cover, and the width and height of its name."""

    x: float
    y: float
    mark: Box
    width: float
    height: float


def place(spots: Sequence[Spot], area: Box, avoid: Sequence[Box] = ()) -> list[Place]:
    """Find a place within the area for the name of each point, close to it, and rather not over `avoid`.

    Names are placed one after the other, each where it is best. That is tried in several orders, and with
    some of the places left out, because the best place of one name may be the only one of another. A name
    for which nothing is free, which takes far more names than a panel has, goes over others.
    """
    choices = [_choices(number, spots, area, avoid) for number in range(len(spots))]
    # Those with little room first, then any order; the same picture every time.
    order = sorted(range(len(spots)), key=lambda number: (len(choices[number]), number))
    shuffled = random.Random(0)
    best: list[Place] = []
    kept = choices
    for _ in range(TRIES):
        found = _in_order(order, kept)
        if not best or sum(each.cost for each in found) < sum(each.cost for each in best):
            best = found
        order = shuffled.sample(order, len(order))
        kept = [[each for each in some if shuffled.random() < KEPT] or some for some in choices]
    return best


def _in_order(order: Sequence[int], choices: Sequence[list[Place]]) -> list[Place]:
    taken: dict[int, Place] = {}
    for number in order:
        # Names never cover each other where that can be helped; a line under a name is the lesser evil.
        others = list(taken.values())
        some = choices[number]
        free = (each for each in some if not (_covered(each, others) or _crossed(each, others)))
        crossed = (each._replace(cost=each.cost + CROSSED) for each in some if not _covered(each, others))
        covering = (each._replace(cost=NO_ROOM) for each in some)
        taken[number] = next(chain(free, crossed, covering))
    return [taken[number] for number in range(len(choices))]


def _covered(one: Place, others: Sequence[Place]) -> bool:
    """Whether a name would lie over another."""
    return any(one.box.meets(other.box) for other in others)


def _crossed(one: Place, others: Sequence[Place]) -> bool:
    """Whether the line of one runs under the name of another."""
    return any(
        (one.line and one.line.meets(other.box)) or (other.line and other.line.meets(one.box))
        for other in others
    )


def _choices(number: int, spots: Sequence[Spot], area: Box, avoid: Sequence[Box]) -> list[Place]:
    """All places for a name that cover no mark, best first."""
    spot = spots[number]
    others = [each for place, each in enumerate(spots) if place != number]
    apart = [each for each in others if not each.mark.meets(spot.mark)]  # no line could leave those behind
    found = []
    for ring in RINGS:
        for turn in range(ANGLES):
            angle = 2 * math.pi * turn / ANGLES
            across, down = math.cos(angle), math.sin(angle)
            box = _box(spot, ring, across, down)
            if not box.within(area) or any(box.meets(each.mark) for each in spots):
                continue
            away = box.distance(spot)
            near_others = any(box.distance(each) < away + GAP for each in others)
            line = Line((spot.x, spot.y), box.nearest(spot.x, spot.y)) if away > NEAR or near_others else None
            # On the right is best, on the left nearly so, then straight above or below; a line is a burden.
            cost = ring + (1.0 if across < 0 else 0.0) + 4.0 * min(abs(across), abs(down)) + 2.0 * abs(down)
            cost += 8.0 * sum(box.meets(each) for each in avoid)
            cost += (15.0 if line else 0.0) + (15.0 if near_others else 0.0)
            cost += 60.0 * sum(line.meets(each.mark) for each in apart) if line else 0.0
            found.append(Place(box, line, cost))
    if not found:  # no room at all beside the points: as close as can be, whatever is there
        left = min(max(spot.x + GAP, area.left), max(area.left, area.right - spot.width))
        top = spot.y - spot.height / 2
        found.append(Place(Box(left, top, left + spot.width, top + spot.height), None, NO_ROOM))
    return sorted(found, key=lambda each: each.cost)


def _box(spot: Spot, ring: float, across: float, down: float) -> Box:
    """The box of a name in a direction from its point: its edge or its corner faces the point."""
    side = max(-1.0, min(1.0, 2 * across))  # half of the name moves to the side
    x = spot.x + across * (GAP + ring) + side * spot.width / 2
    y = spot.y + down * (GAP + ring + spot.height / 2)
    return Box(x - spot.width / 2, y - spot.height / 2, x + spot.width / 2, y + spot.height / 2)
