"""Learns how good answers are from held-out inputs, and says it of further ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.inputs.rows import take
from hedgerow.inputs.search import SearchSettings
from hedgerow.inputs.training_record import unseen_rows
from hedgerow.progress import Progress, stage
from hedgerow.quality.evidence import evidence_of
from hedgerow.quality.expectation import ExpectedQuality, QualityModel
from hedgerow.votes.batches import answer_batches
from hedgerow.votes.predictions import UncertainLabels
from hedgerow.votes.source import Answer, VoteSource

__all__ = [
    "BEST",
    "best_of",
    "check_search",
    "expected_of",
    "expected_quality",
    "is_search_of",
    "learn_quality",
    "shares_of",
]

Floats = npt.NDArray[np.float64]

BEST = 5  # labels whose quality is predicted


def best_of(answer: Answer, k: int, threads: int = 0) -> UncertainLabels:
    """The best k labels as every prediction lists them, as columns."""
    votes = answer.votes.but(classes=None)
    return UncertainLabels.from_votes(votes, k, ranked_by=answer.ranking, n_jobs=threads or None)


def shares_of(
    columns: npt.NDArray[np.int32], truth: sp.csr_array, known: npt.NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Precision and recall of the listed labels of each input.

    Precision counts all true labels, of which the model can hit only those it knows; recall counts only
    those, and is NaN where there are none.

    Examples
    --------
    >>> truth = sp.csr_array([[1, 1, 0, 1], [0, 0, 0, 1]])
    >>> shares_of(np.array([[0, 2], [0, 2]]), truth, np.array([True, True, True, False]))
    (array([0.5, 0. ]), array([0.5, nan]))
    """
    n, k = columns.shape
    row = np.repeat(np.arange(n), np.diff(truth.indptr))
    right = known[truth.indices]
    wanted = row[right] * np.int64(truth.shape[1]) + truth.indices[right]
    given = np.arange(n)[:, None] * np.int64(truth.shape[1]) + columns
    hits = np.isin(given, wanted).sum(axis=1).astype(np.float64)
    true = np.bincount(row[right], minlength=n).astype(np.float64)
    recall = np.where(true > 0, hits / np.maximum(true, 1), np.nan)
    return hits / k, recall


def learn_quality(source: VoteSource, X: Any, Y: Any, progress: Progress | None = None) -> QualityModel:
    """Learn from inputs that the model was not trained on; see `HedgerowClassifier.learn_quality`."""
    inputs, truth = source.inputs_and_truth(X, Y)
    seen = source.seen(source.hashes(inputs))
    kept = unseen_rows(
        seen, "where its answers are better than on new data; learn the expected quality from other data"
    )
    if len(kept) < len(seen):
        inputs, truth = take(inputs, kept), truth[kept]
    k = min(BEST, source.known)
    known = np.zeros(truth.shape[1], dtype=bool)
    known[: len(source.classes)] = True if source.label_counts is None else source.label_counts > 0
    evidence: dict[str, list[Floats]] = {}
    shares = []
    batches = answer_batches(source, inputs, k=k, signals=True, progress=stage(progress, "learning"))
    for rows, answer in batches:
        best = best_of(answer, k, source.threads)
        for name, values in evidence_of(best, answer.signals).items():
            evidence.setdefault(name, []).append(values)
        shares.append(shares_of(best.labels, truth[rows], known))
    precision, recall = (
        np.concatenate([np.empty(0), *(part[place] for part in shares)]) for place in range(2)
    )
    joined = {name: np.concatenate(parts) for name, parts in evidence.items()}
    return QualityModel.learn(joined, precision, recall, k, source.search)


def expected_quality(
    source: VoteSource,
    learned: QualityModel,
    inputs: Any,
    confidence: float = 0.9,
    progress: Progress | None = None,
) -> ExpectedQuality:
    """What is expected of inputs; see `HedgerowClassifier.expected_quality`."""
    check_search(learned, source.search)
    parts = [
        expected_of(answer, learned, confidence, source.threads)
        for _, answer in answer_batches(
            source, inputs, k=learned.k, signals=True, progress=stage(progress, "predicting")
        )
    ]
    if not parts:
        return learned.predict({name: np.empty(0) for name in learned.names}, confidence)
    return ExpectedQuality.concatenate(parts)


def expected_of(
    answer: Answer, learned: QualityModel, confidence: float = 0.9, threads: int = 0
) -> ExpectedQuality:
    """What is expected of a batch, from an answer that was given anyway, with its signals."""
    return learned.predict(evidence_of(best_of(answer, learned.k, threads), answer.signals), confidence)


def is_search_of(learned: QualityModel, search: SearchSettings) -> bool:
    """Whether the expected quality was learned with this search, but for its tolerance."""
    return replace(search, tolerance=learned.search.tolerance) == learned.search


def check_search(learned: QualityModel, search: SearchSettings) -> None:
    """Refuse any search but the one that the expected quality was learned with."""
    if is_search_of(learned, search):
        return
    before, now = learned.search.to_dict(), search.to_dict()
    name = next(name for name in before | now if name != "tolerance" and before.get(name) != now.get(name))
    raise ValueError(
        f"{name} is {now.get(name)!r}, but the expected quality was learned with {before.get(name)!r} and"
        " holds for that search only; set it back, or calibrate again"
    )
