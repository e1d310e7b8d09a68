"""The review queue: texts that wait for a human, in one SQLite file."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson

DECIDED = ("confirmed", "corrected", "skipped")
_TEACHING = ("confirmed", "corrected")
# Marks the file as ours, so that no other program's data is overwritten ("HGRQ").
_APPLICATION = 0x48475251
_VERSION = 2
# Files call the knowledge uncertainty "doubt", and the id that a text brought with it "key".
_TABLE = """
CREATE TABLE item (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    text TEXT NOT NULL,
    doubt REAL NOT NULL,
    model TEXT NOT NULL,
    prediction BLOB NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting',
    labels BLOB,
    added REAL NOT NULL,
    decided REAL,
    key TEXT
);
CREATE INDEX item_by_doubt ON item (state, doubt DESC, id);
"""
_INDICES = """
CREATE UNIQUE INDEX item_waiting ON item (text, ifnull(key, '')) WHERE state = 'waiting';
CREATE INDEX item_by_key ON item (key) WHERE key IS NOT NULL;
"""
# From one version to the next.
_STEPS = {1: f"ALTER TABLE item ADD COLUMN key TEXT; DROP INDEX item_waiting; {_INDICES}"}
# What the server has learned, by name; files of older versions get it when they are opened.
_STATE = "CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value BLOB NOT NULL)"
# A text, or the texts of a record by name. In files, the latter are JSON behind this mark.
TextInput = str | dict[str, str]
_RECORD = "\x1e"
_PAGE = 500  # items of an export that are in memory at once
_ITEM = "id, key, text, doubt, model, prediction"


class QueueError(Exception):
    """The file of the queue cannot be used; the message says why and what to do."""


class QueueFull(QueueError):  # noqa: N818 - the name says the cause
    """Too many texts wait already."""


@dataclass(frozen=True)
class QueueItem:
    """A text that waits for review, and what the model of that id predicted.

    `id` is its number in the queue, `text_id` the id that it brought with it, if it has one.
    """

    id: int
    text_id: str | None
    text: TextInput
    knowledge: float
    model: str
    prediction: dict[str, Any]


@dataclass(frozen=True)
class ReviewedText:
    """A text with the labels that a person gave it."""

    id: int
    text_id: str | None
    text: TextInput
    labels: list[str | int]


@dataclass(frozen=True)
class QueueCounts:
    """How many texts are in each state."""

    waiting: int = 0
    confirmed: int = 0
    corrected: int = 0
    skipped: int = 0


class QueueStore:
    """Keeps the queue of at most `most` texts in a file, which is created where there is none.

    Call it from one thread at a time; what a call has written survives a crash.
    """

    def __init__(self, path: str | os.PathLike[str], most: int = 100_000) -> None:
        self.path = os.fspath(path)
        self._most = most
        try:
            # Transactions begin and end here, not where the module chooses.
            self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise QueueError(f"{self.path}: the queue cannot be opened: {error}") from error
        try:
            self._open()
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> None:
        run = self._connection.execute
        try:
            run("PRAGMA busy_timeout = 5000")
            version, application = (
                run(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id")
            )
            empty = run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
            if not empty and application != _APPLICATION:
                raise QueueError(
                    f"{self.path} is a database of another program; name another file with --queue"
                )
            if version > _VERSION:
                raise QueueError(
                    f"{self.path} was written by a newer version of Hedgerow (format {version}, not"
                    f" {_VERSION}); install that, or name another file with --queue"
                )
            run("PRAGMA journal_mode = WAL")
            run("PRAGMA synchronous = FULL")
            if empty:
                self._connection.executescript(
                    f"BEGIN IMMEDIATE; {_TABLE} {_INDICES} PRAGMA application_id = {_APPLICATION};"
                    f" PRAGMA user_version = {_VERSION}; COMMIT;"
                )
            elif run("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise QueueError(f"{self.path} is damaged; restore a copy, or name another file with --queue")
            self.check()
            if not empty and version < _VERSION:
                self._update()
            run(_STATE)
        except sqlite3.Error as error:
            raise QueueError(
                f"{self.path} cannot be used as a queue ({error}); name another file with --queue"
            ) from error

    def _update(self) -> None:
        """Bring a file of an older version to this one, in one step or not at all."""
        run = self._connection.execute
        with _transaction(self._connection):  # another process may be doing the same
            for version in range(run("PRAGMA user_version").fetchone()[0], _VERSION):
                for statement in filter(str.strip, _STEPS[version].split(";")):
                    run(statement)
            run(f"PRAGMA user_version = {_VERSION}")

    def check(self) -> None:
        """Raise `QueueError` if nothing can be written."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise QueueError(f"{self.path}: nothing can be written: {error}") from error

    def add(
        self,
        items: Sequence[tuple[TextInput, float, dict[str, Any]]],
        model: str,
        text_ids: Sequence[str | None] | None = None,
    ) -> list[int]:
        """Add texts, each with knowledge uncertainty and prediction, all or none; return their numbers.

        One that waits already gets the new prediction and keeps its number and its id; with another id it is
        another text.
        """
        keys = [None] * len(items) if text_ids is None else text_ids
        with _transaction(self._connection):
            numbers = [
                self._add((_stored(text), key), float(knowledge), _packed(predicted), model)
                for (text, knowledge, predicted), key in zip(items, keys, strict=True)
            ]
            waiting = self.counts().waiting
            if waiting > self._most:
                raise QueueFull(
                    f"{waiting} texts would wait for review, and at most {self._most} may; review some first"
                )
        return numbers

    # Not by one statement that does both: SQLite before 3.35 would not return the number.
    def _add(self, named: tuple[str, str | None], knowledge: float, prediction: bytes, model: str) -> int:
        run = self._connection.execute
        text, key = named
        there = run(
            "SELECT id FROM item WHERE state = 'waiting' AND text = :text"
            " AND (key IS :key OR key IS NULL OR :key IS NULL) ORDER BY key IS NOT :key, id LIMIT 1",
            {"text": text, "key": key},
        ).fetchone()
        if there:
            run(
                "UPDATE item SET doubt = ?, model = ?, prediction = ?, key = ifnull(key, ?) WHERE id = ?",
                (knowledge, model, prediction, key, there[0]),
            )
            return int(there[0])
        added = run(
            "INSERT INTO item (text, key, doubt, model, prediction, added) VALUES (?, ?, ?, ?, ?, ?)",
            (text, key, knowledge, model, prediction, time.time()),
        )
        return int(added.lastrowid or 0)

    def waiting(self, limit: int) -> list[QueueItem]:
        """At most `limit` of the texts that wait, the most informative first; of equals, the oldest."""
        rows = self._connection.execute(
            f"SELECT {_ITEM} FROM item WHERE state = 'waiting' ORDER BY doubt DESC, id LIMIT ?", (limit,)
        )
        return [_item(row) for row in rows]

    def decide(
        self,
        number: int,
        state: str,
        labels: Sequence[str | int],
        learn: tuple[str, Callable[[QueueItem], Any]] | None = None,
    ) -> bool:
        """Store the labels that a human gave to a text, once or again; return whether the text exists.

        With `learn`, a name and what learns from the text: it is called where the text waited until now, and
        what it returns is stored under the name in the same transaction.
        """
        if state not in DECIDED:
            raise ValueError(f"state is {state!r}; it must be one of {', '.join(DECIDED)}")
        with _transaction(self._connection):
            if learn is not None:
                self._learn(number, *learn)
            changed = self._connection.execute(
                "UPDATE item SET state = ?, labels = ?, decided = ? WHERE id = ?",
                (state, _packed(list(labels)), time.time(), number),
            )
        return changed.rowcount == 1

    def _learn(self, number: int, name: str, learned: Callable[[QueueItem], Any]) -> None:
        waiting = self._connection.execute(
            f"SELECT {_ITEM} FROM item WHERE state = 'waiting' AND id = ?", (number,)
        ).fetchone()
        if waiting is None:
            return
        state = learned(_item(waiting))
        if state is not None:
            self._connection.execute(
                "INSERT OR REPLACE INTO state (name, value) VALUES (?, ?)", (name, _packed(state))
            )

    def state(self, name: str) -> Any:
        """What was learned under a name; None where nothing was."""
        found = self._connection.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        if found is None:
            return None
        try:
            return orjson.loads(found[0])
        except (orjson.JSONDecodeError, TypeError) as error:
            raise QueueError(
                f"{self.path}: the stored {name} is damaged; name another file with --queue"
            ) from error

    def export_page(self, after: int) -> list[ReviewedText]:
        """Texts with the labels that people confirmed or corrected: some that follow the number `after`.

        Of a text that was reviewed more than once under the same id, only the last review is given.
        """
        rows = self._connection.execute(
            "SELECT id, key, text, labels FROM item WHERE state IN (:one, :other) AND id > :after"
            " AND NOT EXISTS ( SELECT 1 FROM item later WHERE later.key = item.key AND later.text = item.text"
            " AND later.state IN (:one, :other) AND (later.decided, later.id) > (item.decided, item.id)"
            ") ORDER BY id LIMIT :most",
            {"one": _TEACHING[0], "other": _TEACHING[1], "after": after, "most": _PAGE},
        )
        return [
            ReviewedText(number, key, _taken(text), _named(orjson.loads(labels)))
            for number, key, text, labels in rows
        ]

    def reviewed(self) -> Iterator[ReviewedText]:
        """All that `export_page` gives, page by page."""
        last = 0
        while page := self.export_page(last):
            yield from page
            last = page[-1].id

    def counts(self) -> QueueCounts:
        """How many texts are in each state."""
        rows = self._connection.execute("SELECT state, count(*) FROM item GROUP BY state")
        return QueueCounts(**dict(rows.fetchall()))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it is written, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:  # such as a full disk, where COMMIT fails and the transaction is still open
        if connection.in_transaction:  # an error may have ended it
            connection.execute("ROLLBACK")
        raise


def _item(row: tuple[int, str | None, str, float, str, bytes]) -> QueueItem:
    number, key, text, knowledge, model, prediction = row
    return QueueItem(number, key, _taken(text), knowledge, model, orjson.loads(prediction))


def _stored(text: TextInput) -> str:
    if isinstance(text, str):
        return text
    return _RECORD + orjson.dumps(text, option=orjson.OPT_SORT_KEYS).decode()


def _taken(text: str) -> TextInput:
    if not text.startswith(_RECORD):
        return text
    try:
        found = orjson.loads(text[len(_RECORD) :])
    except orjson.JSONDecodeError:
        return text
    whole = isinstance(found, dict) and all(isinstance(one, str) for one in found.values())
    return found if whole else text


def _named(labels: list[str | int]) -> list[str | int]:
    """Without empty names: old files have them, and no reader of training data takes them."""
    return [label for label in labels if label != ""]


def _packed(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
