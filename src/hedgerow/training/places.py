"""Opens the place where a fit is done: here, within a memory budget, or on a cluster."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from hedgerow.training.alone import Alone
from hedgerow.training.block_training import BlockTraining
from hedgerow.training.memory import FitSize, allot, anonymous_bytes
from hedgerow.training.place import Here, Place
from hedgerow.training.plan import TrainingPlan
from hedgerow.training.ray.crew import open_crew

__all__ = ["Limits", "open_place"]


@dataclass(frozen=True)
class Limits:
    """What a fit may use: threads (0: all processors), a budget of memory, or the address of a cluster."""

    threads: int = 0
    memory: str | int | None = None
    cluster: str | None = None


@contextlib.contextmanager
def open_place(
    plan: TrainingPlan, limits: Limits, checkpoint: str | os.PathLike[str] | None
) -> Iterator[Place]:
    """Get ready to train. Finished blocks are in the checkpoint, or in a folder deleted at the end."""
    if limits.cluster is None and limits.memory is None:
        yield Here(plan, limits.threads)
        return
    with contextlib.ExitStack() as opened:
        allotment = None
        if limits.memory is not None:
            taken = anonymous_bytes() + _copied_bytes(plan.label_features)
            allotment = allot(limits.memory, _size(plan), limits.threads or os.cpu_count() or 1, taken)
        # Mapped files stay readable when their folder is gone.
        folder = checkpoint or opened.enter_context(tempfile.TemporaryDirectory(prefix="hedgerow-"))
        os.makedirs(folder, exist_ok=True)
        if allotment is not None:
            crew: Any = Alone(allotment, os.fspath(folder))
        else:
            crew = opened.enter_context(open_crew(str(limits.cluster)))
        fingerprint = "" if checkpoint is None else plan.fingerprint()
        yield BlockTraining(crew, plan, folder, fingerprint, limits.threads)


def _size(plan: TrainingPlan) -> FitSize:
    data, settings = plan.data, plan.settings
    rows, labels = data.indicator.shape
    wrong = settings.ensemble.hard_negatives if settings.ensemble.method.boosts else 0
    return FitSize(
        rows,
        data.width,
        labels,
        data.indicator.nnz,
        settings.tree.branching,
        settings.solver.matched,
        wrong,
    )


def _copied_bytes(label_features: Any) -> int:
    """Bytes of the copy of label vectors that growing a tree makes."""
    if label_features is None:
        return 0
    given = sp.csr_array(label_features)
    return int(given.data.nbytes + given.indices.nbytes + given.indptr.nbytes)
