"""A changed model file answers only if it is judged good enough, and the model before it stays at hand."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hedgerow.comparison.held_rows import read_rows
from hedgerow.comparison.model_files import ModelFiles, file_id
from hedgerow.comparison.promotion import Judge
from hedgerow.storage.container import ModelFileError

from .logs import log_event
from .model_slot import load_model, load_prepared
from .served_model import ServedModel

__all__ = ["Promoter", "Standing"]

_PINNED = "MODEL is the model that was refused or rolled back before; it is not judged again until it changes"


@dataclass(frozen=True)
class Standing:
    """What became of the last candidate ("none", "promoted", "refused", "rolled-back", "failed"), and why."""

    state: str
    words: str
    candidate: str | None = None  # the id of its file


class Promoter:
    """Decides which model answers, and keeps that on disk, so that it is the same after a restart.

    Its methods load and compare models, which takes a while: they run in the thread that loads, one by one.
    """

    def __init__(self, path: Path, judge: Judge, threads: int) -> None:
        self.files = ModelFiles(path)
        self._judge, self._threads = judge, threads
        self.standing = Standing("none", "no other model was there to judge since the server started")
        self._can = {"can_roll_back": False, "can_promote": False}

    def open(self) -> ServedModel:
        """The model that answered last; at the very first start, the one that MODEL names."""
        self.files.clean_up()
        if not self.files.accepted.exists():
            return self._begin()
        try:
            served = load_model(self.files.accepted, self._threads)
        except ModelFileError as error:
            raise ModelFileError(
                f"{error}. It is the model that answered last; delete it to serve {self.files.path} without"
                " judging it, or copy a sound model there"
            ) from error
        if self.files.has_refused and self._is_refused(self.files.path):
            self.standing = Standing("refused", _PINNED, file_id(self.files.refused))
        self._look()
        return served

    def _begin(self) -> ServedModel:
        """Accept what MODEL names, as there is nothing to compare it with."""
        try:
            served = load_model(self.files.stage(), self._threads)
            self.files.begin()
        finally:
            self.files.discard()
        return served

    def check(self, served: ServedModel) -> None:
        """Raise DataError or ValueError if the rows to judge on cannot be read."""
        read_rows(self._judge.rows, served.model, served.model)

    def consider(self, current: ServedModel) -> ServedModel:
        """Judge what MODEL names, if that is new, and give the model that answers from now on.

        Raises ModelFileError, DataError, ValueError or OSError where it cannot be judged; then nothing
        changes, and the next call tries again.
        """
        current = self._as_on_disk(current)
        self._look()
        new = file_id(self.files.path)
        if new == current.id:
            return current
        if self._is_refused(self.files.path):
            if self.standing.candidate != new:
                self.standing = Standing("refused", _PINNED, new)
            return current
        try:
            served = load_prepared(self.files.stage(), self._threads)
            # One thread, so that judging leaves the others to those who ask.
            models = [replace(of.model, threads=1) for of in (current, served)]
            found = self._judge.judge(models[0], models[1])
            if found.accepted:
                self.files.accept()
            else:
                self.files.refuse()
        except Exception as error:
            self.files.discard()
            self.standing = Standing("failed", f"the new model could not be judged: {error}", new)
            raise
        self._stand("promoted" if found.accepted else "refused", found.words, served.id)
        return served if found.accepted else current

    def roll_back(self, current: ServedModel) -> ServedModel:
        """Let the previous model answer; raises NoOtherModel where there is none."""
        before = load_prepared(self.files.previous, self._threads) if self.files.has_previous else None
        self.files.roll_back()
        self._stand("rolled-back", "somebody asked for the model before", current.id)
        return self._as_on_disk(before or current)

    def promote_refused(self, current: ServedModel) -> ServedModel:
        """Let the refused model answer all the same; raises NoOtherModel where there is none."""
        new = load_prepared(self.files.refused, self._threads) if self.files.has_refused else None
        self.files.promote_refused()
        served = self._as_on_disk(new or current)
        self._stand("promoted", "somebody asked for it, whatever the comparison said", served.id)
        return served

    def follow(self, current: ServedModel, words: str) -> ServedModel:
        """The model that another process judged and promoted, with what it said of it; not judged again."""
        served = self._as_on_disk(current)
        self._stand("promoted", words, served.id)
        return served

    def describe(self) -> dict[str, Any]:
        """What it is now, as the API has it."""
        return {
            "target": self._judge.target,
            "state": self.standing.state,
            "words": self.standing.words,
            "candidate": self.standing.candidate,
            **self._can,
        }

    def _as_on_disk(self, known: ServedModel) -> ServedModel:
        """The model that answers by what is on disk, where another process may have changed that."""
        if file_id(self.files.answering) == known.id:
            return known
        return load_prepared(self.files.answering, self._threads)

    def _is_refused(self, path: Path) -> bool:
        return path.exists() and self.files.refused.exists() and file_id(self.files.refused) == file_id(path)

    def _look(self) -> None:
        """Note which other models there are; files may have to be read for that."""
        self._can = {"can_roll_back": self.files.has_previous, "can_promote": self.files.has_refused}

    def _stand(self, state: str, words: str, candidate: str) -> None:
        self.standing = Standing(state, words, candidate)
        self._look()
        level = logging.WARNING if state == "refused" else logging.INFO
        log_event(f"promotion {state}", level, candidate=candidate, reason=words)
