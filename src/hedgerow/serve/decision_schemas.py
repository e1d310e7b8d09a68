"""What requests ask of decisions, and what answers say of their guarantees."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .strict_schemas import Answer, Strict

__all__ = ["Costs", "Decide", "Guarantee", "Policy"]

# Smaller or larger shares ask for more data than there are, and for numbers that overflow.
Share = Annotated[float, Field(ge=1e-6, le=1 - 1e-6, allow_inf_nan=False)]
Cost = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class Costs(Strict):
    """What decisions cost: the cheapest on average is taken."""

    wrong: Cost = Field(description="Accepting a label that is wrong.")
    missed: Cost = Field(description="Rejecting a label that is right.")
    look: Cost = Field(description="Deferring to a human.")


class Decide(Strict):
    """Sort labels into accept, review and reject: by what is to be guaranteed, or by costs.

    Each guarantee can be asked for alone or with the others, and holds for inputs like the held-out data of
    calibration. Without any, it is `wrong_at_most` 0.1 with `review_at_most` 10. Labels that are neither
    accepted nor listed for review are rejected. Costs come without a guarantee.
    """

    wrong_at_most: Share | None = Field(
        None,
        description="Accept labels, of which at most this share is wrong, with a confidence of 90 % (Learn"
        " then Test).",
    )
    wrong_of: Literal["labels", "answered", "inputs"] | None = Field(
        None,
        description="What that is a share of: all accepted labels, the default; an input's accepted labels,"
        " mean over the inputs that are given any; or mean over all inputs, with 0 for those without any.",
    )
    missed_at_most: Share | None = Field(
        None,
        description="List what it takes: at most this share of an input's right labels that the model knows"
        " is missed, mean over inputs (conformal risk control).",
    )
    review_at_most: int | None = Field(
        None,
        ge=1,
        le=100,
        description="List at most this many of the best labels, accepted ones included.",
    )
    costs: Costs | None = Field(None, description="Decide by costs.")
    broader: bool = Field(
        False,
        description="Where no narrow label can be accepted, accept the narrowest broader term of the"
        " vocabulary that can be. `wrong_at_most` is then about labels and broader terms together, mean over"
        " all inputs, so fewer labels may be accepted. A broader term is wrong if no true label is at or"
        " below it.",
    )
    optimise: Annotated[str, Field(max_length=40)] | None = Field(
        None,
        description="Instead of all these: accept as many labels of each input as this says, chosen for all"
        " inputs of the request together so that rare labels count like frequent ones. It is"
        " `macro-f1@5`, `macro-precision@5` or `macro-recall@5`, or has another number of labels. Nothing is"
        " guaranteed. Send `texts` or `features`, two inputs or more.",
        examples=["macro-f1@5"],
    )
    false_alarm: Share = Field(
        0.05, description="The share of in-distribution inputs that may be flagged as out-of-distribution."
    )


class WrongChoice(Answer):
    """What is accepted, for a share of wrong labels among all that are accepted."""

    share: float
    accept_from: float | None = Field(description="The least probability; null where nothing is accepted.")
    words: str = Field(description="What is guaranteed.")


class ReviewChoice(Answer):
    """A number of the best labels to look at."""

    labels: int
    share: float = Field(description="The share of the right labels that they contain at least.")
    words: str = Field(description="What is guaranteed.")


class Default(Answer):
    """What is decided where a request says no more."""

    wrong_at_most: float
    review_at_most: int


class Policy(Answer):
    """What can be chosen for decisions, and what that guarantees."""

    wrong: list[WrongChoice] = Field(description="By rising share; only those that can be guaranteed.")
    most: int = Field(description="No more labels of an input are accepted than this, the best.")
    review: list[ReviewChoice]
    default: Default
    limits: str = Field(description="What no guarantee says.")


class Guarantee(Answer):
    """One thing that is guaranteed of decisions, or why it is not."""

    kind: Literal["wrong", "missed", "review"]
    of: Literal["labels", "answered", "inputs"] | None = Field(
        description="What a share of wrong ones is of."
    )
    asked: float = Field(description="The share or number that was asked for.")
    promised: float | None = Field(description="The share that is guaranteed; null where it is refused.")
    confidence: float | None
    reached: float | None = Field(description="The same share on the held-out data.")
    words: str = Field(description="What is guaranteed, or why it is not.")
    refused: str | None = Field(description="Why it cannot be guaranteed, and what to do.")
