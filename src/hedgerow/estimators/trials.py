"""Trials of settings: what each scored, how two compare, and the journal that keeps them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.storage.atomic_file import check_target, refuse_link

__all__ = ["Comparison", "Journal", "JournalError", "Outcome", "Trial", "compare", "count_trials"]

_FORMAT = 1
_MARK = b'{"journal"'  # how each begins
_LARGEST = 1 << 30  # bytes; 5,000 scores of a trial take about 100 kB
# What must be the same for trials to be comparable, and what to say where it is not, given what it was.
_ASKED = {
    "data": "other data",
    "seed": "another seed ({!r:.20})",
    "by": "another measure (by={!r:.20})",
    "start": "other starting settings",
    "hedgerow": "another version of Hedgerow ({!r:.20})",
}


class JournalError(ValueError):
    """A journal of another search, or one that is damaged."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What settings scored on the validation inputs that have labels.

    Attributes
    ----------
    figures : dict of str to float
        Means of several measures.
    scores : array, shape (inputs,)
        The measure that decides, of each input; empty if training failed.
    seconds : float
        Wall-clock time of training and predicting.
    failed : str or None
        Why the settings cannot be used with these data.
    """

    figures: dict[str, float]
    scores: npt.NDArray[np.float64]
    seconds: float
    failed: str | None = None


@dataclass(frozen=True)
class Comparison:
    """The mean difference of two settings over the same inputs, and its standard error."""

    difference: float
    standard_error: float

    @property
    def is_gain(self) -> bool:
        """Whether the difference is larger than its standard error."""
        return self.difference > self.standard_error


@dataclass(frozen=True, eq=False)
class Trial:
    """Settings that were tried, and what became of them.

    Attributes
    ----------
    change : str
        What differs from the settings that were best before; "balanced" for the start.
    parameters : dict
        The parameters that make this difference.
    outcome : Outcome
        What was measured.
    comparison : Comparison or None
        Against the settings that were best before; None for the start, and where training failed.
    kept : bool
        Whether the search went on from here.
    resumed : bool
        Whether the outcome was in the journal.
    """

    change: str
    parameters: dict[str, Any]
    outcome: Outcome
    comparison: Comparison | None
    kept: bool
    resumed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For JSON, without the scores of single inputs."""
        compared = self.comparison
        return {
            "change": self.change,
            "parameters": self.parameters,
            "figures": self.outcome.figures,
            "difference": None if compared is None else compared.difference,
            "standard_error": None if compared is None else compared.standard_error,
            "kept": self.kept,
            "seconds": self.outcome.seconds,
            "failed": self.outcome.failed,
        }


def compare(new: npt.NDArray[np.float64], old: npt.NDArray[np.float64]) -> Comparison:
    """Compare the scores of the same inputs, pair by pair.

    Examples
    --------
    >>> compare(np.array([1.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    Comparison(difference=0.3333333333333333, standard_error=0.33333333333333337)
    """
    differences = new - old
    count = len(differences)
    error = float(differences.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    return Comparison(float(differences.mean()), error)


class Journal:
    """Finished trials in a file of JSON lines, from which a stopped search goes on.

    The first line says what the search is about, each other line is a trial. A line that a crash cut off is
    dropped.
    """

    def __init__(self, path: str | os.PathLike[str] | None, asked: Mapping[str, Any]) -> None:
        """Open a journal, or keep trials in memory only; `asked` is what trials of the same search share."""
        self.path = None if path is None else refuse_link(Path(path))
        self._asked = {"journal": _FORMAT, **_as_json(asked)}
        self._known: dict[str, Outcome] = {}
        self._size: int | None = None  # of what is sound in the file; None where there is no file yet
        if self.path is not None:
            check_target(self.path, overwrite=True)
            if self.path.exists():
                self._read(self.path)

    def __len__(self) -> int:
        return len(self._known)

    def find(self, parameters: Mapping[str, Any]) -> Outcome | None:
        """What these parameters scored, if they were tried."""
        return self._known.get(_key(parameters))

    def add(self, change: str, parameters: Mapping[str, Any], outcome: Outcome) -> None:
        """Keep a trial; it is on disk when this returns."""
        self._known[_key(parameters)] = outcome
        if self.path is None:
            return
        lines = [] if self._size else [self._asked]
        lines.append(
            {
                "change": change,
                "parameters": dict(parameters),
                "figures": outcome.figures,
                "seconds": outcome.seconds,
                "failed": outcome.failed,
                "scores": outcome.scores.tolist(),
            }
        )
        written = "".join(json.dumps(line) + "\n" for line in lines).encode()
        # In place, since a trial is only ever added; what a crash left of one is cut off first.
        with open(self.path, "r+b" if self._size is not None else "xb") as file:
            file.truncate(self._size or 0)
            file.seek(self._size or 0)
            file.write(written)
            file.flush()
            os.fsync(file.fileno())
        self._size = (self._size or 0) + len(written)

    def _read(self, path: Path) -> None:
        if path.stat().st_size > _LARGEST:
            raise self._damaged(path, "is too large")
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if not whole and content[: len(_MARK)] != _MARK[: len(content)]:
            raise self._damaged(path, "is something else")
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                entry = json.loads(line)
                if number == 1:
                    self._check(path, entry)
                else:
                    self._known[_key(entry["parameters"])] = _outcome(entry)
            except JournalError:
                raise
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise self._damaged(path, f"is damaged in line {number}") from error
        lengths = {len(outcome.scores) for outcome in self._known.values() if outcome.failed is None}
        if len(lengths) > 1:
            raise self._damaged(path, "has trials of different inputs")
        self._size = len(whole)

    def _check(self, path: Path, header: Any) -> None:
        if not isinstance(header, dict) or header.get("journal") != _FORMAT:
            raise self._damaged(path, "is something else")
        other = [
            words.format(header.get(name))
            for name, words in _ASKED.items()
            if header.get(name) != self._asked.get(name)
        ]
        if other:
            raise JournalError(
                f"{path} holds trials of {' and '.join(other)}; delete it to start again, or choose another"
                " name"
            )

    @staticmethod
    def _damaged(path: Path, what: str) -> JournalError:
        return JournalError(
            f"{path} should hold the trials of an earlier search, but {what}; move it away, or choose"
            " another name"
        )


def count_trials(path: str | os.PathLike[str]) -> int:
    """How many trials a journal holds; 0 where there is none."""
    try:
        return max(0, Path(path).read_bytes().count(b"\n") - 1)
    except FileNotFoundError:
        return 0


def _outcome(entry: dict[str, Any]) -> Outcome:
    scores = np.array(entry["scores"], dtype=np.float64)
    figures = {str(name): float(value) for name, value in entry["figures"].items()}
    seconds, failed = float(entry["seconds"]), entry["failed"]
    sound = scores.ndim == 1 and np.isfinite([*scores, *figures.values(), seconds]).all() and seconds >= 0
    if not sound or not isinstance(failed, str | None) or (failed is None) != bool(len(scores)):
        raise ValueError("not the outcome of a trial")
    return Outcome(figures, scores, seconds, failed)


def _key(parameters: Mapping[str, Any]) -> str:
    return json.dumps(dict(parameters), sort_keys=True)


def _as_json(value: Any) -> Any:
    """As it comes back from a file: tuples become lists."""
    return json.loads(json.dumps(dict(value)))
