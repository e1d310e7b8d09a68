"""What ``hedgerow fit`` chooses by itself, and how it says so."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import scipy.sparse as sp

from hedgerow.data import Part
from hedgerow.estimators.presets import choose_for_data, reading_parameters
from hedgerow.training.settings import Method
from hedgerow.training.shape import rivals_in

from .duration import say_duration

if TYPE_CHECKING:
    from .searching import Searched

__all__ = ["Chosen", "Request", "choose"]

# A fit that is expected to take less of the time than this leaves the rest to a search for settings.
_LITTLE = 1 / 3


@dataclass(frozen=True)
class Chosen:
    """All parameters of a fit, those that nobody gave chosen by a preset, and the time it should take.

    `within` are the seconds that were given, None where none were; `searched` is what a search in the rest of
    them found.
    """

    preset: str
    settings: dict[str, Any]
    texts: dict[str, Any] | None
    seconds: float
    within: float | None = None
    searched: Searched | None = None

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
        return f"Preset {self.preset}: {what}. {self._details} Training should take {_about(self.seconds)}."

    @property
    def warning(self) -> str | None:
        """What to say where even the quickest there is should take longer than the time that was given."""
        if self.within is None or self.seconds <= self.within:
            return None
        return (
            f"even the quickest settings should take about {say_duration(self.seconds)}, longer than the"
            f" {say_duration(self.within)} of --time; they are trained all the same"
        )

    @property
    def leaves_time(self) -> bool:
        """Whether much of the time that was given is left for a search."""
        return self.within is not None and self.seconds < _LITTLE * self.within

    def describe(self) -> dict[str, Any]:
        """For programs."""
        about = {"preset": self.preset, "expected_seconds": round(self.seconds, 1)}
        return about if self.searched is None else about | {"search": self.searched.describe()}

    def with_search(self, searched: Searched) -> Chosen:
        """The same with the settings that a search found."""
        found = searched.parameters
        texts = self.texts
        if texts is not None:
            texts = texts | {name: value for name, value in found.items() if name in texts}
        settings = {name: value for name, value in found.items() if texts is None or name not in texts}
        return replace(self, settings=self.settings | settings, texts=texts, searched=searched)

    @property
    def _details(self) -> str:
        given = self.settings
        read = _features_read(given) if self.texts is None else _texts_read(self.texts)
        return (
            f"{read}; classifiers are solved to a tolerance of {given.get('tolerance', 0.1):g}, and weights"
            f" below {given['weight_threshold']:g} are dropped."
        )


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
    processors = request.threads or os.cpu_count() or 1
    work = None if request.seconds is None else request.seconds * processors
    settings = request.settings
    choice, size = choose_for_data(
        request.preset, inputs, truth, Method(settings["method"]), settings["members"], work
    )
    chosen = {name: value for name, value in choice.parameters.items() if name not in request.given}
    settings = {"negatives": "tfn", "matcher_beam": 20} | settings | chosen
    if not settings["judge"]:
        settings["wide"] = None
    texts: dict[str, Any] | None = request.texts
    if part.X is not None:
        texts = None
        settings |= reading_parameters(choice.preset, inputs, truth, size)
    elif request.texts["analyzer"] == "word":
        suited = reading_parameters(choice.preset, inputs, truth, size, request.texts["fields"])
        # Which fields there are is given; how they are read is chosen.
        given = request.given - {"fields"}
        texts = request.texts | {name: value for name, value in suited.items() if name not in given}
    return Chosen(choice.preset, settings, texts, choice.seconds / processors, request.seconds)


def _features_read(settings: dict[str, Any]) -> str:
    return "Features are damped" if settings.get("dampen") else "Features are taken as they are"


def _texts_read(texts: dict[str, Any]) -> str:
    """How texts become features, in words."""
    first, last = texts["char_ngrams"]
    chars = f"n-grams of {first} characters" if first == last else f"n-grams of {first} to {last} characters"
    pairs = texts["ngrams"][1] > 1
    language = texts["language"]
    words = "words as they are written" if language is None else "stems of words"
    named = f" (language {language})" if language is not None else ""
    if texts["fields"] is None:
        parts = [] if texts["analyzer"] == "char_wb" else [words, *(["pairs of them"] if pairs else [])]
        parts += [chars] if texts["analyzer"] != "word" else []
        return f"Texts are read as {_listed(parts)}{named if texts['analyzer'] != 'char_wb' else ''}"
    read: dict[str, list[str]] = {}
    for name in texts["fields"]:
        field, _, how = str(name).partition("~")
        own = read.setdefault(field, [])
        if how == "chars":
            own.append(chars)
        else:
            own += [words, *(["pairs of them"] if pairs and how != "words" else [])]
    said = "; ".join(f"{field} is read as {_listed(parts)}" for field, parts in read.items())
    return f"Of records, {said}{named}"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _about(seconds: float) -> str:
    if seconds < 20:
        return "some seconds"
    if seconds < 100:
        return f"about {round(seconds, -1):.0f} s"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:.1f} hours"
