"""Texts that `hedgerow.query` chooses beside random ones, with and without shift: `python -m bench.active`.

A model knows texts of one kind: packages that are libraries (debian, tags), or books, or English records
(tibkat). From 3,000 new texts, of the same kind or of another, 300 are chosen and answered with their labels,
by each way that `query` offers and at random. The model is fitted again with them and judged on other texts
like the new ones, from the test split. Means over seeds, each with its own texts. Writes
`results/active.json` and `results/active.md`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets, machine
from bench.plan import PYTHONS, RESULTS
from hedgerow import HedgerowTextClassifier, query

TRAIN, POOL, CHOSEN, JUDGED = 3_000, 3_000, 300, 2_000
SEEDS, MEMBERS, TOLERANCE, K = 2, 5, 1.0, 5
NOTHING, RANDOM = "nothing", "at random"
DIVERSE, PLAIN, PAIRS, HALF = (
    "`query`",
    "`query --diversity 0`",
    "`query --pairs`",
    "half `query`, half at random",
)
WAYS = (RANDOM, DIVERSE, PLAIN, HALF, PAIRS, NOTHING)
P1, NDCG, UNSEEN = "P@1", "nDCG@5", "labels never seen"
FIGURES = (P1, NDCG, UNSEEN)
DEBIAN, TIBKAT = "debian/packages.jsonl.xz", "tibkat/records.jsonl.xz"
Record = dict[str, Any]


@dataclass(frozen=True)
class Stream:
    """What the model knows, and of what kind the new texts are."""

    name: str
    file: str
    known: Callable[[Record], bool]
    new: Callable[[Record], bool]


def library(record: Record) -> bool:
    return record["id"].startswith("lib")


def book(record: Record) -> bool:
    return record["type"] == "Book"


def english(record: Record) -> bool:
    return record["lang"] == "en"


STREAMS = (
    Stream("debian, libraries → other packages", DEBIAN, library, lambda one: not library(one)),
    Stream("tibkat, books → other types", TIBKAT, book, lambda one: not book(one)),
    Stream("tibkat, English → German", TIBKAT, english, lambda one: not english(one)),
    Stream("debian, libraries → libraries", DEBIAN, library, library),
    Stream("tibkat, books → books", TIBKAT, book, book),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    arguments = parser.parse_args()
    found: dict[str, Any] = {
        "machine": machine.describe({"hedgerow": PYTHONS["hedgerow"]}),
        "seeds": arguments.seeds,
        "streams": {},
    }
    for file in dict.fromkeys(stream.file for stream in STREAMS):
        records = list(read(arguments.data / file))
        for stream in STREAMS:
            if stream.file == file:
                found["streams"][stream.name] = run(stream, records, arguments.seeds)
                print(stream.name, json.dumps(found["streams"][stream.name]), flush=True)
    (RESULTS / "active.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "active.md").write_text(markdown(found))


def read(path: Path) -> Iterator[Record]:
    """Records with labels, the text of all under one name."""
    for record in datasets.records(path):
        labels = record.get("labels") or record.get("tags")
        if labels:
            text = record.get("text") or f"{record['title']}. {record['abstract']}"
            yield {key: record.get(key) for key in ("id", "split", "type", "lang")} | {
                "text": text,
                "truth": labels,
            }


def run(stream: Stream, records: list[Record], seeds: int) -> dict[str, Any]:
    """Figures of each way: mean over seeds, and for each seed the difference from random."""
    start = time.process_time()
    measured = [one_seed(stream, records, seed) for seed in range(seeds)]
    ways: dict[str, Any] = {}
    for way in WAYS:
        ways[way] = {"texts": float(np.mean([one[way]["texts"] for one in measured]))}
        for figure in FIGURES:
            ways[way][figure] = float(np.mean([one[way][figure] for one in measured]))
            ways[way][f"{figure} above random"] = [one[way][figure] - one[RANDOM][figure] for one in measured]
    return {"CPU s": time.process_time() - start, "ways": ways}


def one_seed(stream: Stream, records: list[Record], seed: int) -> dict[str, dict[str, float]]:
    """Figures of each way over texts of the test split."""
    draw = np.random.default_rng(seed)
    order = [records[place] for place in draw.permutation(len(records))]
    learned = [one for one in order if one["split"] == "train"]
    train = [one for one in learned if stream.known(one)][:TRAIN]
    taken = {one["id"] for one in train}
    pool = [one for one in learned if stream.new(one) and one["id"] not in taken][:POOL]
    judged = [one for one in order if one["split"] == "test" and stream.new(one)][:JUDGED]
    model = fitted(train, seed)
    picked = choices(model, pool, draw)
    return {
        way: figures(fitted(train + more, seed) if more else model, judged) | {"texts": float(len(more))}
        for way, more in picked.items()
    }


def choices(
    model: HedgerowTextClassifier, pool: list[Record], draw: np.random.Generator
) -> dict[str, list[Record]]:
    """The texts that each way adds to those of training, with the labels that people answer."""
    texts = [one["text"] for one in pool]
    at_random = draw.permutation(len(pool))
    diverse = query(model, texts, n=CHOSEN).rows
    half = list(dict.fromkeys([*diverse[: CHOSEN // 2].tolist(), *at_random.tolist()]))[:CHOSEN]
    asked = query(model, texts, n=CHOSEN, pairs=True)
    yes: dict[int, list[str]] = {}
    for row, label in zip(asked.rows.tolist(), asked.labels.tolist(), strict=True):  # type: ignore[union-attr]
        if label in pool[row]["truth"]:
            yes.setdefault(row, []).append(label)
    return {
        NOTHING: [],
        RANDOM: [pool[row] for row in at_random[:CHOSEN]],
        DIVERSE: [pool[row] for row in diverse],
        PLAIN: [pool[row] for row in query(model, texts, n=CHOSEN, diversity=0).rows],
        HALF: [pool[row] for row in half],
        PAIRS: [pool[row] | {"truth": labels} for row, labels in yes.items()],
    }


def fitted(train: list[Record], seed: int) -> HedgerowTextClassifier:
    """Bagged members with the settings of the preset "fast"."""
    model = HedgerowTextClassifier(method="bagging", members=MEMBERS, tolerance=TOLERANCE, random_state=seed)
    return model.fit([one["text"] for one in train], [one["truth"] for one in train])


def figures(model: HedgerowTextClassifier, judged: list[Record]) -> dict[str, float]:
    """Means over texts: whether the best label is right, nDCG@5, and the share of its labels never seen."""
    known = set(model.classes_[model.label_counts_ > 0].tolist())
    best = model.top([one["text"] for one in judged], K).labels.tolist()
    truth = [set(one["truth"]) for one in judged]
    right = np.array([[label in of for label in row] for row, of in zip(best, truth, strict=True)])
    gain = 1 / np.log2(np.arange(2, K + 2))
    ideal = np.array([gain[: len(of)].sum() for of in truth])
    return {
        P1: float(right[:, 0].mean()),
        NDCG: float((right @ gain / ideal).mean()),
        UNSEEN: float(np.mean([len(of - known) / len(of) for of in truth])),
    }


def markdown(found: dict[str, Any]) -> str:
    """The tables that docs/results/active.md shows."""
    own = found["machine"]
    lines = [
        "# Active learning",
        "",
        f"{TRAIN:,} texts of training, {CHOSEN} more of {POOL:,} new ones chosen by each way, up to"
        f" {JUDGED:,} other new texts to judge on; {MEMBERS} bagged members with the settings of the preset"
        f" fast; means over {found['seeds']} seeds, each with its own texts. In percent; in brackets the"
        " difference from random of each seed. `make bench-active`.",
        "",
        "For pairs, people answer as many questions with yes or no; labels answered with yes are added, and"
        " texts without such a label are not.",
        "",
        f"{own['cpu']}, {own['cores']} cores, {own['os']}, Hedgerow"
        f" {own['environments']['hedgerow']['hedgerow']}, {own['date']}.",
        "",
    ]
    for name, of in found["streams"].items():
        lines += [
            f"**{name}**",
            "",
            "| chosen | texts added | " + " | ".join(FIGURES) + " |",
            "|---" * (2 + len(FIGURES)) + "|",
        ]
        for way, values in of["ways"].items():
            cells = [f"{100 * values[figure]:.1f}" + beside(way, values, figure) for figure in FIGURES]
            lines.append(f"| {way} | {values['texts']:.0f} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def beside(way: str, values: dict[str, Any], figure: str) -> str:
    """The difference from random of each seed, in brackets."""
    if way == RANDOM:
        return ""
    return " (" + ", ".join(f"{100 * one:+.1f}" for one in values[f"{figure} above random"]) + ")"


if __name__ == "__main__":
    main()
