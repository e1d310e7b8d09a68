"""How much a client may ask for at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """What the server takes; whatever is larger is refused with a reason.

    Attributes
    ----------
    body : int
        Bytes of a request's body.
    batch : int
        Inputs of one request.
    text : int
        Characters of a text.
    entries : int
        Features of an input that are not 0.
    k : int
        Labels asked for.
    labels : int
        Labels of an answer that are to be accepted or reviewed.
    seconds : float
        Time for a request, from its head to its answer.
    waiting : int
        Inputs that wait for the model; more are turned away at once.
    in_flight : int
        Requests that are being answered; more are turned away at once.
    queue : int
        Texts that wait for a reviewer.

    Examples
    --------
    >>> Limits(batch=0)
    Traceback (most recent call last):
        ...
    ValueError: batch is 0; a limit is a positive number
    """

    body: int = 4 * 1024 * 1024
    batch: int = 256
    text: int = 100_000
    entries: int = 100_000
    k: int = 1000
    labels: int = 256_000
    seconds: float = 10.0
    waiting: int = 1024
    in_flight: int = 512
    queue: int = 100_000

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{part.name} is {value!r}; a limit is a positive number")
