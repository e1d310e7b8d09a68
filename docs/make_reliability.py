"""Write docs/reliability.md from what `make trust` counted: `python docs/make_reliability.py COUNTS`.

What takes hours is on record in the repository: tests/fuzz/long_run.json, written by `make fuzz-long`, and
tests/sanitizers.json, written by `make sanitize`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).with_name("reliability.md")
TESTS = Path(__file__).parents[1] / "tests"
FUZZING = TESTS / "fuzz" / "long_run.json"
SANITIZERS = TESTS / "sanitizers.json"
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
    "inputs that fuzzing found": "refused with the error of their kind, or read; the same after writing",
    "attacks": "they fail, and nothing is run, written elsewhere or used up",
}
FUZZED = {
    "xmc_text": "XMC text: the parser, and what it reads written and read again",
    "jsonl": "JSONL: the reader, packed and plain, and what it reads written and read again",
    "sparse_rows": "CSR matrices: the checks where they enter, then search and training",
    "model_file": "model files with right checksums: loading, then every question to the model",
    "model_structure": "the tree and the weights of a model file: their checks, then search",
}
INTRODUCTION_TO_FUZZING = """
## Fuzzing

Inputs are changed at random, and those that reach new code are changed further, under AddressSanitizer and
UndefinedBehaviorSanitizer where the code is C++. `make fuzz` does so for a minute each; the table is of
`make fuzz-long`; `make test` runs what was found before. There is no finding that is not mended.

| what is fuzzed | inputs run | processor time | edges reached |
|---|---:|---:|---:|
"""
SANITIZED = {
    "address,undefined": "AddressSanitizer, UndefinedBehaviorSanitizer",
    "thread": "ThreadSanitizer",
}
INTRODUCTION_TO_SANITIZERS = """
## Sanitizers

The tests of the engine run in an extension that is built with a sanitizer (`make sanitize`); there is no
other native suite. Nothing in our code is exempt.

| sanitizer | tests | reports |
|---|---:|---:|
"""


def page(counts: Counter[str], fuzzing: dict[str, dict[str, float]], sanitizers: dict[str, int]) -> str:
    """The whole page."""
    unknown = set(counts) - set(PROMISES)
    if unknown:
        raise ValueError(f"nothing is promised for {', '.join(sorted(unknown))}; add it to PROMISES")
    rows = [
        f"| {kind} | {counts[kind]:,} | {promise} |" for kind, promise in PROMISES.items() if counts[kind]
    ]
    fuzzed = [
        f"| {what} | {fuzzing[name]['executions']:,} | {fuzzing[name]['cpu_seconds'] / 60:.0f} min"
        f" | {fuzzing[name]['coverage']:,} |"
        for name, what in FUZZED.items()
        if name in fuzzing
    ]
    # A run with a report is not put on record.
    sanitized = [
        f"| {what} | {sanitizers[name]:,} | 0 |" for name, what in SANITIZED.items() if name in sanitizers
    ]
    tables = {INTRODUCTION: rows, INTRODUCTION_TO_FUZZING: fuzzed, INTRODUCTION_TO_SANITIZERS: sanitized}
    return "".join(
        "\n".join([head.removesuffix("\n"), *table, ""]) for head, table in tables.items() if table
    )


def read_counts(path: Path) -> Counter[str]:
    """What was counted, added up."""
    counts: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        kind, cases = json.loads(line)
        counts[kind] += cases
    return counts


if __name__ == "__main__":
    PAGE.write_text(
        page(
            read_counts(Path(sys.argv[1])),
            json.loads(FUZZING.read_text()) if FUZZING.exists() else {},
            json.loads(SANITIZERS.read_text()) if SANITIZERS.exists() else {},
        )
    )
