"""How an encoder is fine-tuned, and what that took."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Matching:
    """How candidates are found."""

    beam: int = 10  # best nodes of the layer above whose children are candidates
    negatives: int = 10  # best nodes of the level itself, of which the wrong ones are candidates, too
    most: int = 256  # about this many per text: where nodes have many children, the beam is narrower


@dataclass(frozen=True)
class FineTuning:
    """How an encoder is fine-tuned; the names are those of `HedgerowTransformerClassifier`."""

    epochs: float = 1.0
    steps: int | None = None
    levels: int | None = None
    batch_size: int = 32
    micro_batch: int | None = None
    learning_rate: float = 5e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    loss: str = "squared_hinge"
    matching: Matching = field(default_factory=Matching)
    checkpoint_steps: int = 200

    def steps_for(self, texts: int) -> int:
        """Batches at each level."""
        if self.steps is not None:
            return self.steps
        return math.ceil(self.epochs * math.ceil(texts / self.batch_size))

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step, from 0: linear up, then linear down."""
        rising = max(1, round(self.warmup * steps))
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (steps - step) / max(1, steps - rising)


@dataclass(frozen=True)
class LevelReport:
    """Fine-tuning at one level; `candidates` is the mean per text, `loss` the mean per candidate."""

    layer: int
    nodes: int
    candidates: float
    steps: int
    loss: float


@dataclass
class FineTuningReport:
    """What fine-tuning took, in this process."""

    levels: list[LevelReport] = field(default_factory=list)
    tokens: int = 0  # that were learned from, those of later passes included
    seconds: float = 0.0  # of all steps
    waiting: float = 0.0  # seconds of these in which a step waited for its batch
    matching_seconds: float = 0.0  # for embedding the texts and finding candidates before each level
    micro_batch: int = 0  # texts computed at once in the end

    @property
    def tokens_per_second(self) -> float:
        """Speed of the steps."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {**asdict(self), "tokens_per_second": self.tokens_per_second}
