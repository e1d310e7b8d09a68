"""What the ranker sees of a text: tf-idf, and behind it the embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp


def unit_rows(rows: sp.csr_array) -> sp.csr_array:
    """Rows of length 1, but for those that are empty.

    Examples
    --------
    >>> unit_rows(sp.csr_array(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32))).toarray()
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    own = np.diff(rows.indptr)
    squares = np.zeros(len(own))
    np.add.at(squares, np.repeat(np.arange(len(own)), own), rows.data.astype(np.float64) ** 2)
    lengths = np.sqrt(np.where(squares > 0, squares, 1.0))
    data = (rows.data / np.repeat(lengths, own)).astype(np.float32)
    return sp.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def join_features(
    tfidf: sp.csr_array,
    embeddings: Sequence[npt.NDArray[Any]],
    places: Sequence[int],
    blocks: int,
    weight: float,
    scale: bool,
) -> sp.csr_array:
    """Put embeddings behind the columns of tf-idf, which stays sparse.

    There are `blocks` blocks of columns for embeddings, and `places` names the block of each, ascending; the
    others stay empty. Rows of `tfidf` (or none) and embeddings have length 1; `weight` is the length of an
    embedding beside tf-idf. `scale` makes rows so long that tf-idf together with one embedding has length 1.

    Examples
    --------
    >>> words = sp.csr_array(np.array([[0.6, 0.8], [0.0, 0.0]], dtype=np.float32))
    >>> join_features(words, [np.array([[1.0], [1.0]])], [1], 2, 1.0, False).toarray()
    array([[0.6, 0.8, 0. , 1. ],
           [0. , 0. , 0. , 1. ]], dtype=float32)
    """
    n, columns = tfidf.shape
    width = embeddings[0].shape[1]
    own = np.diff(tfidf.indptr).astype(np.int64)
    dense = width * len(embeddings)
    indptr = np.concatenate([[0], np.cumsum(own + dense)]).astype(np.int64)
    indices = np.empty(int(indptr[-1]), dtype=np.int32)
    data = np.empty(int(indptr[-1]), dtype=np.float32)
    starts = indptr[:-1]
    words = np.arange(tfidf.nnz) + np.repeat(starts - tfidf.indptr[:-1], own)
    indices[words], data[words] = tfidf.indices, tfidf.data
    for number, (place, vectors) in enumerate(zip(places, embeddings, strict=True)):
        entries = (starts + own)[:, None] + number * width + np.arange(width)
        indices[entries] = columns + place * width + np.arange(width)
        data[entries] = vectors.astype(np.float32) * np.float32(weight)
    if scale:
        # Length 1 or none at all: an empty row of tf-idf leaves the whole length to the embedding.
        lengths = np.sqrt((own > 0) + weight**2)
        data /= np.repeat(lengths, own + dense).astype(np.float32)
    shape = (n, columns + blocks * width)
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    return sp.csr_array((data, indices, indptr), shape=shape)
