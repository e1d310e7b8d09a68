"""How long texts take to become features with stems, beside the same without: in turns, in one process."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from hedgerow import TfidfVectorizer
from hedgerow.data.lines import read_raw_lines

from .datasets import SOURCE

LANGUAGES = (None, "german", "auto")


def read(path: Path) -> dict[str, list[str]]:
    """Title and abstract of the records of each split."""
    texts: dict[str, list[str]] = {}
    for _, line in read_raw_lines(path):
        record = orjson.loads(line)
        text = f"{record['title']} {record['abstract'] or ''}"
        texts.setdefault(record["split"], []).append(text)
    return texts


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    made = work()
    return time.perf_counter() - start, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=SOURCE / "tibkat" / "records.jsonl.xz")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=None, help="threads")
    asked = parser.parse_args()
    texts = read(asked.data)
    seconds: dict[tuple[str, str | None], list[float]] = {}
    for _ in range(asked.rounds):
        for language in LANGUAGES:
            vectorizer = TfidfVectorizer(language=language, n_jobs=asked.jobs)
            works = {
                "fit_transform": lambda own=vectorizer: own.fit_transform(texts["train"]),
                "transform": lambda own=vectorizer: own.transform(texts["train"]),
                "transform, new texts": lambda own=vectorizer: own.transform(texts["test"]),
            }
            for name, work in works.items():
                seconds.setdefault((name, language), []).append(timed(work)[0])
    print(
        f"{len(texts['train']):,} training texts, {len(texts['test']):,} new ones; time without / with stems"
    )
    for (name, language), found in seconds.items():
        if language is None:
            continue
        # Round by round, as what else the machine does changes slowly.
        ratios = [a / b for a, b in zip(seconds[name, None], found, strict=True)]
        print(
            f"{name:22} {language:8} {statistics.median(found):6.2f} s"
            f"  ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
