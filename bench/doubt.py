"""What calibration leaves of the members' disagreement: `python -m bench.doubt`.

Ten bagged members of a preset; calibrated with one half of the test inputs, measured on the other, before and
after: the share of knowledge in the total uncertainty, how well uncertainty finds wrong labels, and ECE@5.
Beside it the linear move to the same mean, which model files of earlier versions have. Fitted models are kept
in the cache; writes `results/doubt.json` and `results/doubt.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets, machine, measure
from hedgerow import HedgerowClassifier, preset_parameters
from hedgerow.evaluation import reliability
from hedgerow.votes.truth import Assessment, assess

RESULTS = Path(__file__).parent / "results"
NAMES = ("eurlex-4k", "tibkat-en", "debian-depends", "debian-tags")
PRESETS = ("paper", "balanced")
MEMBERS = 10
BEST = 5
BATCH = 50
MEASURES = ("knowledge", "variance", "total")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--datasets", nargs="+", choices=NAMES, default=["eurlex-4k", "tibkat-en", "debian-tags"]
    )
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=list(PRESETS))
    parser.add_argument("--rows", type=int, default=6000, help="test inputs at most (default: %(default)s)")
    arguments = parser.parse_args()
    path = RESULTS / "doubt.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    found["machine"] = machine.describe({"hedgerow": Path(sys.executable)})
    for name in arguments.datasets:
        for preset in arguments.presets:
            result = measured(name, preset, arguments.rows)
            found.setdefault("models", {}).setdefault(name, {})[preset] = result
            path.write_text(json.dumps(found, indent=1) + "\n")
            (RESULTS / "doubt.md").write_text(markdown(found))
            print(name, preset, json.dumps(result), flush=True)


def fitted(name: str, preset: str) -> HedgerowClassifier:
    path = datasets.CACHE / "calibration" / f"{name}.bagging.{preset}.hedgerow"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        train = datasets.load(datasets.prepare(name), "trn")
        chosen = preset_parameters(preset, train.X, train.Y, method="bagging", members=MEMBERS)
        model = HedgerowClassifier(method="bagging", members=MEMBERS, random_state=0, **chosen)
        model.set_params(n_jobs=measure.THREADS).fit(train.X, train.Y).save(path)
    model: HedgerowClassifier = HedgerowClassifier.load(path)
    model.set_params(n_jobs=measure.THREADS)
    return model


def measured(name: str, preset: str, most: int) -> dict[str, Any]:
    """Figures before calibration, with the linear move, and with that in log-odds."""
    model = fitted(name, preset)
    test = datasets.load(datasets.prepare(name), "tst")
    rows = np.random.default_rng(0).permutation(test.X.shape[0])[:most]
    ours, others = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    calibration = model.calibrate(test.X[ours], test.Y[ours]).calibration_
    ways = {"none": None, "linear": replace(calibration, moves="linear"), "log-odds": calibration}
    parts: dict[str, list[Assessment]] = {way: [] for way in ways}
    seconds = dict.fromkeys(("predicting", *ways), 0.0)
    plain = model.uncalibrated()
    for begin in range(0, len(others), BATCH):
        batch = others[begin : begin + BATCH]
        start = time.process_time()
        votes = plain.predict_votes(test.X[batch])
        seconds["predicting"] += time.process_time() - start
        for way, how in ways.items():
            start = time.process_time()
            moved = votes if how is None else how.apply(votes, n_jobs=measure.THREADS)
            seconds[way] += time.process_time() - start
            parts[way].append(assess(moved, test.Y[batch], k=BEST, n_jobs=measure.THREADS))
    result = {way: figures(Assessment.concatenate(own)) for way, own in parts.items()}
    cost = {way: seconds[way] / seconds["predicting"] for way in ("linear", "log-odds")}
    return {
        "inputs": len(others),
        "judge": model.describe()["judge"] is not None,
        "cost": cost,
        "ways": result,
    }


def figures(of: Assessment) -> dict[str, Any]:
    shown = of.labels >= 0
    return {
        "labels": float(of.best.knowledge.sum() / of.best.total.sum()),
        "inputs": float(of.inputs.knowledge.sum() / of.inputs.total.sum()),
        "auroc": {name: of.mean_auroc()[name] for name in MEASURES},
        "ece": reliability(of.best.probability[shown], of.right()[shown]).ece,
    }


def markdown(found: dict[str, Any]) -> str:
    """The page `results/doubt.md`."""
    lines = [
        "# What calibration leaves of disagreement",
        "",
        "Ten bagged members of a preset (`balanced` has a judge), calibrated with one half of the test inputs"
        " and measured on the other. Knowledge: its share of the total uncertainty, of the best five labels"
        " (labels) and of all candidates (inputs), sums over sums. AUROC: how well uncertainty finds wrong"
        " labels, over all labels of an input. Time: what the move takes beside predicting the votes,"
        " processor time. Percent.",
        "",
        "| data, preset | members move | knowledge: labels | inputs | AUROC: knowledge | variance | total"
        " | ECE@5 | time |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, presets in found.get("models", {}).items():
        for preset, of in presets.items():
            for way, one in of["ways"].items():
                title = f"{name}, {preset}, {of['inputs']:,} inputs" if way == "none" else ""
                cells = [
                    *(f"{100 * one[part]:.1f}" for part in ("labels", "inputs")),
                    *(f"{100 * one['auroc'][part]:.2f}" for part in MEASURES),
                    f"{100 * one['ece']:.2f}",
                    f"{100 * of['cost'][way]:.1f}" if way in of["cost"] else "",
                ]
                how = "not calibrated" if way == "none" else way
                lines.append(f"| {title} | {how} | " + " | ".join(cells) + " |")
    lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
