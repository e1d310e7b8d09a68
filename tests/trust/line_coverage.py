"""Counts which lines the tests run, Python and C++: `python tests/trust/line_coverage.py`.

Takes the options of pytest. Tests marked `simd` run once more at each lower SIMD level, for the kernels of
older processors. The figures are kept whatever the tests say, because lines were run; the exit status is that
of the tests. Details are in build/coverage/native.html.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from second_environment import ROOT, second_environment

WORK = ROOT / "build/coverage"
LEVELS = ("baseline", "v3", "v4")


def main() -> int:
    if {"-h", "--help"} & set(sys.argv):
        sys.exit(__doc__)
    shutil.rmtree(WORK / "lines", ignore_errors=True)
    (WORK / "lines").mkdir(parents=True)
    for old in WORK.rglob("*.gcda"):
        old.unlink()
    python = second_environment("coverage", ["HEDGEROW_COVERAGE=ON"], ["coverage>=7.10", "gcovr>=8"])

    def run(*command: object, **variables: str) -> int:
        words = [str(python), "-m", *(str(word) for word in command)]
        return subprocess.run(words, cwd=ROOT, env={**os.environ, **variables}).returncode

    failed = [run("coverage", "run", "-m", "pytest", "--timeout=1200", *sys.argv[1:])]
    failed += [
        run("pytest", "--timeout=1200", "-m", "simd", "tests", HEDGEROW_SIMD=level) for level in LEVELS
    ]
    steps = (
        ("coverage", "combine", "--quiet"),
        ("coverage", "json", "--quiet", "-o", WORK / "python.json"),
        (
            *("gcovr", "--root", ".", "--filter", "native/", "--merge-lines"),
            *("--gcov-suspicious-hits-threshold", "0", "--json-summary", WORK / "native.json"),
            *("--html-details", WORK / "native.html", WORK / "native"),
        ),
    )
    for step in steps:
        if run(*step):
            return 1
    script = ROOT / "docs/make_reliability.py"
    subprocess.run([python, script, "--coverage", WORK / "python.json", WORK / "native.json"], check=True)
    return 1 if any(failed) else 0


if __name__ == "__main__":
    sys.exit(main())
