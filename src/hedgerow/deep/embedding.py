"""From tokens to embeddings: text by text on a processor, in batches of fixed shapes on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from hedgerow.deep.device import torch_threads
from hedgerow.deep.recording import RecordedPasses
from hedgerow.deep.tokens import Tokens
from hedgerow.progress import Stage

Floats = npt.NDArray[np.float32]

# All batches of texts of similar length have one shape on a GPU, so that few shapes are recorded and the same
# kernels compute a text in each. A single text pays for a whole batch, but in smaller ones the kernels
# are too short to keep a GPU busy.
_TOKENS_PER_BATCH = 4096
_BATCHES_PER_WAIT = 64
_LENGTH_STEP = 16
_TEXTS_PER_TASK, _TEXTS_PER_BATCH = 16, 64


@dataclass(frozen=True, eq=False)
class Reader:
    """What turns a batch of tokens into embeddings, and what making a batch needs to know."""

    compute: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    width: int
    pad: int
    max_length: int
    device: torch.device


def embed_one_by_one(reader: Reader, tokens: Tokens, threads: int, progress: Stage | None) -> Floats:
    """On a processor: no padding, each text by one thread, so that its bits depend on nothing else."""
    alone = np.arange(len(tokens))[:, None]
    tasks = [alone[begin : begin + _TEXTS_PER_TASK] for begin in range(0, len(tokens), _TEXTS_PER_TASK)]
    return _embed_batches(reader, tokens, tasks, threads, progress)


def embed_by_length(reader: Reader, tokens: Tokens, threads: int, progress: Stage | None) -> Floats:
    """On a processor: texts of one length together, each batch by one thread, in any order."""
    order = np.argsort(tokens.lengths, kind="stable")
    ends = np.flatnonzero(np.diff(tokens.lengths[order])) + 1
    tasks = [
        same[None, begin : begin + _TEXTS_PER_BATCH]
        for same in np.split(order, ends)
        for begin in range(0, len(same), _TEXTS_PER_BATCH)
    ]
    return _embed_batches(reader, tokens, tasks, threads, progress)


def _embed_batches(
    reader: Reader,
    tokens: Tokens,
    tasks: Sequence[npt.NDArray[np.int64]],
    threads: int,
    progress: Stage | None,
) -> Floats:
    """Texts by one thread for each task, which has a batch in each row."""
    found = np.empty((len(tokens), reader.width), dtype=np.float32)

    def embed(batches: npt.NDArray[np.int64]) -> int:
        torch.set_num_threads(1)
        with torch.inference_mode():
            for rows in batches:
                ids, mask = tokens.padded(rows, reader.pad)
                found[rows] = reader.compute(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
        return batches.size

    workers, done = threads or torch.get_num_threads(), 0
    with torch_threads(1), ThreadPoolExecutor(min(workers, max(1, len(tasks)))) as pool:
        for more in map(embed, tasks) if workers == 1 else pool.map(embed, tasks):
            done += more
            if progress is not None:
                progress(done / len(tokens))
    return found


def embed_in_shapes(
    reader: Reader, tokens: Tokens, recorder: RecordedPasses | None, progress: Stage | None = None
) -> Floats:
    """On a GPU: texts of similar length together, in batches of one shape, with a recorder replayed."""
    found = np.empty((len(tokens), reader.width), dtype=np.float32)
    steps = -(-np.maximum(tokens.lengths, 1) // _LENGTH_STEP)
    lengths = np.minimum(steps * _LENGTH_STEP, reader.max_length)
    done = 0
    pending: list[tuple[npt.NDArray[np.int64], torch.Tensor]] = []

    def arrive() -> None:
        nonlocal done
        if not pending:
            return
        # One wait for the GPU for many batches.
        whole = torch.cat([pooled for _, pooled in pending]).cpu().numpy()
        rows = np.concatenate([own for own, _ in pending])
        found[rows] = whole
        done += len(rows)
        pending.clear()
        if progress is not None:
            progress(done / len(tokens))

    with torch.inference_mode():
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            size = max(1, _TOKENS_PER_BATCH // length)
            replayed = None
            if recorder is not None and recorder.record(*_batch(reader, tokens, rows[:size], (size, length))):
                replayed = recorder.replay
            for begin in range(0, len(rows), size):
                own = rows[begin : begin + size]
                pooled = (replayed or reader.compute)(*_batch(reader, tokens, own, (size, length)))
                pending.append((own, pooled[: len(own)]))
                if len(pending) == _BATCHES_PER_WAIT:
                    arrive()
        arrive()
    return found


def _batch(
    reader: Reader, tokens: Tokens, rows: npt.NDArray[np.int64], shape: tuple[int, int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Some texts on the device, filled up to a whole batch with the first one."""
    size, length = shape
    filled = np.concatenate([rows, np.full(size - len(rows), rows[0])])
    ids, mask = tokens.padded(filled, reader.pad, length)
    return torch.from_numpy(ids).to(reader.device), torch.from_numpy(mask).to(reader.device)
