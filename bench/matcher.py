"""How fast names of a vocabulary are found in texts, beside the tokenizer alone: in turns, in one process."""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from hedgerow.data.lines import read_raw_lines
from hedgerow.features.name_matcher import NameMatcher

from . import machine
from .datasets import SOURCE
from .plan import PYTHONS, RESULTS

LANGUAGES = ("de", "en")


def read_names(path: Path) -> tuple[list[str], list[str], np.ndarray]:
    """Names, their languages and their entries."""
    names, languages, entries = [], [], []
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for entry, row in enumerate(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)):
            for language in LANGUAGES:
                if name := row[f"name_{language}"]:
                    names.append(name)
                    languages.append(language)
                    entries.append(entry)
    return names, languages, np.array(entries, np.int32)


def read_abstracts(path: Path) -> list[str]:
    return [text for _, line in read_raw_lines(path) if (text := orjson.loads(line)["abstract"])]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of this process, and what was made."""
    start = time.process_time()
    made = work()
    return time.process_time() - start, made


def measured(data: Path, rounds: int) -> dict[str, Any]:
    """Each figure is the median of rounds; speeds are in MB of UTF-8 a second, on one thread."""
    names, languages, entries = read_names(data / "tibkat/vocabulary.tsv.xz")
    texts = read_abstracts(data / "tibkat/records.jsonl.xz")
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    preferred = np.ones(len(names), bool)
    tokenizer = NameMatcher([], [], entries[:0], preferred[:0])  # without names, words are only cut
    seconds: dict[str, list[float]] = {}

    def note(name: str, work: Callable[[], Any]) -> Any:
        spent, made = timed(work)
        seconds.setdefault(name, []).append(spent)
        return made

    for _ in range(rounds):
        matcher = note("build", lambda: NameMatcher(names, languages, entries, preferred))
        arrays = matcher.to_arrays()
        note("open", lambda kept=arrays: NameMatcher.from_arrays(kept))
        found = note("cold", lambda own=matcher: own.match(texts))
        note("warm", lambda own=matcher: own.match(texts))
        note("tokenizer", lambda: tokenizer.match(texts))
    medians = {name: statistics.median(spent) for name, spent in seconds.items()}
    return {
        "entries": int(entries[-1]) + 1,
        "names": len(names),
        "texts": len(texts),
        "megabytes": megabytes,
        "rounds": rounds,
        "build_seconds": medians["build"],
        "open_seconds": medians["open"],
        "model_megabytes": sum(array.nbytes for array in arrays.values()) / 1e6,
        "cold_megabytes_per_second": megabytes / medians["cold"],
        "warm_megabytes_per_second": megabytes / medians["warm"],
        "warm_range": [megabytes / max(seconds["warm"]), megabytes / min(seconds["warm"])],
        "tokenizer_megabytes_per_second": megabytes / medians["tokenizer"],
        "entries_per_text": len(found.entries) / len(texts),
    }


def markdown(described: dict[str, Any]) -> str:
    about = described["machine"]
    slowest, fastest = described["warm_range"]
    return (
        f"**Machine**: {about['cpu']}, {about['cores']} cores, {about['memory_bytes'] / 2**30:.0f} GiB,"
        f" {about['date']}; one thread, processor time, medians of {described['rounds']} rounds."
        f" {described['names']:,} names of {described['entries']:,} entries in German and English;"
        f" {described['texts']:,} abstracts of tibkat, {described['megabytes']:.0f} MB.\n\n"
        "| what | figure |\n|---|---|\n"
        f"| names found, words met before | {described['warm_megabytes_per_second']:.0f} MB/s"
        f" ({slowest:.0f} to {fastest:.0f}) |\n"
        f"| names found, all words new at first | {described['cold_megabytes_per_second']:.0f} MB/s |\n"
        f"| texts only cut into words | {described['tokenizer_megabytes_per_second']:.0f} MB/s |\n"
        f"| entries found in a text | {described['entries_per_text']:.0f} |\n"
        f"| built from names | {described['build_seconds']:.2f} s |\n"
        f"| opened from arrays | {1000 * described['open_seconds']:.0f} ms |\n"
        f"| arrays | {described['model_megabytes']:.0f} MB |\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=SOURCE)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    described = measured(asked.data, asked.rounds) | {"machine": machine.describe(PYTHONS)}
    (RESULTS / "matcher.json").write_text(json.dumps(described, indent=1) + "\n")
    (RESULTS / "matcher.md").write_text(markdown(described))
    print(markdown(described))


if __name__ == "__main__":
    main()
