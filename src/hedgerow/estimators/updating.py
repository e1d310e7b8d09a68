"""Updates of a fitted classifier: new and corrected records, and what goes, without a full fit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow import _native
from hedgerow.estimators.amended import amend_model, are_columns, as_inputs, can_amend
from hedgerow.estimators.held_out import learn_from_held_out
from hedgerow.estimators.keeping import check_ids, first_records, fitted_trees
from hedgerow.estimators.learning import Learning
from hedgerow.inputs.labels import checked_lists, encode_labels, without_frame
from hedgerow.inputs.rows import count as count_inputs
from hedgerow.inputs.rows import take
from hedgerow.model import Model
from hedgerow.progress import Progress
from hedgerow.records.changes import Applied, Arrivals, Changes, apply_changes
from hedgerow.records.file import (
    NoRecordsError,
    beside,
    forgetting,
    name_forgetting,
    name_records,
    next_to,
    read_records,
    settle_records,
    write_records,
)
from hedgerow.records.lineage import Event, Lineage
from hedgerow.records.table import STAYS, HeldOutRecords, RecordTable
from hedgerow.storage.atomic_file import check_target, file_number

__all__ = ["UpdateReport", "Updating"]

# After so many changes, as a share of the records of the last full fit, words and trees are those of another
# time: then everything is trained again. Records double in some seven such fits, so their cost stays a few
# times that of one.
REFIT_AT = 0.25


@dataclass(frozen=True)
class UpdateReport:
    """What an update did.

    Attributes
    ----------
    event : Event
        How many records and labels came, went or changed.
    refitted : str or None
        Why everything was trained again; None where only a part was.
    labels_added : tuple
        Labels that no record had before.
    learned_again : tuple of str
        What had been learned from held-out data, and was learned again from those kept with the records.
    dropped : tuple of str
        What had been learned from held-out data, and is gone: they were not kept, or too few of them are left
        that the model was not trained on.
    """

    event: Event
    refitted: str | None = None
    labels_added: tuple[Any, ...] = ()
    learned_again: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class Updating(Learning):
    """A classifier that keeps its records, so that it can be updated."""

    records_: RecordTable | None
    records_file_: Path | None

    if TYPE_CHECKING:
        fit: Any  # as of `HedgerowClassifier`

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the model to a file, whole or not at all; with its records, if they were kept, to MODEL.data.

        Parameters
        ----------
        path : path-like
            The file.
        overwrite : bool
            Replace an existing file. It stays as it was until the new one is complete.
        """
        table = vars(self).get("records_")
        if table is None:
            super().save(path, overwrite)
            return
        check_target(path, overwrite)
        current = beside(path)
        erases = vars(self).get("forgot_", False)
        waiting = forgetting(current) if erases else next_to(current)
        before = file_number(path)
        try:
            if current.exists():  # whoever may not read the old records may not read the new ones
                waiting.touch(mode=0o600)
                waiting.chmod(S_IMODE(current.stat().st_mode))
            write_records(table, self._fitted().identity, waiting)
            super().save(path, overwrite)
        except BaseException:
            # Once the new model has its name, its records wait for whoever opens it.
            if file_number(path) == before:
                waiting.unlink(missing_ok=True)
            raise
        (name_forgetting if erases else name_records)(current)
        self.forgot_, self.records_file_ = False, Path(path)

    @property
    def lineage_(self) -> Lineage:
        """The updates that made the model."""
        return self._fitted().lineage

    def records(self) -> RecordTable:
        """What the model was trained on; NoRecordsError where that was not kept."""
        kept = vars(self).get("records_")
        if kept is not None:
            return kept  # type: ignore[no-any-return]
        path = vars(self).get("records_file_")
        model = self._fitted()
        if path is None:
            raise NoRecordsError(
                "the records that the model was trained on were not kept, so it cannot be updated; fit it"
                " again with keep_records=True (hedgerow fit keeps them)"
            )
        file = settle_records(path, model.identity)
        if not file.exists():
            raise NoRecordsError(
                f"{file} is missing, which holds the records that {path} was trained on, so the model"
                " cannot be updated; put it back beside the model, or fit again"
            )
        table, of = read_records(file)
        if of != model.identity or not _fit_together(model, table):
            raise NoRecordsError(
                f"{file} holds the records of another model than {path}, so the model cannot be updated; put"
                " its own file back, or fit again"
            )
        self.records_ = table
        return table

    def training_data(self) -> tuple[Any, list[list[Any]]]:
        """The inputs that the model is trained on and their labels; NoRecordsError where not kept."""
        table = self.records()
        names, indicator = (found := table.labels_at()).names, found.indicator
        parts = np.split(indicator.indices, indicator.indptr[1:-1])
        lists = [[names[column] for column in part.tolist()] for part in parts]
        return as_inputs(table.inputs(table.present)), lists

    def update(
        self,
        X: Any = None,
        Y: Any = None,
        *,
        ids: Sequence[str | None] | None = None,
        remove: Sequence[str] = (),
        rename: Mapping[Any, Any] | None = None,
        remove_labels: Sequence[Any] = (),
        at: str | None = None,
        progress: Progress | None = None,
    ) -> UpdateReport:
        """Learn new and corrected records, and forget what is removed, without training everything again.

        Classifiers of which a tenth of the positive inputs changed are trained again, those of new labels for
        the first time; all others stay. New labels join the leaves of the trees where their examples belong,
        and leaves that grow too large are split. When a quarter of the records has changed since the last
        full fit, everything is trained again. What was learned from held-out data is learned again where
        these were kept, else dropped.

        Parameters
        ----------
        X, Y : optional
            New records and their labels, as of `fit`. Labels may be new.
        ids : sequence of str or None, optional
            The id of each record. One that a record has already corrects that record.
        remove : sequence of str
            Ids of records to train no longer on. They stay in the file of records until the next full fit;
            `forget` leaves no trace.
        rename : mapping, optional
            Labels to their new names. A name that other records have merges both labels.
        remove_labels : sequence
            Labels that records are no longer to have.
        at : str, optional
            When, for the lineage; now, if not given.
        progress : callable(share, what), optional
            Called now and then.

        Returns
        -------
        UpdateReport

        Examples
        --------
        >>> from hedgerow import HedgerowTextClassifier
        >>> model = HedgerowTextClassifier(min_count=1, random_state=0)
        >>> texts, labels = ["a thorny shrub", "an evergreen tree"], [["hawthorn"], ["holly"]]
        >>> _ = model.fit(texts, labels, ids=["1", "2"], keep_records=True)
        >>> report = model.update(["a tall tree"], [["elm"]], ids=["3"])
        >>> report.event.added, report.labels_added
        (1, ('elm',))
        """
        model, table = self._fitted(), self.records()
        report = self.reporting(progress)
        changes = Changes(
            self._arrivals(model, table, X, Y, ids),
            each_once("remove", remove),
            dict(rename or {}),
            each_once("remove_labels", remove_labels),
        )
        applied = apply_changes(table, changes, at or datetime.now(UTC).isoformat(timespec="seconds"))
        event = Event(
            "update",
            applied.table.steps[-1].at,
            len(applied.table.present),
            applied.added,
            applied.corrected,
            applied.removed,
            len(applied.labels_added),
            len(changes.renamed),
            len(changes.removed_labels),
        )
        learned = model.learned
        why = can_amend(model, self.training_settings())
        if why is None and applied.table.changed > REFIT_AT * applied.table.base:
            why = f"a quarter of the {applied.table.base:,} records changed since the last full fit"
        before = (self.model_, self.records_)
        try:
            if why is None:
                self._amend(applied, event, report)
            else:
                self._fit_again(applied.table, Event("fit again", event.at, event.records), report)
            again = self._learn_again(learned, report)
            if report is not None:
                report(1.0, "updated")
        except BaseException:
            self.model_, self.records_ = before
            raise
        return UpdateReport(
            event,
            why,
            applied.labels_added,
            learned if again else (),
            () if again else learned,
        )

    def forget(self, ids: Sequence[str], progress: Progress | None = None) -> UpdateReport:
        """Remove records from the model and its records, as if they had never been there.

        The last full fit and all updates since are done again without them, so this takes as long as a fit;
        the result has the bytes of a model that never had these records. Held-out inputs that equal one of
        them go, too.

        Parameters
        ----------
        ids : sequence of str
            Their ids.
        progress : callable(share, what), optional
            Called now and then.

        Returns
        -------
        UpdateReport
        """
        model, table = self._fitted(), self.records()
        report = self.reporting(progress)
        ids, listed = each_once("ids", ids), table.ids.values()
        for id in ids:
            if id not in listed:
                raise ValueError(f"no record has the id {id!r}, so there is nothing to forget")
        gone = np.array([place for place, id in enumerate(listed) if id in set(ids)], dtype=np.int64)
        rest = replace(
            table.without(ids), held_out=_without(table.held_out, model, set(table.hashes[gone].tolist()))
        )
        learned, lineage = model.learned, model.lineage
        before = (self.model_, self.records_)
        try:
            self._replay(rest, lineage, model, report)
            again = self._learn_again(learned, report)
        except BaseException:
            self.model_, self.records_ = before
            raise
        self.forgot_ = True  # so that `save` leaves no older records
        removed = int(np.count_nonzero(table.left[gone] == STAYS))
        event = Event("update", "", len(self.records().present), removed=removed)
        return UpdateReport(
            event, "forgetting needs it", (), learned if again else (), () if again else learned
        )

    def adopt_records(
        self,
        X: Any,
        Y: Any,
        *,
        classes: Sequence[str] | None = None,
        ids: Sequence[str | None] | None = None,
    ) -> None:
        """Take the training data for the records of the model, where these were not kept.

        Parameters
        ----------
        X, Y, classes
            What the model was fitted to, in the same order; other data are refused.
        ids : sequence of str or None, optional
            The id of each record.
        """
        model = self._fitted()
        inputs = model.inputs(X)
        labels = encode_labels(Y, count_inputs(inputs), classes)
        if model.training is None or model.lineage.events:
            raise ValueError(
                "the model was imported or updated before, so its records cannot be told from others; put"
                " MODEL.data back, or fit again"
            )
        hashes = model.hashes(inputs)
        model.training.check_same(hashes, labels.indicator)
        self.records_ = first_records(model, inputs, self._kept_rows(model, inputs), hashes, labels, ids)

    def keep_held_out(self, X: Any, Y: Any, settings: Mapping[str, Any]) -> None:
        """Keep held-out data with the records, so that an update can learn from them again.

        Parameters
        ----------
        X : inputs
            As given to `learn_from_held_out`.
        Y : sequence of sequence of labels
            Their labels.
        settings : mapping
            Its other arguments, as plain values.
        """
        model = self._fitted()
        inputs = model.inputs(X)
        stored = sp.csr_array(inputs) if hasattr(inputs, "shape") else list(inputs)
        held_out = HeldOutRecords(stored, [list(labels) for labels in Y], dict(settings))
        self.records_ = replace(self.records(), held_out=held_out)

    def _arrivals(
        self, model: Model, table: RecordTable, X: Any, Y: Any, ids: Sequence[str | None] | None
    ) -> Arrivals:
        width = table.rows.shape[1]
        if X is None:
            return Arrivals([], _empty(0, width), np.zeros(0, dtype=np.uint64), [], [])
        if Y is None:
            raise ValueError("X has records, but Y is missing: give the labels of each")
        inputs = model.inputs(X)
        model.check(inputs)
        count = count_inputs(inputs)
        labels = _as_lists(Y, count, model.classes)
        given: Sequence[str | None] = [None] * count if ids is None else list(ids)
        if len(given) != count:
            raise ValueError(f"there are {count} records, but {len(given)} ids")
        check_ids([id for id in given if id is not None])
        return Arrivals(inputs, self._kept_rows(model, inputs), model.hashes(inputs), labels, given)

    def _kept_rows(self, model: Model, inputs: Any, read: _native.Rows | None = None) -> sp.csr_array:
        """The features that are kept of inputs: as given, or those of texts, which may have been read."""
        if model.reader.kind == "features":
            return sp.csr_array(inputs, dtype=np.float32)
        if model.reader.kind == "transformer":
            return _empty(count_inputs(inputs), 0)
        if read is not None:
            indptr, indices, values, columns = read.arrays()
            if values is not None:
                narrow = indptr.astype(np.int32) if len(indices) < 2**31 else indptr
                return sp.csr_array((values, indices, narrow), shape=(len(indptr) - 1, columns))
        return sp.csr_array(model.reader.plain_features(inputs, model.threads))

    def _amend(self, applied: Applied, event: Event, progress: Progress | None) -> None:
        model = self._fitted()
        found = amend_model(
            model, applied, self.training_settings(), self.wide, self.limits().threads, progress
        )
        fingerprint = "" if found.model.training is None else found.model.training.fingerprint
        lineage = model.lineage.then(event, fingerprint)
        self.model_ = replace(found.model, lineage=lineage)
        self.records_ = found.table

    def _fit_again(self, table: RecordTable, event: Event | None, progress: Progress | None) -> None:
        """Fit to the records that are there; without an event, as the first fit did."""
        model, present = self._fitted(), table.present
        Y, classes = _labels_to_fit(table, model, event is None)
        own = self.random_state
        self.random_state = own if model.training is None else model.training.seed
        try:
            self.fit(
                as_inputs(table.inputs(present)),
                Y,
                classes=classes,
                vocabulary=model.vocabulary,
                ids=table.ids.some(present),
                keep_records=True,
                progress=progress,
            )
        finally:
            self.random_state = own
        self.records_ = replace(self.records(), held_out=table.held_out)
        if event is not None:
            self._begin(replace(event, records=len(present)))

    def _begin(self, event: Event) -> None:
        fitted = self._fitted()
        self.model_ = replace(fitted, lineage=Lineage().then(event, fitted.identity))

    def _replay(self, table: RecordTable, lineage: Lineage, model: Model, progress: Progress | None) -> None:
        """Do the last full fit and all updates since again, with these records."""
        self._fit_again(table.prefix(0), None, progress)
        if lineage.events and lineage.events[0].kind == "fit again":
            self._begin(replace(lineage.events[0], records=len(self.records().present)))
        events = lineage.events[len(lineage.events) - table.now :]
        for step, event in enumerate(events, start=1):
            prefix = table.prefix(step)
            came = np.flatnonzero(prefix.arrived == step)
            gone = np.flatnonzero(prefix.left == step)
            now = self._fitted()
            inputs = now.inputs(as_inputs(prefix.inputs(came)))
            before = self.records()
            rows = sp.vstack([before.rows, self._kept_rows(now, inputs)], format="csr")
            counted = _counted(prefix, step, came, gone)
            applied = Applied(
                replace(prefix, rows=sp.csr_array(rows), solved=before.solved), gone, *counted, ()
            )
            labels = prefix.labels_added(step)
            self._amend(
                applied,
                replace(
                    event,
                    records=len(prefix.present),
                    added=counted[0],
                    corrected=counted[1],
                    removed=counted[2],
                    labels_added=labels,
                    labels_renamed=len(prefix.steps[-1].renamed),
                    labels_removed=len(prefix.steps[-1].removed_labels),
                ),
                progress,
            )

    def _learn_again(self, learned: tuple[str, ...], progress: Progress | None) -> bool:
        """Learn from the held-out data that were kept; whether there were any."""
        table, model = self.records(), self._fitted()
        if table.held_out is None or not learned:
            return not learned
        # What the model has learned from since is held out no more.
        kept = _without(table.held_out, model, set(table.hashes[table.present].tolist()))
        self.records_ = replace(table, held_out=kept)
        if kept is None:
            return False
        settings = dict(kept.settings)
        if settings.pop("centroids", False):
            settings["centroids"] = self.training_data()
        try:
            learn_from_held_out(self, as_inputs(kept.inputs), kept.labels, **settings, progress=progress)
        except ValueError:  # too few are left, or none has a label that is still known
            self.model_ = model
            return False
        return True


