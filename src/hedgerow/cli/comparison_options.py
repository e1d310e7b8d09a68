"""Options of comparing models: by what, and how much may be lost.

The lists of values stand here once more than in the library, which takes seconds to import.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from .options import finite

# As of `hedgerow.comparison.figures.ACCURACY`.
Accuracy = StrEnum(
    "Accuracy",
    {
        "precision_1": "precision@1",
        "precision_3": "precision@3",
        "precision_5": "precision@5",
        "ndcg_5": "ndcg@5",
        "ndcg_10": "ndcg@10",
        "f1_5": "f1@5",
        "recall_5": "recall@5",
    },
)
# As of `hedgerow.comparison.verdict.PROMOTE_IF`.
PromoteIf = StrEnum("PromoteIf", {"better": "better", "no_worse": "no-worse"})


def margin_option(panel: str | None = None) -> Any:
    """How much worse still counts as no worse."""
    return typer.Option(
        min=0.0,
        max=99.0,
        callback=finite,
        metavar="POINTS",
        rich_help_panel=panel,
        help="How many points the new model may lose and still count as no worse. 1 point is 1 %.",
    )


def deciding_option(panel: str | None = None) -> Any:
    """What a comparison of models is about."""
    return typer.Option(rich_help_panel=panel, help="The measure that decides whether a model is better.")


Margin = Annotated[float, margin_option()]
Deciding = Annotated[Accuracy, deciding_option()]
