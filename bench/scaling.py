"""Fit and prediction time a row as the number of labels grows: `python -m bench.scaling`.

Writes `results/scaling.json` and `results/scaling.svg`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bench import datasets, machine, measure
from bench.plan import PYTHONS, RESULTS, Run

LABELS = (1_000, 3_000, 10_000, 30_000, 100_000, 200_000)
ROWS = 20_000
CURVES = (("hedgerow", "default-tfn"), ("hedgerow", "paper-tfn"), ("pecos", "tfn"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labels", type=int, nargs="+", default=list(LABELS))
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument(
        "--cache", type=Path, default=datasets.CACHE, help="prepared data (default: %(default)s)"
    )
    measure.add_limits(parser)
    parser.add_argument("--fresh", action="store_true", help="forget the stored measurements")
    arguments = parser.parse_args()

    points: list[dict[str, Any]] = []
    for labels in arguments.labels:
        folder = datasets.prepare_generated(labels, arguments.rows, arguments.cache)
        for system, setting in CURVES:
            run = Run(folder.name, system, setting)
            if arguments.fresh:
                run.stored.unlink(missing_ok=True)
            result = run.result() or run.measure(folder.resolve(), arguments.timeout, arguments.memory)
            points.append(
                {"labels": labels, "rows": arguments.rows, "system": system, "setting": setting} | result
            )
            print(f"{labels} labels, {system} {setting}: {result.get('died', 'done')}", flush=True)

    scaling = {"machine": machine.describe(PYTHONS), "points": points}
    (RESULTS / "scaling.json").write_text(json.dumps(scaling, indent=1) + "\n")
    plot(points, RESULTS / "scaling.svg")


def plot(points: list[dict[str, Any]], path: Path) -> None:
    """Draw one curve a system and setting; what died leaves a gap."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, (fit_axes, batch_axes) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for system, setting in CURVES:
        curve = [point for point in points if (point["system"], point["setting"]) == (system, setting)]
        fits = [point for point in curve if "fit_seconds" in point]
        batches = [point for point in curve if "batch_seconds_per_row" in point]
        name = f"{system} {setting}"
        fit_axes.plot(
            [point["labels"] for point in fits],
            [1e3 * point["fit_seconds"] / point["rows"] for point in fits],
            marker="o",
            label=name,
        )
        batch_axes.plot(
            [point["labels"] for point in batches],
            [1e3 * point["batch_seconds_per_row"] for point in batches],
            marker="o",
            label=name,
        )
    for axes, title in ((fit_axes, "fit"), (batch_axes, "batch prediction")):
        axes.set(xscale="log", yscale="log", xlabel="labels", ylabel="ms a row", title=title)
        axes.grid(True, which="both", alpha=0.2)
        axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    main()
