"""What answers say of learning from reviews."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .strict_schemas import Answer

Stage = Literal["reading", "updating", "comparing", "promoting"]


class Outcome(Answer):
    """What was learned, and whether the model that learned it answers now."""

    learned: int = Field(description="Reviewed texts that are new to the model.")
    known: int = Field(description="Reviewed texts that it had learned before.")
    added: int = Field(description="Records that were added.")
    corrected: int = Field(description="Records that were corrected.")
    promoted: bool | None = Field(
        description="Whether the updated model answers now; null where there was nothing new to learn."
    )
    verdict: str | None = Field(
        description="Of the comparison, in a word: better, no worse, worse or undecided; null where clients"
        " of the old model could not go on with the new one, so that they were not compared."
    )
    words: str = Field(description="Why, in a sentence.")


class LearningAnswer(Answer):
    """How far learning from reviews is, since the server started."""

    state: Literal["idle", "running", "done", "failed"]
    stage: Stage | None = Field(description="What it does while it runs.")
    share: float | None = Field(description="How much of that is done; it begins again within a stage.")
    reviewed: int | None = Field(description="Texts that can be learned from.")
    waiting: int | None = Field(
        description="Those of them that the model has not learned yet; null while it learns, and where the"
        " model has no records."
    )
    obstacle: str | None = Field(description="Why POST /learn would be refused now, and the way out.")
    can_roll_back: bool = Field(description="Whether POST /rollback has a model to go back to.")
    outcome: Outcome | None = Field(description="What came of it, once it is done.")
    failure: str | None = Field(description="Why it failed.")
