"""Run every system on every data set and write `results/engine.json` and `results/engine.md`.

    python -m bench --systems pecos omikuji --datasets eurlex-4k

Finished measurements are kept under `results/raw`; a run that was stopped goes on from there.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bench import datasets, machine, measure, report
from bench.plan import PYTHONS, RESULTS, SETTINGS, runs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", nargs="+", choices=tuple(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--datasets", nargs="+", choices=datasets.NAMES, default=list(datasets.NAMES))
    parser.add_argument(
        "--data", type=Path, default=datasets.SOURCE, help="source data (default: %(default)s)"
    )
    parser.add_argument(
        "--cache", type=Path, default=datasets.CACHE, help="prepared data (default: %(default)s)"
    )
    measure.add_limits(parser)
    parser.add_argument(
        "--fresh", action="store_true", help="forget the stored measurements of the chosen runs"
    )
    arguments = parser.parse_args()

    for run in runs(arguments.datasets, arguments.systems):
        if arguments.fresh:
            run.stored.unlink(missing_ok=True)
        result = run.result()
        if result is None:
            folder = datasets.prepare(run.dataset, arguments.data, arguments.cache)
            result = run.measure(folder.resolve(), arguments.timeout, arguments.memory)
        outcome = result.get("died") or f"fit {result['fit_seconds']:.1f} s, P@1 {result['p@1']:.2f}"
        print(f"{run.dataset} {run.system} {run.setting}: {outcome}", flush=True)

    described = machine.describe(PYTHONS)
    (RESULTS / "engine.json").write_text(json.dumps(report.collect(described), indent=1) + "\n")
    (RESULTS / "engine.md").write_text(report.markdown(described))


if __name__ == "__main__":
    main()
