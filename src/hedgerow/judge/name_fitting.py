"""Learns how far to trust names that are found in inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.features.name_matcher import NameMatcher
from hedgerow.judge.boosting import BoostedTrees, Boosting, fit_boosted_trees
from hedgerow.judge.judge_fitting import LEAST_TRUE, ranking_qualities, ranking_quality
from hedgerow.judge.label_text import NEAR, LabelText, NoLabelText, entries_of
from hedgerow.judge.name_map import NameMap, learn_name_map
from hedgerow.judge.name_matches import LabelRecord, Matched, find_names, number_names
from hedgerow.judge.name_vectors import NameVectors
from hedgerow.judge.names import (
    NAMED_EVIDENCE,
    NamedCandidates,
    NamedInputs,
    NameJudge,
    Said,
    judged_log_odds,
)
from hedgerow.progress import Stage

__all__ = ["HeldOut", "NameLesson", "learn_names"]

Texts = list[tuple[str, ...]]

_LEARNED = 25_000  # inputs that teach how names are found
_TOGETHER = 4_000
# Of candidates that are hopeless by all that is known, few are enough, and count as all.
_HOPELESS, _KEPT = -4.5, 0.15
_LEXICAL = Boosting(trees=150, leaves=31, rate=0.1, least=100)
_JUDGE = Boosting(trees=250, leaves=15, rate=0.06, least=100)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Inputs that the model had not learned from when it was asked about them, and what it said.

    `rows` are their numbers, `said` is in their order.
    """

    rows: npt.NDArray[np.int64]
    said: Said


@dataclass(frozen=True, eq=False)
class Meant:
    """Vectors of the names of entries, and embeddings of all inputs."""

    vectors: NameVectors
    embeddings: npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class NameLesson:
    """What names are learned from.

    Attributes
    ----------
    matcher : NameMatcher
        Knows the names of entries.
    columns : int32 array
        The label of each entry.
    texts : callable
        Gives the texts of some inputs, by their numbers.
    truth : csr_array, shape (inputs, n_labels)
        The labels of all inputs.
    held_out : HeldOut
        Who teaches the judge.
    seed : int
        Chooses the inputs that teach how names are found.
    threads : int
        For finding names.
    meant : Meant or None
        What names and inputs mean to an encoder, where there is one.
    """

    matcher: NameMatcher
    columns: npt.NDArray[np.int32]
    texts: Callable[[npt.NDArray[np.int64]], Texts]
    truth: sp.csr_array
    held_out: HeldOut
    seed: int
    threads: int
    meant: Meant | None = None


def learn_names(lesson: NameLesson, progress: Stage | None = None) -> NameJudge | None:
    """The judge of names; None where it does not rank better, or there is too little to learn from."""
    others = np.setdiff1d(np.arange(lesson.truth.shape[0]), lesson.held_out.rows)
    if not len(others):
        return None
    draw = np.random.default_rng([lesson.seed, 0x6E616D6573])
    taught = np.sort(draw.permutation(others)[:_LEARNED])
    record, examples = _count(lesson, others, taught, progress)
    texts = len(lesson.texts(others[:1]))
    known = np.hstack([examples.numbers, record.describe(examples.labels, examples.true)])
    if examples.true.sum() < LEAST_TRUE:
        return None
    numbers = len(number_names(texts))
    lexical = _fit(known, examples.true, known[:, -2] < _HOPELESS, [False] * numbers, _LEXICAL)
    apart = NameJudge(
        lesson.matcher, lesson.columns, record, lexical, lexical, texts, len(lesson.held_out.rows), 0.0, 0.0
    )
    plain = _tried(lesson, apart)
    if plain is None or plain.after <= plain.before:
        return None
    best, most = plain, 0.0
    if lesson.meant is not None:
        map = _map(lesson, lesson.meant, taught)
        for near in (0, NEAR):
            way = LabelText(lesson.meant.vectors, map, lesson.columns, lesson.truth.shape[1], near)
            tried = _tried(lesson, replace(apart, label_text=way))
            if tried is None:
                continue
            most = max(most, tried.whole)
            if tried.is_better(plain) and tried.whole > best.whole:
                best = tried
    whole = _whole_record(lesson, record)
    text, left_out = best.judge.label_text, None
    if text is None and lesson.meant is not None:
        left_out = NoLabelText(plain.whole, most)
    return replace(
        best.judge,
        record=whole,
        judge=_fit_judge(best.found, best.true, np.ones(len(best.true), dtype=bool)),
        before=plain.before,
        after=plain.after,
        label_text=None if text is None else replace(text, before=plain.whole, after=best.whole),
        no_label_text=left_out,
    )


