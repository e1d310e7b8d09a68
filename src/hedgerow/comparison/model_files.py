"""The files beside a model file that make promotion safe: what is accepted, what was before, what not."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from xxhash import xxh3_64

from hedgerow.storage.atomic_file import copy_whole, give_name, move_over

__all__ = ["ChangedMeanwhile", "ModelFiles", "NoOtherModel", "file_id"]

_PIECE = 1 << 22


class NoOtherModel(ValueError):  # noqa: N818 - the name says the cause
    """There is no model to change to."""


class ChangedMeanwhile(ValueError):  # noqa: N818 - the name says the cause
    """The model that answers is not the one any more that another was compared with."""


class ModelFiles:
    """A model file, named MODEL, and those beside it.

    - MODEL is where new models are put.
    - MODEL.accepted is a copy of the one that answers, once a server has promoted with care; without it,
      that is MODEL itself.
    - MODEL.previous answered before it, and is what a rollback brings back.
    - MODEL.refused was judged and refused, or rolled back. It is not judged again.
    - MODEL.candidate.RANDOM is a copy of a new model while a process judges it.

    Which model answers changes by one renaming in one folder, so that a process may be killed at any moment:
    what is named is whole, and is one model or the other. Copies are never written into, so that nobody who
    writes into MODEL in place can damage the one that answers.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(path))
        self.accepted, self.previous, self.refused, self.candidate = (
            self.path.with_name(f"{self.path.name}.{what}")
            for what in ("accepted", "previous", "refused", f"candidate.{secrets.token_hex(8)}")
        )
        self._held: int | None = None  # open while there is a candidate, so that others know it is in use
        self._judged_against: tuple[int, int] | None = None

    @property
    def answering(self) -> Path:
        """The file of the model that answers."""
        return self.accepted if self.accepted.exists() else self.path

    @property
    def has_previous(self) -> bool:
        """Whether there is another model to go back to."""
        return self.previous.exists() and not _same(self.previous, self.answering)

    @property
    def has_refused(self) -> bool:
        """Whether there is a refused model that could answer."""
        return self.refused.exists() and not _same(self.refused, self.answering)

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Keep other processes from changing these files; a process that is killed lets go of them."""
        descriptor = os.open(self.path.parent, os.O_RDONLY)
        try:
            _lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def stage(self, new: str | os.PathLike[str] | None = None) -> Path:
        """Copy a new model (by default what MODEL names), so that what is judged is what is promoted."""
        answering = self.answering.stat()
        self._judged_against = answering.st_dev, answering.st_ino
        # It takes its final name at once: no other process uses it, and a locked file is one in use.
        self._held = os.open(self.candidate, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        _lock(self._held)
        with (
            open(self.path if new is None else new, "rb") as source,
            open(self._held, "wb", closefd=False) as copy,
        ):
            shutil.copyfileobj(source, copy, _PIECE)
        os.fchmod(self._held, stat.S_IMODE(answering.st_mode))
        os.fsync(self._held)
        return self.candidate

    def begin(self) -> None:
        """Let the candidate be the first accepted model, where there is none yet."""
        with self.changing():
            self._check_unchanged()
            move_over(self.candidate, self.accepted)
            self._let_go()

    def accept(self) -> None:
        """Let the candidate answer; raises `ChangedMeanwhile` if it was compared with another model."""
        with self.changing():
            self._check_unchanged()
            give_name(self.answering, self.previous)
            self.refused.unlink(missing_ok=True)
            move_over(self.candidate, self.accepted if self.accepted.exists() else self.path)
            self._let_go()

    def install(self) -> None:
        """Let the candidate answer, and be what MODEL names; raises `ChangedMeanwhile` as `accept` does."""
        with self.changing():
            self._check_unchanged()
            give_name(self.answering, self.previous)
            self.refused.unlink(missing_ok=True)
            if self.accepted.exists():
                copy_whole(self.candidate, self.path)  # first, for only MODEL.accepted answers
                move_over(self.candidate, self.accepted)
            else:
                move_over(self.candidate, self.path)
            self._let_go()

    def refuse(self) -> None:
        """Remember that the candidate is refused."""
        with self.changing():
            move_over(self.candidate, self.refused)
            self._let_go()

    def discard(self) -> None:
        """Forget the candidate."""
        self.candidate.unlink(missing_ok=True)
        self._let_go()

    def clean_up(self) -> None:
        """Remove candidates of processes that were killed while they judged them."""
        for name in glob.glob(f"{glob.escape(os.fspath(self.path))}.candidate.{'?' * 16}"):
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(name, os.O_RDONLY)
                try:
                    if _lock(descriptor, wait=False):
                        os.unlink(name)
                finally:
                    os.close(descriptor)

    def roll_back(self, also_path: bool = False) -> None:
        """Let the previous model answer; the one that answered counts as refused.

        With `also_path`, it is also what MODEL names.
        """
        with self.changing():
            if not self.has_previous:
                raise NoOtherModel(
                    f"{self.path} has no previous model to go back to; only a promotion leaves one, in"
                    f" {self.previous.name}"
                )
            answering = self.answering
            give_name(answering, self.refused)
            move_over(self.previous, answering)
            if also_path and answering != self.path:
                copy_whole(answering, self.path)

    def promote_refused(self) -> None:
        """Let the refused model answer, whatever was said of it."""
        with self.changing():
            if not self.has_refused:
                raise NoOtherModel(
                    f"{self.path} has no model that was refused or rolled back, so nothing can be promoted"
                )
            answering = self.answering
            give_name(answering, self.previous)
            move_over(self.refused, answering)

    def _check_unchanged(self) -> None:
        found = self.answering.stat()
        if (found.st_dev, found.st_ino) != self._judged_against:
            raise ChangedMeanwhile(
                f"another process changed the model of {self.path} while a new one was compared with it; try"
                " again"
            )

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None


def file_id(path: str | os.PathLike[str]) -> str:
    """A hash of a file; two files with the same bytes have the same id."""
    digest = xxh3_64()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _lock(descriptor: int, wait: bool = True) -> bool:
    """Lock an open file until it is closed; False if another process has it. Some systems know no locks."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return wait
    return True


def _same(first: Path, second: Path) -> bool:
    if os.path.samefile(first, second):
        return True
    return first.stat().st_size == second.stat().st_size and file_id(first) == file_id(second)
