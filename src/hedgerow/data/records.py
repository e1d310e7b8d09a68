from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .errors import DataError
from .label_space import LabelCollector
from .part import Part
from .reading import Reading
from .times import TimeCollector, TimeError, TimeKind, Times


class RecordCollector:
    """Collects records of a text, labels and an id into a part, checking each value where it enters."""

    def __init__(self, path: Path, reading: Reading) -> None:
        names = None if reading.labels_field is None else reading.label_names
        self._path = path
        self._labels = LabelCollector(path, names)
        self._labelled = names is not None
        self._text_fields = reading.text_fields
        self._texts: list[Any] = []
        self._ids: list[str | None] = []
        self._seen = reading.seen
        self._time_field = reading.time_field
        self._times = TimeCollector(reading.until)
        self.skipped = 0

    @property
    def n(self) -> int:
        """The number of records so far."""
        return len(self._texts)

    def is_wanted(self, line: int, record: Mapping[str, Any]) -> bool:
        """Keep the time of a record, where times are asked for; whether the record is to be added."""
        field = self._time_field
        if field is None:
            return True
        if field not in record:
            found = ", ".join(record)
            raise DataError(
                self._path,
                f"the record has no {field!r}, by which records are put in order of time; its fields are"
                f" {found:.200}",
                line,
            )
        try:
            return self._times.add(record[field])
        except TimeError as error:
            raise DataError(self._path, f"the {field}: {error}", line) from error

    def add(self, line: int, text: object, labels: object, id: object) -> None:
        """Add a record; None stands for labels or an id that are missing, as does an empty id."""
        self._check_text(line, text)
        self._ids.append(self._checked_id(line, id))
        self._texts.append(text)
        self._labels.add(self._names(line, labels))

    def _checked_id(self, line: int, id: object) -> str | None:
        if id is None or id == "":
            return None
        if isinstance(id, bool) or not isinstance(id, str | int):
            raise DataError(self._path, f"the id is {id!r:.60}, not a string", line)
        if self._seen is not None:
            self._seen.add(str(id), self._path, line)
        return str(id)

    def _check_text(self, line: int, text: object) -> None:
        if text is None and self._text_fields is not None:
            names = ", ".join(self._text_fields)
            raise DataError(self._path, f"the record has none of the texts {names}, and no text", line)
        texts = text if isinstance(text, dict) else {"text": text}
        for name, one in texts.items():
            if not isinstance(one, str):
                found = "is missing" if one is None else f"is {one!r:.60}, not a string"
                raise DataError(self._path, f"the {name} {found}; every record needs a text", line)

    def _names(self, line: int, labels: object) -> list[str]:
        if labels is None:
            return []
        self._labelled = True
        if not isinstance(labels, list):
            raise DataError(self._path, f"the labels are {labels!r:.60}, not a list of strings", line)
        for label in labels:
            if label is None or label != label:
                raise DataError(
                    self._path,
                    f"the label {label!r} in {labels!r:.60} is a missing value; leave it out of the list, or"
                    " give an empty list if the text has no labels",
                    line,
                )
            if isinstance(label, bool) or not isinstance(label, str | int) or label == "":
                raise DataError(
                    self._path, f"the label {label!r:.60} is not a string with something in it", line
                )
        return [str(label) for label in labels]

    def finish(self, fields: Iterable[str], split: str | None = None) -> Part:
        """Return the part. It has labels if any record had, or if label names were given."""
        later = self._times.later
        if later and not self.n:
            raise DataError(self._path, f"all {later:,} records are later; give a later time to read up to")
        Y, names = self._labels.finish() if self._labelled else (None, None)
        return Part(
            texts=self._texts,
            Y=Y,
            label_names=names,
            ids=self._ids if any(id is not None for id in self._ids) else None,
            unknown_labels=self._labels.unknown,
            skipped=self.skipped,
            times=self._finished_times(),
            later=later,
            fields=list(fields),
            split=split,
        )

    def _finished_times(self) -> Times | None:
        if self._time_field is None:
            return None
        return Times(self._times.kind or TimeKind.NUMBER, self._times.values())
