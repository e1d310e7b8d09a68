"""Ensembles and uncertainty beside one model of PECOS: `python -m bench.ensembles`.

For each data set: ten bagged members with a tree of their own at the default weight threshold; how well doubt
finds wrong labels (AUROC) with a search through all labels and at several beams; and what the smallest beam
costs that is within 0.1 of the exact AUROC. PECOS's figures are those of `python -m bench`. On eurlex-4k
also: the other methods over several seeds, alpha, dropout and the unpruned ensemble. Finished parts are kept
under `results/raw`; writes `results/ensembles.json` and `results/ensembles.md`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets, machine, measure
from bench.plan import PYTHONS, RAW, RESULTS, Run, store
from hedgerow import HedgerowClassifier
from hedgerow.votes.truth import SCORES, assess

NAMES = ("eurlex-4k", "tibkat-en", "debian-depends")
MEMBERS = 10
BEAMS = (3, 5, 7, 10, 12, 15, 20, 30, 50)
MEASURES = ("variance", "total", "knowledge")
AUROC_ROWS = 1000  # of the test set, evenly spread, and fewer where there are many labels
BLOCK = 50
SEEDS = 2
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
METHODS = ("single", "mc-dropout", "bagging", "boosting", "boosted-bagging")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    parser.add_argument(
        "--fresh", action="store_true", help="forget the stored measurements of the chosen parts"
    )
    arguments = parser.parse_args()
    for part in arguments.parts:
        work, names = PARTS[part]
        for name in names:
            if name not in arguments.datasets:
                continue
            stored = RAW / f"{name}.ensembles.{part}.json"
            if arguments.fresh or not stored.exists():
                folder = datasets.prepare(name, arguments.data, arguments.cache)
                train, test = datasets.load(folder, "trn"), datasets.load(folder, "tst")
                result = work(train, test)
                store(stored, result)
            print(f"{name} {part}: {stored.read_text()[:200]!r}", flush=True)
    collected = {
        part: {
            name: json.loads(path.read_text())
            for name in names
            if (path := RAW / f"{name}.ensembles.{part}.json").exists()
        }
        for part, (_, names) in PARTS.items()
    }
    described = machine.describe(PYTHONS)
    (RESULTS / "ensembles.json").write_text(json.dumps({"machine": described} | collected, indent=1) + "\n")
    (RESULTS / "ensembles.md").write_text(markdown(collected))


def bagged(train: Any, **settings: Any) -> HedgerowClassifier:
    model = HedgerowClassifier(method="bagging", members=MEMBERS, random_state=0, n_jobs=measure.THREADS)
    return model.set_params(**settings).fit(train.X, train.Y)


def cost(train: Any, test: Any) -> dict[str, Any]:
    """Fit, size, AUROC by beam, and time of the smallest beam that is good enough."""
    start = time.perf_counter()
    model = bagged(train)
    result: dict[str, Any] = {"fit_seconds": time.perf_counter() - start, "disk_bytes": disk_bytes(model)}
    rows = min(AUROC_ROWS, 4_000_000 // test.Y.shape[1])
    sample = np.linspace(0, test.X.shape[0] - 1, rows).astype(int)
    X, Y = test.X[sample], test.Y[sample]
    model.set_params(candidates="all")
    result["exact"] = {"auroc": aurocs(model, X, Y), "batch": seconds_a_row(model, X)}
    model.set_params(candidates="scored", missing="delta")
    result["beams"] = {}
    for beam in BEAMS:
        model.set_params(beam=beam)
        result["beams"][beam] = {"auroc": aurocs(model, X, Y), "batch": seconds_a_row(model, X)}
    beam = smallest_beam(result)
    model.set_params(missing="exact", beam=beam)
    result["walked"] = {"auroc": aurocs(model, X, Y), "batch": seconds_a_row(model, X), "beam": beam}
    model.set_params(candidates=100, missing="delta", beam=50)
    result["paper"] = {"auroc": aurocs(model, X, Y), "batch": seconds_a_row(model, X)}
    model.set_params(candidates="scored")
    result |= {"beam": beam, "precision": precision(model.set_params(beam=50), test)}
    return result


def smallest_beam(result: dict[str, Any]) -> int:
    """The first beam whose AUROC is no more than 0.1 below the exact one for every measure."""
    exact = result["exact"]["auroc"]
    for beam, found in sorted(result["beams"].items(), key=lambda item: int(item[0])):
        if all(found["auroc"][name] >= exact[name] - 0.1 for name in MEASURES):
            return int(beam)
    return max(BEAMS)


def unpruned(train: Any, test: Any) -> dict[str, Any]:
    """The ensemble with all weights, for what pruning costs in accuracy."""
    result = {}
    for threshold in (0.0, 1e-3, 0.05):
        model = bagged(train, weight_threshold=threshold)
        result[str(threshold)] = {
            "precision": precision(model, test),
            "auroc": aurocs(model, test.X, test.Y),
            "disk_bytes": disk_bytes(model),
        }
    return result


def methods(train: Any, test: Any) -> dict[str, Any]:
    """Every method over several seeds."""
    result: dict[str, Any] = {}
    for method in METHODS:
        found = []
        for seed in range(SEEDS):
            model = HedgerowClassifier(method=method, members=MEMBERS, random_state=seed, missing="delta")
            start = time.perf_counter()
            model.fit(train.X, train.Y)
            seconds = time.perf_counter() - start
            found.append(
                {"precision": precision(model, test), "auroc": aurocs(model, test.X, test.Y), "fit": seconds}
            )
        result[method] = found
    return result


def alpha(train: Any, test: Any) -> dict[str, Any]:
    """Boosting under every cost of hard negatives."""
    result: dict[str, Any] = {}
    for value in ALPHAS:
        model = HedgerowClassifier(
            method="boosting", members=MEMBERS, alpha=value, random_state=0, missing="delta"
        )
        model.fit(train.X, train.Y)
        found = {"precision": precision(model, test), "auroc": aurocs(model, test.X[::4], test.Y[::4])}
        result[str(value)] = [found]
    return result


def dropout(train: Any, test: Any) -> dict[str, Any]:
    """Ten passes in one traversal against one pass."""
    result = {}
    for name, settings in {
        "one pass, labels": {"method": "single"},
        "one pass, uncertainty": {"method": "single"},
        "ten passes, uncertainty": {"method": "mc-dropout", "members": MEMBERS},
    }.items():
        model = HedgerowClassifier(random_state=0, n_jobs=measure.THREADS, **settings).fit(train.X, train.Y)
        ask = (lambda m, x: m.top(x, measure.TOP)) if "labels" in name else None
        result[name] = seconds_a_row(model, test.X, ask)
    return result


def disk_bytes(model: HedgerowClassifier) -> int:
    with tempfile.TemporaryDirectory(dir=RESULTS) as folder:
        path = Path(folder) / "model"
        model.save(path)
        return path.stat().st_size


def aurocs(model: HedgerowClassifier, X: Any, Y: Any) -> dict[str, float]:
    """Mean over inputs of the AUROC of each measure, in percent."""
    blocks = [slice(begin, begin + BLOCK) for begin in range(0, X.shape[0], BLOCK)]
    areas = np.concatenate([assess(model.predict_votes(X[block]), Y[block]).auroc for block in blocks])
    means = 100 * np.nanmean(areas, axis=0)
    return {name: float(means[SCORES.index(name)]) for name in MEASURES}


def precision(model: HedgerowClassifier, test: Any) -> list[float]:
    return list(measure.precision(model.top(test.X, 5).labels, test.Y).values())


def seconds_a_row(
    model: HedgerowClassifier, X: Any, ask: Callable[[HedgerowClassifier, Any], Any] | None = None
) -> float:
    """The best of three batches."""
    ask = ask or (lambda m, x: m.predict_uncertain(x, 5))
    walls = []
    for _ in range(measure.REPEATS):
        start = time.perf_counter()
        ask(model, X)
        walls.append(time.perf_counter() - start)
    return min(walls) / X.shape[0]


PARTS: dict[str, tuple[Callable[[Any, Any], dict[str, Any]], tuple[str, ...]]] = {
    "cost": (cost, NAMES),
    "dropout": (dropout, NAMES),
    "unpruned": (unpruned, ("eurlex-4k",)),
    "methods": (methods, ("eurlex-4k",)),
    "alpha": (alpha, ("eurlex-4k",)),
}


def markdown(parts: dict[str, dict[str, Any]]) -> str:
    """The page `results/ensembles.md`."""
    lines = [
        "# Ensembles and uncertainty",
        "",
        f"{MEMBERS} bagged members with a tree of their own, default weight threshold, against ONE model of"
        " PECOS with the settings of the paper at beam 50; 2 threads. Bold: the goal is reached.",
        "",
        "| what | goal | " + " | ".join(NAMES) + " |",
        "|---|---|" + "---|" * len(NAMES),
    ]
    peers = {name: Run(name, "pecos", "tfn").result() or {} for name in NAMES}
    found = parts["cost"]

    def row(title: str, goals: dict[str, float], value: Callable[[str], float], style: str = ".2f") -> None:
        cells = []
        for name in NAMES:
            number = value(name) if name in found else float("nan")
            if np.isnan(number):
                cells.append("n/a")
                continue
            text = format(number, style)
            cells.append(f"**{text}**" if number <= goals.get(name, -1) else text)
        goal = f"≤ {min(goals.values()):g}" if goals else ""
        lines.append(f"| {title} | {goal} | " + " | ".join(cells) + " |")

    ones = dict.fromkeys(NAMES, 1.0)
    row("model file / PECOS's", ones, lambda n: found[n]["disk_bytes"] / peers[n]["model_disk_bytes"])
    row(
        "exact over all labels / smallest good beam, time",
        {},
        lambda n: found[n]["exact"]["batch"] / found[n]["beams"][str(found[n]["beam"])]["batch"],
        ".1f",
    )
    if parts["dropout"]:
        passes = parts["dropout"]
        row(
            "MC dropout, ten passes / one pass with uncertainty",
            dict.fromkeys(NAMES, 2.0),
            lambda n: (
                passes[n]["ten passes, uncertainty"] / passes[n]["one pass, uncertainty"]
                if n in passes
                else float("nan")
            ),
        )
        row(
            "MC dropout, ten passes with uncertainty / one pass, labels only",
            {},
            lambda n: (
                passes[n]["ten passes, uncertainty"] / passes[n]["one pass, labels"]
                if n in passes
                else float("nan")
            ),
        )
    lines += [
        "",
        "## AUROC of misclassification by beam",
        "",
        "Over all labels, mean over test inputs (1,000 on eurlex-4k, some 100 to 150 on the others), percent:"
        " variance / total / knowledge; then ms a row for these inputs. Candidates are all labels that the"
        " beam scored, and a member that did not meet one gives it 0 (missing = delta); 'missing walked' is"
        " missing = exact; 'top 100' is the paper's rule at beam 50.",
        "",
        "| beam | " + " | ".join(NAMES) + " |",
        "|---|" + "---|" * len(NAMES),
    ]
    titles = {"exact": "all labels", "walked": "missing walked", "paper": "top 100"}
    for beam in (*BEAMS, *titles):
        cells = []
        for name in NAMES:
            if name not in found:
                cells.append("n/a")
                continue
            of = found[name][beam] if beam in titles else found[name]["beams"][str(beam)]
            text = " / ".join(f"{of['auroc'][m]:.2f}" for m in MEASURES) + f"; {1e3 * of['batch']:.3f}"
            if "beam" in of:
                text += f" (beam {of['beam']})"
            cells.append(f"**{text}**" if str(beam) == str(found[name]["beam"]) else text)
        lines.append(f"| {titles.get(str(beam), beam)} | " + " | ".join(cells) + " |")
    lines += ["", "Bold: the smallest beam that is at most 0.1 below all labels for all three measures.", ""]
    for part, title in (("methods", "Methods on eurlex-4k"), ("alpha", "Boosting on eurlex-4k by alpha")):
        for settings in parts[part].values():
            count = len(next(iter(settings.values())))
            seeds = "seed 0" if count == 1 else f"mean ± deviation over {count} seeds"
            lines += [
                f"## {title}",
                "",
                f"Percent, beam 50, {seeds}.",
                "",
                "| | P@1 | P@3 | P@5 | AUROC variance | total | knowledge |",
                "|---|---|---|---|---|---|---|",
            ]
            for name, runs in settings.items():
                table = np.array([[*r["precision"], *(r["auroc"][m] for m in MEASURES)] for r in runs])
                cells = [f"{mean:.2f}" for mean in table.mean(0)]
                if count > 1:
                    spread = table.std(0, ddof=1)
                    cells = [f"{cell} ± {s:.2f}" for cell, s in zip(cells, spread, strict=True)]
                lines.append(f"| {name} | " + " | ".join(cells) + " |")
            lines.append("")
    for thresholds in parts["unpruned"].values():
        lines += [
            "## Weights dropped, bagging on eurlex-4k",
            "",
            "| threshold | P@1 | P@3 | P@5 | AUROC variance | total | knowledge | MB |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for threshold, of in thresholds.items():
            cells = [f"{v:.2f}" for v in (*of["precision"], *(of["auroc"][m] for m in MEASURES))]
            lines.append(f"| {threshold} | " + " | ".join(cells) + f" | {of['disk_bytes'] / 1e6:.1f} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
