"""Records with title and abstract, as their users have them: `python -m bench.records --presets balanced`.

Hedgerow under its presets, with nothing chosen but the names of the texts, on the official parts of tibkat:
trained on `train`, judged on `dev`, labels that never occur in training included. Figures are means over
records. Writes `results/records.json` and `results/records.md`, which docs/results/records.md shows.
"""

from __future__ import annotations

import argparse
import json
import lzma
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench import datasets, machine, measure
from bench.frontier import f1_at
from bench.plan import PYTHONS, RESULTS
from hedgerow import HedgerowTextClassifier, preset_parameters
from hedgerow.evaluation import ndcg_at, precision_at

FIELDS = ("title", "title+abstract")
TEN: dict[str, Any] = {"method": "bagging", "members": 10}
SETTINGS: dict[str, dict[str, Any]] = {
    "fast": {},
    "balanced": {},
    "best": {},
    "balanced, ten bagged": TEN,
}
COLUMNS = (
    ("CPU s", "fit_cpu_seconds", ".0f"),
    ("model MB", "model_megabytes", ".0f"),
    ("P@1", "p@1", ".1f"),
    ("F1@5", "f1@5", ".4f"),
    ("nDCG@20", "ndcg@20", ".4f"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--presets", nargs="+", choices=tuple(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    stored = RESULTS / "records.json"
    found = json.loads(stored.read_text())["runs"] if stored.exists() else {}
    train, test = read(arguments.data)
    for name in arguments.presets:
        found[name] = measured(name, train, test, arguments.seed)
        print(name, json.dumps(found[name]), flush=True)
    described = {"machine": machine.describe(PYTHONS), "threads": measure.THREADS, "runs": found}
    stored.write_text(json.dumps(described, indent=1) + "\n")
    (RESULTS / "records.md").write_text(markdown(described))


def read(source: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    with lzma.open(source / "tibkat/records.jsonl.xz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    parts = ([one for one in records if one["split"] == split] for split in ("train", "test"))
    return next(parts), next(parts)


def measured(name: str, train: list[dict[str, Any]], test: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """Fit, save and predict, all in this process."""
    own, labels = SETTINGS[name], [record["labels"] for record in train]
    start = time.process_time()
    chosen = preset_parameters(name.split(",")[0], train, labels, fields=FIELDS, **own)
    model = HedgerowTextClassifier(
        n_jobs=measure.THREADS, random_state=seed, **{"fields": FIELDS} | own | chosen
    )
    model.fit(train, labels)
    seconds = time.process_time() - start
    measure.WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=measure.WORK) as work:
        path = Path(work) / "model"
        model.save(path)
        size = path.stat().st_size
    best = model.top(test, k=20).labels
    return {
        "fit_cpu_seconds": seconds,
        "model_megabytes": size / 1e6,
        "chosen": chosen,
        **accuracy(best, [record["labels"] for record in test]),
    }


def accuracy(best: np.ndarray, truth: list[list[str]]) -> dict[str, float]:
    """Ranked labels against the truth; labels that the model does not know get columns of their own."""
    columns: dict[str, int] = {}
    numbers = [[columns.setdefault(label, len(columns)) for label in sorted(set(own))] for own in truth]
    ranked = np.array([[columns.setdefault(label, len(columns)) for label in row] for row in best.tolist()])
    indptr = np.cumsum([0, *map(len, numbers)])
    indices = np.concatenate([np.array(own, dtype=np.int64) for own in numbers])
    Y = sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), (len(truth), len(columns)))
    return {
        "p@1": 100 * precision_at(ranked, Y, 1),
        "f1@5": f1_at(ranked, Y, 5),
        "ndcg@20": ndcg_at(ranked, Y, 20),
    }


def markdown(described: dict[str, Any]) -> str:
    about, versions = described["machine"], described["machine"]["environments"]["hedgerow"]
    lines = [
        f"**Machine**: {about['cpu']}, {about['cores']} cores, {about['memory_bytes'] / 2**30:.0f} GiB,"
        f" {about['date']}; {described['threads']} threads; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + ".",
        "",
        "| preset | " + " | ".join(title for title, *_ in COLUMNS) + " |",
        "|" + "---|" * (len(COLUMNS) + 1),
    ]
    for name in SETTINGS:
        if name in described["runs"]:
            run = described["runs"][name]
            cells = (format(run[key], style) for _, key, style in COLUMNS)
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
