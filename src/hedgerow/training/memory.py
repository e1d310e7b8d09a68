"""How a fit keeps to a memory budget: what it must hold, and how the rest is shared out.

Only anonymous memory counts: memory-mapped data, finished blocks and copies of large arrays are in files,
whose pages the kernel takes back when it needs room.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "Allotment",
    "BudgetTooSmallError",
    "FitSize",
    "allot",
    "anonymous_bytes",
    "parse_bytes",
]

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", 1):
    _UNITS |= {f"{_letter}B": 1000**_power, f"{_letter}IB": 1024**_power}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?I?B|)\s*")
# Python's own objects, thread stacks, and what malloc keeps for later.
_MARGIN = 64_000_000
_SLACK = 1.1
# With less for an array, or for the weights of a block, overhead would take all the time.
_LEAST_ARRAY = 4_000_000
_LEAST_OUTPUT = 24_000_000
# Most bytes of weights per unit of work: 16 lanes of two bytes, packed, and a copy on its way to disk.
_BYTES_OF_WORK = 96


class BudgetTooSmallError(ValueError):
    """A fit cannot keep to its memory budget; the message has the smallest that works."""


@dataclass(frozen=True)
class FitSize:
    """What decides how much memory a fit needs.

    `matched` counts the nodes that a matcher finds per input (0 without one), and `wrong` the hard negatives
    per input (0 without boosting).
    """

    rows: int
    features: int
    labels: int
    label_entries: int
    branching: int
    matched: int
    wrong: int

    def to_grow(self, threads: int) -> int:
        """Bytes to cluster the labels, without arrays that can be in files."""
        lanes = 8 if self.branching <= 8 else 16 * -(-self.branching // 16)
        gathering = 16 * self.label_entries + 32 * (self.rows + self.labels) + 4 * self.features * threads
        splitting = (64 + 4 * lanes) * self.labels + (8 + 4 * lanes) * self.features * threads
        return max(gathering, splitting)

    def to_train(self, threads: int, blocks: int) -> int:
        """Bytes to train blocks at once, without arrays that can be in files and finished weights."""
        lists = 24 * self.rows + 16 * self.label_entries + 24 * self.labels
        shared = 0
        if self.wrong:
            entries = self.wrong * self.rows
            lists += 40 * self.rows + 20 * entries + 4 * self.label_entries
            # Sums over earlier members, the best labels of the last one, and the negatives themselves.
            shared += (24 + 100 * 8 + 2 * 30 * 8) * self.rows + 4 * entries
        if self.matched:
            entries = self.matched * self.rows
            lists += 16 * self.rows + 12 * (entries + self.label_entries)
            shared += 8 * self.rows + 13 * entries
        of_thread = 112 * self.rows + (80 + 6 * self.branching) * self.features
        drawing = 24 * self.rows
        return blocks * lists + threads * of_thread + shared + drawing

    def to_end(self) -> int:
        """Bytes to remember the training data."""
        return 24 * self.rows + 8 * self.label_entries + 16 * self.labels


@dataclass(frozen=True)
class Allotment:
    """What a fit may use: threads in all, blocks at the same time, and the most work of a block.

    Arrays larger than `array_bytes` are in files.
    """

    threads: int
    blocks: int
    array_bytes: int
    block_work: float


def parse_bytes(size: str | int) -> int:
    """A number of bytes, such as "8GB", "512MiB" or 2000000000.

    Examples
    --------
    >>> parse_bytes("1.5 GB"), parse_bytes("512MiB"), parse_bytes(1000)
    (1500000000, 536870912, 1000)
    >>> parse_bytes("lots")
    Traceback (most recent call last):
    ...
    ValueError: memory is 'lots'; give a number of bytes, such as '8GB' or '512MiB'
    """
    match = _SIZE.fullmatch(str(size).upper()) if not isinstance(size, bool) else None
    count = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    if count < 1:
        raise ValueError(f"memory is {size!r}; give a number of bytes, such as '8GB' or '512MiB'")
    return count


def anonymous_bytes() -> int:
    """Anonymous memory of this process; 0 where the system does not report it (other than Linux)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


def allot(memory: str | int, size: FitSize, threads: int, taken: int) -> Allotment:
    """Share out a budget: as many threads as it allows, then as many blocks at once, then large arrays.

    `taken` bytes are in use before the fit. A budget too small for one thread raises BudgetTooSmallError.
    """
    budget = parse_bytes(memory)
    free = budget - taken - _MARGIN
    for count in range(threads, 0, -1):
        for blocks in range(count, 0, -1):
            if _least(size, count, blocks) <= free:
                spare = free / _SLACK
                to_grow = (spare - size.to_grow(count)) / (2 * count + 3)
                left = spare - size.to_train(count, blocks)
                arrays = min(to_grow, left / 2 / (2 * count))
                return Allotment(count, blocks, int(arrays), left / 2 / blocks / _BYTES_OF_WORK)
    smallest = -(-(_least(size, 1, 1) + taken + _MARGIN) // 1_000_000)
    raise BudgetTooSmallError(
        f"memory is {memory!r}, which is too small; the smallest that works is '{smallest}MB':"
        f" {taken / 1e6:,.0f} MB are in use already, and the fit of {size.rows:,} inputs,"
        f" {size.features:,} features and {size.labels:,} labels needs the rest"
    )


def _least(size: FitSize, threads: int, blocks: int) -> int:
    growing = size.to_grow(threads) + (2 * threads + 3) * _LEAST_ARRAY
    training = size.to_train(threads, blocks) + 4 * threads * _LEAST_ARRAY + 2 * blocks * _LEAST_OUTPUT
    return int(_SLACK * max(growing, training, size.to_end()))
