"""What judge and names say of labels of inputs, and what the model predicts of a label in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native
from hedgerow.judge.name_verdict import NameVerdict, NameVerdicts
from hedgerow.judge.names import NamedInputs, plain_log_odds
from hedgerow.judge.names import Said as SaidBefore
from hedgerow.judge.scorers import Scorers
from hedgerow.judge.verdict import Said, Verdict, judge_verdicts
from hedgerow.model import Fitted, Model, fitted_model
from hedgerow.votes.predictions import UncertainLabels
from hedgerow.votes.votes import Votes

__all__ = ["AskedLabel", "label_name_verdicts", "label_verdicts"]


@dataclass(frozen=True, eq=False)
class _Candidates:
    """What the search finds for inputs in CSR form, and what judge and names make of it."""

    source: Model
    inputs: NamedInputs
    rows: _native.Rows
    indptr: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    probs: npt.NDArray[np.float32]

    @classmethod
    def of(cls, source: Model, inputs: Any) -> _Candidates:
        """Those that the search finds."""
        reading = source.reader.read(inputs, source.threads)
        found = source.forest.votes(reading.rows, 1, source.finding, source.threads)
        named = NamedInputs(source.reader.texts_apart(inputs), reading.embeddings)
        return cls(source, named, reading.rows, found.indptr, found.labels, found.probs)

    def adding(self, label: int, probs: npt.NDArray[np.float32]) -> _Candidates:
        """The same of one input with one more label."""
        place = int(np.searchsorted(self.labels, label))
        return replace(
            self,
            indptr=np.array([0, len(self.labels) + 1]),
            labels=np.insert(self.labels, place, label).astype(np.int32),
            probs=np.insert(self.probs, place, probs, axis=0),
        )

    def heard(self, scorers: Scorers) -> Said:
        """What the judge hears of them."""
        scores = scorers.score(self.rows, self.indptr, self.labels, self.source.threads)
        return Said(self.labels, self.probs, scores)

    @cached_property
    def judged(self) -> npt.NDArray[np.float32]:
        """What the members say after the judge, if there is one."""
        judge, scorers = self.source.judge, self.source.scorers
        if judge is None or scorers is None:
            return self.probs
        return judge.apply(self.labels, self.probs, self.heard(scorers).scores, self.source.threads)

    def named(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Labels of one input, and what members say of them in the end, but for calibration."""
        source, probs = self.source, self.judged
        if source.names is None:
            return self.labels, probs
        _, labels, probs = source.names.apply(self.inputs, self.indptr, self.labels, probs, source.threads)
        return labels, probs

    def name_verdicts(self) -> NameVerdicts | None:
        """What names say of labels; None where they are not asked."""
        source = self.source
        if source.names is None or source.vocabulary is None:
            return None
        means = self.judged.astype(np.float64).mean(axis=1)
        return NameVerdicts(
            source.names,
            (source.vocabulary, *(() if source.left is None else (source.left,))),
            self.inputs,
            source.reader.text_fields,
            SaidBefore(self.indptr, self.labels, plain_log_odds(means)),
            source.threads,
        )


class AskedLabel:
    """What the model predicts of one label of one input, by the same search and arithmetic.

    Parameters
    ----------
    source : Model
        The model.
    inputs : sequence
        The one input, as the model reads it.
    label : int
        The label, by number.
    votes : float64 array, shape (members,), or None
        What the members would say if the search does not find the label; None where no member knows it.

    Attributes
    ----------
    found : bool
        Whether the label is found, by the search or by its name.
    probability : float
        The probability in the end. Of a label that is not found, what it would be if it were; 0 where no
        member knows it.
    verdict : Verdict or None
        What the judge says.
    names : NameVerdict or None
        What names say.
    """

    def __init__(self, source: Model, inputs: Any, label: int, votes: npt.NDArray[np.float64] | None) -> None:
        searched = candidates = _Candidates.of(source, inputs)
        labels, probs = candidates.named()
        self.found = label in labels
        if not self.found and votes is not None:
            each = votes if len(votes) == source.members else np.full(source.members, votes.mean())
            candidates = searched.adding(label, each.astype(np.float32))
            labels, probs = candidates.named()
        named = candidates.name_verdicts()
        self.verdict: Verdict | None = None
        self.names: NameVerdict | None = None
        if named is not None:
            self.names = named.of(0, label, source.classes[label])
        place = np.flatnonzero(candidates.labels == label)
        if source.judge is not None and source.scorers is not None and place.size:
            own, every = (of.heard(source.scorers) for of in (candidates, searched))
            transform = source.scorers.trees.transform
            self.verdict = judge_verdicts(source.judge, own.only(place), every, transform)[0]
        self.probability = 0.0
        if label in labels:
            self.probability = _calibrated(source, label, probs[labels == label])


def label_verdicts(
    model: Fitted | Model, inputs: Any, labels: Sequence[npt.NDArray[np.int32]]
) -> list[list[Verdict | None]] | None:
    """Why the judge says what it says of some labels of each input, given by number; None without a judge.

    Of labels that the search does not find there is no verdict.
    """
    source = fitted_model(model)
    judge, scorers = source.judge, source.scorers
    if judge is None or scorers is None:
        return None
    candidates = _Candidates.of(source, inputs)
    every = candidates.heard(scorers)
    verdicts: list[list[Verdict | None]] = []
    for row, wanted in enumerate(labels):
        begin, end = candidates.indptr[row : row + 2].tolist()
        here = candidates.labels[begin:end]
        place = np.searchsorted(here, wanted)
        there = np.flatnonzero((place < len(here)) & (np.take(here, place, mode="clip") == wanted))
        all_ = every.only(slice(begin, end))
        said = judge_verdicts(judge, all_.only(place[there]), all_, scorers.trees.transform)
        own: list[Verdict | None] = [None] * len(wanted)
        for number, one in zip(there.tolist(), said, strict=True):
            own[number] = one
        verdicts.append(own)
    return verdicts


def label_name_verdicts(
    model: Fitted | Model, inputs: Any, labels: Sequence[npt.NDArray[np.int32]]
) -> list[list[NameVerdict]] | None:
    """What names say of some labels of each input, given by number; None where they are not asked."""
    source = fitted_model(model)
    if source.names is None:
        return None
    named = _Candidates.of(source, inputs).name_verdicts()
    if named is None:
        return None
    return [
        [named.of(row, label, source.classes[label]) for label in wanted.tolist()]
        for row, wanted in enumerate(labels)
    ]


def _calibrated(source: Model, label: int, probs: npt.NDArray[np.float32]) -> float:
    """The probability of a label after calibration, rounded as predictions are."""
    labels = np.array([label], dtype=np.int32)
    if source.calibration is not None:
        source.calibration.check_fits(len(source.classes), probs.shape[1])
        probs = source.calibration.moved(labels, probs, source.threads)
    moved = Votes(np.array([0, 1]), labels, probs, len(source.classes))
    return float(UncertainLabels.from_votes(moved, 1).probability[0, 0])
