"""The expected quality of answers beside Qualle's on the same rows: `python -m bench.quality`.

For each data set: ten bagged members, fitted to its training texts (those of bench.ood). Of the test texts,
at random: some are held out for `learn_from_held_out`, which calibrates with one half of them and learns the
expected quality from the other; the rest are judged. Qualle learns from all that are held out, with the best
five labels that the model gives and their probabilities before calibration. What is predicted is recall@5 of
the labels that the model knows; inputs without any are left out on both sides. Writes `results/quality.json`
and `results/quality.md`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets, machine, measure
from bench.ood import MODELS, fitted, read
from bench.plan import PYTHONS, RAW, RESULTS, ROOT, store
from hedgerow import HedgerowTextClassifier, learn_from_held_out

QUALLE = ROOT / ".venv-qualle/bin/python"
HELD_OUT, JUDGED = 4000, 4000  # rows at most
CUTS = 5  # of the test texts; Qualle takes part in the first
K = 5
CONFIDENCE = 0.9
OURS = "Hedgerow"
COLUMNS = (
    ("MAE", "mae", ".4f"),
    ("RMSE", "rmse", ".4f"),
    ("correlation", "correlation", ".3f"),
    ("area under risk-coverage", "aurc", ".4f"),
    ("recall of the best half", "best_half", ".3f"),
    ("CPU s", "cpu_seconds", ".1f"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", choices=tuple(MODELS), default=list(MODELS))
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    parser.add_argument("--cuts", type=int, nargs="+", default=list(range(CUTS)), help="only these now")
    parser.add_argument("--fresh", action="store_true", help="forget the stored measurements")
    arguments = parser.parse_args()
    path = RESULTS / "quality.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    found["machine"] = machine.describe(PYTHONS | {"qualle": QUALLE})
    for name in arguments.datasets:
        missing = [seed for seed in arguments.cuts if arguments.fresh or not stored(name, seed).exists()]
        if missing:
            run(name, missing, arguments.data, arguments.cache)
        if all(stored(name, seed).exists() for seed in range(CUTS)):
            found.setdefault("datasets", {})[name] = summary(name)
            path.write_text(json.dumps(found, indent=1) + "\n")
            (RESULTS / "quality.md").write_text(markdown(found["datasets"]))


def stored(name: str, seed: int) -> Path:
    """Where the figures of a cut are kept."""
    return RAW / f"{name.replace(' ', '-')}.quality.{seed}.json"


def run(name: str, seeds: list[int], data: Path, cache: Path) -> None:
    """Measure some cuts of a data set, and store the figures of each."""
    file, field, _ = MODELS[name]
    records = [record for record in read(data / file) if record.get(field)]
    train = [record for record in records if record["split"] == "train"]
    test = [record for record in records if record["split"] == "test"]
    model = fitted(train, field, cache / "ood" / f"{name.replace(' ', '-')}.hedgerow")
    model.set_params(n_jobs=measure.THREADS)
    for seed in seeds:
        result = cut(model, test, field, seed)
        store(stored(name, seed), result)
        print(name, seed, json.dumps(result), flush=True)


def summary(name: str) -> dict[str, Any]:
    """The first cut, and the means of all about intervals."""
    runs = [json.loads(stored(name, seed).read_text()) for seed in range(CUTS)]
    first = runs[0]
    intervals = {
        kind: {
            part: float(np.mean([one["intervals"][kind][part] for one in runs]))
            for part in ("within", "width")
        }
        for kind in ("precision", "recall")
    }
    return {
        **{part: first[part] for part in ("held_out", "judged", "mean_precision", "mean_recall")},
        "predicts": first["predicts"],
        "precision": first["precision"],
        "intervals": intervals,
    }


def cut(model: HedgerowTextClassifier, test: list[dict[str, Any]], field: str, seed: int) -> dict[str, Any]:
    """One random cut into what is held out and what is judged; Qualle takes part in the first."""
    order = np.random.default_rng(seed).permutation(len(test))
    size = min(HELD_OUT, len(order) // 2)
    held = [test[i] for i in order[:size]]
    judged = [test[i] for i in order[size:][:JUDGED]]
    plain = model.uncalibrated()
    texts = [record["text"] for record in held]
    learn_from_held_out(plain, texts, [record[field] for record in held], seed=seed)
    new = [record["text"] for record in judged]
    start = time.process_time()
    expected = plain.expected_quality(new, confidence=CONFIDENCE)
    seconds = time.process_time() - start
    counts = plain.label_counts_
    known = {label for label, count in zip(plain.classes_.tolist(), counts.tolist(), strict=True) if count}
    best = plain.top(new, K)
    precision, recall = shares(best.labels.tolist(), judged, field, known)
    has = np.isfinite(recall)
    result: dict[str, Any] = {
        "held_out": size,
        "judged": int(has.sum()),
        "mean_precision": float(precision.mean()),
        "mean_recall": float(recall[has].mean()),
        "intervals": {
            kind: within(vars(expected), kind, truth)
            for kind, truth in (("precision", precision), ("recall", recall))
        },
    }
    if seed:
        return result
    whole = plain.predict_uncertain(new, K)
    predicted = {
        OURS: (expected.recall, seconds),
        "mean probability of the best five": (whole.probability.mean(axis=1), None),
        "sum of the best five over expected labels": (
            np.minimum(1, whole.probability.sum(axis=1) / np.maximum(whole.instance.expected, 1)),
            None,
        ),
        **peer(model.uncalibrated(), held, judged, field, known),
    }
    result["predicts"] = {
        name: judge(values[has], recall[has]) | ({} if seconds is None else {"cpu_seconds": seconds})
        for name, (values, seconds) in predicted.items()
    }
    random = np.random.default_rng(0).random(int(has.sum()))
    result["predicts"]["at random"] = {"aurc": area(random, recall[has])}
    result["predicts"]["the true recall"] = {"aurc": area(recall[has], recall[has])}
    result["precision"] = {
        OURS: judge(expected.precision, precision),
        "mean probability of the best five": judge(whole.probability.mean(axis=1), precision),
    }
    return result


def shares(
    best: list[list[Any]], records: list[dict[str, Any]], field: str, known: set[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Precision and recall of the best labels; recall is NaN where the model knows no true label."""
    precision, recall = [], []
    for given, record in zip(best, records, strict=True):
        true = set(record[field]) & known
        hits = len(true & set(given))
        precision.append(hits / len(given))
        recall.append(hits / len(true) if true else np.nan)
    return np.array(precision), np.array(recall)


