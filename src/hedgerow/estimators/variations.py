"""Which settings are tried around others, one thing at a time, and how much longer they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hedgerow.training.presets import DataSize, members_cost, tree_cost
from hedgerow.training.settings import Method
from hedgerow.training.shape import Shape, rivals_in, wide_shape, wide_tolerance

__all__ = ["Change", "relative_cost", "variations"]

_TOLERANCES = (1.0, 0.3, 0.1)
_MIN_COUNTS = (1, 2, 3)
_NGRAMS = ((1, 1), (1, 2))
_LANGUAGES = (None, "auto")


@dataclass(frozen=True)
class Change:
    """One thing that differs: its name, what it is and would be, and the parameters that make it so."""

    name: str
    before: str
    after: str
    parameters: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.name} {self.before} -> {self.after}"


def variations(current: Mapping[str, Any], labels: int) -> list[Change]:
    """What to try next to the current parameters, of data with so many labels.

    Examples
    --------
    >>> current = {"method": "bagging", "wide": 300, "leaf_size": 100, "C": 1.0, "positive_cost": 1.0}
    >>> [str(change) for change in variations(current | {"tolerance": 0.1}, 1000)][:4]
    ['rivals 300 -> 600', 'rivals 300 -> 150', 'C 1 -> 0.5', 'C 1 -> 2']
    """
    found = [*_shapes(current, labels), *_costs(current), *_leaves(current, labels), *_words(current)]
    return [
        change for change in found if any(current[name] != value for name, value in change.parameters.items())
    ]


def _shapes(current: Mapping[str, Any], labels: int) -> Iterator[Change]:
    """The number of labels that a label is told apart from: by the wide tree, or by the only one itself."""
    alone = current["wide"] is None
    now = min(labels, rivals_in(current) if alone else current["wide"])
    for wanted in (min(labels, 2 * now), max(1, now // 2)):
        parameters = wide_shape(labels, wanted).describe() if alone else {"wide": wanted}
        then = min(labels, rivals_in(parameters)) if alone else wanted
        yield Change("rivals", f"{now:,}", f"{then:,}", parameters)


def _costs(current: Mapping[str, Any]) -> Iterator[Change]:
    """How closely classifiers fit the data, and how precisely they are solved."""
    for name, factors in (("C", (0.5, 2.0)), ("positive_cost", (2.0, 0.5))):
        now = float(current[name])
        for then in (now * factor for factor in factors):
            if name == "C" or then >= 1:
                yield Change(name, f"{now:g}", f"{then:g}", {name: then})
    now = float(current["tolerance"])
    for then in [tighter for tighter in _TOLERANCES if tighter < now][:1]:
        yield Change("tolerance", f"{now:g}", f"{then:g}", {"tolerance": then})


def _leaves(current: Mapping[str, Any], labels: int) -> Iterator[Change]:
    """Leaves of the trees that find labels. Those of a tree without a wide one follow from its rivals."""
    if current["wide"] is not None:
        now = min(labels, int(current["leaf_size"]))
        for then in (min(labels, 2 * now), max(1, now // 2)):
            yield Change("leaf_size", f"{now:,}", f"{then:,}", {"leaf_size": then})


def _words(current: Mapping[str, Any]) -> Iterator[Change]:
    """What counts as a word, where inputs are texts."""
    if "min_count" not in current:
        return
    words = current["analyzer"] == "word"
    ngrams = tuple(current["ngrams"])
    choices: list[tuple[str, Any, tuple[Any, ...]]] = [
        *([("language", current["language"], _LANGUAGES)] if words else []),
        ("min_count", current["min_count"], _MIN_COUNTS),
        *([("ngrams", ngrams, _NGRAMS)] if words else []),
        ("sublinear", current["sublinear"], (not current["sublinear"],)),
    ]
    for name, now, choice in choices:
        for then in choice:
            if then != now:
                yield Change(name, _said(now), _said(then), {name: then})


def _said(value: Any) -> str:
    """A value as people say it."""
    if isinstance(value, tuple):
        return str(value[1])
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def relative_cost(parameters: Mapping[str, Any], other: Mapping[str, Any], size: DataSize) -> float:
    """How many times as long these parameters take to train as the others, by the model of costs."""
    return _cost(parameters, size) / _cost(other, size)


def _cost(parameters: Mapping[str, Any], size: DataSize) -> float:
    names = ("branching", "leaf_size", "negatives", "matcher_beam")
    shape = Shape(*(parameters[name] for name in names))
    tolerance, method = parameters["tolerance"], Method(parameters["method"])
    cost = members_cost(size, shape, method, parameters["members"], tolerance)
    if parameters["wide"] is not None:
        cost += tree_cost(size, wide_shape(size.labels, parameters["wide"]), wide_tolerance(tolerance))
    return cost
