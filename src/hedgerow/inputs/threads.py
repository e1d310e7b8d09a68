"""How many threads `n_jobs` asks for."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

MOST_THREADS = 256


def threads_for(n_jobs: Any) -> int:
    """Return what the engine takes for the number of threads; 0 is all processors.

    None and -1 are all processors, -2 all but one, as in scikit-learn. Every thread has memory of its own, so
    more than 256 are started only where there are as many processors.

    Examples
    --------
    >>> threads_for(None), threads_for(3)
    (0, 3)
    """
    if n_jobs is None or n_jobs == -1:
        return 0
    if not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise ValueError(f"n_jobs is {n_jobs!r}; it must be None, a positive number of threads, or negative")
    if n_jobs < 0:
        return max(1, _processors() + 1 + int(n_jobs))
    return int(n_jobs) if n_jobs <= MOST_THREADS else min(int(n_jobs), max(MOST_THREADS, _processors()))


def _processors() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