def each_once(name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """The values without repetitions; a string is no list of them."""
    if isinstance(values, str):
        raise TypeError(f"{name} is {values!r}; give a list, such as [{values!r}]")
    return tuple(dict.fromkeys(values))


def _fit_together(model: Model, table: RecordTable) -> bool:
    """Whether records know of these trees: other settings give other trees from the same data."""
    expected = fitted_trees(model)
    width = 0 if model.reader.kind == "transformer" else model.forest.features
    if table.rows.shape[1] != width:
        return False
    sizes = [[when.size for when in layers] for layers in table.solved]
    return sizes == [[when.size for when in layers] for layers in expected] and (
        table.kind == ("features" if model.reader.kind == "features" else "texts")
    )


def _labels_to_fit(table: RecordTable, model: Model, all_names: bool) -> tuple[Any, list[str] | None]:
    """The labels of the records that are there, and the names of their columns, as `fit` takes them."""
    labels = table.labels_at()
    indicator, names = labels.indicator, labels.names
    if not indicator.nnz:
        raise ValueError("no record would be left that has a label, so there is nothing to learn")
    if isinstance(names[0], str):
        used = np.unique(indicator.indices).tolist()
        kept = range(len(names)) if all_names else sorted(used, key=names.__getitem__)
        return sp.csr_array(indicator[:, list(kept)]), [names[column] for column in kept]
    if not are_columns(model.classes):
        parts = np.split(indicator.indices, indicator.indptr[1:-1])
        return [[names[column] for column in part.tolist()] for part in parts], None
    width = max(names) + 1 if all_names else max(len(model.classes), max(names) + 1)
    columns = np.array(names)[indicator.indices]
    matrix = sp.csr_array((indicator.data, columns, indicator.indptr), shape=(indicator.shape[0], width))
    matrix.sort_indices()
    return matrix, None


def _empty(rows: int, columns: int) -> sp.csr_array:
    nothing = np.zeros(0, dtype=np.int32)
    values: Any = (np.zeros(0, dtype=np.float32), nothing, np.zeros(rows + 1, dtype=np.int32))
    return sp.csr_array(values, shape=(rows, columns))


def _as_lists(Y: Any, count: int, classes: npt.NDArray[Any]) -> list[list[Any]]:
    """Labels as lists, whatever they were given as; those of a matrix are its columns."""
    Y = without_frame(Y)
    if not (sp.issparse(Y) or (isinstance(Y, np.ndarray) and Y.dtype != object)):
        return checked_lists(Y, count)
    matrix = encode_labels(Y, count).indicator
    names: list[Any] = classes.tolist()
    names += range(len(names), matrix.shape[1])
    if classes.dtype == object and matrix.shape[1] > len(classes):
        raise ValueError(
            f"Y has {matrix.shape[1]} columns, but the model knows {len(classes)} labels by name; give new"
            " labels by name, as lists"
        )
    parts = np.split(matrix.indices, matrix.indptr[1:-1])
    return [[names[column] for column in part.tolist()] for part in parts]


def _counted(
    table: RecordTable, step: int, came: npt.NDArray[np.int64], gone: npt.NDArray[np.int64]
) -> tuple[int, int, int]:
    """How many records an update added, corrected and removed."""
    new = [id for id in table.ids.some(came) if id is not None]
    old = set(table.ids.some(gone))
    corrected = sum(id in old for id in new)
    return len(came) - corrected, corrected, len(gone) - corrected


def _without(held_out: HeldOutRecords | None, model: Model, hashes: set[int]) -> HeldOutRecords | None:
    """Held-out data without inputs of these hashes."""
    if held_out is None:
        return None
    inputs = model.inputs(as_inputs(held_out.inputs))
    kept = np.flatnonzero([value not in hashes for value in model.hashes(inputs).tolist()])
    if len(kept) == 0:
        return None
    stored = take(held_out.inputs, kept)
    return HeldOutRecords(stored, [held_out.labels[row] for row in kept.tolist()], held_out.settings)
