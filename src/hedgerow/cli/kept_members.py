"""What an unfinished fit keeps beside its model, so that the same command can continue."""

from __future__ import annotations

import contextlib
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

from .failures import ExitCode, Failure
from .terminal import plain


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
        if found := self.count():
            print(f"hedgerow: {self._share(found)} found in {plain(self.folder)}", file=sys.stderr)
        elif blocks := self.blocks():
            print(f"hedgerow: {blocks:,} finished blocks found in {plain(self.folder)}", file=sys.stderr)
        elif self.encoders():
            print(f"hedgerow: the state of fine-tuning found in {plain(self.folder)}", file=sys.stderr)

    def count(self) -> int:
        """How many members are done."""
        return len(list(self.folder.glob("member-*.hedgerow")))

    def blocks(self) -> int:
        """How many blocks of other members are done."""
        return len(list(self.folder.glob("block-*.hedgerow")))

    def encoders(self) -> list[Path]:
        """Files with the state of fine-tuning."""
        return sorted(self.folder.glob("encoder-*.hedgerow"))

    def left_behind(self) -> str:
        """What an interrupt leaves: members, blocks of them, or nothing at all."""
        if found := self.count():
            left = f"{self._share(found)} {'is' if found == 1 else 'are'}"
        elif blocks := self.blocks():
            left = f"{blocks:,} blocks are"
        elif self.encoders():
            left = "the state of fine-tuning is"
        elif any(self.folder.glob("tree-*.hedgerow")):
            left = "a label tree is"
        else:
            with contextlib.suppress(OSError):  # not there, or not ours alone
                self.folder.rmdir()
            return "nothing was written"
        return f"{left} kept in {self.folder}; the same command continues from there"

    def delete(self) -> None:
        """Remove the members and what a crash left of one; other files stay, and so does their folder."""
        halves = (self.folder.glob(f".{kind}-*.tmp") for kind in ("member", "encoder", "block", "tree"))
        for path in [*itertools.chain(*halves), *self.encoders()]:
            path.unlink()
        from hedgerow.training.checkpoint import Checkpoint

        Checkpoint(self.folder, fingerprint="", labels=0).clear()

    def _share(self, found: int) -> str:
        return f"{found} of {self.wanted} member{'' if self.wanted == 1 else 's'}"
