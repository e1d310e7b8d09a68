"""How the members of an ensemble are made: bagging, boosting, and both."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import xxhash

from hedgerow import _native
from hedgerow.inputs.matrices import as_rows
from hedgerow.storage.atomic_file import refuse_link
from hedgerow.storage.container import Malformed, read_model, write_model
from hedgerow.training.memory import Scratch
from hedgerow.trees.label_tree import LabelTree, aggregate_features, aggregate_to_files, grow_over
from hedgerow.trees.tree_model import Section, TreeClassifier

__all__ = ["METHODS", "Boosting", "TrainingData", "as_costs", "drawn_for", "grow_tree", "train_members"]

METHODS = ("single", "mc-dropout", "bagging", "boosting", "boosted-bagging")

Progress = Callable[[float, str], None]

# What earlier members say of the inputs that they were trained on: enough to rank the best ten of their mean.
_PREDICTED = 30
_PREDICTION_BEAM = 10
_REMEMBERED = 100


def as_costs(sample_weight: npt.ArrayLike | None, rows: int) -> npt.NDArray[np.float32] | None:
    """Weights of the inputs as costs, after checking them."""
    if sample_weight is None:
        return None
    if np.iscomplexobj(sample_weight):
        raise ValueError("sample_weight has complex numbers; weights are real")
    try:
        with np.errstate(over="ignore"):
            costs = np.ascontiguousarray(sample_weight, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight is no vector of numbers: {error}") from error
    if costs.shape != (rows,):
        raise ValueError(f"sample_weight has shape {costs.shape}, but there are {rows} inputs")
    bad = np.flatnonzero(~(np.isfinite(costs) & (costs >= 0)))
    if bad.size:
        raise ValueError(f"sample_weight[{bad[0]}] is {costs[bad[0]]}; weights are finite and not negative")
    if not costs.any():
        raise ValueError("sample_weight is 0 for every input; there is nothing to learn from")
    return costs


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

    def fingerprint(self, tree: LabelTree | None, label_features: Any, settings: str) -> str:
        """A hash of the data and the settings: equal ones give equal members."""
        digest = xxhash.xxh3_128(repr((settings, self.width, self.indicator.shape)).encode())
        if label_features is not None:
            vectors = sp.csr_array(label_features)
            digest.update(repr(vectors.shape).encode())
            for array in (vectors.indptr, vectors.indices, vectors.data):
                digest.update(np.ascontiguousarray(array).data)
        if tree is not None:
            for array in (*tree.begins, tree.labels):
                digest.update(repr(len(array)).encode())
                digest.update(np.ascontiguousarray(array).data)
        # As the engine has them, whatever they were given as.
        indptr, indices, values, _ = self.X.arrays()
        for part in (indptr, indices, values, self.indicator.indptr, self.indicator.indices):
            if part is not None:  # no values: all are 1
                digest.update(np.ascontiguousarray(part).data)
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
Ask = Callable[[TreeClassifier, int, int], tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]]
Together = Callable[[Callable[[int], TreeClassifier], Sequence[int]], list[TreeClassifier]]


def grow_tree(
    data: TrainingData,
    label_features: Any,
    costs: npt.NDArray[np.float32] | None,
    *,
    branching: int,
    leaf_size: int,
    normalize: bool,
    seed: int,
    threads: int,
    progress: Callable[[float], None] | None,
    scratch: Scratch | None = None,
) -> LabelTree:
    """Cluster the labels of the inputs that have a cost, by `label_features` or by the inputs themselves."""
    Y = data.indicator
    taught = Y if costs is None else Y[costs > 0]
    used = np.flatnonzero(np.bincount(taught.indices, minlength=Y.shape[1])).astype(np.int32)
    if not used.size:
        raise ValueError("no input with a weight above 0 has any label; there is nothing to learn")
    if label_features is None:
        of_inputs = (data.X, Y, used, data.width, costs, normalize, threads)
        alive = progress and (lambda _: progress(0.0))
        if scratch is None:
            vectors = as_rows(aggregate_features(*of_inputs, alive), "label_features", threads=threads)
        else:
            vectors = aggregate_to_files(*of_inputs, alive, scratch)
    else:
        as_rows(label_features, "label_features", threads=threads)
        given = sp.csr_array(label_features)
        if given.shape[0] != Y.shape[1]:
            raise ValueError(f"label_features has {given.shape[0]} rows, but Y has {Y.shape[1]} columns")
        vectors = as_rows(given[used], "label_features", threads=threads)
    return grow_over(
        vectors,
        used,
        branching=branching,
        leaf_size=leaf_size,
        seed=seed,
        threads=threads,
        progress=progress,
        scratch=scratch,
    )


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
    ask: Ask | None = None,
    together: Together | None = None,
) -> list[TreeClassifier]:
    """Train the members that are not done yet, one after the other or, where nothing forbids it, together.

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
    ask : callable(member, k, beam), optional
        Gives the best k labels of each input and their probabilities; this process does it, if not given.
    together : callable(function, numbers), optional
        Calls a function for several members at once. They must not depend on each other, as with boosting or
        with trees that they share.

    Returns
    -------
    list of TreeClassifier
        All members, each with a single classifier for every node.
    """
    trained = list(done)
    shares = [float(number < len(done)) for number in range(members)]
    telling = threading.Lock()

    def told(number: int, what: str, begin: float) -> Callable[[float], None] | None:
        if progress is None:
            return None
        name = f"member {number + 1} of {members}: {what}"

        def tell(share: float) -> None:
            with telling:
                shares[number] = begin + share * (1 - begin)
                progress(sum(shares) / members, name)

        return tell

    def make(number: int, tree: LabelTree | None = None, wrong: _native.Rows | None = None) -> TreeClassifier:
        own_seed, costs = drawn_for(number, seed, data, bootstrap)
        if tree is None:
            # A tree that several members share must have the labels of all of them.
            grown_on = costs if trees == members else data.costs
            tree = grow(number, grown_on, own_seed, told(number, "clustering", 0.0))
        alpha = boosting.alpha if boosting else 1.0
        member = train(number, tree, costs, wrong, alpha, own_seed, told(number, "training", 0.1))
        keep(number, member)
        shares[number] = 1.0
        return member

    if together is not None and boosting is None and trees == members:
        return trained + together(make, range(len(trained), members))
    negatives = _native.HardNegatives(data.indicator.shape[0], _REMEMBERED) if boosting else None
    for number in range(members):
        if number >= len(trained):
            shared = number > 0 and number * trees // members == (number - 1) * trees // members
            wrong = _wrong(negatives, data, boosting.count) if boosting and negatives and number > 0 else None
            trained.append(make(number, trained[-1].tree if shared else None, wrong))
        if boosting and negatives and number + 1 < members:
            member = trained[number]
            k = min(max(_PREDICTED, boosting.count), len(member.tree.labels))
            if ask is None:
                labels, probability = member.top(data.X, k, _PREDICTION_BEAM, False, threads)
            else:
                labels, probability = ask(member, k, _PREDICTION_BEAM)
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
    wrong = negatives.wrong(data.Y, count)
    return _native.Rows(wrong.indptr, wrong.indices, None, data.indicator.shape[1])


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