def peer(
    model: HedgerowTextClassifier,
    held: list[dict[str, Any]],
    judged: list[dict[str, Any]],
    field: str,
    known: set[Any],
) -> dict[str, tuple[np.ndarray, float]]:
    """The recall that Qualle predicts, and its CPU seconds; it learns from inputs with a known label."""
    train = [record for record in held if known & set(record[field])]
    parts = {}
    for part, records in (("train", train), ("test", judged)):
        texts = [record["text"] for record in records]
        best = model.top(texts, K)
        parts[part] = {
            "texts": texts,
            "labels": [[str(label) for label in of] for of in best.labels.tolist()],
            "scores": best.probability.astype(float).tolist(),
            "true": [sorted(str(label) for label in known & set(record[field])) for record in records],
        }
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.json", Path(folder) / "out.json"
        source.write_text(json.dumps(parts))
        subprocess.run(
            [str(QUALLE), str(ROOT / "bench/run_qualle.py"), str(source), str(target)], cwd=ROOT, check=True
        )
        found = json.loads(target.read_text())
    return {name: (np.array(of["recall"]), of["cpu_seconds"]) for name, of in found.items()}


def judge(predicted: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """How far predictions are off, and how well they choose whom to send to people."""
    off = predicted - truth
    best = np.argsort(-predicted, kind="stable")[: len(truth) // 2]
    return {
        "mae": float(np.abs(off).mean()),
        "rmse": float(np.sqrt((off**2).mean())),
        "correlation": float(np.corrcoef(predicted, truth)[0, 1]),
        "aurc": area(predicted, truth),
        "best_half": float(truth[best].mean()),
    }


def area(predicted: np.ndarray, truth: np.ndarray) -> float:
    """Mean loss (1 - truth) of the inputs that are answered, over all numbers of answered inputs."""
    order = np.argsort(-predicted, kind="stable")
    losses = np.cumsum(1 - truth[order]) / np.arange(1, len(order) + 1)
    return float(losses.mean())


def within(expected: dict[str, np.ndarray], kind: str, truth: np.ndarray) -> dict[str, float]:
    has = np.isfinite(truth)
    low, high = expected[f"{kind}_low"][has], expected[f"{kind}_high"][has]
    inside = (truth[has] >= low) & (truth[has] <= high)
    return {"within": float(inside.mean()), "width": float((high - low).mean())}


def markdown(found: dict[str, Any]) -> str:
    """The tables that docs/results/quality.md shows."""
    lines = []
    for name, of in found.items():
        lines += [
            f"**{name}**: {of['held_out']:,} test rows held out, {of['judged']:,} others judged; mean"
            f" recall@5 {of['mean_recall']:.3f}, precision@5 {of['mean_precision']:.3f}.",
            "",
            "| recall predicted by | " + " | ".join(title for title, _, _ in COLUMNS) + " |",
            "|---" * (1 + len(COLUMNS)) + "|",
        ]
        for who, figures in of["predicts"].items():
            cells = [format(figures[key], form) if key in figures else "" for _, key, form in COLUMNS]
            lines.append(f"| {who} | " + " | ".join(cells) + " |")
        lines += [
            "",
            "| | MAE | RMSE | within the interval of 90 %, mean of five cuts | its width |",
            "|---|---|---|---|---|",
        ]
        ours = {"recall@5": of["predicts"][OURS], "precision@5": of["precision"][OURS]}
        for kind, figures in ours.items():
            interval = of["intervals"][kind.partition("@")[0]]
            lines.append(
                f"| {kind} | {figures['mae']:.4f} | {figures['rmse']:.4f} |"
                f" {100 * interval['within']:.1f} % | {interval['width']:.2f} |"
            )
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
