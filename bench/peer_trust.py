"""What becomes of bad inputs, killed saves and damaged models: `python -m bench.peer_trust`.

The same cases for Hedgerow and its peers, on the same data. Writes `results/peer_trust.json`, from which
`docs/make_reliability.py` makes its second table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from bench import machine
from bench.datasets import Split, store
from bench.generated import Shape, generate
from bench.plan import PYTHONS, RESULTS, ROOT
from bench.trust_engines import ENGINES

SHIM = ROOT / "tests/trust/fault_shim.c"
SHAPE = Shape(labels=300, train_rows=1000, test_rows=60, features=2000)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    parser.add_argument("--out", type=Path, default=RESULTS / "peer_trust.json")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        shim = Path(folder) / "fault_shim.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, SHIM, "-ldl"], check=True)
        for engine in arguments.engines:
            for case in _try(engine, Path(folder) / engine.replace(" ", "-"), shim):
                rows.append([engine, *case])
            found = Counter((what, ended.split(",")[0]) for one, what, _, ended in rows if one == engine)
            print(
                engine, *(f"  {cases:4} {what}: {ended}" for (what, ended), cases in found.items()), sep="\n"
            )
    result = {"machine": machine.describe(PYTHONS), "cases": rows}
    arguments.out.write_text(_one_case_a_line(result))


def _try(engine: str, folder: Path, shim: Path) -> list[list[str]]:
    folder.mkdir()
    for name, seed in (("one", 0), ("two", 1)):
        X, Y, X_test, Y_test = generate(SHAPE, seed)
        store(folder / name, Split(X, Y), Split(X_test, Y_test))
    python = PYTHONS["hedgerow" if engine == "hedgerow" else "peers"]
    done = subprocess.run(
        [str(python), "-m", "bench.peer_trust_worker", engine, str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "LD_PRELOAD": str(shim), "OMP_NUM_THREADS": "2"},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _one_case_a_line(result: dict[str, Any]) -> str:
    cases = ",\n  ".join(json.dumps(case) for case in result["cases"])
    about = json.dumps(result["machine"], indent=1)
    return f'{{"machine": {about},\n "cases": [\n  {cases}\n ]}}\n'


if __name__ == "__main__":
    main()
