"""The charts of a report; what they say is in figures.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

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
_ABOUT = tomllib.loads(resources.files(__package__).joinpath("figures.toml").read_text(encoding="utf-8"))


def figures(found: Evaluation, checks: TheoremChecks | None) -> list[Figure]:
    """All charts that an evaluation has the numbers for."""
    made = [_long_tail(found), _error_areas(found), _risk_coverage(found), _reliability(found)]
    if found.by_frequency:
        made += _frequency(found)
    if any(of.outcome for of in found.decisions):
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
    kept = [(of, of.outcome) for of in found.decisions if of.outcome is not None]
    places = list(range(1, len(kept) + 1))
    ticks = [(place, f"{100 * of.risk:g} %") for place, (of, _) in zip(places, kept, strict=True)]
    shares = [
        Series("guaranteed: at most", places, [of.risk for of, _ in kept]),
        Series("true labels rejected", places, [outcome.missed for _, outcome in kept], "points"),
        Series("accepted labels wrong", places, [outcome.wrong for _, outcome in kept], "points"),
    ]
    work = [
        Series("accepted", places, [outcome.accepted for _, outcome in kept], "points"),
        Series("needs review", places, [outcome.reviewed for _, outcome in kept], "points"),
    ]
    return [_figure("guarantees", shares, x_ticks=ticks), _figure("work", work, x_ticks=ticks)]


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
