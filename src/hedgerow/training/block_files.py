"""Finished blocks on disk: a stopped fit resumes from them, and none stays in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy.typing as npt

from hedgerow.storage.atomic_file import refuse_link
from hedgerow.storage.container import Malformed, ModelFile, read_model, write_model
from hedgerow.training.blocks import Block, TrainedBlock
from hedgerow.trees.label_tree import LabelTree

__all__ = ["BlockFiles"]


class BlockFiles:
    """The trees and blocks of unfinished members; files of a fit with another fingerprint are refused."""

    def __init__(self, folder: str | os.PathLike[str], fingerprint: str) -> None:
        self.folder = Path(folder)
        self.fingerprint = fingerprint

    def read_tree(self, number: int) -> LabelTree | None:
        """The tree of a member, if it is grown."""
        path = self._tree_path(number)
        if not path.exists():
            return None
        file = self._read(path, "tree")
        try:
            begins = tuple(file.sections[f"begins.{layer}"] for layer in range(file.header["depth"]))
            return LabelTree(begins, file.sections["labels"])
        except (KeyError, TypeError, ValueError) as error:
            raise Malformed(f"{path} does not hold a tree: {error}") from error

    def write_tree(self, number: int, tree: LabelTree) -> None:
        """Keep the tree of a member."""
        sections: dict[str, npt.NDArray[Any]] = {
            f"begins.{layer}": begins for layer, begins in enumerate(tree.begins)
        }
        sections["labels"] = tree.labels
        self._write(self._tree_path(number), sections, {"kind": "tree", "depth": tree.depth})

    def read(self, number: int, verify: bool = True) -> list[TrainedBlock]:
        """The blocks of a member that are done, as views of their files; a fit need not verify its own."""
        found = []
        for path in self._block_paths(number):
            file = self._read(path, "block", verify)
            try:
                block = Block(*(int(file.header[name]) for name in ("layer", "first", "last")))
                table, weights = file.sections["table"], file.sections["weights"]
                if table.shape != (block.last - block.first, 6) or int(table[:, 1].sum()) != len(weights):
                    raise ValueError("its table does not fit its weights")
                found.append(TrainedBlock(block, table, weights, int(file.header["kept"])))
            except (KeyError, TypeError, ValueError) as error:
                raise Malformed(f"{path} does not hold a whole block: {error}") from error
        return found

    def write(self, number: int, trained: TrainedBlock) -> None:
        """Keep a block of a member."""
        block = trained.block
        name = f"block-{number:04d}-{block.layer}-{block.first}-{block.last}.hedgerow"
        header = {"layer": block.layer, "first": block.first, "last": block.last, "kept": trained.kept}
        sections: dict[str, npt.NDArray[Any]] = {"table": trained.table, "weights": trained.weights}
        self._write(refuse_link(self.folder / name), sections, {"kind": "block", **header})

    def clear(self, number: int) -> None:
        """Delete what is kept of a member."""
        for path in [*self._block_paths(number), self._tree_path(number)]:
            path.unlink(missing_ok=True)

    def _read(self, path: Path, kind: str, verify: bool = True) -> ModelFile:
        file = read_model(path, verify=verify)
        if file.header.get("kind") != kind or file.header.get("fingerprint") != self.fingerprint:
            raise ValueError(
                f"{self.folder} holds blocks of another fit, with other data or settings;"
                " delete it, or choose another folder"
            )
        return file

    def _write(self, path: Path, sections: dict[str, npt.NDArray[Any]], header: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_model(path, sections, {**header, "fingerprint": self.fingerprint}, overwrite=True)

    def _block_paths(self, number: int) -> list[Path]:
        return [refuse_link(path) for path in sorted(self.folder.glob(f"block-{number:04d}-*.hedgerow"))]

    def _tree_path(self, number: int) -> Path:
        return refuse_link(self.folder / f"tree-{number:04d}.hedgerow")
