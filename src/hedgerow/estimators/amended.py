"""A model brought up to date with its records, tree by tree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.features.fields import Record
from hedgerow.features.readers import MatrixReader
from hedgerow.inputs.matrices import as_indicator, as_rows
from hedgerow.inputs.training_record import TrainingRecord
from hedgerow.judge.name_matches import LabelRecord, find_names
from hedgerow.judge.names import NameJudge
from hedgerow.judge.scorers import Scorers
from hedgerow.model import Model
from hedgerow.progress import Progress, stage
from hedgerow.records.changes import Applied
from hedgerow.records.table import RecordTable, Step
from hedgerow.training.amending import ChangedRows, TreeVersion, amend_tree
from hedgerow.training.centroids import amend_centroids
from hedgerow.training.data import Costs, TrainingData, drawn_for
from hedgerow.training.plan import TrainingPlan
from hedgerow.training.settings import TrainingSettings
from hedgerow.training.shape import wide_plan
from hedgerow.trees.forest import Ensemble
from hedgerow.trees.tree_model import TRANSFORMS

__all__ = ["Amended", "amend_model", "are_columns", "as_inputs", "can_amend", "tree_versions"]


@dataclass(frozen=True, eq=False)
class Amended:
    """A model after an update, and the records with what was trained when."""

    model: Model
    table: RecordTable


def can_amend(model: Model, settings: TrainingSettings) -> str | None:
    """Why every member must be trained again after a change; None where trees can be amended."""
    ensemble, trees = settings.ensemble, model.forest.trees
    if (
        ensemble.method != model.method
        or (ensemble.method.trains_members and ensemble.own_trees and ensemble.members != len(trees))
        or trees[0].transform != TRANSFORMS[settings.solver.loss]
        or trees[0].normalize != settings.tree.normalize
    ):
        return "its settings are others than those of the last full fit"
    if ensemble.method.boosts:
        return "members of boosting learn from each other's mistakes"
    if ensemble.method.trains_members and not ensemble.own_trees:
        return "several members share a tree"
    if model.reader.kind == "transformer":
        return "its encoder was fine-tuned on all records"
    return None


def tree_versions(model: Model) -> list[TreeVersion]:
    """The trees that an update amends, as a full fit left them: those of the members, and the wide one."""
    return [TreeVersion.fitted(tree) for tree in _amended_trees(model)]


def as_inputs(values: Any) -> Any:
    """Inputs as they lie in a file, as a reader takes them: texts of a record are a list there."""
    if not isinstance(values, list):
        return values
    return [Record(value) if isinstance(value, list) else value for value in values]


def amend_model(
    model: Model,
    applied: Applied,
    settings: TrainingSettings,
    wide: int | None,
    threads: int,
    progress: Progress | None = None,
) -> Amended:
    """The model after an update of its records: its words and its judges stay, its trees are amended."""
    table = applied.table
    if model.training is None:
        raise ValueError("the model does not know what it was trained on; fit it again")
    seed = model.training.seed
    present = table.present
    classes, columns, indicator, changed = _labels(model, table)
    matrix, view = as_indicator(indicator, len(present), threads)
    features = sp.csr_array(table.rows[present]) if len(present) < len(table.arrived) else table.rows
    rows = as_rows(features, columns=table.rows.shape[1], threads=threads)
    if isinstance(model.reader, MatrixReader):
        rows = model.reader.damped(rows)
    data = TrainingData(rows, view, matrix, model.reader.width, None)
    lost = _lost(table, applied, classes)
    after = ChangedRows(data, changed, table.now, lost, columns)
    versions = [
        TreeVersion(tree, solved) for tree, solved in zip(_amended_trees(model), table.solved, strict=True)
    ]
    members = len(model.forest.trees)
    amended: list[TreeVersion] = []
    for number, version in enumerate(versions):
        named = stage(progress, f"tree {number + 1} of {len(versions)}")
        if number < members:
            own_seed, costs = _draws(table, number, seed, settings)
            own = (settings.tree, settings.solver)
        else:
            plan = wide_plan(TrainingPlan(data, settings, seed), wide or 1)
            own_seed, costs, own = seed, None, (plan.settings.tree, plan.settings.solver)
        amended.append(amend_tree(version, after, costs, own, own_seed, threads, named))
    trees = [version.tree for version in amended]
    labels = len(classes)
    forest = Ensemble(trees[:members], labels, model.forest.dropout)
    counts = np.bincount(matrix.indices, minlength=labels).astype(np.int64)
    judge, scorers = model.judge, model.scorers
    if judge is not None and scorers is not None:
        judge = replace(judge, label_counts=counts)
        stale = np.zeros(labels, dtype=bool)
        stale[matrix[np.flatnonzero(changed == table.now)].indices] = True
        stale[lost.indices] = True
        centroids = amend_centroids(scorers.centroids, data, forest.tree, columns, stale, threads)
        classifier = trees[0] if scorers.shared else trees[-1] if scorers.classifier is not None else None
        scorers = Scorers(classifier, centroids, labels, scorers.shared, scorers.floor)
    found = replace(
        model.uncalibrated(),
        ood=None,
        centroids=None,
        forest=forest,
        classes=classes,
        label_counts=counts,
        n_samples=len(present),
        training=TrainingRecord.of(table.hashes[present], matrix, seed),
        judge=judge,
        scorers=scorers,
        names=_names(model, applied, classes, columns, counts, lost, threads),
    )
    solved = tuple(version.solved for version in amended)
    return Amended(found, replace(table, solved=solved))


def _amended_trees(model: Model) -> list[Any]:
    trees = list(model.forest.trees)
    if model.scorers is not None and not model.scorers.shared and model.scorers.classifier is not None:
        trees.append(model.scorers.classifier)
    return trees


def _labels(
    model: Model, table: RecordTable
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], sp.csr_array, npt.NDArray[np.int32]]:
    """Labels after the update, the new column of each old one (or -1), those of all records, and when set."""
    labels = table.labels_at()
    if not labels.indicator.nnz:
        raise ValueError("no record would be left that has a label, so there is nothing to learn")
    used = np.zeros(len(labels.names), dtype=bool)
    used[labels.indicator.indices] = True
    having = [name for name, one in zip(labels.names, used.tolist(), strict=True) if one]
    if are_columns(model.classes):
        classes = np.arange(max([len(model.classes), *(name + 1 for name in having)]))
        columns = np.arange(len(model.classes), dtype=np.int64)
    else:
        classes, columns = _renamed(model, table.steps[-1], having)
    order = {name: number for number, name in enumerate(classes.tolist())}
    own = np.array([order.get(name, 0) for name in labels.names], dtype=np.int32)
    indicator = sp.csr_array(
        (labels.indicator.data, own[labels.indicator.indices], labels.indicator.indptr),
        shape=(labels.indicator.shape[0], len(classes)),
    )
    indicator.sort_indices()
    return classes, columns, indicator, labels.changed


def are_columns(classes: npt.NDArray[Any]) -> bool:
    """Whether labels are the columns of a matrix, which keep their numbers whatever becomes of them."""
    return classes.dtype != object and bool((classes == np.arange(len(classes))).all())


def _renamed(model: Model, step: Step, having: list[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The labels after an update, those that were there first, and the new column of each old one, or -1.

    What nobody has any more goes, unless it never had an example or a judge of names may still propose it.
    """
    before = model.classes.tolist()
    counts = np.ones(len(before)) if model.label_counts is None else model.label_counts
    there, had = set(before), set(having)
    named = set() if model.vocabulary is None or model.names is None else set(model.vocabulary.ids)
    order: dict[Any, int] = {}
    columns = np.full(len(before), -1, dtype=np.int64)
    for place, (old, count) in enumerate(zip(before, counts.tolist(), strict=True)):
        new = step.renamed.get(old, old)
        merged = new != old and new in there
        name = old if merged else new
        gone = merged or old in step.removed_labels
        if name not in order and (name in named or (not gone and (name in had or count == 0))):
            columns[place] = order[name] = len(order)
    for name in having:
        order.setdefault(name, len(order))
    if model.classes.dtype == object:
        return np.array([*order, None], dtype=object)[:-1], columns
    return np.array(list(order), dtype=model.classes.dtype), columns


