"""What the paper reports, and where its data sets come from. Figures are percentages, times are minutes.

The last figure of table 6 is as printed, and must be a misprint: the single model has 37.49 there.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import orjson

Figures = dict[str, list[float]]
Column = tuple[str, str]


@dataclass(frozen=True)
class PaperData:
    """A data set of the paper: its title there, and how many inputs and labels it has."""

    title: str
    train: int
    test: int
    labels: int

    @property
    def origin(self) -> str:
        """Where to get it and in which files, in a sentence."""
        return (
            f"{self.title} is one of the data sets of the extreme classification repository (Bhatia et al.)"
            " and of the AttentionXML and PECOS benchmarks. Download it into that folder, with"
            " train.txt and test.txt of the repository, or with X.trn.npz, Y.trn.npz, X.tst.npz and"
            " Y.tst.npz of PECOS, or with train_texts.txt, train_labels.txt, test_texts.txt and"
            " test_labels.txt"
        )


def known_data(path: Path) -> PaperData | None:
    """The data set of the paper that a folder is named after, or None."""
    return DATA_SETS.get(path.name.lower())


_PAPER: dict[str, Any] = orjson.loads(resources.files(__package__).joinpath("published.json").read_bytes())

DATA_SETS = {name: PaperData(**about) for name, about in _PAPER["data_sets"].items()}
# Tables 2 and 6, by data set and method: P@1, P@3, P@5, R@1, R@3, R@5.
PERFORMANCE: dict[str, Figures] = _PAPER["performance"]
DEEP_PERFORMANCE: dict[str, Figures] = _PAPER["deep_performance"]
# Methods and measures of tables 3 and 4, and of table 7.
COLUMNS: list[Column] = [(method, measure) for method, measure in _PAPER["columns"]]
DEEP_COLUMNS: list[Column] = [(method, measure) for method, measure in _PAPER["deep_columns"]]
# Tables 3 and 7, by data set.
MISCLASSIFICATION: Figures = _PAPER["misclassification"]
DEEP_MISCLASSIFICATION: Figures = _PAPER["deep_misclassification"]
# Table 4, by training set and data set of the out-of-distribution inputs.
OOD_DETECTION: dict[tuple[str, str], list[float]] = {
    (data, other): figures
    for data, others in _PAPER["ood_detection"].items()
    for other, figures in others.items()
}
# Table 5, boosted bagging: minutes, PV, TU, KU over all labels ("exact") and by beam search ("beam").
EFFICIENCY: dict[str, Figures] = _PAPER["efficiency"]
# Table 8, models without uncertainty: P@1, P@3, P@5 on the three data sets of table 6, in their order.
DEEP_RIVALS: Figures = _PAPER["deep_rivals"]
