"""Let the fuzzers run, two at a time: `python tests/fuzz/run.py --cpu-seconds 60`, or 3600 once.

Each starts from the corpus in the repository; what it finds gathers in build/fuzz/corpus, and `--keep` packs
it for the repository. An input that breaks something lies in build/fuzz/findings afterwards, and the exit
status is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from corpus import HERE, NATIVE, TARGETS, pack, unpack

RECORDING = threading.Lock()
RUNNING: set[int] = set()
BUILD = HERE.parents[1] / "build" / "fuzz"
# A run goes in legs, whose time is that of the clock: on a busy machine there are more of them. What a long
# one has done is on record if it is cut off.
SHORTEST_LEG, LONGEST_LEG = 10, 300
# Time is that of the clock: on a busy machine even a short run can take long.
LIMITS = ("-timeout=120", "-report_slow_units=120", "-rss_limit_mb=2048")


@dataclass
class Effort:
    """What was done for one target so far.

    Attributes
    ----------
    executions : int
        Inputs that were run.
    cpu_seconds : float
        Time that processors spent on it.
    coverage : int
        Edges of the code that the corpus reaches; for targets in Python, those of its byte code.
    """

    executions: int = 0
    cpu_seconds: float = 0.0
    coverage: int = 0


def program(target: str) -> list[str]:
    """How to call a target, with what it always needs."""
    if target in NATIVE:
        return [str(BUILD / "tests" / "fuzz" / f"fuzz_{target}"), "-max_len=8192", *LIMITS]
    call = [sys.executable, str(HERE / "with_atheris.py"), target, *LIMITS]
    # A model file is changed in one place: more, and hardly any is a model still.
    return (
        [*call, "-max_len=65536", "-mutate_depth=1"]
        if target in ("model_file", "records")
        else [*call, "-max_len=8192"]
    )


def run_leg(target: str, seconds: int) -> tuple[Effort, bool]:
    """Run a target for some time: what was done, and whether all went well."""
    words = HERE / f"{target}.dict"
    command = [
        *program(target),
        f"-max_total_time={seconds}",
        f"-artifact_prefix={BUILD}/findings/{target}-",
        "-print_final_stats=1",
        *([f"-dict={words}"] if words.exists() else []),
        str(BUILD / "corpus" / target),
    ]
    log = BUILD / f"{target}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        RUNNING.add(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        RUNNING.discard(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace")
    runs = re.findall(r"stat::number_of_executed_units: *(\d+)", text) or re.findall(r"(?m)^#(\d+)", text)
    reached = re.findall(r"\bcov: (\d+)", text)
    done = Effort(
        int(runs[-1]) if runs else 0,
        usage.ru_utime + usage.ru_stime,
        int(reached[-1]) if reached else 0,
    )
    if process.returncode != 0:
        print(f"{target} stopped with status {process.returncode}:\n{text[-4000:]}", flush=True)
    return done, process.returncode == 0


def run_target(target: str, options: argparse.Namespace, efforts: dict[str, Effort]) -> bool:
    """Run a target for as long as was asked, adding to what is on record."""
    unpack(target, BUILD / "corpus" / target)
    effort = efforts.setdefault(target, Effort())
    while (left := math.ceil(options.cpu_seconds - effort.cpu_seconds)) > 0:
        done, well = run_leg(target, min(max(left, SHORTEST_LEG), LONGEST_LEG))
        effort.executions += done.executions
        effort.cpu_seconds = round(effort.cpu_seconds + done.cpu_seconds, 1)
        effort.coverage = max(effort.coverage, done.coverage)
        if options.record:
            write_record(options.record, efforts)
        print(f"{target}: {effort}", flush=True)
        if not well:
            return False
    return True


def keep(target: str) -> None:
    """Pack the fewest inputs that reach what all that were found reach."""
    merged = BUILD / "merged" / target
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    unpack(target, BUILD / "corpus" / target)
    subprocess.run(
        [*program(target), "-merge=1", str(merged), str(BUILD / "corpus" / target)],
        check=True,
        capture_output=True,
    )
    if not any(merged.iterdir()):
        raise RuntimeError(f"merging the corpus of {target} left nothing; see what -merge=1 says")
    pack(target, merged)


def read_record(path: Path) -> dict[str, Effort]:
    """What is on record, by target."""
    return {name: Effort(**effort) for name, effort in json.loads(path.read_text()).items()}


def write_record(path: Path, efforts: dict[str, Effort]) -> None:
    """Put on record what was done; targets run side by side."""
    with RECORDING:
        text = json.dumps({name: asdict(efforts[name]) for name in sorted(efforts)}, indent=2) + "\n"
        whole = path.with_suffix(".new")
        whole.write_text(text)
        whole.replace(path)


def end(number: int, _: object) -> None:
    """End with all fuzzers."""
    for process in RUNNING.copy():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    os._exit(128 + number)


def main() -> int:
    """Run the targets that are named, or all."""
    signal.signal(signal.SIGTERM, end)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=TARGETS, help=", ".join(TARGETS))
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--cpu-seconds", type=int, help="go on until processors have spent so much on each")
    length.add_argument("--keep", action="store_true", help="do not run, but pack what earlier runs found")
    parser.add_argument("--at-once", type=int, default=2, help="targets that run at the same time")
    parser.add_argument("--record", type=Path, help="a JSON file that adds up what is done")
    options = parser.parse_args()
    (BUILD / "findings").mkdir(parents=True, exist_ok=True)
    if options.keep:
        for target in options.targets:
            keep(target)
        return 0
    efforts = read_record(options.record) if options.record and options.record.exists() else {}
    with ThreadPoolExecutor(options.at_once) as pool:
        well = list(pool.map(lambda target: run_target(target, options, efforts), options.targets))
    for target in options.targets:
        of = efforts[target]
        print(f"{target}: {of.executions:,} inputs in {of.cpu_seconds:.0f} s, {of.coverage:,} edges reached")
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
