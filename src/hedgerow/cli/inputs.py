"""Reading models and the data that they work on.

This imports the whole library, which takes a while: commands import it when they run, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from hedgerow.data import DataError, LeftOutWarning, Part, read_parts
from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.loading import load
from hedgerow.estimators.text import HedgerowTextClassifier
from hedgerow.features.fields import Fields
from hedgerow.features.stemming import StemmerWarning
from hedgerow.inputs.labels import align_labels
from hedgerow.storage.container import ModelFileError
from hedgerow.vocabulary.naming import Naming

from .failures import ExitCode, Failure, failing_as
from .terminal import Report
from .warned import warnings_as_lines

_FIELDS_SHOWN = 20
_READING = ("label_separator", "later_wins")  # parameters of the reader that are options


@dataclass(frozen=True)
class Selection:
    """Which rows to read, and which fields of records have their labels (None: no labels), texts and times.

    Records that are later than `until` are left out.

    Labelled data of several files, and with `unique_ids` all data, must not have an id twice; with
    `later_wins`, the last record of an id is kept.
    """

    data: Path | Sequence[Path]
    part: str | None = None
    labels_field: str | None = None
    threads: int = 0
    text_fields: Sequence[str] | None = None
    time_field: str | None = None
    until: str | None = None
    label_separator: str | None = None
    unique_ids: bool = False
    later_wins: bool = False

    @property
    def paths(self) -> list[Path]:
        """The files and folders."""
        return [self.data] if isinstance(self.data, Path) else list(self.data)

    @property
    def path(self) -> str:
        """The files and folders, as messages name them."""
        return ", ".join(map(str, self.paths))

    def read(self, report: Report, default_part: str = "test") -> Part:
        """The rows; of a folder the default part, where none is named."""
        part = self.read_split(report, self.part, default_part)
        folders = all(path.is_dir() for path in self.paths)
        if self.part is not None and part.n and part.split is None and not folders:
            raise Failure(
                ExitCode.USAGE,
                f"--part {self.part}: {self.path} has no parts, as its records have no field 'split';"
                " leave --part out",
            )
        return part

    def read_split(self, report: Report, split: str | None, default_part: str = "train") -> Part:
        """The rows of this split, of files that have splits at all."""
        with failing_as(ExitCode.DATA, DataError, options=_READING), warnings_as_lines(LeftOutWarning):
            return read_parts(
                self.paths,
                split,
                folder_part=default_part,
                unique_ids=self.unique_ids or (self.labels_field is not None and len(self.paths) > 1),
                later_wins=self.later_wins,
                labels_field=self.labels_field,
                label_separator=self.label_separator,
                threads=self.threads,
                text_fields=self.text_fields,
                time_field=self.time_field,
                until=self.until,
                progress=lambda share: report(share, "reading"),
            )

    def check_rows(self, part: Part) -> None:
        """Refuse data without rows."""
        if part.n == 0:
            raise Failure(ExitCode.DATA, f"{self.path} has no rows; give data with at least one")

    def labels_of(self, part: Part, use: str) -> sp.csr_array:
        """The labels; data without any are refused, and the message says where they were looked for."""
        if part.Y is not None and part.Y.nnz > 0:
            return part.Y
        problem = f"{self.path} has no labels to {use}"
        if part.fields is None:
            raise Failure(ExitCode.DATA, f"{problem}; give data with labels")
        if self.labels_field in part.fields:
            raise Failure(
                ExitCode.DATA, f"{problem}: the field {self.labels_field!r} is empty in all records"
            )
        found = ", ".join(part.fields[:_FIELDS_SHOWN])
        more = " and more" if len(part.fields) > _FIELDS_SHOWN else ""
        raise Failure(
            ExitCode.DATA,
            f"{problem}: there is no field {self.labels_field!r}, but there are {found}{more}; name one with"
            " --labels-field",
        )


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows with their true labels in the columns of a model, and the labels that the model does not know."""

    part: Part
    inputs: Any
    truth: sp.csr_array
    unknown: list[Any]