@dataclass(frozen=True, eq=False)
class _Tried:
    """A judge that is still to be learned, its candidates, and how well they are ranked (nDCG@5).

    `before` and `after` are of what was found, without names and with them. `each` is of each input;
    labels that are no candidates count as missed, so that ways with other candidates can be compared.
    """

    judge: NameJudge
    found: NamedCandidates
    true: npt.NDArray[np.bool_]
    before: float
    after: float
    each: npt.NDArray[np.float64]

    @property
    def whole(self) -> float:
        """The mean over inputs that have a label."""
        return float(np.nanmean(self.each))

    def is_better(self, than: _Tried) -> bool:
        """Whether the gain is more than chance makes of nothing: more than its standard error."""
        gain = self.each - than.each
        gain = gain[~np.isnan(gain)]
        return bool(gain.mean() > gain.std() / np.sqrt(len(gain)))


def _map(lesson: NameLesson, meant: Meant, taught: npt.NDArray[np.int64]) -> NameMap:
    """From inputs to names, learned from inputs that the judge is not learned from."""
    entries = entries_of(lesson.columns, lesson.truth.shape[1])
    return learn_name_map(meant.embeddings[taught], lesson.truth[taught], meant.vectors, entries)


def _tried(lesson: NameLesson, judge: NameJudge) -> _Tried | None:
    """Learn from every other input and judge the rest; None where there is too little to learn from."""
    found = _candidates(lesson, judge)
    truth = lesson.truth[lesson.held_out.rows]
    true = _is_true(truth, found.rows, found.labels)
    if true.sum() < LEAST_TRUE:
        return None
    before, after, each = [], [], np.full(truth.shape[0], np.nan)
    for half in (0, 1):
        learn, judged = found.rows % 2 == half, found.rows % 2 != half
        if not true[learn].any() or not true[judged].any():
            return None
        again = _fit_judge(found, true, learn)
        half_found = NamedCandidates(
            found.rows[judged], found.labels[judged], found.places[judged], found.evidence[judged]
        )
        said = judged_log_odds(again, half_found, judge.record.frequency, lesson.threads)
        after.append(ranking_quality(said, true[judged], found.rows[judged]))
        inputs, own = ranking_qualities(said, true[judged], found.rows[judged], np.diff(truth.indptr))
        each[inputs] = own
        before.append(
            ranking_quality(found.evidence[judged, 0].astype(np.float64), true[judged], found.rows[judged])
        )
    return _Tried(judge, found, true, float(np.mean(before)), float(np.mean(after)), each)


@dataclass(frozen=True, eq=False)
class _Examples:
    """Finds in some inputs, and whether the label is right."""

    labels: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.float32]
    true: npt.NDArray[np.bool_]


