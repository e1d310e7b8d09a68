"""How much a client may ask for at once."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What the server takes; whatever is larger is refused with a reason."""

    body: int = 4 * 1024 * 1024  # bytes per request
    batch: int = 256  # inputs per request
    text: int = 100_000  # characters per text
    entries: int = 100_000  # features per input that are not 0
    k: int = 1000  # labels asked for per input
    subset: int = 20_000  # labels that a request allows or excludes
    labels: int = 256_000  # labels per answer that are accepted or need review
    seconds: float = 10.0  # per request, from its head to its answer
    waiting: int = 1024  # inputs that wait for the model; more are refused at once
    in_flight: int = 512  # requests that are being answered; more are refused at once
    queue: int = 100_000  # texts that wait for review

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} is {value!r}; a limit must be a positive number")