@dataclass(frozen=True, eq=False)
class OpenModel:
    """A model and the file it was loaded from."""

    path: Path
    classifier: HedgerowClassifier

    @property
    def reads_texts(self) -> bool:
        """Whether inputs are texts, rather than rows of features."""
        return isinstance(self.classifier, HedgerowTextClassifier)

    def naming(self, lang: str | None) -> Naming | None:
        """How labels are called; None without a vocabulary."""
        with failing_as(ExitCode.USAGE, ValueError):
            try:
                return self.classifier.source.naming(lang)
            except ValueError as error:
                raise ValueError(f"--lang {lang}: {error}") from error

    def read_inputs(
        self, rows: Selection, report: Report, may_be_empty: bool = False, default_part: str = "test"
    ) -> tuple[Part, Any]:
        """Rows, and what the model predicts from: their texts or features."""
        rows = replace(rows, text_fields=self.classifier.source.reader.text_fields)
        part = rows.read(report, default_part)
        inputs = part.texts if self.reads_texts else part.X
        if inputs is None:
            wanted, found = ("texts", "features") if self.reads_texts else ("features", "texts")
            raise Failure(
                ExitCode.DATA,
                f"{self.path} was trained on {wanted}, but {rows.path} has only {found}; give it {wanted}",
            )
        if not may_be_empty:
            rows.check_rows(part)
        return part, inputs

    def read_truth(self, rows: Selection, report: Report, default_part: str = "test") -> LabelledRows:
        """Rows with labels that the model can be compared with."""
        part, inputs = self.read_inputs(rows, report, default_part=default_part)
        labels = rows.labels_of(part, "compare with")
        classifier = self.classifier
        if part.X is not None and part.X.shape[1] > classifier.n_features_in_:
            raise Failure(
                ExitCode.DATA,
                f"{rows.path} has {part.X.shape[1]} features, but {self.path} was trained on"
                f" {classifier.n_features_in_}; use data that were made in the same way",
            )
        if part.label_names is None and classifier.classes_.dtype == object:
            raise Failure(
                ExitCode.DATA,
                f"{rows.path} has labels by number, but {self.path} by name, such as"
                f" {classifier.classes_[0]!r}",
            )
        with failing_as(ExitCode.DATA, ValueError):
            truth, unknown = align_labels(labels, part.label_names, classifier.classes_)
        return LabelledRows(part, inputs, truth, unknown)

    def truth_of(self, part: Part) -> tuple[sp.csr_array | None, list[Any]]:
        """True labels in the columns of the model, and those that it does not know; None without labels."""
        by_number = part.label_names is None and self.classifier.classes_.dtype == object
        if part.Y is None or not part.Y.nnz or by_number:
            return None, []
        return align_labels(part.Y, part.label_names, self.classifier.classes_)

    def read_ood(self, paths: list[Path], threads: int, report: Report) -> dict[str, Any]:
        """Out-of-distribution inputs, by the name of their data."""
        ood: dict[str, Any] = {}
        for path in paths:
            _, inputs = self.read_inputs(Selection(path, threads=threads), report)
            name = path.resolve().name.split(".")[0]
            if name in ood:
                raise Failure(
                    ExitCode.USAGE, f"two data sets for --ood are called {name!r}; rename one of them"
                )
            ood[name] = inputs
        return ood


def sources(fields: Any) -> tuple[str, ...] | None:
    """The texts of records that fields are made of; None where there are no fields."""
    return None if fields is None else Fields.of(fields).sources


def load_model(path: Path) -> HedgerowClassifier:
    """Load a model; what it warns of goes to stderr as one line."""
    with warnings_as_lines(StemmerWarning), failing_as(ExitCode.MODEL, ModelFileError):
        classifier: HedgerowClassifier = load(path)
    return classifier


def open_model(path: Path, threads: int = 0, **search: Any) -> OpenModel:
    """Load a model that works with N threads and searches in this way."""
    classifier = load_model(path)
    classifier.set_params(**search, n_jobs=threads or -1)
    return OpenModel(path, classifier)
