"""The server under load: `python -m bench.serve`.

Serves the model of `hedgerow demo --serve` (ten bagged members, calibrated, with OOD detection and a
policy) on loopback and asks for the embedded sample's test texts. First what the served page asks for (50
labels with uncertainty, votes, decisions and OOD score), one request after the other: the server's
processor time per request, also of another version of Hedgerow (`--against`), in turns. Then ten labels
each with uncertainty: one client that waits for each answer (Python's http.client); 64 clients at once
(wrk, which `make bench-serve` installs with apt); the same for minutes, while memory is watched; four times
as many clients as inputs may wait; and requests made from the API's own description (schemathesis). The
clients run on the same processors as the server. Writes `results/serve.json` and `results/serve.md`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, checks

from bench import datasets, machine
from bench.plan import PYTHONS, RESULTS
from hedgerow.cli.demonstration import prepare
from hedgerow.data.sample import load_sample

CLIENTS = 64
ALONE = 2000
WARM_UP = 200
ROUNDS = 6  # of page requests, in turns with the other version
RISK = 0.1
COMMAND = "import sys; from hedgerow.cli import main; sys.exit(main())"
FEW_WAIT = 16
SAMPLE_SECONDS = 5.0
ASKED = ("/predict", "/explain", "/labels", "/queue", "/queue/{id}")
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
JSON = {"Content-Type": "application/json"}
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="of each load")
    parser.add_argument("--minutes", type=float, default=10.0, help="for which memory is watched")
    parser.add_argument("--requests", type=int, default=10_000, help="made from the description")
    parser.add_argument("--page-requests", type=int, default=600, help="like those of the served page")
    parser.add_argument(
        "--against", type=Path, help="the Python of another environment, whose Hedgerow to compare with"
    )
    parser.add_argument("--page-only", action="store_true", help="measure page requests and nothing else")
    arguments = parser.parse_args()
    if not arguments.page_only and shutil.which("wrk") is None:
        raise SystemExit("wrk is not installed; run: make bench-serve, or apt-get install wrk")
    model = datasets.CACHE / "serve.hedgerow"
    if not model.exists():
        model.parent.mkdir(parents=True, exist_ok=True)
        prepare()[0].save(model)
    asked = page_requests(model, arguments.page_requests, arguments.against)
    print("\n".join(f"{what}: {value}" for what, value, _ in page_rows(asked)), flush=True)
    if arguments.page_only:
        return
    found: dict[str, Any] = {"machine": machine.describe({"hedgerow": PYTHONS["hedgerow"]}), "page": asked}
    with serving(model) as server:
        found["load_before"] = os.getloadavg()[0]
        found["alone"] = alone(server)
        found["together"] = together(server, arguments.seconds)
        found["memory"] = watched(server, arguments.minutes)
    with serving(model, "--max-waiting", str(FEW_WAIT)) as server:
        found["overload"] = together(server, arguments.seconds, 4 * FEW_WAIT)
    with serving(model) as server:
        found["described"] = described(server, arguments.requests)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "serve.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "serve.md").write_text(page(found))
    print(page(found))


class Server:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident(self) -> int:
        """Bytes of memory that it holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status)[1])  # type: ignore[index]


@contextmanager
def serving(model: Path, *options: str, python: Path = PYTHONS["hedgerow"]) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "log", "w") as log:
        queue = str(Path(folder) / "queue.sqlite")
        command = [python, "-c", COMMAND, "serve", model, "--port", "0", "--queue", queue]
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            port = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
            if port is None:
                raise RuntimeError((Path(folder) / "log").read_text() or "the server did not start")
            yield Server(process, int(port[1]))
        finally:
            process.terminate()
            if process.wait() != 0:
                raise RuntimeError(f"the server ended with {process.returncode}")


def bodies() -> list[str]:
    return [json.dumps({"text": text, "k": 10}) for text in load_sample().test_texts]


