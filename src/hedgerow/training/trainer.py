"""Trains the members of a plan, one after the other or, where they are independent, together."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace

from hedgerow import _native
from hedgerow.progress import Progress, Stage
from hedgerow.training.checkpoint import Checkpoint
from hedgerow.training.data import drawn_for
from hedgerow.training.place import Place
from hedgerow.training.places import Limits, open_place
from hedgerow.training.plan import MemberPlan, TrainingPlan
from hedgerow.trees.label_tree import LabelTree
from hedgerow.trees.tree_model import TreeClassifier

__all__ = ["train"]

# What earlier members say of the inputs that they were trained on: enough to rank the best ten of their mean.
_PREDICTED = 30
_PREDICTION_BEAM = 10
_REMEMBERED = 100
# The share of a member's time that clustering takes, for progress.
_CLUSTERING = 0.1


def train(
    plan: TrainingPlan,
    limits: Limits,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    done: Sequence[TreeClassifier] = (),
    progress: Progress | None = None,
) -> list[TreeClassifier]:
    """Train the members that are not done, and merge those that share a tree.

    A checkpoint keeps members, and blocks of nodes where the fit is done in blocks. Member `m` is the same
    whatever number of members follows it, as long as each has its own tree.
    """
    with open_place(plan, limits, checkpoint) as place:
        trainer = _Trainer(plan, place, progress)
        if not plan.settings.ensemble.method.trains_members:
            return [trainer.only_member()]
        if checkpoint is not None:
            labels = plan.data.indicator.shape[1]
            trainer.kept = Checkpoint(checkpoint, plan.fingerprint(), labels)
            done = trainer.kept.read()
        members = trainer.members(list(done))
        ensemble = plan.settings.ensemble
        groups: list[list[TreeClassifier]] = [[] for _ in range(ensemble.tree_count)]
        for number, member in enumerate(members):
            groups[number * ensemble.tree_count // ensemble.members].append(member)
        return [TreeClassifier.merge(group, place.resources.threads) for group in groups]


class _Trainer:
    """The loop over members; `kept` is where finished ones are stored, if anywhere."""

    def __init__(self, plan: TrainingPlan, place: Place, progress: Progress | None) -> None:
        self._plan, self._place, self._progress = plan, place, progress
        self._ensemble = plan.settings.ensemble
        self._shares = [0.0]
        self._lock = threading.Lock()
        self.kept: Checkpoint | None = None

    def only_member(self) -> TreeClassifier:
        """The one member of a model that is not an ensemble: it sees all inputs."""
        return self._make(MemberPlan(0, self._plan.seed, self._plan.data.costs), None)

    def members(self, trained: list[TreeClassifier]) -> list[TreeClassifier]:
        """All members, each with a single classifier per node."""
        ensemble, data = self._ensemble, self._plan.data
        count, threads = ensemble.members, self._place.resources.threads
        self._shares = [float(number < len(trained)) for number in range(count)]
        if self._place.at_once and not ensemble.method.boosts and ensemble.own_trees:
            todo = range(len(trained), count)
            return trained + self._place.together(lambda number: self._make(self._drawn(number), None), todo)
        negatives = _native.HardNegatives(data.indicator.shape[0], _REMEMBERED)
        for number in range(count):
            if number >= len(trained):
                member = self._drawn(number)
                if ensemble.method.boosts and number > 0:
                    member = replace(member, negatives=self._wrong(negatives))
                shared = number > 0 and self._group(number) == self._group(number - 1)
                trained.append(self._make(member, trained[-1].tree if shared else None))
            if ensemble.method.boosts and number + 1 < count:
                k = min(max(_PREDICTED, ensemble.hard_negatives), len(trained[number].tree.labels))
                labels, probability = self._place.top(trained[number], k, _PREDICTION_BEAM)
                negatives.add(labels, probability, threads)
        return trained

    def _make(self, member: MemberPlan, tree: LabelTree | None) -> TreeClassifier:
        if tree is None:
            # A tree that several members share must have the labels of all of them.
            grown = member if self._ensemble.own_trees else replace(member, costs=self._plan.data.costs)
            tree = self._place.grow(grown, self._stage(member.number, "clustering", 0.0, _CLUSTERING))
        trained = self._place.train(member, tree, self._stage(member.number, "training", _CLUSTERING, 1.0))
        if self.kept is not None and not self._place.keeps_members:
            self.kept.write(member.number, trained)
        self._shares[member.number] = 1.0
        return trained

    def _drawn(self, number: int) -> MemberPlan:
        data, method = self._plan.data, self._ensemble.method
        seed, costs = drawn_for(number, self._plan.seed, data.indicator, data.costs, method.bootstraps)
        return MemberPlan(number, seed, costs, alpha=self._ensemble.alpha if method.boosts else 1.0)

    def _wrong(self, negatives: _native.HardNegatives) -> _native.Rows:
        data = self._plan.data
        wrong = negatives.wrong(data.Y, self._ensemble.hard_negatives)
        return _native.Rows(wrong.indptr, wrong.indices, None, data.indicator.shape[1])

    def _group(self, number: int) -> int:
        return number * self._ensemble.tree_count // self._ensemble.members

    def _stage(self, number: int, what: str, begin: float, end: float) -> Stage | None:
        progress, shares = self._progress, self._shares
        if progress is None:
            return None
        name = what if len(shares) == 1 else f"member {number + 1} of {len(shares)}: {what}"

        def report(share: float) -> None:
            with self._lock:
                shares[number] = begin + share * (end - begin)
                progress(sum(shares) / len(shares), name)

        report(0.0)  # the engine reports some ten times a second, and a short stage may end before
        return report
