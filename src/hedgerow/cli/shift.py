"""What commands say of inputs that are not like the held-out ones, and of guarantees that were not kept."""

from __future__ import annotations

from typing import Annotated, Protocol

import typer
from rich.console import Console

from .failures import ExitCode
from .terminal import cell, say

FailOnShift = Annotated[
    bool,
    typer.Option(
        "--fail-on-shift",
        help=f"End with exit status {int(ExitCode.SHIFT)} if a guarantee is broken, or not supported because"
        " the inputs are not like those that MODEL was calibrated on.",
    ),
]


class Report(Protocol):
    """What was found; see `hedgerow.shift.ShiftReport`."""

    @property
    def broken(self) -> bool: ...  # noqa: D102
    @property
    def words(self) -> str: ...  # noqa: D102


def warn_of_shift(report: Report | None, for_programs: bool = False) -> None:
    """Say first, in red, what is broken; on stderr where stdout is read by programs."""
    if report is not None and report.broken:
        Console(highlight=False, stderr=for_programs).print(cell(report.words, "bold red"), soft_wrap=True)


def note_no_shift(report: Report | None) -> None:
    """Say last that no shift was found, or why it was not looked for."""
    if report is not None and not report.broken:
        say(report.words, "dim")


def end_on_shift(report: Report | None, wanted: bool) -> None:
    """End with the exit status of shift, where that is wanted and something is broken."""
    if wanted and report is not None and report.broken:
        raise typer.Exit(int(ExitCode.SHIFT))
