"""Write docs/reliability.md from what was measured: `python docs/make_reliability.py [COUNTS]`.

COUNTS is what `make trust` counted; it is added up and kept in `docs/reliability/`, where the other figures
lie, too. The peers' are in `bench/results/`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("reliability.md")
FIGURES = Path(__file__).with_name("reliability")
PEERS = Path(__file__).parent.parent / "bench/results/peer_trust.json"
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

BESIDE = """
## The same elsewhere

The same cases on the same data, each in a process of its own, through the calls that each library
documents (`make bench-trust`, {date}): Hedgerow {hedgerow}, PECOS {libpecos}, omikuji {omikuji}, napkinXC
{napkinxc}. PECOS has two ways to load a model, and "predict only" is the one for serving. All were trained on
generated data with 300 labels. "Other answers" are those of no model that was ever saved; "no model" is a
save that lost the old model and has no new one.

"""
COLUMNS = {
    "hedgerow": "Hedgerow",
    "pecos": "PECOS",
    "pecos, predict only": "PECOS, predict only",
    "omikuji": "omikuji",
    "napkinxc": "napkinXC",
}
# What became of a case, in the words of the table; {kind: {what the worker says: what the page says}}.
ANSWERS = {"refused": "refused", "answered": "answered", "crashed": "crashed", "hung": "hung"}
DAMAGED = {
    "refused": "refused",
    "old": "unnoticed, same answers",
    "answered otherwise": "**other answers**",
    "crashed": "**crashed**",
    "hung": "**hung**",
}
SCORED = "NaN or infinity in an input"
REPEATED = {"the same": "the same", "other answers": "other answers"}
BESIDE_CASES: dict[str, dict[str, str]] = {
    SCORED: ANSWERS,
    "NaN or infinity in training": {**ANSWERS, "answered": "trained"},
    "feature index below 0 or too large": ANSWERS,
    "killed while saving over a model": {
        "old": "the old model",
        "new": "the new model",
        "refused": "no model",
        "crashed": "**crashes when loaded**",
        "answered otherwise": "**other answers**",
    },
    "model file cut short": DAMAGED,
    "one bit of the model flipped": DAMAGED,
    "trained again, with the same seed if it takes one": REPEATED,
    "predicted again, otherwise cut": REPEATED,
    "pickle in a model": {**DAMAGED, "code was run": "**code was run**"},
    "pickle in a text model": {**DAMAGED, "code was run": "**code was run**"},
}


def page() -> str:
    """The whole page, from the figures that are kept."""
    text = INTRODUCTION + promises(Counter(json.loads((FIGURES / "counts.json").read_text())))
    return text + beside(json.loads(PEERS.read_text()))


def promises(counts: Counter[str]) -> str:
    """A row for everything that was counted."""
    unknown = set(counts) - set(PROMISES)
    if unknown:
        raise ValueError(f"nothing is promised for {', '.join(sorted(unknown))}; add it to PROMISES")
    rows = [
        f"| {kind} | {counts[kind]:,} | {promise} |" for kind, promise in PROMISES.items() if counts[kind]
    ]
    return "\n".join(rows) + "\n"


def beside(measured: dict[str, Any]) -> str:
    """What became of the same cases in every library."""
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    scores: defaultdict[str, list[str]] = defaultdict(list)
    for engine, kind, _, ended in measured["cases"]:
        found[kind, engine][ended.partition(",")[0]] += 1
        if kind == SCORED and " best score " in ended:
            scores[engine].append(ended.rpartition(" ")[2])
    versions = {
        **measured["machine"]["environments"]["hedgerow"],
        **measured["machine"]["environments"]["peers"],
    }
    lines = [f"| what is done | {' | '.join(COLUMNS.values())} |", "|---|" + "---|" * len(COLUMNS)]
    for kind, words in BESIDE_CASES.items():
        cells = [_cell(found[kind, engine], words) for engine in COLUMNS]
        if kind == SCORED:
            told = [
                f", best scores {', '.join(scores[engine])}" if scores[engine] else "" for engine in COLUMNS
            ]
            cells = [cell + score for cell, score in zip(cells, told, strict=True)]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return BESIDE.format(date=measured["machine"]["date"], **_names(versions)) + "\n".join(lines) + "\n"


def _names(versions: dict[str, str]) -> dict[str, str]:
    return {name: versions[name] for name in ("hedgerow", "libpecos", "omikuji", "napkinxc")}


def _cell(counts: Counter[str], words: dict[str, str]) -> str:
    """Every outcome with its count, in the order of the words."""
    if unknown := set(counts) - set(words):
        raise ValueError(f"no words for {', '.join(sorted(unknown))}")
    return (
        "; ".join(f"{counts[ended]} {word}" for ended, word in words.items() if counts[ended]) or "has none"
    )


def read_counts(path: Path) -> Counter[str]:
    """What was counted, added up."""
    counts: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        kind, cases = json.loads(line)
        counts[kind] += cases
    return counts


if __name__ == "__main__":
    for counted in sys.argv[1:]:
        (FIGURES / "counts.json").write_text(json.dumps(read_counts(Path(counted)), indent=1) + "\n")
    PAGE.write_text(page())
