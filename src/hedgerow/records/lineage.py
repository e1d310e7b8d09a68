"""Where a model comes from: its fit, and every update since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import xxhash

__all__ = ["Event", "Lineage"]

KINDS = ("fit", "update", "fit again")


@dataclass(frozen=True)
class Event:
    """What made a model: a fit, an update, or an update that was a full fit.

    Attributes
    ----------
    kind : {"fit", "update", "fit again"}
        What was done.
    at : str
        When, in UTC.
    records : int
        How many records the model then knew.
    added, corrected, removed : int
        Records that were new, that came with other labels or texts, and that left.
    labels_added, labels_renamed, labels_removed : int
        The same of labels; one that was merged with another counts as renamed.
    """

    kind: str
    at: str
    records: int
    added: int = 0
    corrected: int = 0
    removed: int = 0
    labels_added: int = 0
    labels_renamed: int = 0
    labels_removed: int = 0


@dataclass(frozen=True)
class Lineage:
    """The events that made a model, oldest first, and the hash of the model after each."""

    events: tuple[Event, ...] = ()
    hashes: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """What tells the training of this model from that of any other; empty for none."""
        return self.hashes[-1] if self.hashes else ""

    @property
    def parent(self) -> str | None:
        """The hash of the model that was updated; None after a fit."""
        return self.hashes[-2] if len(self.hashes) > 1 else None

    def then(self, event: Event, fingerprint: str) -> Lineage:
        """The same with one more event; the fingerprint is that of the training data."""
        told = repr((self.hash, asdict(event), fingerprint))
        return Lineage((*self.events, event), (*self.hashes, xxhash.xxh3_128_hexdigest(told.encode())))

    def describe(self) -> list[dict[str, Any]]:
        """For people and programs."""
        return [
            {name: value for name, value in asdict(event).items() if value != 0} | {"hash": hash}
            for event, hash in zip(self.events, self.hashes, strict=True)
        ]

    def to_header(self) -> dict[str, Any]:
        """An entry of a model file's header."""
        return {
            "events": [list(asdict(event).values()) for event in self.events],
            "hashes": list(self.hashes),
        }

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> Lineage:
        """Take back what `to_header` gave, after checking it."""
        events: Sequence[Any] = header["events"]
        names = [one.name for one in fields(Event)]
        found = []
        for values in events:
            if len(values) != len(names) or values[0] not in KINDS or type(values[1]) is not str:
                raise ValueError("an event of the lineage is broken")
            if any(type(value) is not int or value < 0 for value in values[2:]):
                raise ValueError("an event of the lineage has impossible numbers")
            found.append(Event(*values))
        hashes = header["hashes"]
        if len(hashes) != len(found) or any(type(one) is not str for one in hashes):
            raise ValueError("the lineage lacks a hash")
        return cls(tuple(found), tuple(hashes))
