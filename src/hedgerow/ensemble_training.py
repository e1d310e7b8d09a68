"""How the members of an ensemble are made: bagging, boosting, and both."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import xxhash

from hedgerow import _native
from hedgerow.label_tree import LabelTree
from hedgerow.model_file import Malformed, read_model, write_model
from hedgerow.tree_classifier import TreeClassifier

__all__ = ["METHODS", "Boosting", "TrainingData", "drawn_for", "train_members"]

METHODS = ("single", "mc-dropout", "bagging", "boosting", "boosted-bagging")

Progress = Callable[[float, str], None]

# What earlier members say of the inputs that they were trained on: enough to rank the best ten of their mean.
_PREDICTED = 30
_PREDICTION_BEAM = 10
_REMEMBERED = 100


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What all members learn from.

    Attributes
    ----------
    X, Y : _native.Rows
        Inputs and their labels.
    indicator : csr_array
        The labels as a matrix.
    width : int
        Number of features.
    costs : float32 array or None
        Weights of the inputs.
    """

    X: _native.Rows
    Y: _native.Rows
    indicator: sp.csr_array
    width: int
    costs: npt.NDArray[np.float32] | None

    def fingerprint(self, inputs: Any, tree: LabelTree | None, label_features: Any, settings: str) -> str:
        """A hash of the data and the settings: equal ones give equal members."""
        digest = xxhash.xxh3_128(repr((settings, self.width, self.indicator.shape)).encode())
        matrix = sp.csr_array(inputs)
        if label_features is not None:
            vectors = sp.csr_array(label_features)
            digest.update(repr(vectors.shape).encode())
            for array in (vectors.indptr, vectors.indices, vectors.data):
                digest.update(np.ascontiguousarray(array).data)
        if tree is not None:
            for array in (*tree.begins, tree.labels):
                digest.update(repr(len(array)).encode())
                digest.update(np.ascontiguousarray(array).data)
        for array in (
            matrix.indptr,
            matrix.indices,
            matrix.data,
            self.indicator.indptr,
            self.indicator.indices,
        ):
            digest.update(np.ascontiguousarray(array).data)
        if self.costs is not None:
            digest.update(self.costs.data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Boosting:
    """Hard negatives from earlier members.

    Attributes
    ----------
    alpha : float
        Cost of an input where only a hard negative brings it, relative to the others.
    count : int
        Of how many best labels of the earlier members' mean the wrong ones are taken.
    """

    alpha: float
    count: int


GrowTree = Callable[[int, npt.NDArray[np.float32] | None, int, Any], LabelTree]
TrainTree = Callable[..., TreeClassifier]


def train_members(
    data: TrainingData,
    *,
    members: int,
    trees: int,
    bootstrap: bool,
    boosting: Boosting | None,
    seed: int,
    grow: GrowTree,
    train: TrainTree,
    threads: int,
    done: list[TreeClassifier],
    keep: Callable[[int, TreeClassifier], None],
    progress: Progress | None,
) -> list[TreeClassifier]:
    """Train the members that are not done yet, one after the other.

    Parameters
    ----------
    data : TrainingData
        What they learn from.
    members, trees : int
        How many members, and over how many trees they are spread.
    bootstrap : bool
        Whether each member sees a sample of the inputs, drawn with replacement, as large as all of them.
    boosting : Boosting or None
        Whether each member also learns from what the earlier ones get wrong.
    seed : int
        Member `m` is the same whatever number of members follows it, as long as each has its own tree.
    grow : callable(number, costs, seed, progress)
        Grows the label tree of a member.
    train : callable(number, tree, costs, negatives, alpha, seed, progress)
        Trains a member.
    threads : int
        0 uses all processors.
    done : list of TreeClassifier
        Members trained before.
    keep : callable(number, member)
        Told of each new member.
    progress : callable(share, what), optional
        Called some ten times a second.

    Returns
    -------
    list of TreeClassifier
        All members, each with a single classifier for every node.
    """
    trained = list(done)
    negatives = _native.HardNegatives(data.indicator.shape[0], _REMEMBERED) if boosting else None
    for number in range(members):
        new = number >= len(trained)

        def told(what: str, begin: float, number: int = number) -> Callable[[float], None] | None:
            if progress is None:
                return None
            name = f"member {number + 1} of {members}: {what}"
            return lambda share: progress((number + begin + share * (1 - begin)) / members, name)

        if new:
            own_seed, costs = drawn_for(number, seed, data, bootstrap)
            shared = number > 0 and number * trees // members == (number - 1) * trees // members
            # A tree that several members share must have the labels of all of them.
            grown_on = costs if trees == members else data.costs
            tree = trained[-1].tree if shared else grow(number, grown_on, own_seed, told("clustering", 0.0))
            wrong = _wrong(negatives, data, boosting.count) if boosting and negatives and number > 0 else None
            alpha = boosting.alpha if boosting else 1.0
            trained.append(train(number, tree, costs, wrong, alpha, own_seed, told("training", 0.1)))
            keep(number, trained[-1])
        if negatives and number + 1 < members:
            member = trained[number]
            k = min(_PREDICTED, len(member.tree.labels))
            labels, probability = member.top(data.X, k, _PREDICTION_BEAM, False, threads)
            negatives.add(labels, probability, threads)
    return trained


def drawn_for(
    number: int, seed: int, data: TrainingData, bootstrap: bool
) -> tuple[int, npt.NDArray[np.float32] | None]:
    """The seed of a member and the costs of its inputs: with `bootstrap`, how often each was drawn."""
    draw = np.random.default_rng([seed, number])
    own_seed = int(draw.integers(2**62))
    return own_seed, _bootstrap(draw, data) if bootstrap else data.costs


def _bootstrap(draw: np.random.Generator, data: TrainingData) -> npt.NDArray[np.float32]:
    rows = data.indicator.shape[0]
    counts = np.bincount(draw.integers(0, rows, rows), minlength=rows).astype(np.float32)
    costs = counts if data.costs is None else counts * data.costs
    if not costs.any() or not data.indicator[costs > 0].nnz:
        return np.ones(rows, dtype=np.float32) if data.costs is None else data.costs
    return costs


def _wrong(negatives: _native.HardNegatives, data: TrainingData, count: int) -> _native.Rows:
    indptr, indices = negatives.wrong(data.Y, count)
    return _native.Rows(indptr, indices, None, data.indicator.shape[1])


class Checkpoint:
    """A folder with the members that are done, so that a stopped fit can go on.

    Parameters
    ----------
    folder : path-like
        Made if it does not exist.
    fingerprint : str
        Of the data and the settings; members of another fit are refused.
    labels : int
        Number of labels.
    """

    def __init__(self, folder: str | os.PathLike[str], fingerprint: str, labels: int) -> None:
        self.folder = Path(folder)
        self.fingerprint = fingerprint
        self.labels = labels

    def read(self) -> list[TreeClassifier]:
        """The members that are done."""
        members: list[TreeClassifier] = []
        while (path := self._path(len(members))).exists():
            file = read_model(path)
            if file.header.get("kind") != "member" or file.header.get("fingerprint") != self.fingerprint:
                raise ValueError(
                    f"{self.folder} holds members of another fit, with other data or settings;"
                    " delete it, or choose another folder"
                )
            try:
                members.append(
                    TreeClassifier.from_sections(
                        "tree", file.header["tree"], file.sections, self.labels, True
                    )
                )
            except KeyError as error:
                raise Malformed(f"{path} does not hold a whole member: {error}") from error
        return members

    def write(self, number: int, member: TreeClassifier) -> None:
        """Store one more member."""
        self.folder.mkdir(parents=True, exist_ok=True)
        header = {"kind": "member", "fingerprint": self.fingerprint, "tree": member.to_header()}
        write_model(self._path(number), dict(member.to_sections("tree")), header, overwrite=True)

    def clear(self) -> None:
        """Delete the members and, if nothing else is in it, the folder."""
        for path in self.folder.glob("member-*.hedgerow"):
            path.unlink()
        if self.folder.exists() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _path(self, number: int) -> Path:
        path = self.folder / f"member-{number:04d}.hedgerow"
        # Writing goes where a link leads, and nothing here makes links.
        if path.is_symlink():
            raise ValueError(f"{path} is a symbolic link; delete it, or choose another folder")
        return path
