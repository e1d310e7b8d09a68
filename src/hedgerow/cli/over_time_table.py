"""Strategies over time on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from .terminal import cell, figures_table, say

if TYPE_CHECKING:
    from hedgerow.chronology import JudgedPeriod, KeptInPeriod, OverTime

_COLUMNS = ("P@1", "P@3", "P@5", "nDCG@5", "ECE@5", "unknown", "OOD")


def print_over_time(found: OverTime) -> None:
    """Print a table for each strategy, a row for each period, and what the guarantees came to."""
    console = Console(highlight=False)
    first = found.periods[0]
    say(
        f"{sum(period.inputs for period in found.periods):,} records in {len(found.periods)} periods; the"
        f" first, {first.name} ({first.inputs:,} records), is only learned from."
    )
    for judged in found.judged.values():
        columns = [*_COLUMNS, *(_promise(one) for one in judged[0].guarantees)]
        table = figures_table(f"{judged[0].words[0].upper()}{judged[0].words[1:]}, %", columns)
        for one in judged:
            table.add_row(cell(one.period), *_cells(one))
        console.print(table)
    say(
        "unknown: right labels that the model was never trained on. OOD: inputs flagged as"
        " out-of-distribution; 5 % are expected.",
        "dim",
    )
    say(
        "wrong, missed: what was reached, and of how many labels. Red: broken, too much to be chance;"
        " yellow: more than guaranteed.",
        "dim",
    )
    for judged in found.judged.values():
        _say_kept(judged)


def _promise(of: KeptInPeriod) -> str:
    return f"{of.kind} ≤ {100 * of.asked:g}"


def _cells(one: JudgedPeriod) -> list[Text]:
    shares = [one.precision.get(k) for k in ("1", "3", "5")]
    shares += [one.ndcg.get("5"), one.ece, one.unknown, one.flagged]
    return [*(cell(percent(share)) for share in shares), *(_kept(of) for of in one.guarantees)]


def _kept(of: KeptInPeriod) -> Text:
    if of.refused is not None:
        return cell("refused", "dim")
    if of.achieved is None:
        return cell("none given" if of.kind == "wrong" else "-", "dim")
    style = "red" if of.broken else "yellow" if of.kept is False else ""
    return cell(f"{100 * of.achieved:.1f} ({of.failed:,}/{of.counted:,})", style)


def percent(share: float | None) -> str:
    """A share as a number of percent; nothing where there is none."""
    return "-" if share is None else f"{100 * share:.1f}"


def _say_kept(judged: Sequence[JudgedPeriod]) -> None:
    """In how many periods the guarantees of a strategy were kept."""
    said = []
    refused = []
    for place, guarantee in enumerate(judged[0].guarantees):
        own = [one.guarantees[place] for one in judged]
        counted = [of for of in own if of.kept is not None]
        kept, broken = sum(of.kept is True for of in counted), sum(of.broken for of in counted)
        more = f" ({broken} broken)" if broken else ""
        said.append(f"{_promise(guarantee)} % in {kept} of {len(counted)} periods{more}")
        refused += [of.refused for of in own if of.refused is not None]
    if said:
        say(f"{judged[0].words}: kept {', '.join(said)}.")
    for reason in dict.fromkeys(refused):
        say(f"Refused: {reason}.", "dim")
