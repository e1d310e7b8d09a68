"""The machine that experiments run on."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path

from hedgerow.inputs.threads import threads_for


def machine(n_jobs: int | None) -> dict[str, str]:
    """Processor, threads and Python, for the record."""
    name = platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return {
        "CPU": f"{name} ({os.cpu_count()} processors)",
        "threads": str(threads_for(n_jobs) or os.cpu_count()),
        "Python": platform.python_version(),
    }