def _lost(table: RecordTable, applied: Applied, classes: npt.NDArray[Any]) -> sp.csr_array:
    """The labels that records had which left now, in the new columns."""
    names, gone = _labels_before(table, applied.gone)
    step = table.steps[-1]
    own = {name: number for number, name in enumerate(classes.tolist())}
    columns = np.array([own.get(step.renamed.get(name, name), -1) for name in names], dtype=np.int64)
    rows = np.repeat(np.arange(len(applied.gone)), np.diff(gone.indptr))
    to = columns[gone.indices]
    kept = to >= 0
    shape = (len(applied.gone), len(classes))
    return sp.csr_array((np.ones(int(kept.sum()), dtype=np.int8), (rows[kept], to[kept])), shape=shape)


def _labels_before(table: RecordTable, places: npt.NDArray[np.int64]) -> tuple[list[Any], sp.csr_array]:
    """The labels that records which left now had until then, and their names."""
    before = table.labels_at(table.now - 1)
    there = np.flatnonzero((table.arrived < table.now) & (table.left >= table.now))
    return before.names, sp.csr_array(before.indicator[np.searchsorted(there, places)])


def _draws(table: RecordTable, number: int, seed: int, settings: TrainingSettings) -> tuple[int, Costs]:
    """The seed of a member, and how often each record that is there is in its sample.

    What comes with an update is drawn as often as a bootstrap of infinitely many records would draw it.
    """
    method = settings.ensemble.method
    if not method.trains_members:
        return seed, None
    base = np.flatnonzero(table.arrived == 0)
    own_seed, drawn = drawn_for(number, seed, sp.csr_array(table.labels[base]), None, method.bootstraps)
    if drawn is None:
        return own_seed, None
    costs = np.zeros(len(table.arrived), dtype=np.float32)
    costs[base] = drawn
    for step in range(1, table.now + 1):
        own = np.flatnonzero(table.arrived == step)
        costs[own] = np.random.default_rng([seed, number, step]).poisson(1.0, len(own))
    return own_seed, costs[table.present]


