"""What a system answers, in one file that any environment can read: its best labels, and all that it scored.

Peers live in environments without Hedgerow. So the `run_*` programs write their answers down, and one place
(`bench.frontier`) computes accuracy from them, in the same way for everyone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

BEST = 20  # labels kept for each input
SCORED = 5000  # most labels asked for where all that were scored count: a beam of 50, leaves of 100
SAMPLE = 1000  # inputs, evenly spread, whose scored labels are kept
BLOCK = 50


class Scored(NamedTuple):
    """The labels that a system scored, ascending for each input, and what each member says of them."""

    indptr: np.ndarray
    labels: np.ndarray
    probs: np.ndarray  # (entries, members)


class Ranked(NamedTuple):
    """Best labels (n, BEST), padded with -1; the inputs that were sampled, and what was scored for them."""

    best: np.ndarray
    rows: np.ndarray
    scored: Scored


def rank(system: Any, model: Any, X: sp.csr_matrix) -> Ranked:
    """Ask a system that has `predict`, `labels` and `scored`."""
    best = system.labels(system.predict(model, X))[:, :BEST].astype(np.int64)
    rows = sample(X.shape[0])
    blocks = [rows[begin : begin + BLOCK] for begin in range(0, len(rows), BLOCK)]
    return Ranked(best, rows, concatenate([system.scored(model, X[block]) for block in blocks]))


def sample(rows: int) -> np.ndarray:
    """The inputs whose scored labels are kept: the same for everyone."""
    return np.linspace(0, rows - 1, min(rows, SAMPLE)).astype(int)


def from_matrix(scores: sp.csr_matrix) -> Scored:
    """What a matrix of probabilities (n, L) stores."""
    scores = sp.csr_matrix(scores)
    scores.sort_indices()
    return Scored(scores.indptr, scores.indices, np.clip(scores.data, 0.0, 1.0)[:, None])


def concatenate(parts: Sequence[Scored]) -> Scored:
    """One part after the other."""
    counts = np.concatenate([np.diff(part.indptr) for part in parts]).astype(np.int64)
    return Scored(
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([part.labels for part in parts]).astype(np.int32),
        np.concatenate([part.probs for part in parts]).astype(np.float32),
    )


def save(path: Path, ranked: Ranked) -> None:
    np.savez(path, best=ranked.best, rows=ranked.rows, **ranked.scored._asdict())


def load(path: Path) -> Ranked:
    with np.load(path) as stored:
        scored = Scored(*(stored[name] for name in Scored._fields))
        return Ranked(stored["best"], stored["rows"], scored)
