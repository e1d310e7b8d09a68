"""What is kept of a fit, for updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.estimators.amended import tree_versions
from hedgerow.inputs.labels import LabelledRows
from hedgerow.inputs.training_record import Hashes
from hedgerow.model import Model
from hedgerow.records.packed import Packed
from hedgerow.records.table import STAYS, RecordTable
from hedgerow.training.settings import Method

__all__ = ["check_ids", "check_kept", "first_records", "fitted_trees"]


def check_kept(keep: bool, *others: Any) -> None:
    """Refuse to keep records for a fit that depends on more than them."""
    if keep and any(other is not None for other in others):
        raise ValueError(
            "keep_records keeps inputs and labels only, so tree, label_features and sample_weight cannot be"
            " given with it: an update would not know them"
        )


def check_ids(given: Sequence[Any]) -> None:
    """Refuse ids that are no strings."""
    for id in given:
        if not isinstance(id, str):
            raise TypeError(f"a record has the id {id!r} of type {type(id).__name__}; ids are strings")


def first_records(
    model: Model, inputs: Any, rows: sp.csr_array, hashes: Hashes, labels: LabelledRows, ids: Any
) -> RecordTable:
    """The records of a model that was just fitted."""
    indicator, names = labels.indicator, labels.names.tolist()
    count = indicator.shape[0]
    listed: list[str | None] = [None] * count if ids is None else list(ids)
    if len(listed) != count:
        raise ValueError(f"there are {count} records, but {len(listed)} ids")
    given = [id for id in listed if id is not None]
    check_ids(given)
    if len(set(given)) != len(given):
        seen: set[str] = set()
        twice = next(id for id in given if id in seen or seen.add(id))  # type: ignore[func-returns-value]
        raise ValueError(f"two records have the id {twice!r}; an update could not tell them apart")
    texts = None if model.reader.kind == "features" else Packed.of(inputs)
    return RecordTable(
        "features" if texts is None else "texts",
        Packed.of(listed),
        texts,
        rows,
        names,
        sp.csr_array(
            (np.ones(indicator.nnz, dtype=np.int8), indicator.indices, indicator.indptr),
            shape=indicator.shape,
        ),
        np.zeros(count, dtype=np.int32),
        np.full(count, STAYS, dtype=np.int32),
        hashes,
        solved=fitted_trees(model),
        base_names=len(names),
    )


def fitted_trees(model: Model) -> tuple[tuple[npt.NDArray[np.int32], ...], ...]:
    """For each tree that an update amends, and each layer: 0 for every node."""
    if Method(model.method).boosts or model.reader.kind == "transformer":
        return ()
    return tuple(version.solved for version in tree_versions(model))
