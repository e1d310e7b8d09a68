"""From strategies over time to what a report says."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

from hedgerow.chronology import JudgedPeriod, KeptInPeriod, OverTime

from .content import Content, Figure, Headline, Kind, Series, Setting

__all__ = ["compose_over_time"]

_ABOUT = tomllib.loads(resources.files(__package__).joinpath("figures.toml").read_text(encoding="utf-8"))
_WRONG = {
    "labels": "of all accepted labels",
    "answered": "of an input's accepted labels, mean over answered inputs",
    "inputs": "of an input's accepted labels, mean over all inputs",
}


def compose_over_time(found: OverTime, title: str) -> Content:
    """What a page says of models over time."""
    periods = found.periods
    return Content(
        title=title,
        subtitle=f"{sum(period.inputs for period in periods):,} records from {periods[0].first} to"
        f" {periods[-1].last}, in {len(periods)} periods",
        headline=[_headline(judged) for judged in found.judged.values()],
        figures=_figures(found),
        settings=[
            Setting(name.replace("_", " "), ", ".join(value) if isinstance(value, list) else str(value))
            for name, value in found.plan.to_dict().items()
            if value is not None
        ],
        notes=_notes(found),
    )


def _headline(judged: Sequence[JudgedPeriod]) -> Headline:
    last = judged[-1]
    value = "-" if not last.precision else f"{100 * last.precision['1']:.1f} %"
    return Headline(
        f"{last.words[0].upper()}{last.words[1:]}",
        value,
        f"precision at 1 in the last period, {last.period}, of a model trained on {last.trained:,} records",
    )


def _figures(found: OverTime) -> list[Figure]:
    judged = found.judged
    made = [
        _figure("time-precision", found, _lines(found, lambda one: one.precision.get("1"))),
        _figure("time-ndcg", found, _lines(found, lambda one: one.ndcg.get("5"))),
    ]
    places = _places(found)
    for place, guarantee in enumerate(next(iter(judged.values()))[0].guarantees):
        limit = Series("guaranteed: at most", places, [guarantee.asked] * len(places))
        lines = _lines(found, lambda one, place=place: one.guarantees[place].achieved)  # type: ignore[misc]
        made.append(_figure(f"time-{guarantee.kind}", found, [*lines, limit]))
    new = Series("in no earlier period", places, [_new(period) for period in found.periods[1:]], "points")
    made += [
        _figure("time-unknown", found, [*_lines(found, lambda one: one.unknown), new]),
        _figure("time-ece", found, _lines(found, lambda one: one.ece)),
    ]
    if any(one.ood is not None for of in judged.values() for one in of):
        expected = Series("expected", places, [0.05] * len(places))
        made.append(_figure("time-ood", found, [*_lines(found, lambda one: one.flagged), expected]))
    return made


def _places(found: OverTime) -> list[int]:
    return list(range(1, len(found.periods)))


def _lines(found: OverTime, value: Callable[[JudgedPeriod], float | None]) -> list[Series]:
    """A line for each strategy, or points where there are gaps, which could leave nothing of a line."""
    made = []
    for judged in found.judged.values():
        values = [value(one) for one in judged]
        numbers = [math.nan if of is None else of for of in values]
        kind: Kind = "points" if any(map(math.isnan, numbers)) else "line"
        made.append(Series(judged[0].words, _places(found), numbers, kind))
    return made


def _new(period: Any) -> float:
    return period.new_labels / period.true_labels if period.true_labels else math.nan


def _figure(kind: str, found: OverTime, series: Sequence[Series]) -> Figure:
    about: dict[str, Any] = _ABOUT[kind]
    # Of periods by number, the name is long, and the time at which each begins says as much.
    names = [period.first if found.plan.unit is None else period.name for period in found.periods[1:]]
    ticks = list(zip(_places(found), names, strict=True))
    return Figure(**{"id": kind, "series": series, "x_ticks": ticks, **about})


def _notes(found: OverTime) -> list[str]:
    notes = [
        f"Before each period, a model learns only from earlier records. The last"
        f" {100 * found.plan.held_out:g} % of those that it is trained on calibrate it and set the thresholds"
        " of its guarantees.",
    ]
    for judged in found.judged.values():
        notes += [sentence for one in judged for of in one.guarantees if (sentence := _broken(one, of))]
        if shifted := [one.period for one in judged if one.shifted]:
            notes.append(
                f"{judged[0].words}: the inputs are not like those that the model was calibrated on (test"
                f" martingale) in {', '.join(shifted)}, so guarantees are not supported there."
            )
    refused = [of.refused for judged in found.judged.values() for one in judged for of in one.guarantees]
    notes += [f"Not guaranteed: {reason}." for reason in dict.fromkeys(filter(None, refused))]
    return notes


def _broken(one: JudgedPeriod, of: KeptInPeriod) -> str | None:
    """What is said of a guarantee that is broken."""
    if not of.broken or of.achieved is None:
        return None
    what = f"wrong, {_WRONG[of.of or 'labels']}" if of.kind == "wrong" else "missed, of right labels known"
    return (
        f"{one.words}, {one.period}: a guarantee is broken. {100 * of.achieved:.1f} % are {what}, and at most"
        f" {100 * of.asked:g} % were to be ({of.failed:,} of {of.counted:,} labels; one-sided test,"
        f" p = {of.p_value:.1g})."
    )
