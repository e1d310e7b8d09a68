"""A folder of finished members, from which a stopped fit resumes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hedgerow.storage.atomic_file import refuse_link
from hedgerow.storage.container import Malformed, read_model, write_model
from hedgerow.trees.tree_model import Section, TreeClassifier

__all__ = ["Checkpoint"]


class Checkpoint:
    """A folder of finished members; files of a fit with another fingerprint are refused."""

    def __init__(self, folder: str | os.PathLike[str], fingerprint: str, labels: int) -> None:
        self.folder = Path(folder)
        self.fingerprint = fingerprint
        self.labels = labels

    def read(self) -> list[TreeClassifier]:
        """The members that are done."""
        members: list[TreeClassifier] = []
        while (member := self.open(len(members))) is not None:
            members.append(member)
        return members

    def open(self, number: int, verify: bool = True) -> TreeClassifier | None:
        """A member, if it is done; a fit need not verify what it has just written."""
        path = self._path(number)
        if not path.exists():
            return None
        file = read_model(path, verify=verify)
        if file.header.get("kind") != "member" or file.header.get("fingerprint") != self.fingerprint:
            raise ValueError(
                f"{self.folder} holds members of another fit, with other data or settings;"
                " delete it, or choose another folder"
            )
        try:
            return TreeClassifier.from_sections(
                "tree", file.header["tree"], file.sections, self.labels, verify
            )
        except KeyError as error:
            raise Malformed(f"{path} does not hold a whole member: {error}") from error

    def write(self, number: int, member: TreeClassifier) -> None:
        """Store one more member."""
        self.write_sections(number, member.to_header(), member.to_sections("tree"))

    def write_sections(self, number: int, header: dict[str, Any], sections: Mapping[str, Section]) -> None:
        """Store one more member, given as `TreeClassifier.to_header` and `to_sections` do."""
        self.folder.mkdir(parents=True, exist_ok=True)
        about = {"kind": "member", "fingerprint": self.fingerprint, "tree": header}
        write_model(self._path(number), dict(sections), about, overwrite=True)

    def clear(self) -> None:
        """Delete the members, what is done of others and, if nothing else is in it, the folder."""
        for kind in ("member", "tree", "block"):
            for path in self.folder.glob(f"{kind}-*.hedgerow"):
                path.unlink()
        if self.folder.exists() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _path(self, number: int) -> Path:
        return refuse_link(self.folder / f"member-{number:04d}.hedgerow")
