"""What a model that is updated should know, kept beside it as plain records, and the history that made it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

Labels = tuple[str, ...]
Change = dict[str, Any]  # arguments of `update`; of the first, `fit`, only records


@dataclass(frozen=True)
class Known:
    """A record: what the model reads, and the labels that it has now."""

    id: str | None
    input: Any
    labels: frozenset[str]


@dataclass
class Truth:
    """The records in their order, and all changes so far."""

    records: list[Known] = field(default_factory=list)
    history: list[Change] = field(default_factory=list)

    def apply(self, change: Change) -> None:
        """What an update should do to the records."""
        self.history.append(change)
        coming = change.get("records", [])
        gone = {record.id for record in coming if record.id is not None} | set(change.get("remove", ()))
        renamed = change.get("rename", {})
        removed = set(change.get("remove_labels", ()))
        self.records = [
            replace(
                record,
                labels=frozenset(renamed.get(label, label) for label in record.labels - removed),
            )
            for record in self.records
            if record.id is None or record.id not in gone
        ] + list(coming)

    def counts(self) -> Counter[str]:
        """How many records have each label."""
        return Counter(label for record in self.records for label in record.labels)

    def without(self, ids: set[str]) -> list[Change]:
        """The history as it would be if some records had never been there."""
        other = Truth()
        for change in self.history:
            known = set(other.counts())
            other.apply(
                {
                    "records": [record for record in change.get("records", []) if record.id not in ids],
                    "remove": [id for id in change.get("remove", ()) if id not in ids],
                    "rename": {old: new for old, new in change.get("rename", {}).items() if old in known},
                    "remove_labels": [one for one in change.get("remove_labels", ()) if one in known],
                    "at": change["at"],
                }
            )
        return other.history
