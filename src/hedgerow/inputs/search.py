"""How far a model looks for labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.inputs.parameters import ParameterError, check_choice, check_integer, check_real

CANDIDATES = ("scored", "all")
MISSING = ("exact", "delta", "bound")
FLOOR = 1e-4  # of ensembles: P@k, nDCG and AUROC as without, on validation parts of three data sets
SURE_LABELS = 20  # found under any floor; as in native/descent.h


@dataclass(frozen=True)
class SearchSettings:
    """How candidates are found; guarantees hold for the search that they were learned with."""

    beam: int = 50  # nodes kept in each layer of a tree
    candidates: str | int = "scored"  # all labels that the beam scored, "all", or the best N of each member
    missing: str = "exact"  # what stands for the probability of a candidate that a member did not meet
    tolerance: float | None = None  # search on below every node that is more probable
    floor: float = 0.0  # where several trees vote: do not search below nodes that are less probable

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
        check_real("floor", self.floor, at_least=0, below=1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a model file; a floor only where there is one, as files had none at first."""
        return {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in vars(self).items()
            if name != "floor" or value
        }


@dataclass(frozen=True)
class JudgedSearch(SearchSettings):
    """A search in a single tree that also says what the labels' own classifiers say of what it finds."""

    headroom: float = 0.0  # by which their scores are lowered, so that sure labels can be told apart


def within_int32(size: int) -> int:
    """The engine counts in 32 bits; whatever is larger means "no limit"."""
    return min(int(size), np.iinfo(np.int32).max)