def _count(
    lesson: NameLesson,
    rows: npt.NDArray[np.int64],
    taught: npt.NDArray[np.int64],
    progress: Stage | None,
) -> tuple[LabelRecord, _Examples]:
    """How labels and names do on inputs, and examples of finds in some of them."""
    labels = lesson.truth.shape[1]
    found, right = np.zeros(labels, dtype=np.int64), np.zeros(labels, dtype=np.int64)
    kept: list[_Examples] = []
    for part, matched in _matched(lesson, rows):
        true = _is_true(lesson.truth[part], matched.rows, matched.labels)
        found += np.bincount(matched.labels, minlength=labels)
        right += np.bincount(matched.labels[true], minlength=labels)
        wanted = np.isin(part, taught)[matched.rows]
        kept.append(_Examples(matched.labels[wanted], matched.numbers[wanted], true[wanted]))
        if progress:
            progress(np.searchsorted(rows, part[-1]) / len(rows))
    frequency = np.bincount(lesson.truth[rows].indices, minlength=labels).astype(np.int64)
    return LabelRecord(frequency, found, right), _Examples(
        np.concatenate([one.labels for one in kept]),
        np.concatenate([one.numbers for one in kept]),
        np.concatenate([one.true for one in kept]),
    )


def _whole_record(lesson: NameLesson, record: LabelRecord) -> LabelRecord:
    """The same with the inputs that were held out, which the model has learned from in the end."""
    rest, _ = _count(lesson, lesson.held_out.rows, lesson.held_out.rows[:0], None)
    return LabelRecord(
        record.frequency + rest.frequency, record.found + rest.found, record.right + rest.right
    )


def _matched(
    lesson: NameLesson, rows: npt.NDArray[np.int64]
) -> Iterator[tuple[npt.NDArray[np.int64], Matched]]:
    for begin in range(0, len(rows), _TOGETHER):
        part = rows[begin : begin + _TOGETHER]
        yield part, find_names(lesson.matcher, lesson.columns, lesson.texts(part), lesson.threads)


def _candidates(lesson: NameLesson, judge: NameJudge) -> NamedCandidates:
    """What the judge learns from: the candidates of inputs that were held out."""
    parts = []
    said, begin, rows = lesson.held_out.said, 0, lesson.held_out.rows
    for begin in range(0, len(rows), _TOGETHER):
        part = rows[begin : begin + _TOGETHER]
        ends = said.indptr[begin : begin + len(part) + 1]
        own = Said(ends - ends[0], said.labels[ends[0] : ends[-1]], said.log_odds[ends[0] : ends[-1]])
        meant = None if lesson.meant is None else lesson.meant.embeddings[part]
        found = judge.candidates(NamedInputs(lesson.texts(part), meant), own, lesson.threads)
        parts.append(replace(found, rows=found.rows + begin))
    return NamedCandidates(
        np.concatenate([one.rows for one in parts]),
        np.concatenate([one.labels for one in parts]),
        np.concatenate([one.places for one in parts]),
        np.concatenate([one.evidence for one in parts]),
    )


def _fit_judge(
    found: NamedCandidates, true: npt.NDArray[np.bool_], learn: npt.NDArray[np.bool_]
) -> BoostedTrees:
    evidence = found.evidence[learn]
    hopeless = (evidence[:, 0] < _HOPELESS) & (evidence[:, 1] < _HOPELESS)
    rising = [name in ("members", "name") for name in NAMED_EVIDENCE]
    rising += [False] * (evidence.shape[1] - len(rising))
    return _fit(evidence, true[learn], hopeless, rising, _JUDGE)


def _fit(
    seen: npt.NDArray[np.float32],
    true: npt.NDArray[np.bool_],
    hopeless: npt.NDArray[np.bool_],
    rising: list[bool],
    how: Boosting,
) -> BoostedTrees:
    drawn = np.random.default_rng(0).random(len(true)) < _KEPT
    thinned = hopeless & ~true
    kept = ~thinned | drawn
    weights = np.where(thinned, 1 / _KEPT, 1.0)[kept].astype(np.float32)
    return fit_boosted_trees(seen[kept], true[kept], weights, rising, how)


def _is_true(
    truth: sp.csr_array, rows: npt.NDArray[np.int64], labels: npt.NDArray[np.int32]
) -> npt.NDArray[np.bool_]:
    """Whether each label is one of its input."""
    owners = np.repeat(np.arange(truth.shape[0], dtype=np.int64), np.diff(truth.indptr))
    return np.isin(rows << 32 | labels, owners << 32 | truth.indices)
