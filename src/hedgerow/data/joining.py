"""Joins records of several files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from .part import Part, csr
from .times import Times

__all__ = ["join_records"]


def join_records(parts: Sequence[Part]) -> Part:
    """The texts, labels and times of several files of records, one after the other.

    Examples
    --------
    >>> one = Part(texts=["a"], Y=sp.csr_array([[1.0]]), label_names=["yew"])
    >>> two = Part(texts=["b"], Y=sp.csr_array([[1.0]]), label_names=["elm"])
    >>> joined = join_records([one, two])
    >>> joined.label_names, joined.Y.toarray().tolist()
    (['elm', 'yew'], [[0.0, 1.0], [1.0, 0.0]])
    """
    names = sorted({name for part in parts for name in part.label_names or ()})
    place = {name: column for column, name in enumerate(names)}
    blocks = []
    for part in parts:
        own = part.Y if part.Y is not None else sp.csr_array((part.n, 0), dtype=np.float32)
        columns = np.array([place[name] for name in part.label_names or ()], dtype=np.int32)
        block = csr(own.data, columns[own.indices], own.indptr, len(names))
        block.sort_indices()
        blocks.append(block)
    times = [part.times for part in parts if part.times is not None]
    return Part(
        texts=[text for part in parts for text in part.texts or ()],
        Y=sp.csr_array(sp.vstack(blocks, format="csr")),
        label_names=names,
        skipped=sum(part.skipped for part in parts),
        fields=sorted({field for part in parts for field in part.fields or ()}),
        times=Times.concatenate(times) if times else None,
        later=sum(part.later for part in parts),
    )
