"""Strategies over time on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from .failures import option_words
from .options import GOALS
from .terminal import cell, figures_table, say

if TYPE_CHECKING:
    from hedgerow.chronology import JudgedPeriod, KeptInPeriod, OverTime

_COLUMNS = ("P@1", "P@3", "P@5", "nDCG@5", "ECE@5", "unknown", "OOD")


def print_over_time(found: OverTime) -> None:
    """Print how good each strategy is, a row for each period, and what its guarantees came to."""
    console = Console(highlight=False)
    first = found.periods[0]
    say(
        f"{sum(period.inputs for period in found.periods):,} records in {len(found.periods)} periods; the"
        f" first, {first.name} ({first.inputs:,} records), is only learned from."
    )
    strategies = list(found.judged.values())
    for judged in strategies:
        table = figures_table(f"{_title(judged[0].words)}, %", list(_COLUMNS))
        for one in judged:
            table.add_row(cell(one.period), *_cells(one))
        console.print(table)
    say(
        "unknown: right labels that the model was never trained on. OOD: inputs flagged as"
        " out-of-distribution; 5 % are expected.",
        "dim",
    )
    for place, guarantee in enumerate(strategies[0][0].guarantees):
        say(_promise(guarantee), "bold")  # as a title, it would be as narrow as the table
        table = figures_table("", [judged[0].words for judged in strategies])
        table.title = None
        for row in zip(*strategies, strict=True):
            table.add_row(cell(row[0].period), *(_kept(one.guarantees[place]) for one in row))
        console.print(table)
        say(_summary(strategies, place))
    guarantees = [of for judged in strategies for one in judged for of in one.guarantees]
    if guarantees:
        say(
            "%, and of how many labels. Red: broken, more than chance explains. Yellow: more than"
            " guaranteed.",
            "dim",
        )
    shifted = [
        f"{judged[0].words} in {sum(one.shifted for one in judged)} of {len(judged)}"
        for judged in strategies
        if any(one.shifted for one in judged)
    ]
    if shifted:
        say(
            "Inputs are not like those that the model was calibrated on, so guarantees are not supported"
            f" (test martingale): {', '.join(shifted)} periods."
        )
    if refused := [of.refused for of in guarantees if of.refused is not None]:
        # The reasons differ only in their figures.
        last = "" if len(refused) == 1 else f" {len(refused)} times; the last time,"
        say(f"Refused{last or ':'} {option_words(refused[-1], GOALS)}.", "dim")


def _title(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"


def _promise(of: KeptInPeriod) -> str:
    what = "Accepted labels that are wrong" if of.kind == "wrong" else "Known right labels that are missed"
    return f"{what}, at most {100 * of.asked:g} %"


def _cells(one: JudgedPeriod) -> list[Text]:
    shares = [one.precision.get(k) for k in ("1", "3", "5")]
    shares += [one.ndcg.get("5"), one.ece, one.unknown, one.flagged]
    return [cell("-" if share is None else f"{100 * share:.1f}") for share in shares]


def _kept(of: KeptInPeriod) -> Text:
    if of.refused is not None:
        return cell("refused", "dim")
    if of.achieved is None:
        return cell("none accepted" if of.kind == "wrong" else "-", "dim")
    style = "red" if of.broken else "yellow" if of.kept is False else ""
    return cell(f"{100 * of.achieved:.1f} {of.failed}/{of.counted}", style)


def _summary(strategies: Sequence[Sequence[JudgedPeriod]], place: int) -> str:
    """In how many periods each strategy kept a guarantee."""
    said = []
    for judged in strategies:
        own = [one.guarantees[place] for one in judged]
        counted = [of for of in own if of.kept is not None]
        broken = sum(of.broken for of in counted)
        more = f" ({broken} broken)" if broken else ""
        said.append(f"{judged[0].words} in {sum(of.kept is True for of in counted)} of {len(counted)}{more}")
    return f"Kept: {', '.join(said)} periods."
