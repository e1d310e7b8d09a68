"""Gives a model the names of its vocabulary: evidence for the judge, and labels without any example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.estimators.judged import Judged
from hedgerow.features.name_matcher import NameMatcher
from hedgerow.features.readers import Reader
from hedgerow.judge.name_fitting import Meant, NameLesson, learn_names
from hedgerow.judge.name_vectors import WIDEST, NameVectors, directions
from hedgerow.judge.scorers import Scorers
from hedgerow.model import Model
from hedgerow.progress import Progress, Stage, stage
from hedgerow.trees.forest import Ensemble
from hedgerow.vocabulary.leaving import names_looked_for, what_left
from hedgerow.vocabulary.vocabulary import Vocabulary

__all__ = ["Lesson", "renamed", "with_names"]


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a model of texts was trained on."""

    inputs: Any
    truth: sp.csr_array
    seed: int
    threads: int
    embeddings: npt.NDArray[Any] | None = None  # of the inputs, if names are to be compared with them


def with_names(model: Model, judged: Judged, lesson: Lesson, progress: Progress | None = None) -> Model:
    """The model with a judge of names, if that makes it better; then it knows all entries as labels."""
    vocabulary, held_out = model.vocabulary, judged.held_out
    if vocabulary is None or held_out is None or not _can_be_named(model.reader, model.classes):
        return model
    reader = model.reader
    matcher = name_matcher(vocabulary)
    classes, columns = _with_entries(model.classes, vocabulary.ids)
    truth = sp.csr_array(
        (lesson.truth.data, lesson.truth.indices, lesson.truth.indptr),
        shape=(lesson.truth.shape[0], len(classes)),
    )

    def texts(rows: npt.NDArray[np.int64]) -> list[tuple[str, ...]]:
        return reader.texts_apart([lesson.inputs[row] for row in rows.tolist()])

    meant = None
    if lesson.embeddings is not None:
        vectors = name_vectors(reader, (vocabulary,), lesson.threads, stage(progress, "embedding names"))
        meant = None if vectors is None else Meant(vectors, lesson.embeddings)
    names = learn_names(
        NameLesson(matcher, columns, texts, truth, held_out, lesson.seed, lesson.threads, meant),
        stage(progress, "names"),
    )
    if names is None:
        return model
    return replace(_widened(model, classes), names=names)


def renamed(model: Model, vocabulary: Vocabulary | None, embedding: Reader, threads: int) -> Model:
    """The model with another vocabulary; what it learned about names holds for the new ones, too.

    `embedding` reads as the model does, where encoders are to run now.
    """
    if vocabulary is None:
        return replace(
            (model if model.names is None else model.uncalibrated()).with_vocabulary(None), names=None
        )
    left = what_left(model.vocabulary, model.left, vocabulary, set(map(str, model.classes.tolist())))
    if model.names is None or _same_names(model, vocabulary, left):
        return model.with_vocabulary(vocabulary, left)
    classes, columns = _with_entries(model.classes, [*vocabulary.ids, *(() if left is None else left.ids)])
    vectors = None
    if model.names.label_text is not None:
        parts = (vocabulary,) if left is None else (vocabulary, left)
        vectors = name_vectors(embedding, parts, threads)
    names = model.names.with_vocabulary(name_matcher(vocabulary, left), columns, len(classes), vectors)
    return replace(_widened(model.uncalibrated().with_vocabulary(vocabulary, left), classes), names=names)


def name_matcher(vocabulary: Vocabulary, left: Vocabulary | None = None) -> NameMatcher:
    """What finds the names of all entries that are in use, and then of those that left."""
    texts: list[str] = []
    spoken: list[str | None] = []
    entries, preferred = [], []
    begin = 0
    for part in (vocabulary, left):
        if part is None:
            continue
        names = part.name_columns()
        languages = [*part.languages, None]  # -1 is the last
        used = ~part.columns.deprecated[names.entries]
        texts += [text for text, one in zip(names.texts.tolist(), used.tolist(), strict=True) if one]
        spoken += [languages[code] for code in names.languages[used].tolist()]
        entries.append(names.entries[used] + np.int32(begin))
        preferred.append(names.preferred[used])
        begin += len(part)
    return NameMatcher(texts, spoken, np.concatenate(entries), np.concatenate(preferred))


def name_vectors(
    reader: Reader, vocabularies: Sequence[Vocabulary], threads: int, progress: Stage | None = None
) -> NameVectors | None:
    """The mean vector of each entry's preferred names, in all languages; None without an encoder."""
    texts: list[str] = []
    entries, begin = [], 0
    for part in vocabularies:
        names = part.name_columns()
        used = names.preferred & ~part.columns.deprecated[names.entries]
        texts += [text for text, one in zip(names.texts.tolist(), used.tolist(), strict=True) if one]
        entries.append(names.entries[used] + begin)
        begin += len(part)
    found = reader.embed_names(texts, threads, progress)
    if found is None or found.shape[1] > WIDEST:
        return None
    sums = np.zeros((begin, found.shape[1]), dtype=np.float32)
    if texts:
        named, first = np.unique(np.concatenate(entries), return_index=True)  # names are grouped by entry
        sums[named] = np.add.reduceat(found, first, axis=0)
    return NameVectors(directions(sums))


def _same_names(model: Model, vocabulary: Vocabulary, left: Vocabulary | None) -> bool:
    """Whether the same names of the same labels are looked for, so that predictions stay as they are."""
    if not set(vocabulary.ids) <= set(model.classes.tolist()):
        return False
    before = set(names_looked_for(model.vocabulary, model.left))
    return before == set(names_looked_for(vocabulary, left))


def _can_be_named(reader: Reader, classes: npt.NDArray[Any]) -> bool:
    return reader.kind != "features" and classes.dtype == object


def _with_entries(
    classes: npt.NDArray[Any], ids: list[str]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """The labels, then the entries that are none yet; and the label of each entry."""
    known = {name: number for number, name in enumerate(classes.tolist())}
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
        scorers = Scorers(scorers.classifier, scorers.centroids, labels, scorers.shared, scorers.floor)
    return replace(model, forest=forest, classes=classes, label_counts=counts, judge=judge, scorers=scorers)
