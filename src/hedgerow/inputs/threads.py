"""How many threads `n_jobs` asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import effective_n_jobs

__all__ = ["threads_for"]

MOST_THREADS = 256


def threads_for(n_jobs: Any) -> int:
    """Return what the engine takes for the number of threads; 0 is all processors.

    Parameters
    ----------
    n_jobs : int or None
        None and -1 are all processors, -2 all but one, as in scikit-learn. Every thread has memory of its
        own, so more than 256 are started only where there are as many processors.

    Examples
    --------
    >>> threads_for(None), threads_for(3)
    (0, 3)
    """
    if n_jobs is None or n_jobs == -1:
        return 0
    if not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise ValueError(f"n_jobs={n_jobs!r} must be None, a positive number of threads, or negative")
    if n_jobs > MOST_THREADS:
        return min(int(n_jobs), max(MOST_THREADS, int(effective_n_jobs(-1))))
    return int(n_jobs) if n_jobs > 0 else int(effective_n_jobs(int(n_jobs)))
