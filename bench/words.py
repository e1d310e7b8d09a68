"""How long texts take to become features with stems, beside the same without: `python -m bench.words`.

In turns, in one process, on titles and abstracts of library records. Writes `results/words.json` and
`results/words.md`, which docs/results/records.md shows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from bench import machine, measure, records
from bench.datasets import SOURCE
from bench.plan import PYTHONS, RESULTS
from hedgerow import TfidfVectorizer
from hedgerow.data.lines import read_raw_lines

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
    """Processor seconds, all threads together, and what was made."""
    start = time.process_time()
    made = work()
    return time.process_time() - start, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=SOURCE / "tibkat" / "records.jsonl.xz")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=measure.THREADS, help="threads")
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
    found = {
        "machine": machine.describe(PYTHONS),
        "threads": asked.jobs,
        "texts": {part: len(own) for part, own in texts.items()},
        "seconds": [
            {"what": what, "language": each, "seconds": own} for (what, each), own in seconds.items()
        ],
    }
    (RESULTS / "words.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "words.md").write_text(markdown(found))
    print(markdown(found))


def markdown(found: dict[str, Any]) -> str:
    """Medians and ranges of the ratios, round by round, as what else the machine does changes slowly."""
    parts, seconds = (
        found["texts"],
        {(one["what"], one["language"]): one["seconds"] for one in found["seconds"]},
    )
    lines = [records.about(found), ""]
    lines += [
        f"{parts['train']:,} training texts, {parts['test']:,} new ones. Ratio: without / with stems.",
        "",
    ]
    lines += ["| what | language | CPU s with stems | ratio (range) |", "|---|---|---|---|"]
    for (what, language), own in seconds.items():
        if language is not None:
            ratios = [a / b for a, b in zip(seconds[what, None], own, strict=True)]
            shown = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            lines.append(f"| {what} | {language} | {statistics.median(own):.1f} | {shown} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
