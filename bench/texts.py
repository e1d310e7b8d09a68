"""Presets on texts as their users have them: `python -m bench.texts`.

Descriptions of Debian packages, with their dependencies (35,437, most of them rare) or their tags (598) as
labels: trained and judged by source package, with nothing chosen but a preset, with and without its judge.
Labels that never occur in training count. Writes `results/texts.json` and `results/texts.md`, which
docs/results/records.md shows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets, machine, measure, records
from bench.plan import PYTHONS, RESULTS
from hedgerow import HedgerowTextClassifier, preset_parameters
from hedgerow.evaluation import reliability

FIELDS = {"debian-depends": "depends", "debian-tags": "tags"}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "paper": ("paper", {}),
    "fast": ("fast", {}),
    "balanced": ("balanced", {}),
    "balanced, without judge": ("balanced", {"judge": False, "wide": None}),
    "best": ("best", {}),
}
COLUMNS = (
    ("CPU s", "fit_cpu_seconds", ".0f"),
    ("model MB", "model_megabytes", ".0f"),
    ("P@1", "p@1", ".1f"),
    ("P@5", "p@5", ".1f"),
    ("nDCG@20", "ndcg@20", ".4f"),
    ("ECE@5, %", "ece@5", ".1f"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", choices=tuple(FIELDS), default=list(FIELDS))
    parser.add_argument("--presets", nargs="+", choices=tuple(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    stored = RESULTS / "texts.json"
    found = json.loads(stored.read_text()) if stored.exists() else {"runs": {}}
    for dataset in arguments.datasets:
        train, test = read(arguments.data, FIELDS[dataset])
        for name in arguments.presets:
            result = measured(*SETTINGS[name], train, test, arguments.seed)
            found["runs"].setdefault(dataset, {})[name] = result
            print(dataset, name, json.dumps(result), flush=True)
    found |= {"machine": machine.describe(PYTHONS), "threads": measure.THREADS}
    stored.write_text(json.dumps(found, indent=1) + "\n")
    stored.with_suffix(".md").write_text(markdown(found))


def read(source: Path, field: str) -> tuple[list[tuple[str, list[str]]], ...]:
    """Texts with labels, of the training and of the test part."""
    labelled = [one for one in datasets.records(source / "debian/packages.jsonl.xz") if one.get(field)]
    return tuple(
        [(one["text"], one[field]) for one in labelled if one["split"] == split]
        for split in ("train", "test")
    )


def measured(
    preset: str,
    own: dict[str, Any],
    train: list[tuple[str, list[str]]],
    test: list[tuple[str, list[str]]],
    seed: int,
) -> dict[str, Any]:
    """Fit, save and predict, all in this process."""
    texts, labels = map(list, zip(*train, strict=True))
    start = time.process_time()
    settings = preset_parameters(preset, texts, labels) | own
    model = HedgerowTextClassifier(n_jobs=measure.THREADS, random_state=seed, **settings).fit(texts, labels)
    seconds = time.process_time() - start
    measure.WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=measure.WORK) as work:
        path = Path(work) / "model"
        model.save(path)
        size = path.stat().st_size
    texts, truth = map(list, zip(*test, strict=True))
    best = model.top(texts, k=20)
    five = zip(best.labels[:, :5].tolist(), truth, strict=True)
    right = np.array([[label in own for label in row] for row, own in five])
    return {
        "fit_cpu_seconds": seconds,
        "model_megabytes": size / 1e6,
        "settings": settings,
        **records.accuracy(best.labels, truth),
        "ece@5": 100 * reliability(best.probability[:, :5], right).ece,
    }


def markdown(described: dict[str, Any]) -> str:
    lines = [records.about(described)]
    for dataset, runs in described["runs"].items():
        lines += records.table(dataset, runs, tuple(SETTINGS), COLUMNS)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
