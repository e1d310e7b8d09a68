"""A generated data set with the shape of Amazon-670K: sparse rows, clustered labels, a long tail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer


@dataclass(frozen=True)
class Shape:
    """What is generated; the defaults are Amazon-670K, scaled to 200,000 labels.

    Labels come in clusters (products bought together). A cluster owns a vocabulary, a label has a few
    characteristic words of its cluster's vocabulary, and a row mixes words of its labels, words of its
    cluster and noise words with Zipf frequencies.
    """

    labels: int = 200_000
    train_rows: int = 100_000
    test_rows: int = 20_000
    features: int = 135_909
    labels_per_cluster: int = 40
    words_per_cluster: int = 150
    words_per_label: int = 12
    label_draws: float = 6.45  # a row's draws before duplicates merge: about 5.45 distinct labels
    label_words: int = 42
    cluster_words: int = 14
    noise_words: int = 40
    label_tail: float = 0.7  # a label of rank r is drawn with a weight of (r + 10)^-label_tail
    stray_labels: float = 0.15  # the share of labels that come from anywhere


def generate(
    shape: Shape, seed: int = 0
) -> tuple[sp.csr_matrix, sp.csr_matrix, sp.csr_matrix, sp.csr_matrix]:
    """Return X and Y of the training rows, then X and Y of the test rows."""
    rng = np.random.default_rng(seed)
    rows = shape.train_rows + shape.test_rows
    cluster_start, cluster_of = _clusters(shape, rng)
    row_of, label_of, home = _draw_labels(shape, rows, cluster_start, cluster_of, rng)
    counts = _draw_words(shape, rows, row_of, label_of, home, cluster_of, rng)
    Y = sp.csr_matrix((np.ones(len(label_of), np.float32), (row_of, label_of)), shape=(rows, shape.labels))
    Y.data[:] = 1
    train = slice(0, shape.train_rows)
    test = slice(shape.train_rows, rows)
    tfidf = TfidfTransformer(sublinear_tf=True).fit(counts[train])
    return tfidf.transform(counts[train]), Y[train], tfidf.transform(counts[test]), Y[test]


def _clusters(shape: Shape, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Cut the labels into runs of random length: where each starts, and the cluster of each label."""
    clusters = max(1, shape.labels // shape.labels_per_cluster)
    cuts = np.sort(rng.choice(np.arange(1, shape.labels), size=clusters - 1, replace=False))
    start = np.concatenate([[0], cuts, [shape.labels]])
    return start, np.repeat(np.arange(clusters), np.diff(start))


def _draw_labels(
    shape: Shape, rows: int, cluster_start: np.ndarray, cluster_of: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw (row, label) pairs, and the home cluster of every row.

    A draw inside a cluster is a draw from the cluster's stretch of the cumulated label weights.
    """
    weight = (rng.permutation(shape.labels) + 10.0) ** -shape.label_tail
    cumulated = np.concatenate([[0.0], np.cumsum(weight)])
    home = cluster_of[_position(cumulated, rng.random(rows) * cumulated[-1])]
    row_of = np.repeat(np.arange(rows), 1 + rng.poisson(shape.label_draws - 1, size=rows))
    stray = rng.random(len(row_of)) < shape.stray_labels
    low = np.where(stray, 0.0, cumulated[cluster_start[home[row_of]]])
    high = np.where(stray, cumulated[-1], cumulated[cluster_start[home[row_of] + 1]])
    label_of = _position(cumulated, low + rng.random(len(row_of)) * (high - low))
    return row_of, label_of, home


def _position(cumulated: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    return np.minimum(np.searchsorted(cumulated, drawn, side="right") - 1, len(cumulated) - 2)


def _draw_words(
    shape: Shape,
    rows: int,
    row_of: np.ndarray,
    label_of: np.ndarray,
    home: np.ndarray,
    cluster_of: np.ndarray,
    rng: np.random.Generator,
) -> sp.csr_matrix:
    """Word counts of every row: words of its labels, of its home cluster, and noise."""
    clusters = int(cluster_of[-1]) + 1
    vocabulary = rng.integers(shape.features, size=(clusters, shape.words_per_cluster), dtype=np.int32)
    choice = rng.integers(shape.words_per_cluster, size=(shape.labels, shape.words_per_label))
    label_vocabulary = vocabulary[cluster_of[:, None], choice]

    first = np.searchsorted(row_of, np.arange(rows))
    drawn = np.diff(np.append(first, len(row_of)))
    pick = first[:, None] + (rng.random((rows, shape.label_words)) * drawn[:, None]).astype(np.int64)
    from_labels = label_vocabulary[label_of[pick], rng.integers(shape.words_per_label, size=pick.shape)]
    column = rng.integers(shape.words_per_cluster, size=(rows, shape.cluster_words))
    from_cluster = vocabulary[home[:, None], column]
    noise = _zipf(shape.features, (rows, shape.noise_words), rng)

    words = np.concatenate([from_labels, from_cluster, noise], axis=1)
    indptr = np.arange(rows + 1) * words.shape[1]
    counts = sp.csr_matrix(
        (np.ones(words.size, np.float32), words.ravel(), indptr), shape=(rows, shape.features)
    )
    counts.sum_duplicates()
    return counts


def _zipf(features: int, size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Draw words with a frequency of 1/rank, by inverting the cumulated frequency ln(rank)/ln(features)."""
    rank = np.exp(rng.random(size) * np.log(features)).astype(np.int32) - 1
    return rng.permutation(features).astype(np.int32)[rank]
