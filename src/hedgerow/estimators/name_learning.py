"""Gives a model the names of its vocabulary: evidence for the judge, and labels without any example."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.estimators.judged import Judged
from hedgerow.features.name_matcher import NameMatcher
from hedgerow.features.readers import Reader
from hedgerow.judge.name_fitting import NameLesson, learn_names
from hedgerow.judge.scorers import Scorers
from hedgerow.model import Model
from hedgerow.progress import Progress, stage
from hedgerow.trees.forest import Ensemble
from hedgerow.vocabulary.vocabulary import Vocabulary

__all__ = ["Lesson", "renamed", "with_names"]


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a model of texts was trained on."""

    inputs: Any
    truth: sp.csr_array
    seed: int
    threads: int


def with_names(model: Model, judged: Judged, lesson: Lesson, progress: Progress | None = None) -> Model:
    """The model with a judge of names, if that makes it better; then it knows all entries as labels."""
    vocabulary, held_out = model.vocabulary, judged.held_out
    if vocabulary is None or held_out is None or not _can_be_named(model.reader, model.classes):
        return model
    reader = model.reader
    matcher = name_matcher(vocabulary)
    classes, columns = _with_entries(model.classes, vocabulary)
    truth = sp.csr_array(
        (lesson.truth.data, lesson.truth.indices, lesson.truth.indptr),
        shape=(lesson.truth.shape[0], len(classes)),
    )

    def texts(rows: npt.NDArray[np.int64]) -> list[tuple[str, ...]]:
        return reader.texts_apart([lesson.inputs[row] for row in rows.tolist()])

    names = learn_names(
        NameLesson(matcher, columns, texts, truth, held_out, lesson.seed, lesson.threads),
        stage(progress, "names"),
    )
    if names is None:
        return model
    return replace(_widened(model, classes), names=names)


def renamed(model: Model, vocabulary: Vocabulary | None) -> Model:
    """The model with another vocabulary; what it learned about names holds for the new ones, too."""
    if model.names is None:
        return model.with_vocabulary(vocabulary)
    kept = model.uncalibrated().with_vocabulary(vocabulary)
    if vocabulary is None:
        return replace(kept, names=None)
    classes, columns = _with_entries(model.classes, vocabulary)
    names = model.names.with_vocabulary(name_matcher(vocabulary), columns, len(classes))
    return replace(_widened(kept, classes), names=names)


def name_matcher(vocabulary: Vocabulary) -> NameMatcher:
    """What finds the names of all entries that are in use."""
    names = vocabulary.name_columns()
    languages = [*vocabulary.languages, None]  # -1 is the last
    used = ~vocabulary.columns.deprecated[names.entries]
    texts = [text for text, one in zip(names.texts.tolist(), used.tolist(), strict=True) if one]
    spoken = [languages[code] for code in names.languages[used].tolist()]
    return NameMatcher(texts, spoken, names.entries[used], names.preferred[used])


def _can_be_named(reader: Reader, classes: npt.NDArray[Any]) -> bool:
    return reader.kind != "features" and classes.dtype == object


def _with_entries(
    classes: npt.NDArray[Any], vocabulary: Vocabulary
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """The labels, then the entries that are none yet; and the label of each entry."""
    known = {name: number for number, name in enumerate(classes.tolist())}
    ids = vocabulary.ids
    more = [id for id in ids if id not in known]
    known |= {id: len(classes) + number for number, id in enumerate(more)}
    columns = np.fromiter((known[id] for id in ids), dtype=np.int32, count=len(ids))
    return np.concatenate([classes, np.array([*more, None], dtype=object)[:-1]]), columns


def _widened(model: Model, classes: npt.NDArray[Any]) -> Model:
    """The same model with more labels, of which no tree knows anything."""
    labels = len(classes)
    forest = Ensemble(model.forest.trees, labels, model.forest.dropout)
    counts = None
    if model.label_counts is not None:
        counts = np.pad(model.label_counts, (0, labels - len(model.label_counts)))
    judge, scorers = model.judge, model.scorers
    if judge is not None and scorers is not None and counts is not None:
        judge = replace(judge, label_counts=counts)
        scorers = Scorers(scorers.classifier, scorers.centroids, labels, scorers.shared)
    return replace(model, forest=forest, classes=classes, label_counts=counts, judge=judge, scorers=scorers)
