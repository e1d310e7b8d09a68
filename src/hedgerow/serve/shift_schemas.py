"""What answers say of shift, and of a threshold that follows reviews."""

from __future__ import annotations

from pydantic import Field

from .strict_schemas import Answer


class ShiftEvidence(Answer):
    """What one number of the inputs says about shift."""

    name: str
    words: str = Field(description="What it is.")
    log10: float = Field(description="The decimal logarithm of its highest martingale.")
    held_out: float = Field(description="Its mean over the inputs that the model was calibrated on.")
    new: float = Field(description="Its mean over the inputs since the model was loaded.")


class Shift(Answer):
    """Whether the inputs since the model was loaded are like those it was calibrated on."""

    broken: bool = Field(description="Whether guarantees are not supported.")
    words: str = Field(description="What was found, in words.")
    inputs: int = Field(description="How many inputs were compared.")
    log10: float = Field(
        description="The decimal logarithm of the highest test martingale; an alarm from 2 on, with a chance"
        " of at most 1 % without shift."
    )
    evidence: list[ShiftEvidence]


class AdaptedLabels(Answer):
    """The threshold for a share of all accepted labels."""

    accept_from: float | None = Field(description="The threshold now; null where nothing is accepted.")
    reviews: int = Field(description="How many reviews it has learned from.")
    accepted: int = Field(description="How many labels these were given.")
    wrong: float | None = Field(description="The share of those that was wrong; null before the first.")
    at_most: float = Field(description="What that share cannot exceed, whatever the inputs are.")


class Adapted(Answer):
    """Thresholds of accepted labels that follow reviews (adaptive conformal inference).

    What stands beside `labels` is about the mean over inputs.
    """

    target: float = Field(description="The share of accepted labels that may be wrong.")
    accept_from: float | None = Field(description="The threshold now; null where nothing is accepted.")
    reviews: int = Field(description="How many reviews it has learned from.")
    wrong: float | None = Field(description="The mean share that was wrong in these; null before the first.")
    at_most: float = Field(description="What that share cannot exceed, whatever the inputs are.")
    labels: AdaptedLabels | None = Field(
        description="The same for a share of all accepted labels; null of models that were calibrated before"
        " there was such a share."
    )
