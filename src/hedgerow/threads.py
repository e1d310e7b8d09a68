"""How many threads `n_jobs` asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import effective_n_jobs

__all__ = ["threads_for"]


def threads_for(n_jobs: Any) -> int:
    """Return what the engine takes for the number of threads; 0 is all processors.

    Parameters
    ----------
    n_jobs : int or None
        None and -1 are all processors, -2 all but one, as in scikit-learn.

    Examples
    --------
    >>> threads_for(None), threads_for(3)
    (0, 3)
    """
    if n_jobs is None or n_jobs == -1:
        return 0
    if not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise ValueError(f"n_jobs={n_jobs!r} must be None, a positive number of threads, or negative")
    return int(n_jobs) if n_jobs > 0 else int(effective_n_jobs(int(n_jobs)))
