"""Labels chosen for all inputs together beside the most probable ones: `python -m bench.macro`.

For each data set: ten bagged members, fitted to its training texts (those of bench.ood). One random half of
the test texts calibrates them; the five labels of each text of the other half are chosen by
`decide(optimise=...)`, or are the five most probable. Macro measures are means over all labels that the model
knows, 0 where nothing is right. Writes `results/macro.json` and `results/macro.md`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets, machine, measure
from bench.ood import MODELS, fitted, read
from bench.plan import PYTHONS, RESULTS
from hedgerow.decisions.macro import MEASURES
from hedgerow.inputs.labels import truth_for

K = 5
PLAIN = "the most probable"
COLUMNS = ("macro-f1@5", "macro-precision@5", "macro-recall@5", "P@5", "labels given to anybody", "CPU s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", choices=tuple(MODELS), default=list(MODELS))
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    arguments = parser.parse_args()
    path = RESULTS / "macro.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    found["machine"] = machine.describe(PYTHONS)
    for name in arguments.datasets:
        found.setdefault("datasets", {})[name] = run(name, arguments.data, arguments.cache)
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(name, json.dumps(found["datasets"][name]), flush=True)
    (RESULTS / "macro.md").write_text(markdown(found["datasets"]))


def run(name: str, data: Path, cache: Path) -> dict[str, Any]:
    """Figures of each way to choose."""
    file, field, _ = MODELS[name]
    records = [record for record in read(data / file) if record.get(field)]
    train = [record for record in records if record["split"] == "train"]
    test = [record for record in records if record["split"] == "test"]
    model = fitted(train, field, cache / "ood" / f"{name.replace(' ', '-')}.hedgerow")
    model.set_params(n_jobs=measure.THREADS)
    order = np.random.default_rng(0).permutation(len(test))
    first, second = ([test[i] for i in half] for half in (order[::2], order[1::2]))
    model.calibrate([record["text"] for record in first], [record[field] for record in first])
    texts = [record["text"] for record in second]
    known = model.label_counts_ > 0
    truth = truth_for([record[field] for record in second], model.classes_)
    result: dict[str, Any] = {"inputs": len(texts), "labels": int(known.sum()), "chosen": {}}
    for way in (PLAIN, *(f"{of}@{K}" for of in MEASURES)):
        start = time.process_time()
        if way == PLAIN:
            column = {label: place for place, label in enumerate(model.classes_.tolist())}
            best = model.top(texts, K).labels
            columns = np.array([[column[label] for label in row] for row in best.tolist()])
            said = None
        else:
            decided = model.decide(texts, optimise=way)
            columns = decided.columns[decided.decision == 2].reshape(len(texts), K)
            said = decided.guarantee
        seconds = time.process_time() - start
        result["chosen"][way] = figures(columns, truth, known) | {"CPU s": seconds, "said": said}
    return result


def figures(columns: np.ndarray, truth: Any, known: np.ndarray) -> dict[str, float]:
    """Macro measures over known labels, and precision."""
    width = truth.shape[1]
    rows = np.arange(len(columns))[:, None]
    wanted = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr)) * np.int64(width) + truth.indices
    right = np.isin(rows * np.int64(width) + columns, wanted)
    true = np.bincount(columns[right], minlength=width)[: len(known)][known]
    given = np.bincount(columns.ravel(), minlength=width)[: len(known)][known]
    have = np.bincount(truth.indices, minlength=width)[: len(known)][known]
    return {
        "macro-f1@5": float((2 * true / np.maximum(1, given + have)).mean()),
        "macro-precision@5": float((true / np.maximum(1, given)).mean()),
        "macro-recall@5": float((true / np.maximum(1, have)).mean()),
        "P@5": float(right.mean()),
        "labels given to anybody": int((given > 0).sum()),
    }


def markdown(found: dict[str, Any]) -> str:
    """The tables that docs/results/macro.md shows."""
    lines = []
    for name, of in found.items():
        lines += [
            f"**{name}**: {of['inputs']:,} texts, {of['labels']:,} labels that the model knows; percent.",
            "",
            "| five labels of each text | " + " | ".join(COLUMNS) + " |",
            "|---" * (1 + len(COLUMNS)) + "|",
        ]
        for way, figures_of in of["chosen"].items():
            cells = [f"{100 * figures_of[column]:.2f}" for column in COLUMNS[:4]]
            cells += [f"{figures_of[COLUMNS[4]]:,}", f"{figures_of['CPU s']:.1f}"]
            lines.append(f"| {way} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