def page_requests(model: Path, requests: int, against: Path | None) -> dict[str, Any]:
    """Processor time of servers per request of the page, in seconds, by the name of the version.

    Only numbers of one call compare: the machine is the same, and the versions take turns.
    """
    pythons = {"here": PYTHONS["hedgerow"]} | ({} if against is None else {"against": against})
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(serving(model, "--threads", "1", python=python))
            for name, python in pythons.items()
        }
        rounds: dict[str, list[float]] = {name: [] for name in servers}
        each = -(-requests // ROUNDS)
        for server in servers.values():
            ask_as_the_page(server, 0, WARM_UP)
        for number in range(ROUNDS):
            for name, server in servers.items():
                rounds[name].append(ask_as_the_page(server, WARM_UP + number * each, each))
    found: dict[str, Any] = {
        "requests": ROUNDS * each,
        "cpu_seconds": {name: float(np.mean(seconds)) for name, seconds in rounds.items()},
    }
    if against is not None:
        ratios = np.divide(rounds["here"], rounds["against"])
        found["ratio"] = found["cpu_seconds"]["here"] / found["cpu_seconds"]["against"]
        found["ratio_range"] = [float(ratios.min()), float(ratios.max())]
    return found


def ask_as_the_page(server: Server, first: int, requests: int) -> float:
    """Ask for texts in turn as serve/page/ask.js does; the server's processor seconds per request."""
    texts = load_sample().test_texts
    wanted = {"k": 50, "uncertainty": True, "votes": True, "decide": {"missed_at_most": RISK}}
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    cpu = server.cpu_seconds()
    for number in range(first, first + requests):
        body = json.dumps({"text": texts[number % len(texts)], **wanted})
        connection.request("POST", "/predict", body, JSON)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"the server answered {answer.status}: {said[:200]!r}")
    connection.close()
    return (server.cpu_seconds() - cpu) / requests