def _names(
    model: Model,
    applied: Applied,
    classes: npt.NDArray[Any],
    columns: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    lost: sp.csr_array,
    threads: int,
) -> NameJudge | None:
    """The judge of names, with what records that came and left say of names and labels."""
    names, vocabulary = model.names, model.vocabulary
    if names is None or vocabulary is None:
        return None
    own = {name: number for number, name in enumerate(classes.tolist())}
    entries = columns[names.columns]
    found, right = (_moved(part, columns, len(classes)) for part in (names.record.found, names.record.right))
    table = applied.table
    after = replace(names, columns=entries.astype(np.int32))
    came = np.flatnonzero(table.arrived == table.now)
    to = np.array([own.get(name, -1) for name in table.names], dtype=np.int64)
    new = sp.csr_array(table.labels[came])
    for places, rows, labels, sign in (
        (came, new, to[new.indices], 1),
        (applied.gone, lost, lost.indices.astype(np.int64), -1),
    ):
        if not len(places):
            continue
        texts = model.reader.texts_apart(model.reader.inputs(as_inputs(table.inputs(places))))
        matched = find_names(names.matcher, after.columns, texts, threads)
        owners = np.repeat(np.arange(len(places), dtype=np.int64), np.diff(rows.indptr))
        true = np.isin(matched.rows << 32 | matched.labels, owners << 32 | labels)
        found += sign * np.bincount(matched.labels, minlength=len(classes))
        right += sign * np.bincount(matched.labels[true], minlength=len(classes))
    record = LabelRecord(counts, np.maximum(found, 0), np.maximum(right, 0))
    return replace(after, record=record)


def _moved(
    counts: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], labels: int
) -> npt.NDArray[np.int64]:
    moved = np.zeros(labels, dtype=np.int64)
    np.add.at(moved, columns[columns >= 0], counts[columns >= 0])
    return moved
