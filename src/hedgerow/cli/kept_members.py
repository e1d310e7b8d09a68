"""What an unfinished fit keeps beside its model, so that the same command can continue."""

from __future__ import annotations

import contextlib
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

from .failures import ExitCode, Failure
from .terminal import plain

NOTHING_LEFT = "nothing was written"


@dataclass(frozen=True)
class KeptMembers:
    """The folder beside a model where an unfinished fit keeps its members, and how many they will be."""

    folder: Path
    wanted: int

    def announce(self) -> None:
        """Say on stderr what an earlier run left."""
        if self.folder.exists() and not self.folder.is_dir():
            raise Failure(
                ExitCode.WRITE,
                f"{self.folder} is a file, but finished members are kept in a folder of that name;"
                " move it away, or choose another MODEL",
            )
        if found := self._done():
            print(f"hedgerow: {found[0]} found in {plain(self.folder)}", file=sys.stderr)

    def _done(self) -> tuple[str, str] | None:
        """What is finished, members before parts of them, with the verb that it takes."""
        if members := self._count("member"):
            share = f"{members} of {self.wanted} member{'' if self.wanted == 1 else 's'}"
            return share, "is" if members == 1 else "are"
        if blocks := self._count("block"):
            return f"{blocks:,} finished blocks", "are"
        return ("the state of fine-tuning", "is") if self._count("encoder") else None

    def _count(self, kind: str) -> int:
        return len(list(self.folder.glob(f"{kind}-*.hedgerow")))

    def left_behind(self) -> str:
        """What an interrupt leaves: members, blocks of them, or nothing at all."""
        if found := self._done():
            left = " ".join(found)
        elif self._count("tree"):
            left = "a label tree is"
        else:
            with contextlib.suppress(OSError):  # not there, or not ours alone
                self.folder.rmdir()
            return NOTHING_LEFT
        return f"{left} kept in {self.folder}; the same command continues from there"

    def delete(self) -> None:
        """Remove the members and what a crash left of one; other files stay, and so does their folder."""
        halves = (self.folder.glob(f".{kind}-*.tmp") for kind in ("member", "encoder", "block", "tree"))
        for path in [*itertools.chain(*halves), *self.folder.glob("encoder-*.hedgerow")]:
            path.unlink()
        from hedgerow.training.checkpoint import Checkpoint

        Checkpoint(self.folder, fingerprint="", labels=0).clear()