def page_rows(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    spent = found["cpu_seconds"]
    rows = [("page request, processor time of the server", f"{1000 * spent['here']:.2f} ms", "")]
    if "ratio" in found:
        low, high = found["ratio_range"]
        rows += [
            ("the same of the other version", f"{1000 * spent['against']:.2f} ms", ""),
            ("ratio to the other version", f"{found['ratio']:.2f} ({low:.2f} to {high:.2f})", "0.60"),
        ]
    return rows


def alone(server: Server) -> dict[str, float]:
    """One client that waits for each answer before it asks again."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    asked = bodies()
    seconds = []
    for number in range(WARM_UP + ALONE):
        if number == WARM_UP:
            cpu = server.cpu_seconds()
        begin = time.perf_counter()
        connection.request("POST", "/predict", asked[number % len(asked)], JSON)
        answer = connection.getresponse()
        answer.read()
        seconds.append(time.perf_counter() - begin)
        if answer.status != 200:
            raise RuntimeError(f"the server answered {answer.status}")
    connection.close()
    spent = (server.cpu_seconds() - cpu) / ALONE
    return {
        **{f"p{q}_ms": 1000 * float(np.percentile(seconds[WARM_UP:], q)) for q in (50, 90, 99)},
        "server_cpu_ms": 1000 * spent,
    }


def together(server: Server, seconds: float, clients: int = CLIENTS) -> dict[str, Any]:
    """Many clients at once, by wrk."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(lua())
        script.flush()
        command = [
            "wrk",
            "-t1",
            f"-c{clients}",
            f"-d{max(1, round(seconds))}s",
            "--timeout",
            "10s",
            "--latency",
        ]
        cpu = server.cpu_seconds()
        told = subprocess.run(
            [*command, "-s", script.name, server.address], capture_output=True, text=True, check=True
        ).stdout
        spent = server.cpu_seconds() - cpu
    count = int(re.search(r"(\d+) requests in", told)[1])  # type: ignore[index]
    statuses = {int(status): int(times) for status, times in re.findall(r"^status (\d+) (\d+)$", told, re.M)}
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", told)
    found: dict[str, Any] = {
        "clients": clients,
        "seconds": seconds,
        "requests": count,
        "requests_per_second": float(re.search(r"Requests/sec:\s+([\d.]+)", told)[1]),  # type: ignore[index]
        "statuses": statuses,
        "socket_errors": 0 if errors is None else sum(map(int, errors.groups())),
        "server_cpu_ms": 1000 * spent / count,
    }
    scale = {"us": 1e-3, "ms": 1.0, "s": 1e3}
    for q, value, unit in re.findall(r"^\s+(50|90|99)%\s+([\d.]+)(us|ms|s)$", told, re.M):
        found[f"p{q}_ms"] = float(value) * scale[unit]
    return found


def lua() -> str:
    """A script for wrk: texts in turn, and answers by status."""
    texts = ",\n".join(f"[==[{body}]==]" for body in bodies())
    return f"""
local bodies = {{ {texts} }}
local number = 0
statuses = {{}}
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local threads = {{}}
function setup(thread) table.insert(threads, thread) end
function request()
  number = number % #bodies + 1
  return wrk.format(nil, "/predict", nil, bodies[number])
end
function init() counts = "" ; seen = {{}} end
function response(status)
  seen[status] = (seen[status] or 0) + 1
  local lines = {{}}
  for one, times in pairs(seen) do lines[#lines + 1] = "status " .. one .. " " .. times end
  counts = table.concat(lines, "\\n")
end
function done()
  for _, thread in ipairs(threads) do print(thread:get("counts")) end
end
"""


def watched(server: Server, minutes: float) -> dict[str, Any]:
    """Memory while 64 clients ask for minutes."""
    samples: list[tuple[float, int]] = []
    stop = threading.Event()
    begin = time.monotonic()

    def watch() -> None:
        while not stop.is_set():
            samples.append((time.monotonic() - begin, server.resident()))
            stop.wait(SAMPLE_SECONDS)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        found = together(server, 60 * minutes)
    finally:
        stop.set()
        watcher.join()
    at = np.array([second for second, _ in samples])
    held = np.array([size for _, size in samples]) / 1e6
    settled = at >= at[-1] / 5  # caches and pools fill first
    slope = float(np.polyfit(at[settled], held[settled], 1)[0]) if settled.sum() > 2 else 0.0
    return {
        "minutes": minutes,
        "requests": found["requests"],
        "statuses": found["statuses"],
        "socket_errors": found["socket_errors"],
        "first_mb": float(held[0]),
        "settled_mb": float(held[settled][0]),
        "last_mb": float(held[-1]),
        "highest_mb": float(held.max()),
        "growth_mb_per_minute": 60 * slope,
    }


def described(server: Server, requests: int) -> dict[str, Any]:
    """Requests made from the API's own description, sound ones and others."""
    api = schemathesis.openapi.from_url(f"{server.address}/openapi.json")
    operations = [found.ok() for found in api.get_all_operations()]
    free = [operation for operation in operations if operation.path in ASKED]
    statuses: Counter[int] = Counter()
    begin = time.perf_counter()
    each = -(-requests // (2 * len(free)))
    rounds = 0
    # Some requests cannot be made wrong, and some repeat: go on until there are enough.
    while sum(statuses.values()) < requests and rounds < 5:
        for operation in operations if rounds == 0 else free:
            for mode in GenerationMode:
                if rounds and sum(statuses.values()) >= requests:
                    break
                ask(operation, mode, each, rounds, server, statuses)
        rounds += 1
    return {
        "requests": sum(statuses.values()),
        "statuses": {str(status): times for status, times in sorted(statuses.items())},
        "server_errors": sum(times for status, times in statuses.items() if status >= 500),
        "seconds": time.perf_counter() - begin,
    }


def ask(
    operation: Any, mode: GenerationMode, examples: int, rounds: int, server: Server, statuses: Counter[int]
) -> None:
    @seed(rounds)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        answer = case.call_and_validate(base_url=server.address, checks=CHECKS)
        statuses[answer.status_code] += 1

    with suppress(Unsatisfiable):  # nothing can be wrong with some requests
        check()


def page(found: dict[str, Any]) -> str:
    about, alone_, together_ = found["machine"], found["alone"], found["together"]
    memory, overload, described_ = found["memory"], found["overload"], found["described"]
    answered = sum(together_["statuses"].values()) - together_["statuses"].get(200, 0)
    rows = [
        *page_rows(found["page"]),
        ("one client, end to end, p50", f"{alone_['p50_ms']:.2f} ms", "5 ms"),
        ("one client, end to end, p99", f"{alone_['p99_ms']:.2f} ms", "20 ms"),
        ("one client, processor time of the server", f"{alone_['server_cpu_ms']:.2f} ms", ""),
        (f"{CLIENTS} clients, predictions per second", f"{together_['requests_per_second']:,.0f}", "1,000"),
        (f"{CLIENTS} clients, p50 / p99", f"{together_['p50_ms']:.0f} / {together_['p99_ms']:.0f} ms", ""),
        (
            f"{CLIENTS} clients, processor time of the server per request",
            f"{together_['server_cpu_ms']:.2f} ms",
            "",
        ),
        (f"{CLIENTS} clients, errors", str(answered + together_["socket_errors"]), "0"),
        (
            f"memory over {memory['minutes']:g} minutes and {memory['requests']:,} requests",
            f"{memory['settled_mb']:.0f} to {memory['last_mb']:.0f} MB"
            f" ({memory['growth_mb_per_minute']:+.2f} MB per minute)",
            "flat",
        ),
        (
            f"overload: {overload['clients']} clients where {FEW_WAIT} may wait, p99",
            f"{overload['p99_ms']:.0f} ms",
            "quick",
        ),
        (
            "overload: answers",
            ", ".join(f"{times:,} x {status}" for status, times in sorted(overload["statuses"].items())),
            "200 and 503",
        ),
        ("overload: connections without an answer", str(overload["socket_errors"]), "0"),
        (
            "requests made from the description",
            f"{described_['requests']:,}, of which {described_['server_errors']} server errors",
            "10,000 and 0",
        ),
    ]
    lines = [
        "# The server under load",
        "",
        "Made by `make bench-serve`; see the top of `bench/serve.py` for what is measured.",
        f"{about['cpu']}, {about['cores']} cores, shared with the clients, load"
        f" {found['load_before']:.1f} before; {about['date']}.",
        "",
        "| | measured | goal |",
        "|---|---|---|",
        *(f"| {what} | {value} | {goal} |" for what, value, goal in rows),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
