"""Updates beside full fits: `python -m bench.updates`.

On library records with title and abstract (tibkat) and on descriptions of packages (debian-depends), by the
preset "balanced": a model of 99 % of the training records that learns the rest, from loading it to saving it;
one of a half that learns the other half in ten updates; and labels that no record had before, of which an
update brings one example or five. Full fits to the same records stand beside them; labels that never occur in
training count. Which records come later is drawn. Writes `results/updates.json` and `results/updates.md`,
which docs/results/updates.md shows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from bench import datasets, machine, measure, records, texts
from bench.plan import PYTHONS, RESULTS
from hedgerow import HedgerowTextClassifier, load, preset_parameters

LATE, STEPS = 0.01, 10
# Labels that are new in an update: so many, and how often they occur in the training and the test part.
NEW, OCCUR = 300, (6, 60)
EXAMPLES = (1, 5)
PARTS = ("late", "steps", "new")
Records = list[tuple[Any, list[str]]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", choices=("tibkat", "debian-depends"), default=None)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    stored = RESULTS / "updates.json"
    found = json.loads(stored.read_text()) if stored.exists() else {"runs": {}}
    for dataset in arguments.datasets or ("tibkat", "debian-depends"):
        train, test, fields = read(arguments.data, dataset)
        order = np.random.default_rng(arguments.seed).permutation(len(train))
        train = [train[place] for place in order.tolist()]
        bench = Bench(test, fields, arguments.seed)
        for part in arguments.parts:
            result = {"late": bench.late, "steps": bench.steps, "new": bench.new}[part](train)
            found["runs"].setdefault(dataset, {})[part] = result
            print(dataset, part, json.dumps(result), flush=True)
            described = found | {"machine": machine.describe(PYTHONS), "threads": measure.THREADS}
            stored.write_text(json.dumps(described, indent=1) + "\n")
            stored.with_suffix(".md").write_text(markdown(described))


def read(source: Path, dataset: str) -> tuple[Records, Records, Any]:
    """The training and the test part, and the fields of a record."""
    if dataset == "debian-depends":
        return *texts.read(source, texts.FIELDS[dataset]), None
    parts = [[(one, one["labels"]) for one in part] for part in records.read(source)]
    return parts[0], parts[1], records.FIELDS


class Bench:
    """Fits and updates that are judged on the same test records."""

    def __init__(self, test: Records, fields: Any, seed: int) -> None:
        self.inputs, self.truth = map(list, zip(*test, strict=True))
        self.fields, self.seed = fields, seed

    def late(self, train: Records) -> dict[str, Any]:
        """The last records come in one update."""
        cut = len(train) - round(LATE * len(train))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            self.fit(train[:cut], path, keep=True)
            updated = self.judged(*self.update(train[cut:], path))
            whole = self.judged(*self.fit(train, path))
        return {"update": updated, "fit": whole}

    def steps(self, train: Records) -> dict[str, Any]:
        """A half of the records comes in ten updates."""
        cuts = np.linspace(len(train) // 2, len(train), STEPS + 1).astype(int).tolist()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            self.fit(train[: cuts[0]], path, keep=True)
            seconds, again = 0.0, 0
            for begin, end in pairwise(cuts):
                model, about = self.update(train[begin:end], path)
                seconds += about["cpu_seconds"]
                again += about["fitted again"]
            size = {"megabytes": path.stat().st_size / 1e6}
            updated = self.judged(model, {"cpu_seconds": seconds, "fitted again": again} | size)
            whole = self.judged(*self.fit(train, path))
        return {"update": updated, "fit": whole}

    def new(self, train: Records) -> dict[str, Any]:
        """Labels are new in an update: how often the best five of test records have them."""
        counts: dict[str, int] = {}
        for _, labels in train:
            for label in labels:
                counts[label] = counts.get(label, 0) + 1
        tested = {label for labels in self.truth for label in labels}
        often = sorted(label for label, n in counts.items() if OCCUR[0] <= n <= OCCUR[1] and label in tested)
        chosen = set(np.random.default_rng(self.seed).permutation(often)[:NEW].tolist())
        result = {}
        for examples in EXAMPLES:
            left = dict.fromkeys(chosen, examples)
            base, late = [], []
            for record, labels in train:
                own = [label for label in labels if label in chosen and left[label] > 0]
                for label in own:
                    left[label] -= 1
                kept = [label for label in labels if label not in chosen or label in own]
                (late if own else base).append((record, kept))
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model"
                self.fit(base, path, keep=True)
                model, about = self.update(late, path)
                whole, _ = self.fit(base + late, path)
            result[str(examples)] = {
                "update": self.found(model, chosen),
                "fit": self.found(whole, chosen),
                "fitted again": about["fitted again"],
            }
        return result

    def fit(self, train: Records, path: Path, keep: bool = False) -> tuple[Any, dict[str, Any]]:
        start = time.process_time()
        inputs, labels = map(list, zip(*train, strict=True))
        settings = preset_parameters("balanced", inputs, labels, fields=self.fields)
        if self.fields is not None:
            settings = {"fields": self.fields} | settings
        model = HedgerowTextClassifier(n_jobs=measure.THREADS, random_state=self.seed, **settings)
        model.fit(inputs, labels, keep_records=keep)
        model.save(path, overwrite=True)
        seconds = time.process_time() - start
        return model, {"cpu_seconds": seconds, "megabytes": path.stat().st_size / 1e6}

    def update(self, late: Records, path: Path) -> tuple[Any, dict[str, Any]]:
        start = time.process_time()
        inputs, labels = map(list, zip(*late, strict=True))
        model = load(path)
        model.set_params(n_jobs=measure.THREADS)
        report = model.update(inputs, labels, at="2026")
        model.save(path, overwrite=True)
        seconds = time.process_time() - start
        again = int(report.refitted is not None)
        size = path.stat().st_size / 1e6
        return model, {"cpu_seconds": seconds, "megabytes": size, "fitted again": again}

    def judged(self, model: Any, about: dict[str, Any]) -> dict[str, Any]:
        best = model.predict_uncertain(self.inputs, k=20)
        five = zip(best.labels[:, :5].tolist(), self.truth, strict=True)
        wrong = np.array([[label not in own for label in row] for row, own in five])
        auroc = 100 * roc_auc_score(wrong.ravel(), -best.probability[:, :5].ravel())
        return about | records.accuracy(best.labels, self.truth) | {"auroc": auroc}

    def found(self, model: Any, labels: set[str]) -> float:
        """The share of the occurrences of some labels that are among the best five, in %."""
        wanted = [place for place, own in enumerate(self.truth) if labels & set(own)]
        best = model.top([self.inputs[place] for place in wanted], k=5).labels.tolist()
        hits = [
            label in row
            for row, place in zip(best, wanted, strict=True)
            for label in self.truth[place]
            if label in labels
        ]
        return 100 * float(np.mean(hits))


def markdown(described: dict[str, Any]) -> str:
    lines = [records.about(described)]
    columns = ("CPU s", "MB", "P@1", "P@5", "nDCG@20", "AUROC")
    for dataset, parts in described["runs"].items():
        lines += ["", f"**{dataset}**", "", f"| | {' | '.join(columns)} |", "|---" * 7 + "|"]
        for part, what in (("late", "1 % in an update"), ("steps", "a half in ten updates")):
            if part not in parts:
                continue
            if again := parts[part]["update"]["fitted again"]:
                what += f", {again} of them full fits"
            for kind, name in (("update", what), ("fit", "full fit to the same")):
                one = parts[part][kind]
                cells = (f"{one['cpu_seconds']:.1f}", f"{one['megabytes']:.0f}", f"{one['p@1']:.2f}")
                cells += (f"{one['p@5']:.2f}", f"{one['ndcg@20']:.4f}", f"{one['auroc']:.2f}")
                lines.append(f"| {name} | {' | '.join(cells)} |")
        lines.append("")
        if "new" in parts:
            lines += [
                "| new labels, among the best five where they are right, % | update | full fit |",
                "|---|---|---|",
            ]
            for examples, one in parts["new"].items():
                lines.append(
                    f"| examples in the update: {examples} | {one['update']:.1f} | {one['fit']:.1f} |"
                )
            lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
