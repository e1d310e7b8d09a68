"""Where a fit takes place that is done in blocks: on a cluster, or here within a memory budget."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import scipy.sparse as sp

from hedgerow.training.alone import Alone
from hedgerow.training.block_training import BlockTraining
from hedgerow.training.members import TrainingData
from hedgerow.training.memory import FitSize, allot, anonymous_bytes
from hedgerow.training.ray.crew import open_crew

__all__ = ["open_site"]


@contextlib.contextmanager
def open_site(
    cluster: str | None,
    memory: str | int | None,
    data: TrainingData,
    label_features: Any,
    checkpoint: str | os.PathLike[str] | None,
    mark: Callable[[], str],
    *,
    threads: int,
    branching: int,
    matched: int,
    wrong: int,
) -> Iterator[BlockTraining | None]:
    """Make ready to train in blocks; None where neither a cluster nor a budget asks for it.

    Parameters
    ----------
    cluster : str or None
        As of `open_crew`.
    memory : str, int or None
        The budget.
    data : TrainingData
        What members learn from.
    label_features : sparse matrix or None
        Vectors to cluster the labels by.
    checkpoint : path-like or None
        Where finished blocks are kept; a folder that is deleted at the end, if not given.
    mark : callable
        Gives the fingerprint of the fit, for a checkpoint.
    threads, branching, matched, wrong : int
        Wanted threads (0: all), and as of `FitSize`.
    """
    if cluster is None and memory is None:
        yield None
        return
    rows, labels = data.indicator.shape
    with contextlib.ExitStack() as opened:
        alone = None
        if memory is not None:
            size = FitSize(rows, data.width, labels, data.indicator.nnz, branching, matched, wrong)
            taken = anonymous_bytes() + _copied_bytes(label_features)
            alone = allot(memory, size, threads or os.cpu_count() or 1, taken)
        # Mapped files stay readable when their folder is gone.
        folder = checkpoint or opened.enter_context(tempfile.TemporaryDirectory(prefix="hedgerow-"))
        os.makedirs(folder, exist_ok=True)
        if alone is not None:
            crew: Any = Alone(alone, os.fspath(folder))
        else:
            crew = opened.enter_context(open_crew(str(cluster)))
        yield BlockTraining(crew, data, label_features, folder, "" if checkpoint is None else mark())


def _copied_bytes(label_features: Any) -> int:
    """What a copy of given vectors of labels takes, which growing a tree makes."""
    if label_features is None:
        return 0
    given = sp.csr_array(label_features)
    return int(given.data.nbytes + given.indices.nbytes + given.indptr.nbytes)
