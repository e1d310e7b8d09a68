"""What requests and answers are made of: they hold what is described, and no more."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Answer", "Strict"]


class Strict(BaseModel):
    """Takes what is described, no more, and turns nothing into something else."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Answer(BaseModel):
    """Says what is described, no more."""

    model_config = ConfigDict(extra="forbid")
