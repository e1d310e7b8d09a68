"""How far a model looks for labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.inputs.parameters import ParameterError, check_choice, check_integer

__all__ = ["CANDIDATES", "MISSING", "SearchSettings", "within_int32"]

CANDIDATES = ("scored", "all")
MISSING = ("exact", "delta", "bound")


@dataclass(frozen=True)
class SearchSettings:
    """How candidates are found; guarantees hold for the search that they were learned with.

    Attributes
    ----------
    beam : int
        Nodes kept in each layer of a tree.
    candidates : {"scored", "all"} or int
        All labels that the beam scored, all labels there are, or the best N of each member.
    missing : {"exact", "delta", "bound"}
        What stands for the probability of a candidate that a member did not meet.
    tolerance : float or None
        Search on below every node that is more probable; 0 goes everywhere, None leaves it to the beam.
    """

    beam: int = 50
    candidates: str | int = "scored"
    missing: str = "exact"
    tolerance: float | None = None

    def __post_init__(self) -> None:
        check_integer("beam", self.beam, 1)
        if isinstance(self.candidates, str):
            check_choice("candidates", self.candidates, CANDIDATES)
        elif isinstance(self.candidates, bool) or not isinstance(self.candidates, int | np.integer):
            raise ParameterError(
                f"candidates is {self.candidates!r}; it must be 'scored', 'all' or a number of labels"
            )
        else:
            check_integer("candidates", self.candidates, 1)
        check_choice("missing", self.missing, MISSING)
        tolerance = self.tolerance
        if tolerance is not None and (
            isinstance(tolerance, bool)
            or not isinstance(tolerance, int | float | np.number)
            or not 0 <= float(tolerance) <= 1
        ):
            raise ValueError(f"tolerance is {tolerance!r}; it is a probability, between 0 and 1")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        found = {
            "beam": self.beam,
            "candidates": self.candidates,
            "missing": self.missing,
            "tolerance": self.tolerance,
        }
        return {
            name: value.item() if isinstance(value, np.generic) else value for name, value in found.items()
        }


def within_int32(size: int) -> int:
    """The engine counts in 32 bits; whatever is larger means "no limit"."""
    return min(int(size), np.iinfo(np.int32).max)
