"""The charts of a report; what they say is in figures.toml."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.decisions.kept import KeptGuarantee
from hedgerow.evaluation.results import Evaluation
from hedgerow.paper.efficiency import TheoremChecks

from .content import Figure, Kind, Series

_SCORES = ("ood", "variance", "total", "knowledge", "joint_energy", "expected")
_NAMES = {
    "energy": "Energy",
    "ood": "OOD score",
    "joint_energy": "JointEnergy",
    "expected": "expected number of labels",
}
_WRONG = {
    "labels": "of all accepted labels",
    "answered": "mean over answered inputs",
    "inputs": "mean over all inputs",
}
_ABOUT = tomllib.loads(resources.files(__package__).joinpath("figures.toml").read_text(encoding="utf-8"))


def figures(found: Evaluation, checks: TheoremChecks | None) -> list[Figure]:
    """All charts that an evaluation has the numbers for."""
    made = [_long_tail(found), _error_areas(found), _risk_coverage(found), _reliability(found)]
    if found.by_frequency:
        made += _frequency(found)
    if any(of.achieved is not None for of in found.decisions):
        made += _guarantees(found)
    made += [_roc(name, place, found) for place, name in enumerate(found.ood)]
    if checks:
        made += _theorems(checks)
    return made


def _figure(kind: str, series: Sequence[Series], **own: Any) -> Figure:
    """A chart of a kind, with what figures.toml says of it unless this one has its own."""
    about = {name: tuple(of) if isinstance(of, list) else of for name, of in _ABOUT[kind].items()}
    return Figure(**{"id": kind, "series": series, **about, **own})


def _long_tail(found: Evaluation) -> Figure:
    mean, deviation = found.long_tail.T
    ranks = np.arange(1, len(mean) + 1)
    kept = mean > 0
    low = np.maximum(mean - deviation, mean * 1e-3)
    band = Series("± deviation", ranks[kept], (), "band", low[kept], (mean + deviation)[kept])
    return _figure("long-tail", [band, Series("mean", ranks[kept], mean[kept])])


def _error_areas(found: Evaluation) -> Figure:
    edges = np.linspace(0.5, 1, 26)
    series = []
    kinds: dict[str, tuple[int, Kind]] = {"total": (1, "bars"), "knowledge": (3, "line")}
    for measure, (place, kind) in kinds.items():
        if measure in found.misclassification:
            areas = found.judgement.auroc[:, place]
            areas = np.clip(areas[~np.isnan(areas)], edges[0], edges[-1])
            shares = np.histogram(areas, edges)[0] / max(1, len(areas))
            series.append(Series(measure, (edges[:-1] + edges[1:]) / 2, shares, kind))
    return _figure("error-areas", series)


def _risk_coverage(found: Evaluation) -> Figure:
    curves = {_NAMES.get(name, name): of.risk_coverage for name, of in found.misclassification.items()}
    return _figure("risk-coverage", [Series(name, of.coverage, of.risk) for name, of in curves.items()])


def _reliability(found: Evaluation) -> Figure:
    series = [Series("perfectly calibrated", kind="diagonal")]
    for k, of in found.reliability.items():
        series.append(Series(f"best {k}", of.mean_probability, of.share_right, "points"))
    return _figure("reliability", series)


def _frequency(found: Evaluation) -> list[Figure]:
    groups = found.by_frequency
    places = list(range(1, len(groups) + 1))
    spans = (_span(int(group["lowest"]), int(group["highest"])) for group in groups)
    ticks = list(zip(places, spans, strict=True))
    means = [
        Series(name, places, [group[name] for group in groups])
        for name in ("probability", "total", "knowledge")
    ]
    shares = Series("among the best five", places, [group["found"] for group in groups], "bars")
    return [_figure("frequency", means, x_ticks=ticks), _figure("coverage", [shares], x_ticks=ticks)]


def _guarantees(found: Evaluation) -> list[Figure]:
    """What is not to be exceeded, what it takes, and what the best labels contain at least."""
    limits = [of for of in found.decisions if of.guarantee.kind in ("wrong", "missed")]
    shares = sorted({of.guarantee.asked for of in limits})
    places = list(range(1, len(shares) + 1))
    ticks = [(place, f"{100 * share:g} %") for place, share in zip(places, shares, strict=True)]

    def by_share(kind: str, of: str | None, value: Callable[[KeptGuarantee], float | None]) -> list[float]:
        own = {
            one.guarantee.asked: value(one)
            for one in limits
            if (one.guarantee.kind, one.guarantee.of) == (kind, of)
        }
        return [math.nan if own.get(share) is None else float(own[share] or 0) for share in shares]

    kinds = [("wrong", of, f"wrong, {words}") for of, words in _WRONG.items()] + [("missed", None, "missed")]
    achieved = [
        Series(name, places, by_share(kind, of, lambda one: one.achieved), "points")
        for kind, of, name in kinds
    ]
    work = [
        Series("accepted", places, by_share("wrong", "labels", lambda one: one.labels), "points"),
        Series("listed", places, by_share("missed", None, lambda one: one.labels), "points"),
    ]
    made = [
        _figure("guarantees", [Series("guaranteed: at most", places, shares), *achieved], x_ticks=ticks),
        _figure("work", work, x_ticks=ticks),
    ]
    best = [of for of in found.decisions if of.guarantee.kind == "review" and of.achieved is not None]
    if best:
        places = list(range(1, len(best) + 1))
        ticks = [(place, f"best {of.guarantee.asked:g}") for place, of in zip(places, best, strict=True)]
        least = Series("guaranteed: at least", places, [float(of.guarantee.promised or 0) for of in best])
        reached = Series("achieved", places, [float(of.achieved or 0) for of in best], "points")
        made.append(_figure("review", [least, reached], x_ticks=ticks))
    return made


def _span(lowest: int, highest: int) -> str:
    return str(lowest) if lowest == highest else f"{lowest}\N{EN DASH}{highest}"


def _roc(name: str, place: int, found: Evaluation) -> Figure:
    series = [Series("chance", kind="diagonal")]
    for score in _SCORES:
        if score in found.ood[name]:
            roc = found.ood[name][score].roc
            series.append(Series(_NAMES.get(score, score), roc.false_positive, roc.true_positive))
    return _figure("roc", series, id=f"roc-{place}", title=f"{_ABOUT['roc']['title']}: {name}")


def _theorems(checks: TheoremChecks) -> list[Figure]:
    regrets = [
        Series(f"layer {number}", checks.beams, _floor(of_layer))
        for number, of_layer in enumerate(np.array(checks.regret).T, 1)
    ]
    errors = [
        Series("of a label", checks.beams, _floor(checks.label_error)),
        Series("of an input", checks.beams, _floor(checks.input_error)),
        Series("certificate", checks.beams, _floor(checks.certificate)),
    ]
    return [_figure("regret", regrets), _figure("uncertainty-error", errors)]


def _floor(values: Any) -> npt.NDArray[np.float64]:
    """Differences that are only rounding are gaps on a logarithmic axis."""
    values = np.asarray(values, dtype=np.float64)
    return np.where(values > 1e-9, values, np.nan)
