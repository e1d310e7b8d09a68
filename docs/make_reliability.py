"""Write docs/reliability.md from what `make trust` counted: `python docs/make_reliability.py COUNTS`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).with_name("reliability.md")
INTRODUCTION = """# Reliability

What is tried on every release, and how often. Every case must end as the last column says, or there is no
release. `make trust` tries all of it and writes this page; `make test` tries a sample.

| what is done | cases | what must follow |
|---|---:|---|
"""
# In the order of the page: what the tests count, in their words, and what they ask for.
PROMISES = {
    "every bit flipped": "a model file with any one bit changed is refused",
    "cut off at every byte": "a model file that ends early is refused, also with `verify=False`",
    "wrong, but with right checksums": "refused, in memory of at most twice the file and 8 MiB",
    "headers made to be costly": "refused, in memory of at most twice the file and 192 MiB",
    "bad arguments of the library": "`ValueError` or `TypeError`, or a defined answer; also with `-O`",
    "ways to the same model": "one hash of the file and one of what it predicts, for each seed",
    "files of earlier formats": "every one loads, and predicts what it did",
    "killed while saving": "the reader sees the old model or the new one, whole",
    "killed while training": "the next run ends with the same bits",
    "system calls that fail while saving": "a clean error; the old model, or the new once it is named",
    "allocations that fail while loading": "an error that does not blame the file, or a model",
    "the same, and nanobind aborts": "known: where the binding library lacks a few bytes, the process ends",
    "attacks": "they fail, and nothing is run, written elsewhere or used up",
}


def page(counts: Counter[str]) -> str:
    """The whole page."""
    unknown = set(counts) - set(PROMISES)
    if unknown:
        raise ValueError(f"nothing is promised for {', '.join(sorted(unknown))}; add it to PROMISES")
    rows = [
        f"| {kind} | {counts[kind]:,} | {promise} |" for kind, promise in PROMISES.items() if counts[kind]
    ]
    return INTRODUCTION + "\n".join(rows) + "\n"


def read_counts(path: Path) -> Counter[str]:
    """What was counted, added up."""
    counts: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        kind, cases = json.loads(line)
        counts[kind] += cases
    return counts


if __name__ == "__main__":
    PAGE.write_text(page(read_counts(Path(sys.argv[1]))))
