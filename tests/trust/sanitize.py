"""Runs the tests under a sanitizer: `python tests/trust/sanitize.py address`, or `thread`.

Every test runs there but those marked `unsanitized` and those that need more than the extra `test`. The
extension is built with GCC and the sanitizer in an environment of its own. Nothing may be reported. How many
tests ran is kept in docs/reliability/ and shown in docs/reliability.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from second_environment import ROOT, second_environment

FLAGS = {"address": "address,undefined", "thread": "thread"}
LIBRARIES = {"address": "libasan.so", "thread": "libtsan.so"}
LEFT_OUT = "trust or deep or ray or browser or schema or unsanitized"
NO_TESTS = 5  # pytest's exit status where all tests of a file are left out


def environment(sanitizer: str, reports: Path) -> dict[str, str]:
    """What the tests run with.

    libstdc++ is loaded first as well, or the sanitizer finds no exceptions to intercept. Leaks are not looked
    for, because Python's own drown all others.
    """
    libraries = (LIBRARIES[sanitizer], "libstdc++.so")
    compiler = os.environ.get("CXX", "c++")
    found = [subprocess.check_output([compiler, f"-print-file-name={name}"], text=True) for name in libraries]
    log = f"log_path={reports}/report"
    return {
        **os.environ,
        "HEDGEROW_SANITIZER": sanitizer,
        "LD_PRELOAD": " ".join(path.strip() for path in found),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": f"detect_leaks=0:{log}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:{log}",
        "TSAN_OPTIONS": f"halt_on_error=1:die_after_fork=0:ignore_noninstrumented_modules=1:{log}",
    }


def run_file(python: Path, file: Path, variables: dict[str, str], results: Path) -> bool:
    """Run the tests of a file, in a process of its own: a sanitizer's memory grows without end."""
    name = "-".join(file.relative_to(ROOT / "tests").with_suffix("").parts)
    # pytest must not swallow what a dying process prints to the terminal.
    options = ["--timeout=1200", "--capture=sys", "--hypothesis-profile=sanitize", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [python, "-m", "pytest", *options, f"-m not ({LEFT_OUT})", f"--junitxml={results}/{name}.xml", file],
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    well = done.returncode in (0, NO_TESTS)
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    print(f"{name}: {last}" if well else f"{name}:\n{done.stdout}", flush=True)
    return well


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sanitizer", choices=FLAGS)
    parser.add_argument("files", nargs="*", type=Path, help="only these, and nothing is put on record")
    arguments = parser.parse_args()
    work = ROOT / "build" / arguments.sanitizer
    results = work / "tests"
    results.mkdir(parents=True, exist_ok=True)
    for old in [*results.iterdir(), *work.glob("report.*")]:
        old.unlink()
    flags = FLAGS[arguments.sanitizer]
    python = second_environment(arguments.sanitizer, [f"HEDGEROW_SANITIZE={flags}"])
    variables = environment(arguments.sanitizer, work)
    files = [file.resolve() for file in arguments.files] or sorted(ROOT.glob("tests/**/test_*.py"))
    with ThreadPoolExecutor(2) as pool:
        well = list(pool.map(lambda file: run_file(python, file, variables, results), files))
    reports = sorted(work.glob("report.*"))
    for report in reports:
        print(report.read_text(errors="replace"))
    if reports or not all(well):
        return 1
    if not arguments.files:
        script = ROOT / "docs/make_reliability.py"
        subprocess.run([sys.executable, script, "--sanitizer", flags, results], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
