"""Resident memory of this process, from the kernel's own counters (Linux)."""

from __future__ import annotations

import gc
import resource
from pathlib import Path


def resident_bytes() -> int:
    return _status_bytes("VmRSS")


def start_peak() -> int:
    """Set the kernel's high-water mark back to the present, and return the present."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return resident_bytes()


def peak_bytes() -> int:
    """Return the high-water mark since `start_peak`."""
    return _status_bytes("VmHWM")


def cap(gigabytes: float) -> None:
    """Let allocations past so many gigabytes of address space fail."""
    limit = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")
