"""Finished experiments by data set and method, and what the paper has beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .deep_models import OWN_ENCODERS, WORDS
from .experiment import Experiment
from .published import (
    COLUMNS,
    DEEP_COLUMNS,
    DEEP_MISCLASSIFICATION,
    DEEP_PERFORMANCE,
    MISCLASSIFICATION,
    PERFORMANCE,
)
from .table import Cell

TITLES = {
    WORDS: "Words alone, single model",
    "single": "Single model",
    "mc-dropout": "MC dropout",
    "boosting": "Boosting",
    "bagging": "Bagging",
    "boosted-bagging": "Boosted bagging",
    OWN_ENCODERS: "Boosted bagging, an encoder each",
}


@dataclass(frozen=True)
class PaperTables:
    """What the paper has of a base model: figures by data set."""

    accuracies: Mapping[str, Mapping[str, Sequence[float]]]
    columns: Sequence[tuple[str, str]]  # methods and measures that find wrong labels
    paper_columns: Sequence[tuple[str, str]]  # those among them that the paper has
    areas: Mapping[str, Sequence[float]]
    has_ood: bool


LINEAR = PaperTables(PERFORMANCE, COLUMNS, COLUMNS, MISCLASSIFICATION, True)
DEEP = PaperTables(
    DEEP_PERFORMANCE,
    [(WORDS, "energy"), *COLUMNS, *((OWN_ENCODERS, m) for m in ("variance", "total", "knowledge"))],
    DEEP_COLUMNS,
    DEEP_MISCLASSIFICATION,
    False,
)


class Findings:
    """Experiments by data set and method."""

    def __init__(self, experiments: Sequence[Experiment], paper: PaperTables) -> None:
        self.paper = paper
        self.data = list(dict.fromkeys(e.data for e in experiments))
        self.methods = [m for m in TITLES if any(e.method == m for e in experiments)]
        self._runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for e in experiments:
            self._runs.setdefault((e.data, e.method), []).append(e.found)

    @property
    def strongest(self) -> str:
        """The method that tables show if they show only one."""
        return "boosted-bagging" if "boosted-bagging" in self.methods else (self.methods or [""])[-1]

    def runs(self, data: str, method: str) -> list[Mapping[str, Any]]:
        """What the experiments found, one for each seed."""
        return self._runs.get((data, method), [])

    def cell(self, data: str, method: str, *keys: str, scale: float = 100, digits: int = 2) -> Cell | None:
        """The value at a path of keys, over seeds; None where any lacks it."""
        values = []
        for run in self.runs(data, method):
            value: Any = run
            for key in keys:
                value = value.get(key) if isinstance(value, Mapping) else None
            if value is None:
                return None
            values.append(scale * float(value))
        return Cell(values, digits) if values else None

    def pairs(self) -> list[tuple[str, str]]:
        """Training data and data sets that serve as out-of-distribution inputs."""
        return [
            (data, other)
            for data in self.data
            for other in dict.fromkeys(
                name for method in self.methods for run in self.runs(data, method) for name in run["ood"]
            )
        ]
