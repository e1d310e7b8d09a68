"""Training the members of an ensemble in blocks, on a cluster or by threads of this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow.progress import Stage
from hedgerow.storage.scratch import Scratch
from hedgerow.training import tasks as worker
from hedgerow.training.block_files import BlockFiles
from hedgerow.training.blocks import above, as_matched, block_work, cut, gaps, joined_sections
from hedgerow.training.checkpoint import Checkpoint
from hedgerow.training.growing import Resources, grow_tree
from hedgerow.training.plan import MemberPlan, TrainingPlan
from hedgerow.training.settings import Method
from hedgerow.trees.label_tree import LabelTree
from hedgerow.trees.tree_model import TRANSFORMS, TreeClassifier

__all__ = ["BlockTraining", "Workers"]

# The fewest inputs of a task that searches.
_FEWEST_ROWS = 2048


class Workers(Protocol):
    """What runs the tasks; see `Crew` and `Alone` for the methods."""

    processors: int  # tasks that run at once
    threads: int  # of this process, for what is not cut into tasks; 0: those of the fit
    threads_each: int  # of a task
    most_work: float  # of a block
    scratch: Scratch | None
    spreads: bool  # whether tasks run in other processes
    watch: Callable[[float], None] | None  # called by long tasks, which end if it raises

    def put(self, value: Any) -> Any: ...  # noqa: D102

    def run(  # noqa: D102
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]: ...

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any: ...  # noqa: D102

    def together(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]: ...  # noqa: D102


class BlockTraining:
    """Grows, trains and asks members by tasks; finished parts are kept in files, not in memory."""

    keeps_members = True
    at_once = True

    def __init__(
        self,
        crew: Workers,
        plan: TrainingPlan,
        folder: str | os.PathLike[str],
        fingerprint: str,
        threads: int,
    ) -> None:
        data = plan.data
        self._crew, self._plan = crew, plan
        self._engine = worker.Engine.here() if crew.spreads else None
        self.resources = Resources(crew.threads or threads, crew.scratch)
        self._inputs, self._labels = data.indicator.shape
        self._entries = data.indicator.nnz
        self._width = data.width
        self._data = crew.put(worker.SharedData.of(data))
        self._label_features = crew.put(plan.label_features)
        self._blocks = BlockFiles(folder, fingerprint)
        self._members = Checkpoint(folder, fingerprint, self._labels)

    def grow(self, member: MemberPlan, progress: Stage | None) -> LabelTree:
        """Grow the tree of a member, or read it if it is grown."""
        plan = self._plan
        if plan.tree is not None:
            return plan.tree
        if (done := self._members.open(member.number)) is not None:
            return done.tree
        tree = self._blocks.read_tree(member.number)
        if tree is not None:
            return tree
        ensemble, settings = plan.settings.ensemble, plan.settings.tree
        # Many trees are grown on the cluster; for one at a time, the threads of this machine are faster.
        if self._crew.spreads and ensemble.method is Method.BAGGING and ensemble.own_trees:
            shared = (self._engine, self._data, self._crew.put(member.costs), self._label_features)
            tree = self._crew.call(worker.grow, *shared, settings, member.seed)
        else:
            tree = grow_tree(
                plan.data, plan.label_features, member.costs, settings, member.seed, self.resources, progress
            )
        self._blocks.write_tree(member.number, tree)
        return tree

    def train(self, member: MemberPlan, tree: LabelTree, progress: Stage | None) -> TreeClassifier:
        """Train a member; blocks that are trained already are read."""
        number, costs, negatives = member.number, member.costs, member.negatives
        settings = self._plan.settings.solver.for_engine(member.alpha, member.seed)
        if (done := self._members.open(number)) is not None:
            return done
        crew = self._crew
        shared = [self._engine, self._data, crew.put(tree)]
        weighed = crew.put(costs)
        wrong = crew.put(None if negatives is None else negatives.arrays())
        layers = list(range(tree.depth))
        # A matcher looks at the layers above; otherwise all layers are trained at once.
        stages = [[layer] for layer in layers] if settings["matcher_beam"] else [layers]
        for stage, together in enumerate(stages):
            begin, share = stage / len(stages), 1 / len(stages)
            matched = self._match(number, tree, stage, settings) if stage else None
            work = crew.call(worker.work, *shared, wrong, matched, together)
            total = sum(float(each.sum()) for each in work)
            target = min(block_work(total, self._entries, self._inputs, crew.processors), crew.most_work)
            kept = [trained.block for trained in self._blocks.read(number)]
            todo = []
            for layer, each in zip(together, work, strict=True):
                for within in gaps(kept, layer, len(each)):
                    for block in cut(each, layer, target, within):
                        todo.append((float(each[block.first : block.last].sum()), block))
            todo.sort(key=lambda item: (-item[0], item[1]))
            solving = worker.Solving(self._engine, settings, crew.scratch, crew.threads_each, crew.watch)
            tasks = [(*shared[1:], weighed, wrong, matched, solving, block) for _, block in todo]
            done_work = total - sum(amount for amount, _ in todo)
            for at, trained in crew.run(worker.train, tasks):
                self._blocks.write(number, trained)
                done_work += todo[at][0]
                if progress is not None:
                    progress(begin + share * done_work / max(total, 1.0))
        return self._finish(number, tree, settings)

    def together(self, make: Callable[[int], TreeClassifier], numbers: Sequence[int]) -> list[TreeClassifier]:
        """Make several members at once."""
        return self._crew.together(make, numbers)

    def top(self, member: TreeClassifier, k: int, beam: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The best k labels of each input and their probabilities, both of shape (inputs, k)."""
        labels = np.empty((self._inputs, k), dtype=np.int32)
        probability = np.empty((self._inputs, k), dtype=np.float32)
        ranges = self._ranges()
        model = self._crew.put(member)
        threads = self._crew.threads_each
        tasks = [(self._engine, self._data, model, k, beam, threads, rows) for rows in ranges]
        for at, found in self._crew.run(worker.top_rows, tasks):
            begin, end = ranges[at]
            labels[begin:end], probability[begin:end] = found
        return labels, probability

    def _match(self, number: int, tree: LabelTree, layer: int, settings: dict[str, Any]) -> Any:
        """What a beam finds in the layers above, for all inputs, in the object store."""
        trained = [each for each in self._blocks.read(number, verify=False) if each.block.layer < layer]
        upper = above(tree, layer, trained, self._width, settings["loss"], settings["normalise"])
        ranges = self._ranges()
        model = self._crew.put(upper)
        how = (settings["matcher_beam"], self._crew.threads_each)
        tasks = [(self._engine, self._data, model, *how, rows) for rows in ranges]
        found: list[Any] = [None] * len(tasks)
        for at, nodes in self._crew.run(worker.match_rows, tasks):
            found[at] = nodes
        return self._crew.put(as_matched(found, tree.layer_sizes[layer]).arrays())

    def _finish(self, number: int, tree: LabelTree, settings: dict[str, Any]) -> TreeClassifier:
        """Stream the blocks into the file of the member, and open it."""
        blocks = self._blocks.read(number, verify=False)
        header = {
            "features": self._width,
            "transform": TRANSFORMS[settings["loss"]],
            "normalize": settings["normalise"],
            "weights": sum(trained.kept for trained in blocks),
            "depth": tree.depth,
            "members": 1,
            "parts": 1,
        }
        self._members.write_sections(number, header, joined_sections("tree", tree, blocks))
        self._blocks.clear(number)
        member = self._members.open(number, verify=False)
        if member is None:
            raise FileNotFoundError(
                f"member {number} was deleted from {self._members.folder} during the fit; fit again"
            )
        return member

    def _ranges(self) -> list[tuple[int, int]]:
        size = max(_FEWEST_ROWS, -(-self._inputs // (4 * self._crew.processors)))
        return [(begin, min(begin + size, self._inputs)) for begin in range(0, self._inputs, size)]
