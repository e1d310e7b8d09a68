"""What answers say of a model that was to take the place of another, and of one that only listens."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .strict_schemas import Answer

State = Literal["none", "promoted", "refused", "rolled-back", "failed"]


class Promotion(Answer):
    """What became of the last model that was to take the place of the one that answers."""

    target: str = Field(description="What it had to be: better, or no-worse.")
    state: State
    words: str = Field(description="Why.")
    candidate: str | None = Field(description="The id of its file.")
    can_roll_back: bool = Field(description="Whether POST /rollback has a model to go back to.")
    can_promote: bool = Field(
        description="Whether POST /promote has a model that was refused or rolled back."
    )


class Swapped(Answer):
    """The model that answers now, and the one before."""

    model: str
    before: str
    promotion: Promotion


class ShadowAnswer(Answer):
    """How the candidate's answers differ from those that clients got, since it began or the model changed."""

    model: str = Field(description="The id of the candidate.")
    live: str = Field(description="The id of the model that it is compared with.")
    share: float = Field(description="The share of requests that it answers, too.")
    requests: int
    inputs: int
    dropped: int = Field(description="Requests that it was too slow for.")
    errors: int = Field(description="Requests that it failed on.")
    best_differs: float | None = Field(description="The share of inputs with another best label.")
    set_differs: float | None = Field(
        description="The share of inputs with other best five labels, or as many as were asked for."
    )
    decided: int = Field(description="Inputs that both models decided on.")
    accepted_differs: float | None = Field(description="The share of these with other accepted labels.")
    probability_difference: float | None = Field(
        description="Mean absolute difference of the probability of these labels; 0 is taken for labels that"
        " are not among the candidate's best twenty."
    )
    seconds: float | None = Field(description="Mean time of the candidate for a request.")
    live_seconds: float | None = Field(
        description="Mean time of the model that answers for the same requests, waiting included."
    )
