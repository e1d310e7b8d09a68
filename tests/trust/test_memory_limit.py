"""Data larger than the memory that the kernel grants are fitted all the same."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow import HedgerowClassifier
from hedgerow.data import read_part

pytestmark = pytest.mark.trust

ROWS, FEATURES, EACH, LABELS = 34_000, 4_000, 1_600, 16
SETTINGS: dict[str, Any] = {"branching": 2, "leaf_size": 8, "random_state": 0, "max_passes": 2}

# Not RLIMIT_AS (ulimit -v): mapped files count there, and they may be as large as the disk. RLIMIT_DATA
# grants memory that is no file: the heap and private writable maps. It counts what is reserved, touched or
# not, so what was reserved before the fit is added to the budget.
LIMITED = """
import json, resource, sys
from hedgerow import HedgerowClassifier
from hedgerow.data import read_part

mapped, model, memory, settings, kept_to = sys.argv[1:]
part = read_part(mapped, "train", threads=1)
kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in open("/proc/self/status") if "kB" in line}
limit = int(memory) + 1024 * (kilobytes["VmData"] - kilobytes["RssAnon"])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
budget = int(memory) if kept_to == "kept" else None
fitted = HedgerowClassifier(**json.loads(settings), n_jobs=1, memory=budget)
fitted.fit(part.X, part.Y)
fitted.save(model)
print(limit)
"""


def write_large(folder: Path) -> int:
    """Write mapped data, about 435 MB, and return the bytes of X."""
    draw = np.random.default_rng(0)
    folder.mkdir()
    patterns = np.sort(np.array([draw.choice(FEATURES, EACH, replace=False) for _ in range(LABELS)]))
    kind = draw.integers(0, LABELS, ROWS)
    shape = (ROWS * EACH,)
    indices = np.lib.format.open_memmap(folder / "X.trn.indices.npy", "w+", np.int32, shape)
    data = np.lib.format.open_memmap(folder / "X.trn.data.npy", "w+", np.float32, shape)
    for begin in range(0, ROWS, 1000):
        part = slice(begin * EACH, (begin + 1000) * EACH)
        indices[part] = patterns[kind[begin : begin + 1000]].ravel()
        data[part] = draw.random(1000 * EACH, dtype=np.float32)
    np.save(folder / "X.trn.indptr.npy", np.arange(ROWS + 1, dtype=np.int64) * EACH)
    np.save(folder / "X.trn.shape.npy", np.array([ROWS, FEATURES]))
    np.save(folder / "Y.trn.indptr.npy", np.arange(ROWS + 1, dtype=np.int64))
    np.save(folder / "Y.trn.indices.npy", kind.astype(np.int32))
    np.save(folder / "Y.trn.shape.npy", np.array([ROWS, LABELS]))
    return int(indices.nbytes + data.nbytes)


def limited_fit(folder: Path, model: Path, memory: int, kept_to: bool) -> subprocess.CompletedProcess[str]:
    given = [str(folder), str(model), str(memory), json.dumps(SETTINGS), "kept" if kept_to else "ignored"]
    command = [sys.executable, "-c", LIMITED, *given]
    environment = {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "TMPDIR": str(folder)}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)


def test_fit_when_data_are_larger_than_the_memory_granted_then_gives_the_same_file(tmp_path: Path) -> None:
    size = write_large(tmp_path / "mapped")
    ended = limited_fit(tmp_path / "mapped", tmp_path / "limited", 300_000_000, kept_to=True)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) < size
    ignored = limited_fit(tmp_path / "mapped", tmp_path / "none", 300_000_000, kept_to=False)
    assert "MemoryError" in ignored.stderr
    part = read_part(tmp_path / "mapped")
    HedgerowClassifier(**SETTINGS, n_jobs=2).fit(part.X, part.Y).save(tmp_path / "ordinary")
    files = (tmp_path / "limited", tmp_path / "ordinary")
    assert len({hashlib.sha256(path.read_bytes()).digest() for path in files}) == 1
