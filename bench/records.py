"""Records with title and abstract, as their users have them: `python -m bench.records`.

Hedgerow under its presets, with nothing chosen but the names of the texts, on the official parts of tibkat:
trained on `train`, judged on `dev`, labels that never occur in training included. Figures are means over
records. With --names, the same with the names of 215,671 subjects (`fit(vocabulary=...)`), and with the share
of the true labels without any training record that are among the best 20. With --encoder, a transformer reads
along, whose encoder is fine-tuned on a GPU. With --readings, several ways to read the texts, on records cut
from `train`, by one tree without a judge: what the presets were chosen by. Writes `results/records.json` and
`results/records.md`, which docs/results/records.md shows.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench import datasets, machine, measure
from bench.frontier import f1_at
from bench.plan import PYTHONS, RESULTS
from hedgerow import (
    HedgerowTextClassifier,
    HedgerowTransformerClassifier,
    Vocabulary,
    preset_parameters,
)
from hedgerow.evaluation import ndcg_at, precision_at
from hedgerow.storage.container import read_model

FIELDS = ("title", "title+abstract")
TEN: dict[str, Any] = {"method": "bagging", "members": 10}
SETTINGS: dict[str, dict[str, Any]] = {
    "fast": {},
    "balanced": {},
    "best": {},
    "balanced, ten bagged": TEN,
}
TREE: dict[str, Any] = {"branching": 16, "leaf_size": 2500, "tolerance": 1.0}
TREE |= {"language": "auto", "char_ngrams": (5, 5)}
# How title and abstract are read; the last is what presets choose.
READINGS: dict[str, dict[str, Any]] = {
    name: TREE | {"fields": fields}
    for name, fields in {
        "words and pairs of both": {"title": 1, "title+abstract": 1},
        "words of both": {"title~words": 1, "title+abstract~words": 1},
        "words and pairs of the title, words of both": {"title": 1, "title+abstract~words": 1},
        "... and 5-grams of the title": {"title": 1, "title~chars": 0.7, "title+abstract~words": 1},
        "... with less weight": {"title": 0.7, "title~chars": 0.7, "title+abstract~words": 1},
    }.items()
}
# A transformer reads title and abstract as one text beside the words of both; five members by boosting.
DEEP_NAME, DEEP_KIND = "transformer, five members by boosting", "named with an encoder"
DEEP: dict[str, Any] = {"method": "boosting", "members": 5, "judge": True, "wide": 900, "tolerance": 1.0}
DEEP |= {"fields": {"title": 0.7, "title~chars": 0.7, "title+abstract~words": 1.0}, "beam": 20}
DEEP |= {"language": "auto", "ngrams": (1, 1), "char_ngrams": (5, 5)}
DEEP |= {"epochs": 2.0, "batch_size": 64, "learning_rate": 1e-4, "max_length": 128}
VALIDATION = 6000
_TIMED = 500  # records
_OF_NAMES = ("names.", "vocabulary.")  # sections of a model file
VOCABULARY = "tibkat/vocabulary.tsv.xz"
COLUMNS = (
    ("CPU s", "fit_cpu_seconds", ".0f"),
    ("model MB", "model_megabytes", ".0f"),
    ("P@1", "p@1", ".1f"),
    ("F1@5", "f1@5", ".4f"),
    ("nDCG@20", "ndcg@20", ".4f"),
    ("unseen@20", "unseen@20", ".1f"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--presets", nargs="+", choices=tuple(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--encoder", type=Path, help="folder of an encoder, such as MiniLM-L6")
    parser.add_argument("--out", type=Path, default=RESULTS / "records.json")
    parser.add_argument("--names", action="store_true", help="with the names of the labels")
    parser.add_argument("--readings", action="store_true", help="compare ways to read the texts instead")
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    stored = arguments.out
    found = json.loads(stored.read_text()) if stored.exists() else {}
    train, test = read(arguments.data)
    vocabulary = Vocabulary.read(arguments.data / VOCABULARY) if arguments.names else None
    if arguments.readings:
        order = np.random.default_rng(7).permutation(len(train))
        train, test = ([train[i] for i in part] for part in (order[VALIDATION:], order[:VALIDATION]))
        kind, settings = "readings", READINGS
    else:
        kind = "named" if arguments.names else "runs"
        settings = {name: preset(name, train) for name in arguments.presets}
        if arguments.encoder is not None:
            kind = f"{kind} with an encoder"
            settings = {name: DEEP | {"encoder": arguments.encoder} for name in (DEEP_NAME,)}
    for name, chosen in settings.items():
        found.setdefault(kind, {})[name] = result = measured(chosen, train, test, arguments.seed, vocabulary)
        print(name, json.dumps(result), flush=True)
    described = found | {"machine": machine.describe(PYTHONS), "threads": measure.THREADS}
    stored.write_text(json.dumps(described, indent=1) + "\n")
    stored.with_suffix(".md").write_text(markdown(described))


def read(source: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    with lzma.open(source / "tibkat/records.jsonl.xz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    parts = ([one for one in records if one["split"] == split] for split in ("train", "test"))
    return next(parts), next(parts)


def preset(name: str, train: list[dict[str, Any]]) -> dict[str, Any]:
    """The parameters that a preset chooses for these records."""
    own, labels = SETTINGS[name], [record["labels"] for record in train]
    chosen = preset_parameters(name.split(",")[0], train, labels, fields=FIELDS, **own)
    return {"fields": FIELDS} | own | chosen


def measured(
    settings: dict[str, Any],
    train: list[dict[str, Any]],
    test: list[dict[str, Any]],
    seed: int,
    vocabulary: Vocabulary | None,
) -> dict[str, Any]:
    """Fit, save and predict, all in this process."""
    start = time.process_time()
    deep = "encoder" in settings
    kind = HedgerowTransformerClassifier if deep else HedgerowTextClassifier
    threads = os.cpu_count() if deep else measure.THREADS
    model: Any = kind(n_jobs=threads, random_state=seed, **settings)
    labels, truth = ([record["labels"] for record in part] for part in (train, test))
    model.fit(train, labels, vocabulary=vocabulary)
    seconds = time.process_time() - start
    measure.WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=measure.WORK) as work:
        path = Path(work) / "model"
        model.save(path)
        size = path.stat().st_size
        sections = read_model(path).sections
        of_names = sum(one.nbytes for name, one in sections.items() if name.startswith(_OF_NAMES))
    costs = {}
    if model.model_.names is not None:
        costs["names"] = {"megabytes": of_names / 1e6} | {
            how: milliseconds(source, test[:_TIMED])
            for how, source in (("with", model.model_), ("without", replace(model.model_, names=None)))
        }
    best = model.top(test, k=20).labels
    return {
        "fit_cpu_seconds": seconds,
        "model_megabytes": size / 1e6,
        "settings": {name: str(value) if name == "encoder" else value for name, value in settings.items()},
        **accuracy(best, truth),
        "unseen@20": unseen_at(best, labels, truth),
        **costs,
    }


def milliseconds(source: Any, records: list[dict[str, Any]]) -> dict[str, float]:
    """Processor time of the ten best labels of one record at a time, by one thread."""
    alone = replace(source, threads=1)
    seconds = []
    for record in records:
        inputs = alone.inputs([record])
        start = time.thread_time()
        alone.top(inputs, 10)
        seconds.append(time.thread_time() - start)
    timed = seconds[len(seconds) // 5 :]  # the first ones fill memory
    return {f"p{share}": 1000 * float(np.percentile(timed, share)) for share in (50, 99)}


def unseen_at(best: np.ndarray, labels: list[list[str]], truth: list[list[str]]) -> float:
    """Of the true labels that no training record has, the percentage that is among the best."""
    known = {label for own in labels for label in own}
    found = [
        label in row
        for row, own in zip(map(set, best.tolist()), truth, strict=True)
        for label in set(own) - known
    ]
    return 100 * float(np.mean(found))


def accuracy(best: np.ndarray, truth: list[list[str]]) -> dict[str, float]:
    """Ranked labels against the truth, "" where there is none.

    Labels that the model does not know get columns of their own.
    """
    columns: dict[str, int] = {}
    numbers = [[columns.setdefault(label, len(columns)) for label in sorted(set(own))] for own in truth]
    ranked = np.array(
        [[columns.setdefault(label, len(columns)) if label else -1 for label in row] for row in best.tolist()]
    )
    indptr = np.cumsum([0, *map(len, numbers)])
    indices = np.concatenate([np.array(own, dtype=np.int64) for own in numbers])
    Y = sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), (len(truth), len(columns)))
    return {
        "p@1": 100 * precision_at(ranked, Y, 1),
        "p@5": 100 * precision_at(ranked, Y, 5),
        "f1@5": f1_at(ranked, Y, 5),
        "ndcg@20": ndcg_at(ranked, Y, 20),
    }


def about(described: dict[str, Any]) -> str:
    """The machine and the versions."""
    own, versions = described["machine"], described["machine"]["environments"]["hedgerow"]
    return (
        f"**Machine**: {own['cpu']}, {own['cores']} cores, {own['memory_bytes'] / 2**30:.0f} GiB,"
        f" {own['date']}; {described['threads']} threads; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + "."
    )


def markdown(described: dict[str, Any]) -> str:
    lines = [
        about(described),
        *table("preset, judged on dev", described.get("runs", {}), tuple(SETTINGS)),
        *table("preset with names, judged on dev", described.get("named", {}), tuple(SETTINGS)),
        *cost_of_names(described.get("named", {})),
        *table("with names and an encoder, on an H200", described.get(DEEP_KIND, {}), (DEEP_NAME,)),
        *table("read by one tree, judged on a part of train", described.get("readings", {}), tuple(READINGS)),
    ]
    return "\n".join(lines) + "\n"


def cost_of_names(found: dict[str, Any]) -> list[str]:
    """What names cost each model that was measured."""
    runs = {name: found[name]["names"] for name in SETTINGS if "names" in found.get(name, {})}
    if not runs:
        return []
    lines = ["", "| cost of names | MB of the file | CPU ms a text, p50 | p99 | without names, p50 | p99 |"]
    lines.append("|---|---|---|---|---|---|")
    for name, cost in runs.items():
        times = " | ".join(
            f"{cost[how][share]:.1f}" for how in ("with", "without") for share in ("p50", "p99")
        )
        lines.append(f"| {name} | {cost['megabytes']:.0f} | {times} |")
    return lines


def table(
    title: str,
    found: dict[str, Any],
    names: tuple[str, ...],
    figures: tuple[tuple[str, str, str], ...] = COLUMNS,
) -> list[str]:
    """One row for each that was measured."""
    if not found:
        return []
    columns = [column for column in figures if all(column[1] in run for run in found.values())]
    lines = ["", f"| {title} | " + " | ".join(head for head, *_ in columns) + " |"]
    lines.append("|" + "---|" * (len(columns) + 1))
    for name in names:
        if name in found:
            cells = (format(found[name][key], style) for _, key, style in columns)
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    main()
