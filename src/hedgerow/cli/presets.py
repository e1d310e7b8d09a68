"""What ``hedgerow fit`` chooses by itself, and how it says so."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, cast

import scipy.sparse as sp

from hedgerow.data import Part
from hedgerow.estimators.presets import measure_data, reading_parameters
from hedgerow.training.presets import choose_settings
from hedgerow.training.settings import Method
from hedgerow.training.shape import rivals_in

__all__ = ["Chosen", "Request", "choose"]


@dataclass(frozen=True)
class Chosen:
    """All parameters of a fit, those that nobody gave chosen by a preset, and the time it should take."""

    preset: str
    settings: dict[str, Any]
    texts: dict[str, Any]
    seconds: float

    @property
    def sentence(self) -> str:
        """For people."""
        given = self.settings
        what = "the settings of the paper"
        if self.preset != "paper":
            rivals = given["wide"] or rivals_in(given)
            what = f"each label is told apart from up to {rivals:,} others"
            if given["judge"]:
                what += ", and a learned judge ranks what the trees find"
        return f"Preset {self.preset}: {what}. Training should take {_about(self.seconds)}."

    def describe(self) -> dict[str, Any]:
        """For programs."""
        return {"preset": self.preset, "expected_seconds": round(self.seconds, 1)}


@dataclass(frozen=True)
class Request:
    """What was asked for: a preset or a time, settings of which some were given, and threads."""

    preset: str
    seconds: float | None
    settings: dict[str, Any]
    texts: dict[str, Any]
    given: frozenset[str]
    threads: int


def choose(part: Part, request: Request) -> Chosen:
    """The parameters of a preset, or of so many seconds, but for those that were given."""
    inputs, truth = part.texts if part.X is None else part.X, sp.csr_array(cast(Any, part.Y))
    size = measure_data(inputs, truth)
    processors = request.threads or os.cpu_count() or 1
    work = None if request.seconds is None else request.seconds * processors
    settings = request.settings
    choice = choose_settings(request.preset, size, Method(settings["method"]), settings["members"], work)
    chosen = {name: value for name, value in choice.parameters.items() if name not in request.given}
    settings = {"negatives": "tfn", "matcher_beam": 20} | settings | chosen
    if not settings["judge"]:
        settings["wide"] = None
    texts = request.texts
    if part.X is not None:
        settings |= reading_parameters(choice.preset, inputs, truth, size)
    elif texts["analyzer"] == "word":
        suited = reading_parameters(choice.preset, inputs, truth, size, texts["fields"])
        # Which fields there are is given; how they are read is chosen.
        given = request.given - {"fields"}
        texts = texts | {name: value for name, value in suited.items() if name not in given}
    return Chosen(choice.preset, settings, texts, choice.seconds / processors)


def _about(seconds: float) -> str:
    if seconds < 20:
        return "some seconds"
    if seconds < 100:
        return f"about {round(seconds, -1):.0f} s"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:.1f} hours"
