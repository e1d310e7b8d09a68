"""The paper's deep experiments: `python -m bench.deep_reproduce DATA --encoder PATH --out DIR`.

Does what `hedgerow reproduce DATA --base transformer` does, for machines without the packages of the command
line. Every experiment is a file in DIR/experiments as soon as it is done; copied into the folder of a later
run on whatever machine, it is not done again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from hedgerow.paper import DeepSettings, ExperimentSettings, Source, machine, run, write_tables
from hedgerow.training.settings import METHODS


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="+", help="folder, or folder:field")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kept", type=Path, help="folder for encoders and embeddings")
    parser.add_argument(
        "--ood", nargs="*", default=[], help="more data that serve as out-of-distribution inputs"
    )
    parser.add_argument("--ood", type=int, default=2000, help="at most so many of a kind")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--beam", type=int, default=50)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=-1)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--encoders", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--levels", type=int)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--max-length", type=int, default=128)
    arguments = parser.parse_args()
    own = ("encoders", "device", "epochs", "steps", "levels", "batch_size", "learning_rate", "max_length")
    tuning: dict[str, Any] = {name: getattr(arguments, name) for name in own}
    settings = ExperimentSettings(
        methods=arguments.methods,
        seeds=arguments.seeds,
        members=arguments.members,
        beam=arguments.beam,
        ood=arguments.ood,
        quick=arguments.quick,
        deep=DeepSettings(encoder=str(arguments.encoder), kept=arguments.kept, **tuning),
    )
    sources, strangers = ([Source.parse(text) for text in of] for of in (arguments.data, arguments.ood))
    found = run(sources, strangers, arguments.out, settings, arguments.threads, Told())
    write_tables(found, arguments.out, settings, machine(arguments.threads))
    print((arguments.out / "tables.md").read_text())


class Told:
    """Prints each stage once, with the seconds since the start."""

    def __init__(self) -> None:
        self._start, self._last = time.perf_counter(), ""

    def __call__(self, share: float, what: str) -> None:
        if what != self._last:
            self._last = what
            print(f"{time.perf_counter() - self._start:6.0f} s {100 * share:3.0f} % {what}", flush=True)


if __name__ == "__main__":
    main()
